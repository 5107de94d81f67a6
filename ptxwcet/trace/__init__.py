"""Represents time-stamped traces of instrumentation points, as columns."""
