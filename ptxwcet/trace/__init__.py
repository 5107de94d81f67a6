"""Time-stamped traces of instrumentation points, as columns."""
