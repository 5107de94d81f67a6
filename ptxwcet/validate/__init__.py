"""Bounds against runs: the only place that sees both."""
