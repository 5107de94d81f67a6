"""The page of the hybrid experiment: tables and pictures of its rows."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hybrid_kernels import CLASSES, Published, hybrid_kernels
from hybrid_notes import DIFFERENCES, INTRODUCTION, PARAMETERS, SHARES, VARIATION
from hybrid_rows import Row, over

PUBLISHED = {kernel.name: kernel.published for kernel in hybrid_kernels()}
METHODS = (("dynamic", "Z_dynamic"), ("hybrid", "Z_hybrid"))


def table_2(rows: Sequence[Row]) -> list[str]:
    """The layout of the published table, with its percentages beside ours."""
    lines = [
        "| kernel | Z_HWM | Z_warp | Z_dynamic | difference | *published* | Z_hybrid | difference "
        "| *published* | SAFE, a block | block alone | difference |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        theirs = PUBLISHED[row.name]
        cells = [
            row.name,
            f"{row.high_water_mark:,}",
            f"{row.warp:,}",
            f"{row.dynamic:,}",
            percent(over(row.dynamic, row.high_water_mark)),
            f"*{percent(published_over(theirs, 'dynamic'))}*",
            f"{row.hybrid:,}",
            percent(over(row.hybrid, row.high_water_mark)),
            f"*{percent(published_over(theirs, 'hybrid'))}*",
            f"{row.safe_block:,}",
            f"{row.block_alone:,}",
            percent(over(row.safe_block, row.block_alone)),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def percent(value: float) -> str:
    """As in the published table: whole percents, ``< 1 %`` for less than one."""
    if 0 < value < 1:
        return "< 1 %"
    return f"{round(value):,} %"


def parameters(rows: Sequence[Row]) -> list[str]:
    """What equations (1) and (2) were given, and what launch and occupancy say instead."""
    lines = [
        "| kernel | inputs | traces | events | blocks | resident | jitter | Omega | phi | Delta "
        "| Omega, phi, Delta planned | Z_hybrid planned | difference | transitions seen |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        cells = [
            row.name,
            f"{len(row.marks)}",
            f"{row.traces}",
            f"{row.events:,}",
            f"{row.blocks}",
            f"{row.resident_blocks}",
            f"{row.release_jitter:,}",
            f"{row.waves}",
            f"{row.warps_per_wave}",
            f"{row.start_gap:,}",
            f"{row.planned_waves}, {row.planned_warps}, {row.planned_gap}",
            f"{row.planned:,}",
            percent(over(row.planned, row.high_water_mark)),
            f"{row.transitions_seen}/{row.transitions}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def where_time_goes(rows: Sequence[Row]) -> list[str]:
    """Z_warp against warps that were seen, and its shares."""
    lines = [
        "| kernel | longest warp | Z_warp | difference | loops | barriers | likely Z_warp "
        "| difference |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        cells = [
            row.name,
            f"{row.longest_warp:,}",
            f"{row.warp:,}",
            percent(over(row.warp, row.longest_warp)),
            f"{row.loop_share:.0%}",
            f"{row.barrier_share:.0%}",
            f"{row.likely_warp:,}",
            percent(over(row.likely_warp, row.longest_warp)),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def by_kind(rows: Sequence[Row]) -> list[str]:
    """The longest run with each kind of input, of the kernels whose runs differ."""
    kinds = list(dict.fromkeys(CLASSES))
    lines = [f"| kernel | {' | '.join(kinds)} |", f"|---|{'--:|' * len(kinds)}"]
    for row in rows:
        cells = []
        for kind in kinds:
            marks = [m for m, of in zip(row.marks, row.kinds, strict=True) if of == kind]
            cells.append(f"{max(marks):,}" if marks else "")
        if len(set(row.marks)) > 1:
            lines.append(f"| {row.name} | {' | '.join(cells)} |")
    return lines


def averages(rows: Sequence[Row]) -> dict[str, tuple[float, float, float]]:
    """Mean and median over-estimation of a method, ours, and the published mean, percent."""
    found = {}
    for method, label in METHODS:
        ours = [over(getattr(row, method), row.high_water_mark) for row in rows]
        theirs = [published_over(PUBLISHED[row.name], method) for row in rows]
        found[label] = (statistics.mean(ours), statistics.median(ours), statistics.mean(theirs))
    return found


def published_over(row: Published, method: str) -> float:
    """The published over-estimation, from the cycles: two percentages are misprinted."""
    return over(getattr(row, method), row.high_water_mark)


# --- files ----------------------------------------------------------------------------------------


def write_csv(rows: Sequence[Row], path: Path) -> None:
    """Ours and theirs, a line a kernel."""
    names = ("high_water_mark", "warp", "dynamic", "hybrid")
    head = ["kernel", *names, *(f"published_{name}" for name in names), "safe_block", "block_alone"]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(head)
        for row in rows:
            ours = [getattr(row, name) for name in names]
            theirs = [getattr(PUBLISHED[row.name], name) for name in names]
            writer.writerow([row.name, *ours, *theirs, row.safe_block, row.block_alone])


def draw_over_estimation(rows: Sequence[Row], path: Path) -> None:
    """Estimate over high-water mark of each kernel, ours against theirs, on a log axis."""
    pyplot = plotting()
    figure, axes = pyplot.subplots(1, 2, figsize=(11, 7.2), sharey=True)
    places = list(range(len(rows)))[::-1]
    for axis, (method, label) in zip(axes, METHODS, strict=True):
        ours = [1 + over(getattr(row, method), row.high_water_mark) / 100 for row in rows]
        theirs = [1 + published_over(PUBLISHED[row.name], method) / 100 for row in rows]
        axis.hlines(places, ours, theirs, color="0.8", lw=2, zorder=1)
        axis.scatter(theirs, places, marker="s", s=34, color="tab:orange", label="published")
        axis.scatter(ours, places, marker="o", s=34, color="tab:blue", label="here", zorder=3)
        axis.axvline(1, color="0.4", lw=0.8)
        axis.set_xscale("log")
        ticks = [1, 2, 3, 5, 10, 20, 50]
        axis.set_xticks([tick for tick in ticks if tick <= 1.5 * max(*ours, *theirs)])
        axis.xaxis.set_major_formatter("{x:g}x")
        axis.minorticks_off()
        axis.set_xlabel(f"{label} / high-water mark")
        axis.grid(axis="x", alpha=0.3)
    axes[0].set_yticks(places, [row.name for row in rows])
    axes[0].legend(loc="lower right")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def draw_convergence(groups: Sequence[tuple[str, Sequence[Row]]], path: Path) -> None:
    """The high-water mark after so many runs, as a share of that after all, a panel a campaign."""
    pyplot = plotting()
    figure, axes = pyplot.subplots(1, len(groups), figsize=(5.5 * len(groups), 4.2), squeeze=False)
    for axis, (title, rows) in zip(axes[0], groups, strict=True):
        for row in sorted(rows, key=lambda one: one.marks[0] / max(one.marks)):
            highest = max(row.marks)
            shares = [100 * max(row.marks[: n + 1]) / highest for n in range(len(row.marks))]
            axis.step(range(1, len(shares) + 1), shares, where="post", label=row.name)
        axis.set_xscale("log")
        axis.set_xticks([1, 2, 5, 10, 20, 50, 100])
        axis.xaxis.set_major_formatter("{x:g}")
        axis.minorticks_off()
        axis.set_title(title)
        axis.set_xlabel("runs")
        axis.grid(alpha=0.3)
        if rows:
            axis.legend(fontsize=7)
    axes[0][0].set_ylabel("high-water mark, % of that of all runs")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def plotting() -> Any:
    """matplotlib without a screen."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


