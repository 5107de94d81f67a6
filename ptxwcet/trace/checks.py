"""What every trace file must satisfy before anything is computed from it."""

from __future__ import annotations

import numpy as np

from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.trace.events import TimedTrace
from ptxwcet.trace.places import event_error


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
