"""The version of the tool, for whoever names it in what it writes."""

VERSION = "0.1.0"
