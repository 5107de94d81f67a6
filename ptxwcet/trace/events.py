"""Represents timed traces of instrumentation points (ipoints), column by column.

A trace records when each warp passed which instrumentation point on which multiprocessor ([B] VI-A:
address, multiprocessor, warp and cycle of each event). It may hold several runs, one after the
other; times of different runs are unrelated. This module is independent of the origin of events:
the timing simulator, the emulator's instrumented code and a GPU write the same columns.
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ptxwcet.support.demangling import readable_names
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.support.source import SourceFile, Span

IntColumn: TypeAlias = npt.NDArray[np.int64]
"""A column of whole numbers."""


@dataclass(frozen=True, slots=True)
class Ipoint:
    """An instrumentation point: the beginning of a basic block, or the place where warps end.

    ``label`` names the block as the control-flow graph does (``ControlFlowGraph``), or is ``end``;
    ``line`` is the source line in the PTX file, 0 for the end.
    """

    label: str
    line: int


END = Ipoint("end", 0)
"""The point that a warp passes once, when its last lane has ended."""


@dataclass(frozen=True, slots=True)
class TraceOrigin:
    """The origin of a trace: the kernel, the digest of its PTX, the recorder, the unit of time.

    ``sha256`` is the digest of the PTX file, empty if unknown; ``clock`` is the unit of the times
    (``cycle``, ``ns``); ``recorder`` is the source of the times (``simulator lrr``, ``clock64``).
    """

    kernel: str
    sha256: str
    recorder: str
    clock: str = "cycle"

    @property
    def readable(self) -> str:
        """The kernel's name for readers."""
        return readable_names((self.kernel,))[self.kernel]


@dataclass(frozen=True, slots=True)
class TimedTrace:
    """The events of all runs in order of time within a run; equal lengths, no object per event.

    ``ipoint`` indexes ``ipoints``; ``sm`` is the multiprocessor; ``warp`` is unique in its run
    (block index times warps per block plus the warp's number in it), so that successive warps in
    one slot are distinguished; ``cycle`` counts from the beginning of the run. ``runs``: row of the
    first event of each run, ascending, beginning with 0 (empty without events). ``lines``:
    line of each event in the file it was read from, None for a trace made here.
    """

    origin: TraceOrigin
    ipoints: tuple[Ipoint, ...]
    ipoint: npt.NDArray[np.int32]
    sm: npt.NDArray[np.int32]
    warp: IntColumn
    cycle: IntColumn
    runs: IntColumn
    lines: IntColumn | None = None

    def __len__(self) -> int:
        return len(self.cycle)


def line_span(path: str | os.PathLike[str], line: int, text: bytes) -> Span:
    """Returns the span of a whole line of a file that is too large to be held."""
    shown = text.rstrip(b"\r\n").decode("utf-8", errors="replace")
    return Span(SourceFile(os.fspath(path), shown, first_line=line), 0, len(shown))


def event_error(
    trace: TimedTrace, path: str, event: int, code: str, message: str, help_text: str | None = None
) -> PtxwcetError:
    """Returns the error for an event of a trace read from ``path``, shown with its line.

    A trace without lines (columns, or made here) is named with the number of the event. Cost: the
    file is read again up to the line.
    """
    run = int(np.searchsorted(trace.runs, event, side="right")) - 1
    number = int(trace.ipoint[event])
    is_listed = 0 <= number < len(trace.ipoints)
    name = trace.ipoints[number].label if is_listed else f"ipoint {number}"
    note = (
        f"event {event} (run {run}, multiprocessor {trace.sm[event]}, warp {trace.warp[event]}): "
        f"{name} at {trace.cycle[event]}"
    )
    if trace.lines is None:
        prefix = f"{path}: " if path else ""
        return PtxwcetError.of(code, prefix + message, None, (note,), help_text)
    line = int(trace.lines[event])
    span = line_span(path, line, _line_of(path, line))
    return PtxwcetError.of(code, message, span, (note,), help_text)


def _line_of(path: str, line: int) -> bytes:
    try:
        with Path(path).open("rb") as file:
            return next(itertools.islice(file, line - 1, line), b"")
    except OSError:
        return b""


def check_trace(trace: TimedTrace, path: str) -> None:
    """Raises PtxwcetError for the first error in a trace that was read from ``path``.

    PW603: it has no events, or a run has none; PW604: an event names an ipoint that the table
    lacks; PW601: a column holds a number that it cannot. Cost: linear.
    """
    if not len(trace):
        message = f"'{path}' holds no events"
        raise PtxwcetError.of("PW603", message, help="record at least one run")
    if trace.runs[0] != 0 or (np.diff(trace.runs) <= 0).any() or trace.runs[-1] >= len(trace):
        ends = np.append(trace.runs[1:], len(trace))
        empty = int(np.flatnonzero(ends <= trace.runs)[0]) if trace.runs[0] == 0 else 0
        message = f"'{path}': run {empty} holds no events"
        raise PtxwcetError.of("PW603", message, help="leave such runs out")
    unknown = (trace.ipoint < 0) | (trace.ipoint >= len(trace.ipoints))
    if unknown.any():
        event = int(np.argmax(unknown))
        message = f"the table of this trace has no ipoint {trace.ipoint[event]}"
        help_text = f"it has 0 to {len(trace.ipoints) - 1}: record the trace again"
        raise event_error(trace, path, event, "PW604", message, help_text)
    for name, column in (("sm", trace.sm), ("warp", trace.warp), ("cycle", trace.cycle)):
        if int(column.min()) < 0:
            event = int(np.argmax(column < 0))
            message = f"column {name} holds {column[event]}: its numbers count from 0"
            raise event_error(trace, path, event, "PW601", message)
