"""``ptxwcet sequence``: launches one after another."""
