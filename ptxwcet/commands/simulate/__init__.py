"""``ptxwcet simulate``: a block on the simulated machine."""
