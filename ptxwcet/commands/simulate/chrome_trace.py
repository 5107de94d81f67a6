"""A run in Chrome's Trace Event Format, which Perfetto and chrome://tracing open.

Each sub-core has one process for its warps and one for its units. A warp's track has a slice for
each instruction from its issue to the warp's next issue, or to the instruction's own end if this is
earlier: slices of a track never overlap, and in a gap the warp waits although none of its
instructions is in flight. A unit's track shows initiations. One cycle is drawn as a microsecond.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ptxwcet.commands.simulate.study import KernelSimulation
from ptxwcet.report.source_lines import place
from ptxwcet.simulator.run import IssueEvent

_UNITS = 1000
"""The first process number of units; numbers of warps start at 0."""


def render_trace(simulated: KernelSimulation) -> str:
    """Returns the events of a run as one JSON object. Cost: linear in the recorded events."""
    run = simulated.run
    events = [*_names(simulated), *_warp_slices(simulated), *_unit_slices(simulated)]
    return json.dumps(
        {
            "traceEvents": events,
            "displayTimeUnit": "ms",
            "otherData": {
                "kernel": simulated.prepared.kernel.readable,
                "machine": simulated.prepared.machine.name,
                "policy": run.policy.value,
                "seed": run.seed,
                "jitter_percent": run.jitter.percent,
                "cycles": run.cycles,
                "time_unit": "1 cycle is drawn as 1 us",
                "instructions_recorded": len(run.events),
                "instructions": run.instructions,
            },
        },
        indent=None,
        separators=(",", ":"),
    )


def _names(simulated: KernelSimulation) -> Iterator[dict[str, Any]]:
    cores = simulated.run.schedulers
    for core in range(cores):
        which = f" of sub-core {core}" if cores > 1 else ""
        yield _metadata("process_name", core, 0, name=f"warps{which}")
        yield _metadata("process_sort_index", core, 0, sort_index=core)
        yield _metadata("process_name", _UNITS + core, 0, name=f"units{which}")
        yield _metadata("process_sort_index", _UNITS + core, 0, sort_index=_UNITS + core)
    for warp in simulated.run.warps:
        yield _metadata("thread_name", warp.warp % cores, warp.warp, name=f"warp {warp.warp}")
        yield _metadata("thread_sort_index", warp.warp % cores, warp.warp, sort_index=warp.warp)
    for (core, unit), number in _lanes(simulated)[1].items():
        yield _metadata("thread_name", _UNITS + core, number, name=unit)


def _metadata(kind: str, process: int, thread: int, **arguments: Any) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "ts": 0, "pid": process, "tid": thread, "args": arguments}


def _warp_slices(simulated: KernelSimulation) -> Iterator[dict[str, Any]]:
    following: dict[int, int] = {}
    slices = []
    for event in reversed(simulated.run.events):
        end = min(following.get(event.warp, event.end_cycle), event.end_cycle)
        following[event.warp] = event.issue_cycle
        process = event.warp % simulated.run.schedulers
        slices.append(_slice(simulated, event, (process, event.warp), (event.issue_cycle, end)))
    yield from reversed(slices)


def _unit_slices(row: KernelSimulation) -> Iterator[dict[str, Any]]:
    lanes, _ = _lanes(row)
    for event, (process, lane) in zip(row.run.events, lanes, strict=True):
        span = (event.dispatch_cycle, event.initiation_end_cycle)
        yield _slice(row, event, (process, lane), span)


def _lanes(simulated: KernelSimulation) -> tuple[list[tuple[int, int]], dict[tuple[int, str], int]]:
    """Returns the track of each initiation, and the tracks' names: overlapping ones are split."""
    lanes: list[tuple[int, int]] = []
    names: dict[tuple[int, str], int] = {}
    busy: dict[tuple[int, str], int] = {}
    for event in simulated.run.events:
        core = event.warp % simulated.run.schedulers
        server = 1
        while True:
            key = (core, event.unit if server == 1 else f"{event.unit} ({server})")
            if busy.get(key, 0) <= event.dispatch_cycle:
                break
            server += 1
        busy[key] = event.initiation_end_cycle
        lanes.append((_UNITS + core, names.setdefault(key, len(names))))
    return lanes, names


def _slice(
    simulated: KernelSimulation, event: IssueEvent, track: tuple[int, int], span: tuple[int, int]
) -> dict[str, Any]:
    kernel = simulated.prepared.kernel
    instruction = kernel.instructions[event.origin]
    return {
        "name": instruction.mnemonic,
        "cat": event.unit,
        "ph": "X",
        "ts": span[0],
        "dur": span[1] - span[0],
        "pid": track[0],
        "tid": track[1],
        "args": {
            "source": place(kernel, event.origin),
            "ptx_line": instruction.span.line,
            "warp": event.warp,
            "unit": event.unit,
            "issue": event.issue_cycle,
            "dispatch": event.dispatch_cycle,
            "initiation_end": event.initiation_end_cycle,
            "end": event.end_cycle,
        },
    }
