"""Clock pairs of each SM as text columns: run, sm, start, end ([E] section 3, Figure 2)."""

from __future__ import annotations

import numpy as np

from ptxwcet.trace.measurements import ClockPairs, Condition, times_of_pairs
from ptxwcet.trace.text_table import TextTable, refuse_file, refuse_misspelt, shortened

CONDITION_COLUMN = "condition"
"""Name of the column that labels runs."""

_CLOCKS = {"run": ("run",), "sm": ("sm",), "start": ("start", "start_cycle")}
_ENDS = ("end", "end_cycle", "stop_cycle")

_LONGEST_CLOCK = 30


def is_clock_table(table: TextTable) -> bool:
    """Whether the columns of a table are those of clock pairs."""
    return {"run", "sm"} <= set(table.names) and bool(set(_ENDS) & set(table.names))


def read_clocks(table: TextTable, stem: str, bits: int) -> list[Condition]:
    """The times of the runs of a table, by Equation 1; runs in the order of their first row.

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
