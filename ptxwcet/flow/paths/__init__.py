"""Paths of all warps of a launch, what is open where there are none, and pictures of the graph."""
