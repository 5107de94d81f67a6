"""The results of a sweep as columns, checked; :mod:`~ptxwcet.sweeps.results.results_file` reads.

A row is a unit: one kernel of one file with one launch on one machine. Of a column of names or
numbers the different values are kept once, and a number for each row, so that a million rows take
some tens of megabytes. The columns that the plan named stand between ``key`` and ``file``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ptxwcet.claims import Guarantee

Codes = NDArray[np.int32]
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

VARIANT_COLUMNS = ("file", "kernel", "block", "grid", "memory_latency", "method", "policy")
"""What tells variants apart, besides the columns of the plan; the machine does not, nor a memory
latency that each machine has its own of."""
TEXT_COLUMNS = (
    *("file", "kernel", "readable", "machine", "machine_sha256", "block", "grid", "method"),
    *("policy", "outcome", "of", "guarantee", "assumptions", "code", "message", "version"),
)
"""Columns of texts that are read; the others of the file are left where they are."""
INTEGER_COLUMNS = ("unit", "memory_latency", "cycles")
FLOAT_COLUMNS = ("seconds",)
NEEDED = frozenset((*TEXT_COLUMNS, *INTEGER_COLUMNS, *FLOAT_COLUMNS))

_MOST_SORTED = 10_000  # values of a column in their order; nobody reads more
_OUTCOMES = frozenset(("bounded", "refused", "failed"))
_SCOPES = frozenset(("launch", "block"))
_GUARANTEES = frozenset(one.value for one in Guarantee)


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A column: its different ``values``, and of each row which one it has; -1 for none.

    Numbers are in their order, texts in that of the numbers in them (``8x8`` before ``16x16``).
    """

    values: tuple[int | str, ...]
    codes: Codes

    def value(self, row: int) -> int | str | None:
        """The value in a row."""
        code = int(self.codes[row])
        return None if code < 0 else self.values[code]

    def rows_with(self, value: int | str) -> Mask:
        """The rows that have a value."""
        if value not in self.values:
            return np.zeros(len(self.codes), np.bool_)
        found: Mask = self.codes == self.values.index(value)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class ResultsTable:
    """The results of a sweep, in the order of its units.

    ``columns`` are those of the plan and the others, by name; ``variant_columns`` tell variants
    apart, those of the plan first. ``cycles`` is -1 where there is no bound. ``plan`` and its hash
    are None in a CSV file, which does not say.
    """

    path: str
    sha256: str
    plan: str | None
    plan_sha256: str | None
    plan_columns: tuple[str, ...]
    variant_columns: tuple[str, ...]
    columns: Mapping[str, Column]
    units: Integers
    cycles: Integers
    seconds: Floats

    @property
    def rows(self) -> int:
        """How many units there are."""
        return len(self.units)

    def only(self, kept: Mask | Integers) -> ResultsTable:
        """The rows of a mask, or with these numbers in their order; of columns what they have."""
        columns = {name: _kept(one, kept) for name, one in self.columns.items()}
        numbers = (self.units[kept], self.cycles[kept], self.seconds[kept])
        return replace(
            self, columns=columns, units=numbers[0], cycles=numbers[1], seconds=numbers[2]
        )


@dataclass(slots=True)
class RawColumns:
    """What a file holds, before it is known to be the result of a sweep."""

    plan: str | None
    plan_sha256: str | None
    plan_columns: tuple[str, ...]
    encoded: dict[str, tuple[list[int | str], Codes]]
    integers: dict[str, Integers]
    floats: dict[str, Floats]


class NotResults(Exception):
    """A file that is not the result of a sweep, and why."""


def require_columns(names: tuple[str, ...]) -> tuple[str, ...]:
    """The columns of the plan in a file that has columns of these names.

    Raises NotResults if one is missing or there twice.
    """
    missing = sorted(NEEDED - set(names))
    if missing:
        shown = ", ".join(missing[:5]) + ", ..." * (len(missing) > 5)
        raise NotResults(f"it has no column {shown}")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise NotResults(f"it has the column {twice[0]} twice")
    if "key" not in names or names.index("key") > names.index("file"):
        raise NotResults("it has no column key before the column file")
    return names[names.index("key") + 1 : names.index("file")]