# --- page -----------------------------------------------------------------------------------------


def summary(rows: Sequence[Row]) -> list[str]:
    """The averages, and on which side estimates lie."""
    lines = []
    for label, (mean, median, theirs) in averages(rows).items():
        lines.append(
            f"* {label} lies {mean:,.0f} % above the high-water mark on average (median "
            f"{median:,.0f} %); published: {theirs:,.0f} %."
        )
    planned = [over(row.planned, row.high_water_mark) for row in rows]
    below = [row.name for row in rows if min(row.dynamic, row.hybrid) < row.high_water_mark]
    alone = [over(row.safe_block, row.block_alone) for row in rows]
    below_planned = [row.name for row in rows if row.planned < row.high_water_mark]
    return [
        *lines,
        f"* Z_hybrid with the waves of launch and occupancy: {statistics.mean(planned):,.0f} % "
        f"(median {statistics.median(planned):,.0f} %), below the mark for "
        f"{', '.join(below_planned) or 'no kernel'}.",
        f"* Z_dynamic or Z_hybrid is below the mark for {', '.join(below) or 'no kernel'}.",
        f"* SAFE, for a block alone: {statistics.mean(alone):,.0f} % above the longest run of one "
        f"(median {statistics.median(alone):,.0f} %).",
    ]


def page(rows: Sequence[Row], varied: Sequence[Row], command: str) -> str:
    """The results as Markdown."""
    lines = [
        "# Hybrid analysis: the kernels of Betts and Donaldson",
        "",
        f"`{command}`",
        "",
        INTRODUCTION,
        "## Table II",
        "",
        *table_2(rows),
        "",
        *summary(rows),
        "",
        "![over-estimation, here and published](hybrid-overestimation.png)",
        "",
        "## What the equations were given",
        "",
        PARAMETERS,
        *parameters(rows),
        "",
        "## Where the time of Z_warp goes",
        "",
        SHARES,
        *where_time_goes(rows),
        "",
        "## The longest run by kind of input",
        "",
        *by_kind(rows),
        "",
        "All runs of the other kernels take the same time.",
        "",
        "## The big differences",
        "",
        DIFFERENCES,
        "## Varied latencies",
        "",
        VARIATION,
        *table_2(varied),
        "",
        "![convergence of the high-water mark](hybrid-convergence.png)",
        "",
        "Data: [hybrid.csv](hybrid.csv) (the table), [hybrid.json](hybrid.json) (everything, with "
        "the high-water mark of every run).",
    ]
    return "\n".join([*lines, ""])
