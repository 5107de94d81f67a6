"""``ptxwcet annotate``: the source with what each line costs."""
