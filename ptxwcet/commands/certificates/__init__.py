"""``ptxwcet validate certificates``: checks the proofs of a report again."""
