"""Tables and pictures of the multi-phase protocol, the paper's figures beside ours."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from experiments.ecrts2025_paper import TABLE_3, VERSIONS, published_4
from experiments.experiment import Results
from experiments.pictures import set_ticks
from experiments.protocol import METHODS, POLICIES, READINGS, Comparison, Reading

if TYPE_CHECKING:
    from experiments.pictures import Figure

_COLOURS = ("C0", "C1", "C2", "C3")


def write_report(
    results: Results, table_4: Sequence[Comparison], table_3: Sequence[Comparison]
) -> None:
    """Adds both tables, as text, data and pictures."""
    every = [*table_4, *table_3]
    runs = [(comparison, cycles) for comparison in every for cycles in comparison.runs.values()]
    outside = sum(not c.bounds["lower"] <= cycles <= c.bounds["safe"] for c, cycles in runs)
    above_gub = sum(cycles > c.bounds["gub"] for c, cycles in runs)
    results.say(
        "Percentages are over-estimations, 100 (bound / simulated cycles - 1). Columns of the "
        "paper are its GUB against its simulator. *Lower* is the same of the run over the lower "
        "bound.",
        f"{len(runs)} runs: SAFE or the lower bound violated in {outside}, GUB exceeded in "
        f"{above_gub}.",
    )
    _write_4(results, table_4)
    _write_3(results, table_3)


def _write_csv(results: Results, name: str, comparisons: Sequence[Comparison]) -> None:
    policies = [policy.value for policy in POLICIES]
    head = ["kernel", "block", "warps", "memory_latency", *METHODS, *policies]
    head += ["single_warp_profile", "single_warp_simulated", "reading"]
    rows = []
    for one in comparisons:
        cells: list[object] = [one.kernel, one.block, one.warps, one.latency]
        cells += [one.bounds[method] for method in METHODS] + [one.runs[name] for name in policies]
        reading = "" if one.reading is None else one.reading.name
        rows.append([*cells, one.profile, one.simulated, reading])
    results.add_csv(name, head, rows)


# --- Table 4 --------------------------------------------------------------------------------------


def _write_4(results: Results, comparisons: Sequence[Comparison]) -> None:
    _write_csv(results, "table4.csv", comparisons)
    results.say(
        "## Table 4: SGEMM with fewer and fewer warps",
        'The paper multiplies a matrix of "1024*number_of_threads" by one of '
        '"number_of_threads*1024", and does not print its codes: how it varies the number of warps '
        "is open. Three readings, and how far GUB under LRR lies from the paper's figures in all "
        "cells, in points ([table4.csv](table4.csv)):",
    )
    head = ["reading", *(f"{v.replace('_', ' ')}, {what}" for v in VERSIONS for what in _APART)]
    results.add_table(head, [_apart(reading, comparisons) for reading in READINGS])
    nearest = [one for one in comparisons if one.reading is READINGS[0]]
    for version in VERSIONS:
        title = version.replace("_", " ")
        chosen = [one for one in nearest if one.kernel == version]
        results.say(f"### {title}, LRR: {READINGS[0].says}")
        results.add_table(*_beside_paper(version, chosen))
        results.say(f"### {title}, not in the paper")
        results.add_table(*_beyond_paper(chosen))
    results.say("### The other readings: GUB under LRR with 4 warps")
    results.add_table(*_few_warps(comparisons))
    results.add_picture(
        "table4.png",
        "over-estimation of SGEMM",
        (11, 4.2),
        lambda figure: _draw_4(figure, nearest),
    )


_APART = ("mean", "most")


def _apart(reading: Reading, comparisons: Sequence[Comparison]) -> list[str]:
    """How far a reading lies from the paper: mean and largest distance of each version."""
    cells = [reading.says]
    for version in VERSIONS:
        apart = [
            abs(one.over("gub", "lrr") - published_4(version, one.latency, one.warps))
            for one in comparisons
            if one.reading is reading and one.kernel == version
        ]
        cells += [f"{statistics.fmean(apart):.1f}", f"{max(apart):.1f}"]
    return cells


_Rows = tuple[list[str], list[list[str]]]


def _grid(
    comparisons: Sequence[Comparison],
) -> tuple[list[int], list[int], dict[tuple[int, int], Comparison]]:
    """Warps and latencies, both falling, and the comparison of each pair."""
    cells = {(one.warps, one.latency): one for one in comparisons}
    warps = sorted({key[0] for key in cells}, reverse=True)
    return warps, sorted({key[1] for key in cells}, reverse=True), cells


def _beside_paper(version: str, comparisons: Sequence[Comparison]) -> _Rows:
    warps, latencies, cells = _grid(comparisons)
    head = ["latency", *(f"{w}: {what}" for w in warps for what in ("paper", "GUB", "SAFE"))]
    lines = []
    for latency in latencies:
        line = [str(latency)]
        for count in warps:
            cell = cells[count, latency]
            line.append(f"{published_4(version, latency, count):.2f}")
            line += [f"{cell.over(method, 'lrr'):.2f}" for method in ("gub", "safe")]
        lines.append(line)
    return head, lines


def _beyond_paper(comparisons: Sequence[Comparison]) -> _Rows:
    warps, latencies, cells = _grid(comparisons)
    columns = ("SAFE, GTO", "lower, LRR", "lower, GTO")
    head = ["latency", *(f"{count}: {what}" for count in warps for what in columns)]
    lines = []
    for latency in latencies:
        line = [str(latency)]
        for count in warps:
            cell = cells[count, latency]
            values = (cell.over("safe", "gto"), cell.above_lower("lrr"), cell.above_lower("gto"))
            line += [f"{value:.2f}" for value in values]
        lines.append(line)
    return head, lines


def _few_warps(comparisons: Sequence[Comparison]) -> _Rows:
    fewest = min(one.warps for one in comparisons)
    chosen = [one for one in comparisons if one.warps == fewest]
    head = ["latency"]
    head += [f"{v.replace('_', ' ')}: {n}" for v in VERSIONS for n in ("paper", *_READING_NAMES)]
    lines = []
    for latency in sorted({one.latency for one in chosen}, reverse=True):
        line = [str(latency)]
        for version in VERSIONS:
            line.append(f"{published_4(version, latency, fewest):.2f}")
            line += [
                f"{one.over('gub', 'lrr'):.2f}"
                for reading in READINGS
                for one in chosen
                if (one.reading, one.kernel, one.latency) == (reading, version, latency)
            ]
        lines.append(line)
    return head, lines


_READING_NAMES = tuple(reading.name for reading in READINGS)


def _draw_4(figure: Figure, comparisons: Sequence[Comparison]) -> None:
    panels = figure.subplots(1, len(VERSIONS))
    for panel, version in zip(panels, VERSIONS, strict=True):
        chosen = [one for one in comparisons if one.kernel == version]
        warps, latencies, cells = _grid(chosen)
        latencies.reverse()
        for count, colour in zip(warps, _COLOURS, strict=False):
            ours = [cells[count, latency].over("gub", "lrr") for latency in latencies]
            theirs = [published_4(version, latency, count) for latency in latencies]
            panel.plot(latencies, ours, f"{colour}o-", ms=4, label=f"{count} warps")
            panel.plot(latencies, theirs, f"{colour}x--", alpha=0.6, ms=5)
        panel.plot([], [], "ko-", ms=4, label="ours")
        panel.plot([], [], "kx--", alpha=0.6, label="paper")
        panel.set_xscale("log")
        set_ticks(panel, [*map(float, latencies)], [*map(str, latencies)])
        panel.set_ylim(bottom=0)
        panel.set_title(f"SGEMM, {version.replace('_', ' ')}: GUB under LRR")
        panel.set_xlabel("global-memory latency (cycles)")
        panel.set_ylabel("over-estimation (%)")
        panel.grid(alpha=0.3)
    panels[0].legend(fontsize=8, loc="lower right", ncols=3)


# --- Table 3 --------------------------------------------------------------------------------------


def _write_3(results: Results, comparisons: Sequence[Comparison]) -> None:
    _write_csv(results, "table3.csv", comparisons)
    latencies = sorted({one.latency for one in comparisons}, reverse=True)
    results.say(
        f"## Table 3: {len(comparisons) // len(latencies)} kernel calls of the samples",
        "The paper's columns are of 583 kernel calls of Rodinia. *Weighted*: by the length of a "
        'run. "S.w." compares the profile of a single warp with its simulation. '
        "[table3.csv](table3.csv)",
    )
    statistic = ("mean", "max", "weighted", "std")
    head = [
        "latency",
        "policy",
        *(f"{by} {s}" for by in ("paper", "GUB", "SAFE") for s in statistic),
    ]
    lines = []
    for latency in latencies:
        chosen = [one for one in comparisons if one.latency == latency]
        for policy in POLICIES:
            lines.append([str(latency), policy.value.upper(), *_statistics(chosen, policy.value)])
        worst = max(100 * (one.profile / one.simulated - 1) for one in chosen)
        lines.append([str(latency), "S.w.", *[""] * 8, f"{worst:.2f}", f"{worst:.2f}", *[""] * 4])
    results.add_table([*head, "lower mean", "lower max"], lines)
    results.add_picture(
        "table3.png",
        "over-estimation of all samples",
        (11, 4.2),
        lambda figure: _draw_3(figure, comparisons),
    )


def _statistics(comparisons: Sequence[Comparison], policy: str) -> list[str]:
    """Cells of a row of Table 3: the paper's, those of GUB and of SAFE, the runs over the lower."""
    values = list(TABLE_3[comparisons[0].latency, policy])
    total = sum(one.runs[policy] for one in comparisons)
    for method in ("gub", "safe"):
        over = [one.over(method, policy) for one in comparisons]
        weighted = sum(x * one.runs[policy] for x, one in zip(over, comparisons, strict=True))
        values += [statistics.fmean(over), max(over), weighted / total, statistics.pstdev(over)]
    below = [one.above_lower(policy) for one in comparisons]
    return [f"{value:.2f}" for value in (*values, statistics.fmean(below), max(below))]


