"""``ptxwcet schema``: the JSON schema of a report."""
