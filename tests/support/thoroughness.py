"""How many random cases a test draws: a third in the gate, all where thorough tests run, too."""

from __future__ import annotations

_whole = False


def draw_all() -> None:
    """From now on tests draw all their cases. Before they are read: ``tests/conftest.py``."""
    global _whole
    _whole = True


def drawn(most: int) -> int:
    """How many of so many random cases are drawn."""
    return most if _whole else (most + 2) // 3
