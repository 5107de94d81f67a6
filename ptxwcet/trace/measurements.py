"""Reads execution times of many runs, condition by condition, also from pairs of clocks.

A condition is the set of runs with equal settings: a grid, a class of inputs ([E] 5: VOR-1 to
VOR-32). This module is independent of the origin of the times.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Collection, Iterator, Sequence
from difflib import get_close_matches
from enum import Enum
from pathlib import Path
from typing import NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from ptxwcet.support.array_files import load_array
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.input_files import MOST_DATA_BYTES, read_bytes
from ptxwcet.support.printable import plural
from ptxwcet.support.records import dataclass
from ptxwcet.support.source import SourceFile, Span

Times: TypeAlias = npt.NDArray[np.float64]
"""Execution times in the order in which they were taken."""

Counters: TypeAlias = npt.NDArray[np.uint64]
"""Values of clock registers."""


class TimeUnit(Enum):
    """The unit of times."""

    CYCLES = "cycles"
    NANOSECONDS = "ns"


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """The times of one condition. ``discarded``: runs omitted because a counter overflowed."""

    label: str
    times: Times
    discarded: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Measurements:
    """The times of all conditions, in one unit; labels differ. ``sources``: the files, in order."""

    unit: TimeUnit
    conditions: tuple[Condition, ...]
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ClockPairs:
    """The first and last clock of each SM in each run, row by row; ``run`` numbers runs from 0.

    ``bits``: width of the clock registers.
    """

    run: npt.NDArray[np.intp]
    start: Counters
    end: Counters
    bits: int

    @property
    def is_idle(self) -> npt.NDArray[np.bool_]:
        """The rows of SMs without a block: the largest start of that width ([E] Fig. 2), end 0."""
        untouched = np.zeros(len(self.start), bool)
        for width in (self.bits - 1, self.bits):
            untouched |= self.start == np.uint64(2**width - 1)
        return np.asarray(untouched & (self.end == 0), np.bool_)


def times_of_pairs(pairs: ClockPairs) -> tuple[Times, int]:
    """Returns the largest end minus the smallest start over the SMs of each run ([E] Equation 1).

    Runs in which a counter overflowed are omitted and counted, as there ([E] footnote 3): an end
    before its start, or a run of half the counter's range or more, which is the effect of an
    overflow on some of the SMs. Runs without an SM that ran a block are omitted and not counted.
    Times are in the order of the runs' numbers. Cost: a sort of the rows.
    """
    used = ~pairs.is_idle
    run, start, end = pairs.run[used], pairs.start[used], pairs.end[used]
    if not len(run):
        return np.zeros(0), 0
    order = np.argsort(run, kind="stable")
    run, start, end = run[order], start[order], end[order]
    first = np.flatnonzero(np.concatenate([[True], run[1:] != run[:-1]]))
    backwards = np.logical_or.reduceat(end < start, first)
    # Unsigned: where the difference would be negative, the run is omitted.
    length = np.maximum.reduceat(end, first) - np.minimum.reduceat(start, first)
    overflowed = backwards | (length >= np.uint64(2 ** (pairs.bits - 1)))
    return length[~overflowed].astype(np.float64), int(overflowed.sum())


CONDITION_COLUMN = "condition"
"""The name of the column that labels runs."""

_CLOCKS = {"run": ("run",), "sm": ("sm",), "start": ("start", "start_cycle")}
_ENDS = ("end", "end_cycle", "stop_cycle")

_LONGEST_CLOCK = 30


def is_clock_table(table: TextTable) -> bool:
    """Returns whether a table has the columns of clock pairs."""
    return {"run", "sm"} <= set(table.names) and bool(set(_ENDS) & set(table.names))


def read_clocks(table: TextTable, stem: str, bits: int) -> list[Condition]:
    """Returns the times of the runs of a table, by Equation 1, in the order of their first row.

    ``bits``: width of the counters. Raises PtxwcetError (PW702, PW705, PW707, PW708).
    """
    refuse_misspelt(
        table, (*(n for row in _CLOCKS.values() for n in row), *_ENDS, CONDITION_COLUMN)
    )
    columns = []
    for role, names in (*_CLOCKS.items(), ("end", _ENDS)):
        place = next((table.names.index(name) for name in names if name in table.names), None)
        if place is None:
            message = f"'{table.source.name}' has clock pairs without a column '{role}'"
            refuse_file("PW707", message, "columns: run, sm, start, end")
        columns.append(place)
    label = table.names.index(CONDITION_COLUMN) if CONDITION_COLUMN in table.names else None
    most = 2**bits
    runs: dict[str, dict[str, int]] = {}
    seen: set[tuple[str, str, str]] = set()
    clocks: dict[str, tuple[list[int], list[int], list[int]]] = {}
    for number, fields in table.rows():
        key = stem if label is None else fields[label].strip().strip('"')
        run, sm = (fields[column].strip() for column in columns[:2])
        if (key, run, sm) in seen:
            message = f"SM {sm} of run {run} has a second pair of clocks"
            table.refuse("PW708", number, message, "a row for each SM of each run", columns[1])
        seen.add((key, run, sm))
        if key not in runs:
            table.require_label(number, key)
        numbers = runs.setdefault(key, {})
        kept = clocks.setdefault(key, ([], [], []))
        kept[0].append(numbers.setdefault(run, len(numbers)))
        for k in (2, 3):
            text = fields[columns[k]].strip()
            if not text.isdecimal() or len(text) > _LONGEST_CLOCK or int(text) >= most:
                message = f"'{shortened(text)}' is no value of a {bits}-bit counter"
                help = "clocks are whole numbers; give --counter-bits 64 for clock64"
                table.refuse("PW708", number, message, help, columns[k])
            kept[k - 1].append(int(text))
    if not clocks:
        refuse_file("PW705", f"'{table.source.name}' holds no clock pairs", "a row an SM and run")
    return [_condition(key, row, bits) for key, row in clocks.items()]


def _condition(label: str, rows: tuple[list[int], list[int], list[int]], bits: int) -> Condition:
    run, start, end = rows
    pairs = ClockPairs(
        np.asarray(run, np.intp), np.asarray(start, np.uint64), np.asarray(end, np.uint64), bits
    )
    times, discarded = times_of_pairs(pairs)
    return Condition(label, times, discarded)


_TIME_COLUMNS = {
    "time": None,
    "times": None,
    "cycles": TimeUnit.CYCLES,
    "time_cycles": TimeUnit.CYCLES,
    "ns": TimeUnit.NANOSECONDS,
    "time_ns": TimeUnit.NANOSECONDS,
}
_UNITS = {"cycles": TimeUnit.CYCLES, "cycle": TimeUnit.CYCLES, "ns": TimeUnit.NANOSECONDS}
_UNIT = "unit"


_MOST_TIME = float(1 << 63)
"""Cycles or nanoseconds that no run takes; squares of sums of them are still numbers."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The user's options for files: unit, name or number (from 1) of columns, counter width."""

    unit: TimeUnit | None = None
    column: str | None = None
    condition_column: str | None = None
    counter_bits: int = 32


