"""``ptxwcet memory``: bounds the transactions of the memory accesses of a kernel."""
