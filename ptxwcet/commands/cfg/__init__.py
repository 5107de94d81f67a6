"""``ptxwcet cfg``: the control-flow graph."""
