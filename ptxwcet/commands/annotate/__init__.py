"""``ptxwcet annotate``: the source with the cycles of each line."""
