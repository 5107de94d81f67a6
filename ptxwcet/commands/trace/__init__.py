"""``ptxwcet trace``: timed traces of a simulated launch."""
