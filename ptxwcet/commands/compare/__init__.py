"""``ptxwcet compare``, ``ptxwcet diff``: what a change of a kernel costs."""
