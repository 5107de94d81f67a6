"""``ptxwcet check``: checks the kernels of a plan against their budgets."""