def read_measurements(paths: Sequence[str], options: ReadOptions) -> Measurements:
    """Reads the times in files; a file without labels is a condition with the file's name.

    Text: one run per line, columns separated by commas, semicolons, tabs or blanks; lines that
    begin with ``#`` and empty lines are skipped; a first line of names is optional. Columns of
    times are called ``time``, ``cycles``, ``ns``, ``time_cycles``, ``time_ns``; ``condition``
    labels the run, ``unit`` names the unit of each. Alternatively, columns ``run``, ``sm``,
    ``start``, ``end`` hold clock pairs. All other files are one-dimensional NumPy arrays. See
    docs/methods/pwcet.md.

    Raises PtxwcetError: PW701 (unreadable), PW702 (a line that does not fit), PW703 (units), PW704
    (an invalid time), PW707 (columns), PW708 (clock pairs). Cost: linear, about a second for a
    million lines.
    """
    units: dict[TimeUnit, str] = {}
    conditions: dict[str, Condition] = {}
    for path in paths:
        unit, of_file = _read(path, options)
        units.setdefault(unit, path)
        if len(units) > 1:
            stated = " and ".join(f"{name} in {unit.value}" for unit, name in units.items())
            refuse_file("PW703", f"mixed units: {stated}", "give times of one unit")
        for condition in of_file:
            if condition.label in conditions:
                message = f"condition '{condition.label}' of {path} is in another file, too"
                refuse_file("PW707", message, "join the files, or label the runs differently")
            conditions[condition.label] = condition
    return Measurements(next(iter(units)), tuple(conditions.values()), tuple(paths))


def _read(path: str, options: ReadOptions) -> tuple[TimeUnit, list[Condition]]:
    try:
        data = read_bytes(path, MOST_DATA_BYTES)
    except OSError as error:
        refuse_file("PW701", f"cannot read '{path}': {error.strerror}", "check path and rights")
    if data.startswith(b"\x93NUMPY"):
        return _read_array(path, options)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        message = f"'{path}' is neither text nor a .npy array"
        refuse_file("PW701", message, "give text columns (CSV) or a one-dimensional .npy file")
    table = open_table(SourceFile(path, text))
    if is_clock_table(table):
        return TimeUnit.CYCLES, read_clocks(table, Path(path).stem, options.counter_bits)
    return _read_times(table, Path(path).stem, options)


