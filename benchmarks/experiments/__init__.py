"""Published experiments made again, as a user can: ``benchmarks/reproduce.py`` (docs/reproduction.md)."""
