"""``ptxwcet machine``: machine files, listed, checked, made from measurements."""
