"""``ptxwcet explain``: what a diagnostic means, and a report."""
