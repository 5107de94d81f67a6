"""Opcode table, kernels and instructions, verifier."""
