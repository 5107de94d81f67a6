"""Measurement files: text columns and NumPy arrays, read strictly.

Text: one run a line, columns parted by commas, semicolons, tabs or blanks; lines that begin with
``#`` and empty lines are skipped; a first line of names, or none. Columns of times are called
``time``, ``cycles``, ``ns``, ``time_cycles``, ``time_ns``; ``condition`` labels the run, ``unit``
names the unit of each. Columns ``run``, ``sm``, ``start``, ``end`` hold clock pairs instead. See
docs/methods/pwcet.md.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np

from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.source import SourceFile, Span
from ptxwcet.trace.measurements import (
    ClockPairs,
    Condition,
    Measurements,
    TimeUnit,
    times_of_pairs,
)

_TIME_COLUMNS = {
    "time": None,
    "times": None,
    "cycles": TimeUnit.CYCLES,
    "time_cycles": TimeUnit.CYCLES,
    "ns": TimeUnit.NANOSECONDS,
    "time_ns": TimeUnit.NANOSECONDS,
}
_UNITS = {"cycles": TimeUnit.CYCLES, "cycle": TimeUnit.CYCLES, "ns": TimeUnit.NANOSECONDS}
_CONDITION = "condition"
_UNIT = "unit"
_CLOCKS = {"run": ("run",), "sm": ("sm",), "start": ("start", "start_cycle")}
_ENDS = ("end", "end_cycle", "stop_cycle")


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What the user says of the files: unit, name or number (from 1) of columns, counter width."""

    unit: TimeUnit | None = None
    column: str | None = None
    condition_column: str | None = None
    counter_bits: int = 32


@dataclass(frozen=True, slots=True)
class _Table:
    """The rows of a text file: names of its columns (none: empty) and where its data begin."""

    source: SourceFile
    lines: list[str]
    separator: str | None
    names: tuple[str, ...]
    columns: int
    first: int

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Line numbers (from 0) and fields. Raises PtxwcetError (PW702)."""
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
                    f"{_count(len(fields), 'field')} where the first line has {columns}",
                    "every line has the same columns; decimals are written with a point",
                )
            yield number, fields

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
                begin = sum(len(one) + 1 for one in before) + len(field) - len(field.lstrip())
            length = len(field.strip())
        start = self.source.line_starts()[number] + begin
        span = Span(self.source, start, start + max(1, length))
        raise PtxwcetError(Diagnostic(code, message, span, help=help))


def read_measurements(paths: Sequence[str], options: ReadOptions) -> Measurements:
    """The times in files; a file without labels is a condition called as the file is.

    Raises PtxwcetError: PW701 (unreadable), PW702 (a line that does not fit), PW703 (units),
    PW704 (a time that is none), PW707 (columns), PW708 (clock pairs). Cost: linear, about a second
    for a million lines.
    """
    units: dict[TimeUnit, str] = {}
    conditions: dict[str, Condition] = {}
    for path in paths:
        unit, found = _read(path, options)
        units.setdefault(unit, path)
        if len(units) > 1:
            said = " and ".join(f"{name} in {one.value}" for one, name in units.items())
            _refuse_file("PW703", f"mixed units: {said}", "give times of one unit")
        for row in found:
            if row.label in conditions:
                message = f"condition '{row.label}' of {path} is in another file, too"
                _refuse_file("PW707", message, "join the files, or label the runs differently")
            conditions[row.label] = row
    return Measurements(next(iter(units)), tuple(conditions.values()), tuple(paths))


def _refuse_file(code: str, message: str, help: str) -> NoReturn:
    raise PtxwcetError(Diagnostic(code, message, help=help))


def _read(path: str, options: ReadOptions) -> tuple[TimeUnit, list[Condition]]:
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        _refuse_file("PW701", f"cannot read '{path}': {error.strerror}", "check path and rights")
    if data.startswith(b"\x93NUMPY"):
        return _read_array(path, options)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        message = f"'{path}' is neither text nor a .npy array"
        _refuse_file("PW701", message, "give text columns (CSV) or a one-dimensional .npy file")
    table = _open_table(SourceFile(path, text))
    if _is_clock_table(table):
        return TimeUnit.CYCLES, _read_clocks(table, Path(path).stem, options)
    return _read_times(table, Path(path).stem, options)


def _read_array(path: str, options: ReadOptions) -> tuple[TimeUnit, list[Condition]]:
    try:
        found = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        _refuse_file("PW701", f"cannot read '{path}': {error}", "write it with numpy.save")
    if found.ndim != 1 or found.dtype.kind not in "iuf":
        message = f"'{path}' holds {found.ndim} dimensions of {found.dtype}"
        _refuse_file("PW701", message, "give one dimension of integers or floats: a time a run")
    if options.unit is None:
        _unknown_unit(path)
    times = found.astype(np.float64)
    bad = np.flatnonzero(~(np.isfinite(times) & (times > 0)))
    if len(bad):
        message = f"'{path}': element {bad[0]} is {found[bad[0]]}, which is no execution time"
        _refuse_file("PW704", message, "times are finite and above 0: leave failed runs out")
    return options.unit, [Condition(Path(path).stem, times)]


def _unknown_unit(path: str) -> NoReturn:
    _refuse_file(
        "PW703",
        f"'{path}' does not say the unit of its times",
        "give --unit cycles or --unit ns, or name the column time_cycles or time_ns",
    )


def _open_table(source: SourceFile) -> _Table:
    lines = [line.rstrip("\r") for line in source.text.split("\n")]
    for number, line in enumerate(lines):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        separator = next((one for one in (",", ";", "\t") if one in line), None)
        fields = [field.strip().strip('"') for field in line.split(separator)]
        is_header = all(field[:1].isalpha() and _number(field) is None for field in fields)
        names = tuple(field.lower() for field in fields) if is_header else ()
        first = number + 1 if is_header else number
        return _Table(source, lines, separator, names, len(fields), first)
    raise PtxwcetError(
        Diagnostic("PW705", f"'{source.name}' holds no times", help="give a time a line")
    )


def _number(text: str) -> float | None:
    """A decimal number; Python's other notations (1_000) are none."""
    if "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return None


