"""Machine descriptions: units, timings, limits, and the assumptions they satisfy."""
