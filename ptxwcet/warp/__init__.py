"""The waist: what one warp executes, as timed instructions, barriers and repeats."""
