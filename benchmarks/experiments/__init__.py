"""Published experiments made again, as a user can: ``ptxwcet reproduce`` (docs/reproduction.md)."""
