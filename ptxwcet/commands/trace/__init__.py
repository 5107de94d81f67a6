"""``ptxwcet simulate launch``: records timed traces of a simulated launch."""
