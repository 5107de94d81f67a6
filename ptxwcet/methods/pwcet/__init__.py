"""Probabilistic WCET from measurements: hypothesis tests, extreme value fits, curves ([E])."""