def _find(table: _Table, wanted: str) -> int:
    """The index of a column by name or number from 1. Raises PtxwcetError (PW707)."""
    if wanted.lower() in table.names:
        return table.names.index(wanted.lower())
    if wanted.isdecimal() and 1 <= int(wanted) <= table.columns:
        return int(wanted) - 1
    known = f"columns {', '.join(table.names)}" if table.names else f"{table.columns} columns"
    _refuse_file(
        "PW707",
        f"'{table.source.name}' has no column '{wanted}'",
        f"it has {known}; columns are named or numbered from 1",
    )


def _time_column(table: _Table, options: ReadOptions) -> int:
    if options.column is not None:
        return _find(table, options.column)
    if table.columns == 1:
        return 0
    found = [k for k, name in enumerate(table.names) if name in _TIME_COLUMNS]
    if len(found) == 1:
        return found[0]
    what = "several columns of times" if found else "no column that is known to hold times"
    names = ", ".join(table.names) if table.names else f"{table.columns} columns without names"
    _refuse_file(
        "PW707",
        f"'{table.source.name}' has {what}: {names}",
        "name it with --column NAME or NUMBER",
    )


def _read_times(table: _Table, stem: str, options: ReadOptions) -> tuple[TimeUnit, list[Condition]]:
    column = _time_column(table, options)
    label = None
    if options.condition_column is not None:
        label = _find(table, options.condition_column)
    elif _CONDITION in table.names:
        label = table.names.index(_CONDITION)
    units = table.names.index(_UNIT) if _UNIT in table.names else None
    name = table.names[column] if table.names else ""
    unit = _TIME_COLUMNS.get(name)
    if unit is not None and options.unit not in (None, unit):
        message = f"column '{name}' of '{table.source.name}' is in {unit.value}"
        _refuse_file("PW703", f"{message}, --unit says otherwise", "leave --unit out")
    unit = unit or options.unit
    found: dict[str, array[float]] = {}
    for number, fields in table.rows():
        if units is not None:
            unit = _row_unit(table, number, units, fields[units], unit)
        value = _number(fields[column])
        if value is None or not 0 < value < math.inf:
            _bad_time(table, number, column, fields[column].strip(), value)
        key = stem if label is None else fields[label].strip().strip('"')
        times = found.get(key)
        if times is None:
            times = found[key] = array("d")
        times.append(value)
    if not found:
        _refuse_file("PW705", f"'{table.source.name}' holds no times", "give a time a line")
    if unit is None:
        _unknown_unit(table.source.name)
    return unit, [Condition(key, np.frombuffer(row)) for key, row in found.items()]


