"""``ptxwcet FILE``: the bounds of the kernels of a file."""
