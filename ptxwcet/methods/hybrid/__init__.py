"""Hybrid analysis: WCET estimates from timed traces and control flow ([B], ECRTS 2013)."""
