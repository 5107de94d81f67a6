"""``ptxwcet sequence``: bounds several launches in a row."""
