"""The front doors: what users ask of a file, each opened and answered in the same way."""
