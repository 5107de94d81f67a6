"""Opcode table, kernels and instructions, verifier and printer."""
