"""Control flow of one kernel: CFG, dominance, loops, divergence, values, bounds, paths."""
