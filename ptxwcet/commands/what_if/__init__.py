"""``ptxwcet what-if``: bounds a kernel on machines with other figures."""
