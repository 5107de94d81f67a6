"""``ptxwcet check``: the kernels of a plan against their budgets."""
