"""Tables of text."""

from __future__ import annotations

from collections.abc import Container, Sequence


def aligned(table: Sequence[Sequence[str]], right: Container[int] = ()) -> list[str]:
    """The rows of a table as lines: two blanks between columns, as wide as their longest cell is.

    ``right`` are the numbers of columns that stand to the right.
    """
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]
