"""Timed traces as text: a header of comments, then a row ``ipoint,sm,warp,cycle`` for each event.

::

    # ptxwcet-trace 1
    # kernel saxpy
    # sha256 5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9
    # recorder simulator lrr
    # clock cycle
    # ipoint 0 21 entry
    # ipoint 1 45 $L__BB0_2
    # ipoint 2 0 end
    ipoint,sm,warp,cycle
    # run 0
    0,0,0,0
    1,0,0,57
    2,0,0,60
    # events 3

docs/tracing.md says what each line means. A file without its last line was cut.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ptxwcet.support.whole_files import whole_file
from ptxwcet.trace.csv_reader import COLUMNS, MAGIC, CsvReader
from ptxwcet.trace.events import TimedTrace

_ROWS_AT_ONCE = 1 << 16


def write_csv(trace: TimedTrace, path: Path) -> None:
    """Writes a trace as text. Raises PtxwcetError (PW609). Cost: about 1 s a million events."""
    origin = trace.origin
    header = [f"# {MAGIC}", f"# kernel {origin.kernel}"]
    header += [f"# sha256 {origin.sha256}"] if origin.sha256 else []
    header += [f"# recorder {origin.recorder}", f"# clock {origin.clock}"]
    header += [f"# ipoint {i} {p.line} {p.label}" for i, p in enumerate(trace.ipoints)]
    ends = [*trace.runs[1:].tolist(), len(trace)]
    with whole_file(path, "PW609") as file:
        file.write("\n".join([*header, COLUMNS, ""]).encode())
        for run, (begin, end) in enumerate(zip(trace.runs.tolist(), ends, strict=True)):
            file.write(f"# run {run}\n".encode())
            for first in range(begin, end, _ROWS_AT_ONCE):
                file.write(_rows(trace, first, min(end, first + _ROWS_AT_ONCE)))
        file.write(f"# events {len(trace)}\n".encode())


def _rows(trace: TimedTrace, first: int, last: int) -> bytes:
    part = slice(first, last)
    columns = (trace.ipoint[part], trace.sm[part], trace.warp[part], trace.cycle[part])
    numbers = np.stack(columns, axis=1).ravel().tolist()
    return (b"%d,%d,%d,%d\n" * (last - first)) % tuple(numbers)


def read_csv(path: Path) -> TimedTrace:
    """A trace from text; ``lines`` holds the line of each event.

    Raises PtxwcetError: PW600 (cannot be read), PW601 (malformed), PW602 (cut), PW611 (another
    version). Its events are not checked: see check_trace. Cost: linear, about 0.3 s a million
    events; 32 bytes an event.
    """
    return CsvReader(path).read()
