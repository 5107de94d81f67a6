"""Published experiments made again, as a user can: ``python benchmarks/reproduce.py``."""
