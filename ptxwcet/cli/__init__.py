"""The command line (click's door); no analysis in it."""
