"""``results.csv`` as columns, with the standard library alone."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from ptxwcet.support.csv_cells import read_cell
from ptxwcet.sweeps.results.results_table import (
    FLOAT_COLUMNS,
    INTEGER_COLUMNS,
    TEXT_COLUMNS,
    Codes,
    NotResults,
    RawColumns,
    require_columns,
)

_INTEGER = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_LARGEST = 1 << 63
_ROWS_AT_ONCE = 1 << 14


class _Encoded:
    """A column as it is read: its values by the number that stands for them."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.codes: list[Codes] = []

    def add(self, values: Sequence[str]) -> None:
        numbers = self.numbers
        found = [numbers.setdefault(value, len(numbers)) for value in values]
        self.codes.append(np.asarray(found, np.int32))

    def done(self) -> tuple[list[str], Codes]:
        """The different values and the codes; an empty text is no value."""
        codes = np.concatenate(self.codes) if self.codes else np.empty(0, np.int32)
        values = [read_cell(value) for value in self.numbers]
        if "" not in self.numbers:
            return values, codes
        empty = self.numbers[""]
        values.pop(empty)
        codes = np.where(codes == empty, -1, codes - (codes > empty)).astype(np.int32)
        return values, codes


def read_csv(data: bytes) -> RawColumns:
    """The columns of a CSV file. Raises NotResults.

    A column of the plan is one of integers of 64 bits if all its values are, as they are written
    (``007`` is a text, as in Parquet: it is not ``7``). Cost: linear.
    """
    rows = _rows(data)
    header = tuple(map(read_cell, next(rows, ())))
    plan_columns = require_columns(header)
    kept = {name: _Encoded() for name in (*plan_columns, *TEXT_COLUMNS, *INTEGER_COLUMNS)}
    kept |= {name: _Encoded() for name in FLOAT_COLUMNS}
    places = {name: header.index(name) for name in kept}
    before = 1
    while some := list(islice(rows, _ROWS_AT_ONCE)):
        for number, row in enumerate(some, before + 1):
            if len(row) != len(header):
                raise NotResults(f"row {number} has {len(row)} cells, the first {len(header)}")
        before += len(some)
        turned = list(zip(*some, strict=True))
        for name, column in kept.items():
            column.add(turned[places[name]])
    done = {name: column.done() for name, column in kept.items()}
    encoded: dict[str, tuple[list[int | str], Codes]] = {}
    for name in TEXT_COLUMNS:
        encoded[name] = (list(done[name][0]), done[name][1])
    for name in plan_columns:
        values, codes = done[name]
        are_integers = all(map(_is_integer, values))
        encoded[name] = (list(_integers(name, values) if are_integers else values), codes)
    latencies, codes = done["memory_latency"]
    encoded["memory_latency"] = (list(_integers("memory_latency", latencies)), codes)
    integers = {
        name: np.asarray([*_integers(name, done[name][0]), -1], np.int64)[done[name][1]]
        for name in ("unit", "cycles")
    }
    floats = {
        name: np.asarray([*_floats(name, done[name][0]), np.nan], np.float64)[done[name][1]]
        for name in FLOAT_COLUMNS
    }
    return RawColumns(None, None, plan_columns, encoded, integers, floats)


def _rows(data: bytes) -> Iterator[list[str]]:
    """The rows; empty lines are none."""
    # decoded piece by piece: as a text all of it would take four times the memory
    lines = io.TextIOWrapper(io.BytesIO(data), "utf-8", newline="")
    reader = csv.reader(lines, strict=True)
    try:
        for row in reader:
            if row:
                yield row
    except UnicodeDecodeError:
        raise NotResults("it is neither Parquet nor text in UTF-8") from None
    except csv.Error as error:
        raise NotResults(f"line {reader.line_num}: {error}") from None


def _is_integer(value: str) -> bool:
    """Whether a value is how an integer of 64 bits is written."""
    if _INTEGER.fullmatch(value) is None:
        return False
    return -_LARGEST <= int(value) < _LARGEST and str(int(value)) == value


def _integers(name: str, values: Sequence[str]) -> list[int]:
    numbers = []
    for value in values:
        number = int(value) if _INTEGER.fullmatch(value) else _LARGEST
        if not -_LARGEST <= number < _LARGEST:
            raise NotResults(f"{value[:40]!r} in the column {name} is no integer of 64 bits")
        numbers.append(number)
    return numbers


def _floats(name: str, values: Sequence[str]) -> list[float]:
    try:
        return [float(value) for value in values]
    except ValueError:
        raise NotResults(f"the column {name} holds what is no number") from None
