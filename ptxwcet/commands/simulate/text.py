"""A simulated run as text for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, fields

from ptxwcet.commands.bound.text import rendered
from ptxwcet.commands.simulate.report import RunReport, SimulatedKernel, StallRow
from ptxwcet.report.head import Refused, launch_text

_MOST_ROWS = 8
_CAUSES = tuple(field.name.replace("_", " ") for field in fields(StallRow))


def render_run_text(report: RunReport) -> str:
    """Returns the report; a refused kernel has one row (diagnostics are printed elsewhere)."""
    by_kernel: dict[str, list[SimulatedKernel | Refused]] = {}
    for row in report.kernels:
        by_kernel.setdefault(row.kernel, []).append(row)
    others = {rows[0].readable: rows[1:] for rows in by_kernel.values()}
    firsts = [rows[0] for rows in by_kernel.values()]
    return rendered(report, firsts, lambda row: _simulated(row, others[row.readable])).text


def _run_line(kernel: SimulatedKernel) -> str:
    how = kernel.policy if kernel.policy != "random" else f"random, seed {kernel.seed}"
    if kernel.jitter_percent:
        how += f", timings shortened by up to {kernel.jitter_percent} %, seed {kernel.seed}"
    return (
        f"RUN        {kernel.cycles:,} cycles under {how} ({kernel.microseconds:,} us)   "
        f"{kernel.guarantee}"
    )


def _simulated(kernel: SimulatedKernel, others: Sequence[SimulatedKernel | Refused]) -> str:
    """Returns the text of a run; with several policies, only their cycles."""
    lines = [
        f"kernel     {kernel.kernel}",
        f"launch     {launch_text(kernel)}",
        "",
        _run_line(kernel),
    ]
    if others:
        lines += (_run_line(other) for other in others if isinstance(other, SimulatedKernel))
        return "\n".join(
            [*lines, "", "next       --policy NAME shows where the cycles of one went"]
        )
    lines += [
        f"issue      {kernel.instructions:,} instructions, "
        f"{kernel.issue_utilisation_percent} % of the issue slots"
        + (
            f"; {kernel.stepped:,} stepped, the rest repeats exactly"
            if kernel.stepped < kernel.instructions
            else ""
        ),
    ]
    if kernel.block_ranges > 1:
        lines.append(f"blocks     the longest run of {kernel.block_ranges} kinds of blocks")
    if kernel.is_resolved:
        lines.append("path       the analysis leaves decisions open: one possible path was run")
    total = sum(astuple(kernel.all_warps))
    lines += _shares([("all warps", kernel.all_warps, total)], "where the cycles went (%)")
    lines += _shares(
        [(f"warp {w.warp}", w.cycles, kernel.cycles) for w in kernel.warps],
        "by warp (% of the block's cycles)",
    )
    lines += _shares(
        [
            (
                f"from {s.begins}, {s.executions:,} x" if s.begins != "start" else "from the start",
                s.cycles,
                total,
            )
            for s in kernel.sections
        ],
        "by code between barriers (% of all warps' cycles)",
    )
    return "\n".join(lines)


def _shares(rows: list[tuple[str, StallRow, int]], title: str) -> list[str]:
    """Returns a table of percentages, a column a cause."""
    shown = rows[:_MOST_ROWS]
    width = max(len(name) for name, _, _ in shown)
    lines = ["", title, "  " + " " * width + "".join(f"  {cause:>10}" for cause in _CAUSES)]
    for name, row, total in shown:
        cells = [f"  {100 * cycles / total if total else 0:>10.2f}" for cycles in astuple(row)]
        lines.append(f"  {name:<{width}}" + "".join(cells))
    if len(rows) > len(shown):
        lines.append(f"  and {len(rows) - len(shown)} more (--format json lists all)")
    return lines
