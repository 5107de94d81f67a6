"""A run as a picture in the style of the multi-phase paper's Figs. 2 and 3.

Each warp has a row of lanes. An instruction is a thin line while it queues for its unit, a full bar
while it initiates (its colour is the unit's), and a light bar for its latency. Below the lanes are
the warp's execution phases (dark) and idle phases (white).
"""

from __future__ import annotations

import io
from pathlib import Path

from ptxwcet.commands.simulate.study import KernelSimulation
from ptxwcet.simulator.run import IssueEvent
from ptxwcet.support.extras import require_extra
from ptxwcet.support.whole_files import write_bytes

_LANE = 0.8
_COLOURS = (
    "#4477aa",
    "#ee6677",
    "#228833",
    "#ccbb44",
    "#66ccee",
    "#aa3377",
    "#bbbbbb",
    "#994f00",
)


def draw_gantt(simulation: KernelSimulation, path: Path) -> None:
    """Draws the recorded events of a run into a .png or .svg file.

    Raises PtxwcetError (PW233) if it cannot be written. Cost: linear in the recorded events; a few
    hundred are what can be read.
    """
    require_extra("report", "a picture of a run")
    # imported here: only pictures need matplotlib
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.patches import Patch

    matplotlib.rcParams["svg.hashsalt"] = "ptxwcet"
    events = simulation.run.events
    warps = sorted({event.warp for event in events})
    units = sorted({event.unit for event in events})
    colour = {unit: _COLOURS[k % len(_COLOURS)] for k, unit in enumerate(units)}
    lanes = {warp: assign_lanes([e for e in events if e.warp == warp]) for warp in warps}
    height = sum(1.4 + max(lane for _, lane in lanes[warp]) + 1 for warp in warps)
    last = max(event.end_cycle for event in events)
    size = (min(24.0, max(7.0, 2.5 + last / 18)), min(40.0, 1.6 + 0.24 * height))
    figure, axes = pyplot.subplots(figsize=size)
    base = 0.0
    ticks = []
    for warp in warps:
        ticks.append((base + 0.35, f"warp {warp}"))
        spans = execution_spans([event for event, _ in lanes[warp]])
        axes.broken_barh([(a, b - a) for a, b in spans], (base, 0.7), facecolors="0.2")
        top = base + 1.0
        for event, lane in lanes[warp]:
            y = top + lane
            begin, freed = event.dispatch_cycle, event.initiation_end_cycle
            axes.plot([event.issue_cycle, begin], [y + 0.4] * 2, color="black", lw=0.8)
            axes.broken_barh([(begin, freed - begin)], (y, _LANE), facecolors=colour[event.unit])
            tail = [(freed, event.end_cycle - freed)]
            axes.broken_barh(tail, (y, _LANE), facecolors=colour[event.unit], alpha=0.25)
            axes.plot([event.issue_cycle], [y + 0.4], marker="|", color="black", ms=5)
        base = top + max(lane for _, lane in lanes[warp]) + 1.4
    axes.set_yticks([y for y, _ in ticks], [name for _, name in ticks])
    axes.set_xlabel("cycle")
    axes.set_xlim(0, last)
    axes.set_ylim(base, -0.3)
    axes.grid(axis="x", alpha=0.3)
    axes.set_title(_title(simulation), fontsize=10, wrap=True)
    legend = [Patch(facecolor=colour[unit], label=unit) for unit in units]
    legend += [
        Patch(facecolor="0.6", alpha=0.4, label="latency"),
        Patch(facecolor="0.2", label="execution phase"),
    ]
    axes.legend(handles=legend, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    try:
        sink = io.BytesIO()
        form = path.suffix[1:]
        metadata = {"Date": None} if form == "svg" else {}  # equal runs give equal bytes
        figure.savefig(sink, format=form, dpi=110, bbox_inches="tight", metadata=metadata)
        write_bytes(path, sink.getvalue(), "PW233")
    finally:
        pyplot.close(figure)


def assign_lanes(events: list[IssueEvent]) -> list[tuple[IssueEvent, int]]:
    """Returns each event with the first lane of its warp that is free from its issue on."""
    ends: list[int] = []
    placed = []
    for event in events:
        lane = next((k for k, end in enumerate(ends) if end <= event.issue_cycle), len(ends))
        if lane == len(ends):
            ends.append(0)
        ends[lane] = event.end_cycle
        placed.append((event, lane))
    return placed


def execution_spans(events: list[IssueEvent]) -> list[tuple[int, int]]:
    """Returns the cycles in which some of a warp's instructions initiates, as ranges in order."""
    spans: list[tuple[int, int]] = []
    for event in sorted(events, key=lambda one: one.dispatch_cycle):
        begin, end = event.dispatch_cycle, event.initiation_end_cycle
        if spans and begin <= spans[-1][1]:
            spans[-1] = spans[-1][0], max(spans[-1][1], end)
        else:
            spans.append((begin, end))
    return spans


def _title(simulated: KernelSimulation) -> str:
    run = simulated.run
    shown = len(run.events)
    part = "" if shown == run.instructions else f" (first {shown} of {run.instructions:,} issues)"
    return (
        f"{simulated.prepared.kernel.readable}, {len(run.warps)} warps, {run.policy.value}: "
        f"{run.cycles:,} cycles{part}"
    )
