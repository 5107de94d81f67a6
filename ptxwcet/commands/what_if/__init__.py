"""``ptxwcet what-if``: the bound on a machine with other figures."""
