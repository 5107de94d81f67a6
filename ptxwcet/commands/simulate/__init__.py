"""``ptxwcet simulate``: runs a block on the simulated machine."""
