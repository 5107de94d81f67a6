def hazards_of(kernel, arch): return ()
