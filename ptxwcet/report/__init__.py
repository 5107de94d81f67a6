"""Reports as plain data, and one file a format."""