def _read_array(path: str, options: ReadOptions) -> tuple[TimeUnit, list[Condition]]:
    try:
        values = load_array(path)
    except (OSError, ValueError) as error:
        refuse_file("PW701", f"cannot read '{path}': {error}", "write it with numpy.save")
    if values.ndim != 1 or values.dtype.kind not in "iuf":
        message = f"'{path}' holds {values.ndim} dimensions of {values.dtype}"
        refuse_file("PW701", message, "give one dimension of integers or floats: a time a run")
    if options.unit is None:
        _unknown_unit(path)
    times = values.astype(np.float64)
    bad = np.flatnonzero(~(np.isfinite(times) & (times > 0) & (times < _MOST_TIME)))
    if len(bad):
        message = f"'{path}': element {bad[0]} is {values[bad[0]]}, which is no execution time"
        refuse_file("PW704", message, "times are above 0 and below 2^63: leave failed runs out")
    return options.unit, [Condition(Path(path).stem, times)]


def _unknown_unit(path: str) -> NoReturn:
    refuse_file(
        "PW703",
        f"'{path}' does not say the unit of its times",
        "give --unit cycles or --unit ns, or name the column time_cycles or time_ns",
    )


def _time_column(table: TextTable, options: ReadOptions) -> int:
    if options.column is not None:
        return find_column(table, options.column)
    if table.columns == 1:
        return 0
    if options.condition_column is None:
        refuse_misspelt(table, (*_TIME_COLUMNS, _UNIT, CONDITION_COLUMN))
    candidates = [k for k, name in enumerate(table.names) if name in _TIME_COLUMNS]
    if len(candidates) != 1:
        problem = (
            "several columns of times" if candidates else "no column that is known to hold times"
        )
        names = ", ".join(table.names) or f"{table.columns} columns without names"
        message = f"'{table.source.name}' has {problem}: {names}"
        refuse_file("PW707", message, "name it with --column NAME or NUMBER")
    return candidates[0]


def _read_times(
    table: TextTable, stem: str, options: ReadOptions
) -> tuple[TimeUnit, list[Condition]]:
    column = _time_column(table, options)
    label = None
    if options.condition_column is not None:
        label = find_column(table, options.condition_column)
    elif CONDITION_COLUMN in table.names:
        label = table.names.index(CONDITION_COLUMN)
    units = table.names.index(_UNIT) if _UNIT in table.names else None
    name = table.names[column] if table.names else ""
    unit = _TIME_COLUMNS.get(name)
    if unit is not None and options.unit not in (None, unit):
        message = f"column '{name}' of '{table.source.name}' is in {unit.value}"
        refuse_file("PW703", f"{message}, --unit says otherwise", "leave --unit out")
    unit = unit or options.unit
    by_label: dict[str, array[float]] = {}
    for number, fields in table.rows():
        if units is not None:
            unit = _row_unit(table, number, units, fields[units], unit)
        value = parse_number(fields[column])
        if value is None or not 0 < value < _MOST_TIME:
            _bad_time(table, number, column, fields[column].strip(), value)
        key = stem if label is None else fields[label].strip().strip('"')
        times = by_label.get(key)
        if times is None:
            table.require_label(number, key)
            times = by_label[key] = array("d")
        times.append(value)
    if not by_label:
        refuse_file("PW705", f"'{table.source.name}' holds no times", "give a time a line")
    if unit is None:
        _unknown_unit(table.source.name)
    return unit, [Condition(key, np.frombuffer(row)) for key, row in by_label.items()]


def _row_unit(
    table: TextTable, number: int, column: int, text: str, before: TimeUnit | None
) -> TimeUnit:
    unit = _UNITS.get(text.strip().strip('"').lower())
    if unit is None:
        message = f"unit '{text.strip()}' is not known"
        table.refuse("PW703", number, message, "units are cycles and ns", column)
    if before not in (None, unit):
        assert before is not None
        message = f"mixed units: {unit.value} after {before.value}"
        table.refuse("PW703", number, message, "give times of one unit", column)
    return unit


def _bad_time(
    table: TextTable, number: int, column: int, text: str, value: float | None
) -> NoReturn:
    if value is None:
        problem = f"'{shortened(text)}' is no number" if text else "a time is missing"
        help = "a time a line; label columns have other names; a first line may name the columns"
        table.refuse("PW702", number, problem, help, column)
    help = "times are above 0 and below 2^63: leave failed runs out"
    table.refuse("PW704", number, f"{shortened(text)} is no execution time", help, column)


