"""``ptxwcet explain``: what a diagnostic means."""
