"""Writes cells of comma-separated values that no spreadsheet takes for a formula.

Spreadsheets take a text that begins with ``=``, ``+``, ``-`` or ``@`` for a formula, and names of
files and kernels are written by others: ``=cmd|...`` runs a program. Such a text gets an apostrophe
before it. Numbers stay as they are.
"""

from __future__ import annotations

import re
from typing import TypeVar

_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_Cell = TypeVar("_Cell")


def spelled(cell: _Cell) -> _Cell | str:
    """Returns a cell as it is written."""
    if isinstance(cell, str) and _FORMULA.match(cell) and not _NUMBER.fullmatch(cell):
        return "'" + cell
    return cell
