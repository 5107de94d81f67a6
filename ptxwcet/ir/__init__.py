"""The intermediate representation: opcode table, kernels and instructions, verifier."""
