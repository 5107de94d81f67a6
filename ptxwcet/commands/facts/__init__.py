"""``ptxwcet facts``: writes a template for the missing facts."""