def _draw_3(figure: Figure, comparisons: Sequence[Comparison]) -> None:
    panel = figure.subplots()
    latencies = sorted({one.latency for one in comparisons})
    for offset, policy, colour in ((-0.2, "lrr", "C0"), (0.2, "gto", "C1")):
        values = [
            [one.over("safe", policy) for one in comparisons if one.latency == latency]
            for latency in latencies
        ]
        places = [number + offset for number in range(len(latencies))]
        boxes = panel.boxplot(
            values, positions=places, widths=0.32, patch_artist=True, whis=(0, 100)
        )
        for box in boxes["boxes"]:
            box.set(facecolor=colour, alpha=0.4)
        for line in boxes["medians"]:
            line.set(color="black")
        paper = [TABLE_3[latency, policy][0] for latency in latencies]
        panel.plot(places, paper, f"{colour}D", ms=6, label=f"{policy.upper()}: paper's mean")
        means = [statistics.fmean(some) for some in values]
        label = f"{policy.upper()}: our mean"
        panel.plot(places, means, "o", mfc="white", mec=colour, ms=6, label=label)
    panel.set_xticks(range(len(latencies)), [str(latency) for latency in latencies])
    panel.set_xlabel("global-memory latency (cycles)")
    panel.set_ylabel("over-estimation of SAFE (%)")
    panel.set_title("All bounded samples: median, quartiles, extremes")
    panel.grid(axis="y", alpha=0.3)
    panel.legend(fontsize=8)
