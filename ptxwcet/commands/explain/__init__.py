"""``ptxwcet explain``: explains diagnostics and prints the schemas of reports."""
