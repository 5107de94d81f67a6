"""The commands, a folder each: the analysis, its report, its text and its options."""
