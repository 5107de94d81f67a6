"""Bounds of loops with proofs that a solver confirms: who found them need not be trusted."""
