"""Columns of tables, each stated once: at the field of a report's row.

JSON has every field under its name. A field that people see has a :class:`Column` in its metadata,
``field(metadata=shown("cycles"))``: the tables of texts and of notebooks use these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from operator import attrgetter
from types import MappingProxyType
from typing import Any, ParamSpec

from ptxwcet.support.printable import aligned
from ptxwcet.support.records import dataclass

TEXT, NOTEBOOK = "text", "notebook"
Titles = Mapping[str, str | Mapping[str, str]]
"""Titles that replace the columns' own, by field: for a field that is a mapping, by shown key."""
_NUMBERS = {f"{kind}{none}" for kind in ("int", "float") for none in ("", " | None")}
_Arguments = ParamSpec("_Arguments")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its ``title``, its value in a row, and its format.

    ``of`` reads the row; None: the field itself. Texts write numbers in ``form``, then ``unit``,
    and ``none`` for None. ``is_right`` is the alignment of cells; None: numbers to the right. Texts
    leave out an ``is_optional`` column that is empty in all rows, and notebooks every such column.
    Columns are sorted by ``at``, then as the fields. ``only`` is TEXT or NOTEBOOK for a column that
    only appears there; ``notebook`` is a different title there.
    """

    title: str
    of: Callable[[Any], Any] | None = None
    notebook: str = ""
    form: str = ","
    unit: str = ""
    none: str = ""
    is_right: bool | None = None
    is_optional: bool = False
    at: int = 0
    only: str = ""

    def text(self, value: object) -> str:
        """Returns a value as texts show it."""
        if value is None:
            return self.none
        if not isinstance(value, int | float):
            return str(value)
        return f"{value:{self.form}} {self.unit}".rstrip()


def _as_metadata(column: Callable[_Arguments, Column]) -> Callable[_Arguments, dict[Column, None]]:
    return lambda *arguments, **named: {column(*arguments, **named): None}


shown = _as_metadata(Column)
"""The metadata of a field with a Column of these arguments; ``|`` combines several."""


@cache
def columns_of(row: Any, place: str) -> Sequence[tuple[str, Column]]:
    """Returns the columns of rows of a class in a place, each with its field's name."""
    columns = [
        (
            field.name,
            replace(
                column,
                title=column.notebook if place == NOTEBOOK and column.notebook else column.title,
                is_right=(field.type in _NUMBERS and column.of is None)
                if column.is_right is None
                else column.is_right,
            ),
        )
        for field in fields(row)
        for column in field.metadata
        if isinstance(column, Column) and column.only in ("", place)
    ]
    return sorted(columns, key=lambda column: column[1].at)


def filled(rows: Sequence[Any], place: str, titles: Titles) -> Iterator[tuple[Column, list[Any]]]:
    """Yields the columns of rows of one class in a place, each with its values."""
    for name, column in columns_of(rows[0].__class__, place) if rows else ():
        of = column.of or attrgetter(name)
        title = titles.get(name, column.title)
        if isinstance(title, str):
            yield replace(column, title=title), [of(row) for row in rows]
        else:
            for key, title_of_key in title.items():
                yield replace(column, title=title_of_key), [of(row).get(key) for row in rows]


def is_empty(values: Iterable[object]) -> bool:
    """Returns whether a column has nothing in any row."""
    return all(value in (None, "") for value in values)


def text_table(
    rows: Sequence[Any],
    titles: Titles = MappingProxyType({}),
    *,
    has_head: bool = True,
    most: int | None = None,
    more: Iterable[Sequence[str]] = (),
    indent: str = "",
) -> list[str]:
    """Returns the lines of a table: titles, the first ``most`` rows, and the cells of ``more``.

    The last line is the number of omitted rows. Without rows the table is empty.
    """
    columns = [
        (column, values)
        for column, values in filled(rows[:most], TEXT, titles)
        if not (column.is_optional and is_empty(values))
    ]
    texts = zip(*(map(column.text, values) for column, values in columns), strict=True)
    heads = [[column.title for column, _ in columns]] if has_head else []
    right = [number for number, (column, _) in enumerate(columns) if column.is_right]
    lines = aligned([*heads, *texts, *more], right) if rows else []
    hidden = 0 if most is None else len(rows) - most
    if hidden > 0:
        lines.append(f"and {hidden:,} more (--format json lists all)")
    return [f"{indent}{line}" for line in lines]
