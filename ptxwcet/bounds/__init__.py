"""Block bounds, one file a method."""
