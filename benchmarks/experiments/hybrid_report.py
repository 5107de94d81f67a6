"""Tables and pictures of the hybrid experiment, the published figures beside ours."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from experiments.experiment import Results
from experiments.hybrid_kernels import CLASSES, Published, hybrid_kernels
from experiments.hybrid_rows import Row, over
from experiments.pictures import set_ticks

if TYPE_CHECKING:
    from experiments.pictures import Figure

METHODS = (("dynamic", "Z_dynamic"), ("hybrid", "Z_hybrid"))
_COLUMNS = ("high_water_mark", "warp", "dynamic", "hybrid")
_Table = tuple[list[str], list[list[str]]]


def published_rows() -> dict[str, Published]:
    """The rows of Table II by kernel."""
    return {kernel.name: kernel.published for kernel in hybrid_kernels()}


def write_report(results: Results, kernels: Sequence[Row], varied: Sequence[Row]) -> None:
    """Adds all tables and pictures; ``varied`` are rows of runs with shortened latencies."""
    results.say(
        "Percentages say how far an estimate lies above the longest run, the high-water mark. "
        "*Published* percentages are computed from the published cycles. *SAFE* is the static safe "
        "bound of one block that has a multiprocessor for itself, *block alone* its longest run "
        "under five policies. [hybrid.csv](hybrid.csv), [hybrid.json](hybrid.json)",
        "## Table II",
    )
    results.add_table(*table_2(kernels))
    results.say("\n".join(summary(kernels)))
    _write_csv(results, kernels)
    results.add_picture(
        "overestimation.png",
        "over-estimation, here and published",
        (11, 7.2),
        lambda figure: _draw_over_estimation(figure, kernels),
    )
    results.say("## What the equations were given", _PARAMETERS)
    results.add_table(*parameters(kernels))
    results.say("## Where the time of Z_warp goes", _SHARES)
    results.add_table(*where_time_goes(kernels))
    if any(len(set(row.marks)) > 1 for row in kernels):
        results.say("## The longest run by kind of input, of kernels whose runs differ")
        results.add_table(*by_kind(kernels))
    results.say("## With latencies varied")
    results.add_table(*table_2(varied))
    moving = [row for row in kernels if len(set(row.marks)) > 1]
    both = (("inputs alone", moving), ("latencies varied", varied))
    panels = [(title, some) for title, some in both if some]
    results.add_picture(
        "convergence.png",
        "convergence of the high-water mark",
        (11, 4.2),
        lambda figure: _draw_convergence(figure, panels),
    )


_PARAMETERS = """\
*Jitter* is the release jitter of equation 1; Omega (waves), phi (warps a wave) and Delta (start
gap) are derived from the traces as the paper does. *Planned*: from launch and occupancy instead,
with the gap of first waves. *Resident*: blocks that a multiprocessor holds. *Traces*: how many
differ. *Transitions seen*: what was not seen is missing in the estimate."""
_SHARES = """\
*Longest warp*: the longest time of one warp that was observed. *Loops*, *barriers*: shares of
Z_warp in the loop with the largest one, and in transitions that pass a barrier. *Likely Z_warp*:
what the path of Z_warp exceeds with probability 1e-6 if the times of its transitions are
independent."""


def table_2(kernels: Sequence[Row]) -> _Table:
    """The layout of the published table, with its percentages beside ours."""
    estimates = [name for _, label in METHODS for name in (label, "difference", "*published*")]
    head = ["kernel", "Z_HWM", "Z_warp", *estimates, "SAFE, a block", "block alone", "difference"]
    lines = []
    for kernel in kernels:
        theirs = published_rows()[kernel.name]
        cells = [
            kernel.name,
            f"{kernel.high_water_mark:,}",
            f"{kernel.warp:,}",
            f"{kernel.dynamic:,}",
            percent(over(kernel.dynamic, kernel.high_water_mark)),
            f"*{percent(published_over(theirs, 'dynamic'))}*",
            f"{kernel.hybrid:,}",
            percent(over(kernel.hybrid, kernel.high_water_mark)),
            f"*{percent(published_over(theirs, 'hybrid'))}*",
            f"{kernel.safe_block:,}",
            f"{kernel.block_alone:,}",
            percent(over(kernel.safe_block, kernel.block_alone)),
        ]
        lines.append(cells)
    return head, lines


def percent(value: float) -> str:
    """A percentage as the published table has it: whole, ``< 1 %`` for less than one."""
    if 0 < value < 1:
        return "< 1 %"
    return f"{round(value):,} %"


def parameters(kernels: Sequence[Row]) -> _Table:
    """What equations (1) and (2) were given, and what launch and occupancy say instead."""
    head = ["kernel", "inputs", "traces", "events", "blocks", "resident", "jitter", "Omega", "phi"]
    head += ["Delta", "Omega, phi, Delta planned", "Z_hybrid planned", "difference"]
    head += ["transitions seen"]
    lines = []
    for kernel in kernels:
        cells = [
            kernel.name,
            f"{len(kernel.marks)}",
            f"{kernel.traces}",
            f"{kernel.events:,}",
            f"{kernel.blocks}",
            f"{kernel.resident_blocks}",
            f"{kernel.release_jitter:,}",
            f"{kernel.waves}",
            f"{kernel.warps_per_wave}",
            f"{kernel.start_gap:,}",
            f"{kernel.planned_waves}, {kernel.planned_warps}, {kernel.planned_gap}",
            f"{kernel.planned:,}",
            percent(over(kernel.planned, kernel.high_water_mark)),
            f"{kernel.transitions_seen}/{kernel.transitions}",
        ]
        lines.append(cells)
    return head, lines


def where_time_goes(kernels: Sequence[Row]) -> _Table:
    """A table of Z_warp beside the longest warp seen, with shares of loops and barriers."""
    head = ["kernel", "longest warp", "Z_warp", "difference", "loops", "barriers"]
    head += ["likely Z_warp", "difference"]
    lines = []
    for kernel in kernels:
        cells = [
            kernel.name,
            f"{kernel.longest_warp:,}",
            f"{kernel.warp:,}",
            percent(over(kernel.warp, kernel.longest_warp)),
            f"{kernel.loop_share:.0%}",
            f"{kernel.barrier_share:.0%}",
            f"{kernel.likely_warp:,}",
            percent(over(kernel.likely_warp, kernel.longest_warp)),
        ]
        lines.append(cells)
    return head, lines


def by_kind(kernels: Sequence[Row]) -> _Table:
    """The longest run with each kind of input, of the kernels whose runs differ."""
    kinds = list(dict.fromkeys(CLASSES))
    lines = []
    for kernel in kernels:
        cells = []
        for kind in kinds:
            marks = [m for m, of in zip(kernel.marks, kernel.kinds, strict=True) if of == kind]
            cells.append(f"{max(marks):,}" if marks else "")
        if len(set(kernel.marks)) > 1:
            lines.append([kernel.name, *cells])
    return ["kernel", *kinds], lines


def averages(rows: Sequence[Row]) -> dict[str, tuple[float, float, float]]:
    """Mean and median over-estimation of a method, ours, and the published mean, percent."""
    found = {}
    for method, label in METHODS:
        ours = [over(getattr(row, method), row.high_water_mark) for row in rows]
        theirs = [published_over(published_rows()[row.name], method) for row in rows]
        found[label] = (statistics.mean(ours), statistics.median(ours), statistics.mean(theirs))
    return found


def published_over(row: Published, method: str) -> float:
    """The published over-estimation, from the cycles: two percentages are misprinted."""
    return over(getattr(row, method), row.high_water_mark)


def summary(kernels: Sequence[Row]) -> list[str]:
    """The averages, and on which side estimates lie."""
    lines = []
    for label, (mean, median, theirs) in averages(kernels).items():
        lines.append(
            f"* {label} lies {mean:,.0f} % above the high-water mark on average (median "
            f"{median:,.0f} %); published: {theirs:,.0f} %."
        )
    planned = [over(row.planned, row.high_water_mark) for row in kernels]
    below = [row.name for row in kernels if min(row.dynamic, row.hybrid) < row.high_water_mark]
    alone = [over(row.safe_block, row.block_alone) for row in kernels]
    below_planned = [row.name for row in kernels if row.planned < row.high_water_mark]
    return [
        *lines,
        f"* Z_hybrid with the waves of launch and occupancy: {statistics.mean(planned):,.0f} % "
        f"(median {statistics.median(planned):,.0f} %), below the mark for "
        f"{', '.join(below_planned) or 'no kernel'}.",
        f"* Z_dynamic or Z_hybrid is below the mark for {', '.join(below) or 'no kernel'}.",
        f"* SAFE, for a block alone: {statistics.mean(alone):,.0f} % above the longest run of one "
        f"(median {statistics.median(alone):,.0f} %).",
    ]


def _write_csv(results: Results, rows: Sequence[Row]) -> None:
    """Writes our figures and the published ones, a line for each kernel."""
    head = ["kernel", *_COLUMNS, *(f"published_{name}" for name in _COLUMNS)]
    lines = []
    for row in rows:
        ours = [getattr(row, name) for name in _COLUMNS]
        theirs = [getattr(published_rows()[row.name], name) for name in _COLUMNS]
        lines.append([row.name, *ours, *theirs, row.safe_block, row.block_alone])
    results.add_csv("hybrid.csv", [*head, "safe_block", "block_alone"], lines)


# --- pictures -------------------------------------------------------------------------------------


def _draw_over_estimation(figure: Figure, kernels: Sequence[Row]) -> None:
    """Estimate over high-water mark of each kernel, ours against theirs, on a log axis."""
    published = published_rows()
    axes = figure.subplots(1, 2, sharey=True)
    places = list(range(len(kernels)))[::-1]
    for axis, (method, label) in zip(axes, METHODS, strict=True):
        ours = [1 + over(getattr(row, method), row.high_water_mark) / 100 for row in kernels]
        theirs = [1 + published_over(published[row.name], method) / 100 for row in kernels]
        axis.hlines(places, ours, theirs, color="0.8", lw=2, zorder=1)
        axis.scatter(theirs, places, marker="s", s=34, color="tab:orange", label="published")
        axis.scatter(ours, places, marker="o", s=34, color="tab:blue", label="here", zorder=3)
        axis.axvline(1, color="0.4", lw=0.8)
        axis.set_xscale("log")
        ticks = [1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0]
        set_ticks(axis, [tick for tick in ticks if tick <= 1.5 * max(*ours, *theirs)], "{x:g}x")
        axis.set_xlabel(f"{label} / high-water mark")
        axis.grid(axis="x", alpha=0.3)
    axes[0].set_yticks(places, [row.name for row in kernels])
    axes[0].legend(loc="lower right")


def _draw_convergence(figure: Figure, groups: Sequence[tuple[str, Sequence[Row]]]) -> None:
    """The high-water mark after so many runs, as a share of that after all, a panel a campaign."""
    axes = figure.subplots(1, len(groups), squeeze=False)
    for axis, (title, kernels) in zip(axes[0], groups, strict=True):
        for kernel in sorted(kernels, key=lambda one: one.marks[0] / max(one.marks)):
            highest = max(kernel.marks)
            shares = [100 * max(kernel.marks[: n + 1]) / highest for n in range(len(kernel.marks))]
            axis.step(range(1, len(shares) + 1), shares, where="post", label=kernel.name)
        axis.set_xscale("log")
        most = max(len(row.marks) for row in kernels)
        ticks = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]
        set_ticks(axis, [tick for tick in ticks if tick <= most], "{x:g}")
        axis.set_title(title)
        axis.set_xlabel("runs")
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7)
    axes[0][0].set_ylabel("high-water mark, % of that of all runs")
