"""Results as tables of HTML, for notebooks.

>>> from ptxwcet.library.tables import table
>>> table("bounds", [("kernel", ["a<b"]), ("cycles", [1234]), ("note", [None])]).count("<tr>")
2
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from types import MappingProxyType
from typing import Any

from ptxwcet.report.columns import NOTEBOOK, Titles, filled, is_empty
from ptxwcet.support.printable import printable_line, printable_picture

_MOST_ROWS = 300
_LEFT = "text-align:left;white-space:pre"
_RIGHT = "text-align:right"
_WRAPPED = "text-align:left;max-width:60em"


def rows_table(title: str, rows: Sequence[Any], titles: Titles = MappingProxyType({})) -> str:
    """Returns a table of rows of a report, in the columns that their fields state."""
    columns = ((column.title, values) for column, values in filled(rows, NOTEBOOK, titles))
    return table(title, columns)


def table(title: str, columns: Iterable[tuple[str, Sequence[object]]]) -> str:
    """Returns a table of titled columns, without columns that are empty everywhere."""
    kept = [column for column in columns if not is_empty(column[1])]
    lines = ["".join(f"<th style='{_LEFT}'>{escape(head)}</th>" for head, _ in kept)]
    cells = list(zip(*(values for _, values in kept), strict=True))
    lines += ["".join(map(_cell, row)) for row in cells[:_MOST_ROWS]]
    more = len(cells) - _MOST_ROWS
    left_out = f"<p>and {more:,} more rows</p>" if more > 0 else ""
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><caption>{_shown(title)}</caption>{body}</table>{left_out}"


def facts_table(title: str, facts: Mapping[str, object]) -> str:
    """Returns a table of single facts, a row each."""
    rows = "".join(
        f"<tr><th style='{_LEFT}'>{escape(name)}</th>{_cell(value, _WRAPPED)}</tr>"
        for name, value in facts.items()
    )
    return f"<table><caption>{_shown(title)}</caption>{rows}</table>"


def preformatted(text: str) -> str:
    """Returns a text as it is, with its lines."""
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
