"""Describes machines: units, timings, limits, and the assumptions that they satisfy."""
