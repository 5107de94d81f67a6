"""``ptxwcet simulate launch``: timed traces of a simulated launch."""
