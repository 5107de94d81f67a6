"""``ptxwcet validate certificates``: the proofs of a report, checked again."""
