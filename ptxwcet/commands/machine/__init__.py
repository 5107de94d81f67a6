"""``ptxwcet machine``: lists and checks machine files, and makes them from measurements."""
