"""Which columns of results vary, which follow from others, and which two a map is drawn over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ptxwcet.support.toml_places import nearest
from ptxwcet.sweeps.results.results_table import Codes, Integers, ResultsTable
from ptxwcet.sweeps.results.sweep_model import Value


class NotAnAxis(Exception):
    """A column that was named and cannot be what it was named for, and why."""


@dataclass(frozen=True, slots=True)
class Axes:
    """The columns that tell variants apart, in their order.

    ``varying`` have several values. A parameter of the kernel, or a column that every sweep has,
    is ``following`` if the columns before it already say which value it has: a block that is made
    of the sizes of a tile. ``fixed`` have one value, or none.
    """

    varying: tuple[str, ...]
    following: tuple[str, ...]
    fixed: Mapping[str, Value]

    @staticmethod
    def of(table: ResultsTable) -> Axes:
        """The axes of results. Cost: a sorting of the rows for each column that varies."""
        varying: list[str] = []
        following: list[str] = []
        fixed: dict[str, Value] = {}
        so_far = np.zeros(table.rows, np.int64)
        groups = 1
        for name in table.variant_columns:
            column = table.columns[name]
            has_none = bool((column.codes < 0).any())
            if len(column.values) + has_none < 2:
                if column.values:
                    fixed[name] = column.values[0]
                continue
            now = identities([so_far, column.codes])
            is_named = name in table.plan_columns and not name.startswith("param.")
            if int(now.max()) + 1 == groups and not is_named:
                following.append(name)
                continue
            varying.append(name)
            so_far, groups = now, int(now.max()) + 1
        return Axes(tuple(varying), tuple(following), fixed)


def identities(columns: Sequence[Codes | Integers]) -> Integers:
    """A number for each row: the same where all columns are the same. Numbers are dense from 0."""
    numbers = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        codes = column.astype(np.int64) + 1
        _, inverse = np.unique(numbers * (int(codes.max()) + 1) + codes, return_inverse=True)
        numbers = inverse.reshape(-1).astype(np.int64)
    return numbers


def choose_axes(
    table: ResultsTable, axes: Axes, x: str | None, y: str | None, most: int
) -> tuple[str, str] | None:
    """The columns of a map: those named, or the two that together have the most different pairs.

    Columns with 2 to ``most`` values can be drawn; None if there are no two of them, neither of
    which follows from the other. Raises
    :class:`NotAnAxis` for a name that is none, or that cannot be drawn.
    """
    for name in (x, y):
        if name is not None:
            _require_axis(table, name, most)
    if x is not None and x == y:
        raise NotAnAxis(f"--map names {x} twice: a map has two columns")
    drawable = [name for name in axes.varying if 2 <= len(table.columns[name].values) <= most]
    if len(drawable) < 2:
        drawable += [n for n in axes.following if 2 <= len(table.columns[n].values) <= most]
    named = [name for name in (x, y) if name is not None]
    pairs = [
        (one, other)
        for one, other in combinations(dict.fromkeys((*named, *drawable)), 2)
        if all(name in (one, other) for name in named)
    ]
    if len(named) < 2:  # of two columns that say the same a map is a line
        pairs = [pair for pair in pairs if not _is_line(table, pair)]
    if not pairs and named:
        raise NotAnAxis(
            f"{named[0]}: no other column has 2 to {most} values and does not follow from it"
        )
    if not pairs:
        return None
    best = max(pairs, key=lambda pair: _different(table, pair))  # the first of equal ones
    if x is not None or y is not None:
        return best if x == best[0] or y == best[1] else (best[1], best[0])
    sizes = [len(table.columns[name].values) for name in best]
    return best if sizes[0] >= sizes[1] else (best[1], best[0])


def chosen_rows(table: ResultsTable, wanted: Sequence[str]) -> ResultsTable:
    """The rows with the values that ``NAME=VALUE`` say; several of one name are alternatives.

    Raises :class:`NotAnAxis` for a name or a value that is not in the results.
    """
    known = (*table.variant_columns, "machine")
    values: dict[str, list[int | str]] = {}
    for text in wanted:
        name, equals, shown = text.partition("=")
        if not equals:
            raise NotAnAxis(f"--only '{text}' is not NAME=VALUE")
        _require_name("--only", name, known)
        there = {str(value): value for value in table.columns[name].values}
        if shown not in there:
            listed = ", ".join(list(there)[:8]) + ", ..." * (len(there) > 8)
            raise NotAnAxis(f"--only: no unit has {name}={shown}; there are {listed or 'none'}")
        values.setdefault(name, []).append(there[shown])
    kept = np.ones(table.rows, np.bool_)
    for name, alternatives in values.items():
        column = table.columns[name]
        kept &= np.any([column.rows_with(value) for value in alternatives], axis=0)
    if not kept.any():
        raise NotAnAxis(f"--only: no unit has {' and '.join(wanted)}")
    return table.only(kept) if values else table


def _require_name(option: str, name: str, known: Sequence[str]) -> None:
    if name in known:
        return
    raise NotAnAxis(
        f"{option}: no column '{name}'; {nearest(name, known)}there are {', '.join(known)}"
    )


def _require_axis(table: ResultsTable, name: str, most: int) -> None:
    option = "--map"
    _require_name(option, name, table.variant_columns)
    size = len(table.columns[name].values)
    if size > most:
        raise NotAnAxis(f"{option}: {name} has {size:,} values; a map shows up to {most}")
    if size < 2:
        raise NotAnAxis(f"{option}: {name} has the same value in all units")


def _is_line(table: ResultsTable, pair: tuple[str, str]) -> bool:
    """Whether one of two columns follows from the other."""
    columns = [table.columns[name] for name in pair]
    sizes = [len(one.values) + bool((one.codes < 0).any()) for one in columns]
    return _different(table, pair) <= max(sizes)


def _different(table: ResultsTable, pair: tuple[str, str]) -> int:
    """How many pairs of values there are."""
    first, second = (table.columns[name] for name in pair)
    width = len(second.values) + 1
    cells = (first.codes + 1).astype(np.int64) * width + second.codes + 1
    return int(np.count_nonzero(np.bincount(cells)))
