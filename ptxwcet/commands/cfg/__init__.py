"""``ptxwcet cfg``: draws the control-flow graph."""
