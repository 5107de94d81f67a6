"""The tables of a sweep, a row a unit: Parquet and CSV, the same bytes for the same answers."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any

from ptxwcet.opened.inputs import KeyedRequest, describe_here
from ptxwcet.support.csv_cells import spelled
from ptxwcet.support.records import dataclass
from ptxwcet.support.whole_files import whole_file
from ptxwcet.sweeps.sweep_plan import PlannedUnit, SweepPlan
from ptxwcet.sweeps.sweep_reading import RESULT_COLUMNS

PARQUET, CSV, EFFORT = "results.parquet", "results.csv", "effort.csv"
BEFORE, AFTER = RESULT_COLUMNS[:2], RESULT_COLUMNS[2:]
"""Columns that every table has; the plan's are between them."""
INTEGERS = ("unit", "memory_latency", "cycles", "block_cycles", "launch_cycles")
_FLOATS = ("seconds",)
_ROWS = 10_000  # held at once


@dataclass(frozen=True, slots=True)
class Row:
    """A unit and its result: the fields of a Summary, the seconds of its analysis."""

    planned: PlannedUnit
    keyed: KeyedRequest
    summary: dict[str, Any]
    seconds: float | None

    def cells(self) -> list[Any]:
        """Returns the values of all columns, in their order."""
        request, here = self.planned.request, describe_here()
        by_name = {
            **self.summary,
            "file": request.path,
            "file_sha256": self.keyed.file_sha256,
            "machine": request.machine,
            "machine_sha256": self.keyed.machine_sha256,
            "method": request.method,
            "policy": request.policy,
            "version": here["ptxwcet"],
            "sources_sha256": here["sources"],
        }
        before = (self.planned.index, self.keyed.key)
        return [*before, *self.planned.values, *(by_name[name] for name in AFTER)]


def write_tables(plan: SweepPlan, folder: Path, rows: Iterator[Row]) -> Counter[str]:
    """Writes the tables into a folder, each whole or not at all; returns the counts of outcomes.

    Raises PtxwcetError (PW233). Cost: linear; 10,000 rows are held at once.
    """
    # imported here: these libraries are an extra
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    columns = (*BEFORE, *plan.columns, *AFTER)
    integers = {*INTEGERS, *plan.integer_columns()}
    kinds = [
        arrow.float64()
        if name in _FLOATS
        else arrow.int64()
        if name in integers
        else arrow.string()
        for name in columns
    ]
    about = {
        "ptxwcet.plan": Path(plan.path).name,
        "ptxwcet.plan_sha256": plan.sha256,
        "ptxwcet.columns": json.dumps(plan.columns),
    }
    schema = arrow.schema(zip(columns, kinds, strict=True), about)
    is_text = [name not in integers and name not in _FLOATS for name in columns]
    outcomes: Counter[str] = Counter()
    with ExitStack() as stack:
        whole = {
            name: stack.enter_context(whole_file(folder / name, "PW233"))
            for name in (PARQUET, CSV, EFFORT)
        }
        table = stack.enter_context(_text(whole[CSV]))
        effort = stack.enter_context(_text(whole[EFFORT]))
        writer = stack.enter_context(parquet.ParquetWriter(whole[PARQUET], schema))
        lines, times = (csv.writer(_Lines(one)) for one in (table, effort))
        lines.writerow(map(spelled, columns))
        times.writerow(("unit", "analysis_seconds"))
        while part := list(islice(rows, _ROWS)):
            cells = [
                [
                    _as_text(value) if text else value
                    for value, text in zip(result.cells(), is_text, strict=True)
                ]
                for result in part
            ]
            arrays = [
                arrow.array(values, field.type)
                for values, field in zip(zip(*cells, strict=True), schema, strict=True)
            ]
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))
            lines.writerows([[spelled(value) for value in result] for result in cells])
            for result in part:
                outcomes[result.summary["outcome"]] += 1
                seconds = "" if result.seconds is None else f"{result.seconds:.4f}"
                times.writerow((result.planned.index, seconds))
    return outcomes


class _Lines:
    """Takes the rows of a ``csv.writer``, and ends each with a line feed only.

    The writer of Python 3.11 quotes a carriage return only if its own lines end with one: without
    the quotes a name with one would be two rows.
    """

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, line: str) -> int:
        """Writes one row."""
        return self._file.write(line.removesuffix("\r\n") + "\n")


@contextmanager
def _text(file: IO[bytes]) -> Iterator[io.TextIOWrapper]:
    """Yields a file to write text to; it stays open."""
    text = io.TextIOWrapper(file, "utf-8", newline="", write_through=True)
    yield text
    text.detach()


def _as_text(value: object) -> str | None:
    """Returns a value of a column of texts; characters that UTF-8 lacks as their numbers.

    An empty text becomes None: CSV cannot distinguish them.
    """
    if value is None or value == "":
        return None
    return str(value).encode("utf-8", "backslashreplace").decode()
