"""Instruction costs and the phases of one warp (Algorithm 1)."""
