"""The version of the tool, for all output that names it."""

VERSION = "0.1.0"
