"""``ptxwcet memory``: the memory accesses of a kernel."""
