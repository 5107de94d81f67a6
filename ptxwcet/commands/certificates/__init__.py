"""``ptxwcet check-certificates``: the proofs of a report, checked again."""
