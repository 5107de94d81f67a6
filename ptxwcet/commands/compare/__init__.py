"""``ptxwcet compare``: compares versions of a kernel."""
