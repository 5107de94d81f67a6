"""Results as tables of HTML, for notebooks.

>>> from types import SimpleNamespace
>>> from ptxwcet.library.tables import table
>>> rows = [SimpleNamespace(name="a<b", cycles=1234, note=None)]
>>> table("bounds", rows, {"kernel": "name", "cycles": "cycles", "note": "note"}).count("<tr>")
2
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from html import escape
from operator import attrgetter
from typing import Any

from ptxwcet.support.printable import printable_line, printable_picture

Columns = Mapping[str, str | Callable[[Any], object]]
"""What each column says of a row: an attribute of it, or what a function makes of it."""

_MOST_ROWS = 300
_LEFT = "text-align:left;white-space:pre"
_RIGHT = "text-align:right"
_WRAPPED = "text-align:left;max-width:60em"


def table(title: str, rows: Iterable[object], columns: Columns) -> str:
    """A table with a row for each of ``rows``; columns that are empty everywhere are left out."""
    readers = [attrgetter(one) if isinstance(one, str) else one for one in columns.values()]
    cells = [[read(row) for read in readers] for row in rows]
    kept = [at for at in range(len(readers)) if any(row[at] not in (None, "") for row in cells)]
    heads = [*columns]
    lines = ["".join(f"<th style='{_LEFT}'>{escape(heads[at])}</th>" for at in kept)]
    lines += ["".join(_cell(row[at]) for at in kept) for row in cells[:_MOST_ROWS]]
    more = len(cells) - _MOST_ROWS
    left_out = f"<p>and {more:,} more rows</p>" if more > 0 else ""
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><caption>{_shown(title)}</caption>{body}</table>{left_out}"


def facts_table(title: str, facts: Mapping[str, object]) -> str:
    """A table of single facts, a row each."""
    rows = "".join(
        f"<tr><th style='{_LEFT}'>{escape(name)}</th>{_cell(value, _WRAPPED)}</tr>"
        for name, value in facts.items()
    )
    return f"<table><caption>{_shown(title)}</caption>{rows}</table>"


def preformatted(text: str) -> str:
    """A text as it is, with its lines."""
    return f"<pre>{escape(printable_picture(text))}</pre>"


def _cell(value: object, style: str = "") -> str:
    if isinstance(value, bool) or value is None:
        text = {True: "yes", False: "no", None: ""}[value]
    elif isinstance(value, int | float):
        style, text = style or _RIGHT, f"{value:,}"
    else:
        text = str(value)
    return f"<td style='{style or _LEFT}'>{_shown(text)}</td>"


def _shown(text: str) -> str:
    return escape(printable_line(text))
