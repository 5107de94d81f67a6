"""Reports as plain data, and one module per format."""
