"""``ptxwcet compare``: what a change of a kernel costs."""
