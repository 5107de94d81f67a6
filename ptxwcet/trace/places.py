"""Where in a trace file something is wrong, as diagnostics say it."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import numpy as np

from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.source import SourceFile, Span
from ptxwcet.trace.events import TimedTrace


def line_span(path: str | os.PathLike[str], line: int, text: bytes) -> Span:
    """The span of a whole line of a file that is too large to be held."""
    shown = text.rstrip(b"\r\n").decode("utf-8", errors="replace")
    return Span(SourceFile(os.fspath(path), shown, first_line=line), 0, len(shown))


def event_error(
    trace: TimedTrace, path: str, event: int, code: str, message: str, help_text: str | None = None
) -> PtxwcetError:
    """What is wrong with an event of a trace read from ``path``, shown with its line.

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
    """Raises PtxwcetError for the first thing wrong with a trace that was read from ``path``.

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