def checked_table(path: str, sha256: str, raw: RawColumns) -> ResultsTable:
    """The table, if what is in the columns makes sense. Raises NotResults. Cost: linear."""
    units, cycles = raw.integers["unit"], raw.integers["cycles"]
    if not len(units):
        raise NotResults("it has no rows")
    columns = {name: _in_order(*encoded) for name, encoded in raw.encoded.items()}
    for name, known in (("outcome", _OUTCOMES), ("of", _SCOPES), ("guarantee", _GUARANTEES)):
        strange = sorted(set(map(str, columns[name].values)) - known)
        if strange:
            raise NotResults(f"{strange[0]!r} in the column {name} means nothing")
    for name in ("outcome", "machine", "file"):  # of a file that cannot be read no kernel is known
        _require_values(name, columns[name], units, np.ones(len(units), np.bool_))
    bounded = columns["outcome"].rows_with("bounded") & (cycles >= 0)
    for name in ("of", "guarantee"):
        _require_values(name, columns[name], units, bounded)
    seconds = raw.floats["seconds"]
    timeless = bounded & ~(np.isfinite(seconds) & (seconds >= 0))
    if timeless.any():
        raise NotResults(f"unit {units[np.argmax(timeless)]} has cycles but no seconds")
    columns["kernel"] = _readable(columns["kernel"], columns.pop("readable"))
    columns["machine"] = _machines(columns["machine"], columns.pop("machine_sha256"))
    order = np.argsort(units, kind="stable")
    own: tuple[str, ...] = VARIANT_COLUMNS
    if _follows(columns["memory_latency"], columns["machine"]):
        own = tuple(name for name in own if name != "memory_latency")
    table = ResultsTable(
        *(path, sha256, raw.plan, raw.plan_sha256, raw.plan_columns),
        *((*raw.plan_columns, *own), columns),
        units,
        np.where(bounded, cycles, -1),
        seconds,
    )
    return table if (order[1:] > order[:-1]).all() else table.only(order)


def _require_values(name: str, column: Column, units: Integers, needed: Mask) -> None:
    empty = needed & (column.codes < 0)
    if empty.any():
        raise NotResults(f"unit {units[np.argmax(empty)]} has nothing in the column {name}")


def _in_order(values: list[int | str], codes: Codes) -> Column:
    """The column with its values in order."""
    if len(values) > _MOST_SORTED:
        return Column(tuple(values), codes)
    order = sorted(range(len(values)), key=lambda place: _natural(values[place]))
    rank = np.empty(len(values) + 1, np.int32)
    rank[order] = np.arange(len(values), dtype=np.int32)
    rank[-1] = -1  # no value stays none
    return Column(tuple(values[place] for place in order), rank[codes])


def _natural(value: int | str) -> tuple[tuple[int, int, str], ...]:
    """What a value is sorted by: the numbers in a text count as numbers."""
    if isinstance(value, int):
        return ((0, value, ""),)
    parts = re.split(r"([0-9]{1,18})", value)
    return tuple((0, int(one), one) if at % 2 else (1, 0, one) for at, one in enumerate(parts))


def _kept(column: Column, kept: Mask | Integers) -> Column:
    codes = column.codes[kept]
    there = np.unique(codes[codes >= 0])
    rank = np.full(len(column.values) + 1, -1, np.int32)
    rank[there] = np.arange(len(there), dtype=np.int32)
    return Column(tuple(column.values[code] for code in there), rank[codes])


def _readable(kernels: Column, readable: Column) -> Column:
    """Kernels by the names that people know, where these tell them apart as well."""
    names = _partner(kernels, readable)
    if None in names or len(set(names)) < len(names):
        return kernels
    return Column(tuple(str(one) for one in names), kernels.codes)


def _machines(names: Column, hashes: Column) -> Column:
    """Machines by name; with the beginning of their hash where two machines share a name."""
    pairs, codes = np.unique(
        names.codes.astype(np.int64) * (len(hashes.values) + 1) + hashes.codes + 1,
        return_inverse=True,
    )
    if len(pairs) == len(names.values):
        return names
    labels: list[int | str] = []
    for pair in pairs.tolist():
        name, hashed = divmod(pair, len(hashes.values) + 1)
        digest = str(hashes.values[hashed - 1])[:8] if hashed else "?"
        labels.append(f"{names.values[name]} ({digest})")
    if len(set(labels)) < len(labels):
        raise NotResults("two machines have one name and hashes that begin alike")
    return _in_order(labels, codes.astype(np.int32).reshape(-1))


def _follows(column: Column, machines: Column) -> bool:
    """Whether each machine has one value, and not all the same."""
    width = len(column.values) + 1
    pairs = np.unique(machines.codes.astype(np.int64) * width + column.codes + 1)
    return len(pairs) == len(machines.values) and len(column.values) > 1


def _partner(column: Column, other: Column) -> list[int | str | None]:
    """Of each value the one that the other column has in a row with it."""
    partners: list[int | str | None] = []
    first = np.full(len(column.values), -1, np.int64)
    rows = np.arange(len(column.codes))
    there = column.codes >= 0
    first[column.codes[there][::-1]] = rows[there][::-1]
    for row in first.tolist():
        partners.append(None if row < 0 else other.value(row))
    return partners
