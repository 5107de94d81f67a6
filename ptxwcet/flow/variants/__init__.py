"""Bounds of loops that are not counted: numbers that fall in every iteration."""
