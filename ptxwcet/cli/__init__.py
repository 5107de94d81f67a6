"""The command line, built on click; it contains no analysis."""
