"""Bounds of a block, one file a method; then of a launch, from those of its blocks."""
