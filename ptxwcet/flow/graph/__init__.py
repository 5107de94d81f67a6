"""Control flow of one kernel as a graph: blocks, dominance, loops, divergence, inlined calls."""
