"""``ptxwcet facts``: a template of what is not known yet."""
