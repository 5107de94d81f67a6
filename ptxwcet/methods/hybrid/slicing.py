"""Slices interleaved traces into warp-specific ones: sequences of transitions with their times.

[B] V-A: only the events of one warp are kept, then each warp's trace is followed on the
instrumentation point graph. Any mismatch is reported with its event; nothing is skipped.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ptxwcet.methods.hybrid.ipg import Ipg
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.trace.events import IntColumn, TimedTrace, event_error

_LARGE_TABLE = 1 << 24
"""The most pairs of ipoints for which a table is kept: 64 MB."""


@dataclass(frozen=True, slots=True)
class WarpTraces:
    """The warps of all runs, in sequence; a row per transition.

    ``transition`` numbers the graph's transitions; ``duration`` is in units of the clock; ``first``
    is each warp's first row. ``run``, ``sm``, ``warp``, ``begin`` and ``end`` (times of its first
    and last event) have one row per warp; ``begin_row`` and ``end_row`` are those events.
    """

    transition: npt.NDArray[np.int32]
    duration: IntColumn
    first: IntColumn
    run: IntColumn
    sm: npt.NDArray[np.int32]
    warp: IntColumn
    begin: IntColumn
    end: IntColumn
    begin_row: IntColumn
    end_row: IntColumn

    @property
    def warps(self) -> int:
        """The number of warps, over all runs."""
        return len(self.first)

    def warp_rows(self) -> IntColumn:
        """Returns the row of the warp of each transition. Cost: linear."""
        lengths = np.diff(np.append(self.first, len(self.transition)))
        return np.repeat(np.arange(self.warps), lengths)


def slice_trace(trace: TimedTrace, path: str, ipg: Ipg) -> WarpTraces:
    """Returns the warp-specific traces of a trace that was read from ``path``.

    Raises PtxwcetError, with the earliest event of the first kind that occurs: PW610 (a warp on two
    multiprocessors, or with events after its end), PW606 (it does not begin at the entry or does
    not reach the end), PW605 (its time decreases), PW608 (a transition that the graph lacks).
    Cost: linear; some 100 bytes an event.
    """
    run = np.repeat(np.arange(len(trace.runs)), np.diff(np.append(trace.runs, len(trace))))
    order = stable_order(_warp_keys(trace, run))
    ipoint, cycle = trace.ipoint[order], trace.cycle[order]
    begins = group_starts(run[order], trace.warp[order])
    is_last = np.zeros(len(order), bool)
    is_last[np.append(begins[1:], len(order)) - 1] = True
    _check_warps(trace, path, ipg, order, begins, is_last)
    inner = np.flatnonzero(~is_last)
    duration = cycle[inner + 1] - cycle[inner]
    if len(duration) and int(duration.min()) < 0:
        event = int(order[inner[duration < 0] + 1].min())
        message = "time goes backwards within a warp"
        help_text = "events of a warp stand in the order of time: record the trace again"
        raise event_error(trace, path, event, "PW605", message, help_text)
    transition = _numbered(ipg, ipoint[inner], ipoint[inner + 1])
    if len(transition) and int(transition.min()) < 0:
        raise _unknown_transition(trace, path, order, inner[transition < 0])
    lasts = np.flatnonzero(is_last)
    return WarpTraces(
        transition,
        duration,
        begins - np.arange(len(begins)),
        run[order[begins]],
        trace.sm[order[begins]],
        trace.warp[order[begins]],
        cycle[begins],
        cycle[lasts],
        order[begins],
        order[lasts],
    )


def _warp_keys(trace: TimedTrace, run: IntColumn) -> IntColumn:
    """Returns keys of the events that ascend with the run, and within a run with the warp."""
    most = int(trace.warp.max()) + 1
    if most * len(trace.runs) < 2**62:
        return run * most + trace.warp
    numbers, places = np.unique(trace.warp, return_inverse=True)  # far apart: by rank
    return run * len(numbers) + places


def _check_warps(
    trace: TimedTrace,
    path: str,
    ipg: Ipg,
    order: IntColumn,
    begins: IntColumn,
    is_last: npt.NDArray[np.bool_],
) -> None:
    ipoint, sm = trace.ipoint[order], trace.sm[order]
    start, end = ipg.placement.start, ipg.placement.end
    moved = np.flatnonzero(~is_last[:-1] & (sm[1:] != sm[:-1])) + 1
    again = np.flatnonzero(~is_last & (ipoint == end)) + 1
    numbers = "the number of a warp belongs to one warp in a run"
    cut = "the trace lacks events of this warp: record it again, or leave the run out"
    for events, code, message, help_text in (
        (moved, "PW610", "a warp is on two multiprocessors", numbers),
        (again, "PW610", "a warp goes on after its end", numbers),
        (begins[ipoint[begins] != start], "PW606", "a warp does not begin at the entry", cut),
        (
            np.flatnonzero(is_last & (ipoint != end)),
            "PW606",
            "a warp does not reach the end after this event",
            cut,
        ),
    ):
        if len(events):
            raise event_error(trace, path, int(order[events].min()), code, message, help_text)


def _numbered(
    ipg: Ipg, source: npt.NDArray[np.int32], target: npt.NDArray[np.int32]
) -> npt.NDArray[np.int32]:
    """Returns the number of each transition, -1 for those that the graph lacks."""
    count = len(ipg.placement.ipoints)
    pairs = source.astype(np.int64) * count + target
    listed = np.array([t.source * count + t.target for t in ipg.transitions], np.int64)
    if count * count <= _LARGE_TABLE:
        table = np.full(count * count, -1, np.int32)
        table[listed] = np.arange(len(listed), dtype=np.int32)
        numbers: npt.NDArray[np.int32] = table[pairs]
        return numbers
    places = np.minimum(np.searchsorted(listed, pairs), len(listed) - 1)
    return np.where(listed[places] == pairs, places, -1).astype(np.int32)


def _unknown_transition(
    trace: TimedTrace, path: str, order: IntColumn, places: IntColumn
) -> PtxwcetError:
    place = places[np.argmin(order[places + 1])]
    before, after = int(trace.ipoint[order[place]]), int(order[place + 1])
    names = (trace.ipoints[before].label, trace.ipoints[trace.ipoint[after]].label)
    return event_error(
        trace,
        path,
        after,
        "PW608",
        f"no warp of this kernel can pass from {names[0]} to {names[1]}",
        "the trace lacks events, or its GPU joins diverged threads elsewhere than at immediate "
        "post-dominators (docs/methods/hybrid.md)",
    )


_DIGIT_BITS = 16  # NumPy sorts 16-bit numbers by counting
_FEW = 1 << 16


def stable_order(keys: npt.NDArray[Any]) -> IntColumn:
    """Returns the rows by ascending key, rows of equal keys in their order.

    Keys are at least 0. Cost: linear, a pass for each 16 bits of the largest key; for few rows the
    cost of a comparison sort.
    """
    if len(keys) < _FEW:
        return np.argsort(keys, kind="stable")
    order = np.argsort((keys & 0xFFFF).astype(np.uint16), kind="stable")
    for shift in range(_DIGIT_BITS, int(keys.max()).bit_length(), _DIGIT_BITS):
        digits = ((keys >> shift) & 0xFFFF).astype(np.uint16)
        order = order[np.argsort(digits[order], kind="stable")]
    return order


def group_starts(*columns: npt.NDArray[Any]) -> IntColumn:
    """Returns the first rows of groups of equal neighbours. Cost: linear."""
    changes = np.zeros(len(columns[0]), bool)
    changes[:1] = True
    for column in columns:
        changes[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changes)
