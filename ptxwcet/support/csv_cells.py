"""Cells of comma-separated values that no spreadsheet takes for a formula.

A text that begins with ``=``, ``+``, ``-`` or ``@`` is one to them, and names of files and kernels
are written by others: ``=cmd|...`` runs a program. Such a text gets an apostrophe before it.
Numbers stay as they are.
"""

from __future__ import annotations

import re
from typing import TypeVar

_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_Cell = TypeVar("_Cell")


def spelled(cell: _Cell) -> _Cell | str:
    """A cell as it is written."""
    if isinstance(cell, str) and _FORMULA.match(cell) and not _NUMBER.fullmatch(cell):
        return "'" + cell
    return cell
