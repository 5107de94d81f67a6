"""Defines the intermediate representation: opcode table, kernels and instructions, verifier."""
