"""Bounds against runs: random and fixed cases, the checks, shrinking, the self-test."""