# --- Tables of text columns, and refusals that point at a line or a field of them -----------------


_MUCH_LIKE = 0.8
"""The similarity from which a name may be another one misspelt."""


@dataclass(frozen=True, slots=True)
class TextTable:
    """The rows of a text file: its columns' names (or none), and the first line of its data."""

    source: SourceFile
    lines: list[str]
    separator: str | None
    names: tuple[str, ...]
    columns: int
    first: int

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yields line numbers (from 0) and fields. Raises PtxwcetError (PW702)."""
        separator, columns = self.separator, self.columns
        for number in range(self.first, len(self.lines)):
            line = self.lines[number]
            if not line or line.isspace() or line.lstrip()[0] == "#":
                continue
            fields = line.split(separator)
            if len(fields) != columns:
                self.refuse(
                    "PW702",
                    number,
                    f"{plural(len(fields), 'field')} where the first line has {columns}",
                    "every line has the same columns; decimals are written with a point",
                )
            yield number, fields

    def require_label(self, number: int, label: str) -> None:
        """Raises PtxwcetError (PW702) for the label of a condition that cannot be printed."""
        if not label or not label.isprintable():
            message = "the label of a condition is missing, or cannot be printed"
            self.refuse("PW702", number, message, "labels are printable text")

    def refuse(
        self, code: str, number: int, message: str, help: str, column: int | None = None
    ) -> NoReturn:
        """Raises PtxwcetError at a line, or at a field of it."""
        text = self.source.line_text(number + 1)
        begin, length = len(text) - len(text.lstrip()), len(text.strip())
        if column is not None:
            field = text.split(self.separator)[column]
            before = text.split(self.separator)[:column]
            if self.separator is None:
                begin = _blank_offset(text, column)
            else:
                begin = sum(len(part) + 1 for part in before) + len(field) - len(field.lstrip())
            length = len(field.strip())
        start = self.source.line_starts()[number] + begin
        span = Span(self.source, start, start + max(1, length))
        raise PtxwcetError.of(code, message, span, help=help)


def refuse_file(code: str, message: str, help: str) -> NoReturn:
    """Raises PtxwcetError for a file as a whole."""
    raise PtxwcetError.of(code, message, help=help)


def open_table(source: SourceFile) -> TextTable:
    """Finds separator, names and first row. Raises PtxwcetError (PW705) if it is empty.

    A first line contains names if each of its fields begins with a letter and is not a number.
    """
    lines = [line.rstrip("\r") for line in source.text.split("\n")]
    for number, line in enumerate(lines):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        separator = next((mark for mark in (",", ";", "\t") if mark in line), None)
        fields = [field.strip().strip('"') for field in line.split(separator)]
        is_header = all(field[:1].isalpha() and parse_number(field) is None for field in fields)
        names = tuple(field.lower() for field in fields) if is_header else ()
        first = number + 1 if is_header else number
        return TextTable(source, lines, separator, names, len(fields), first)
    raise PtxwcetError.of("PW705", f"'{source.name}' holds no times", help="give a time a line")


def parse_number(text: str) -> float | None:
    """Returns a decimal number, or None; Python's other notations (1_000) are not accepted."""
    if "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return None


def find_column(table: TextTable, wanted: str) -> int:
    """Returns the index of a column by name or number from 1. Raises PtxwcetError (PW707)."""
    if wanted.lower() in table.names:
        return table.names.index(wanted.lower())
    if re.fullmatch("[0-9]{1,9}", wanted) and 1 <= int(wanted) <= table.columns:
        return int(wanted) - 1
    listed = f"columns {', '.join(table.names)}" if table.names else f"{table.columns} columns"
    refuse_file(
        "PW707",
        f"'{table.source.name}' has no column '{wanted}'",
        f"it has {listed}; columns are named or numbered from 1",
    )


def refuse_misspelt(table: TextTable, names: Collection[str]) -> None:
    """Raises PtxwcetError (PW707) if a column's name is similar to one of the given names."""
    for name in table.names:
        meant = get_close_matches(name, names, 1, _MUCH_LIKE) if name not in names else []
        if meant:
            message = f"'{table.source.name}' has a column '{shortened(name)}' that is not known"
            help = f"did you mean {meant[0]}? Else name it otherwise, or say what to read: --column"
            refuse_file("PW707", message, help)


def shortened(text: str) -> str:
    """Returns the beginning of a long field, for a message."""
    return text if len(text) <= 40 else f"{text[:40]}..."


def _blank_offset(text: str, column: int) -> int:
    position = 0
    for k, field in enumerate(text.split()):
        position = text.index(field, position)
        if k == column:
            return position
        position += len(field)
    return position