def _row_unit(
    table: _Table, number: int, column: int, text: str, before: TimeUnit | None
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


def _bad_time(table: _Table, number: int, column: int, text: str, value: float | None) -> NoReturn:
    if value is None:
        what = f"'{text}' is no number" if text else "a time is missing"
        help = "a time a line; label columns have other names; a first line may name the columns"
        table.refuse("PW702", number, what, help, column)
    help = "times are finite and above 0: leave failed runs out"
    table.refuse("PW704", number, f"{text} is no execution time", help, column)


# --- clock pairs ----------------------------------------------------------------------------------


def _is_clock_table(table: _Table) -> bool:
    return {"run", "sm"} <= set(table.names) and bool(set(_ENDS) & set(table.names))


def _read_clocks(table: _Table, stem: str, options: ReadOptions) -> list[Condition]:
    columns = []
    for role, names in (*_CLOCKS.items(), ("end", _ENDS)):
        place = next((table.names.index(name) for name in names if name in table.names), None)
        if place is None:
            message = f"'{table.source.name}' has clock pairs without a column '{role}'"
            _refuse_file("PW707", message, "columns: run, sm, start, end")
        columns.append(place)
    label = table.names.index(_CONDITION) if _CONDITION in table.names else None
    most = 2**options.counter_bits
    runs: dict[str, dict[str, int]] = {}
    seen: set[tuple[str, str, str]] = set()
    rows: dict[str, tuple[list[int], list[int], list[int]]] = {}
    for number, fields in table.rows():
        key = stem if label is None else fields[label].strip().strip('"')
        run, sm = (fields[column].strip() for column in columns[:2])
        if (key, run, sm) in seen:
            message = f"SM {sm} of run {run} has a second pair of clocks"
            table.refuse("PW708", number, message, "a row for each SM of each run", columns[1])
        seen.add((key, run, sm))
        numbers = runs.setdefault(key, {})
        kept = rows.setdefault(key, ([], [], []))
        kept[0].append(numbers.setdefault(run, len(numbers)))
        for k in (2, 3):
            text = fields[columns[k]].strip()
            if not text.isdecimal() or int(text) >= most:
                message = f"'{text}' is no value of a {options.counter_bits}-bit counter"
                help = "clocks are whole numbers; give --counter-bits 64 for clock64"
                table.refuse("PW708", number, message, help, columns[k])
            kept[k - 1].append(int(text))
    if not rows:
        _refuse_file("PW705", f"'{table.source.name}' holds no clock pairs", "a row an SM and run")
    return [_condition(key, row, options.counter_bits) for key, row in rows.items()]


def _condition(label: str, rows: tuple[list[int], list[int], list[int]], bits: int) -> Condition:
    run, start, end = rows
    pairs = ClockPairs(
        np.asarray(run, np.intp), np.asarray(start, np.uint64), np.asarray(end, np.uint64), bits
    )
    times, discarded = times_of_pairs(pairs)
    return Condition(label, times, discarded)


def _blank_offset(text: str, column: int) -> int:
    position = 0
    for k, field in enumerate(text.split()):
        position = text.index(field, position)
        if k == column:
            return position
        position += len(field)
    return position


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
