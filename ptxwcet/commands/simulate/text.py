"""A simulated run as text for people."""

from __future__ import annotations

from dataclasses import astuple, fields

from ptxwcet.commands.bound.text import rendered
from ptxwcet.commands.simulate.report import RunReport, SimulatedKernel, StallRow
from ptxwcet.report.head import launch_text

_MOST_ROWS = 8
_CAUSES = tuple(field.name.replace("_", " ") for field in fields(StallRow))


def render_run_text(report: RunReport) -> str:
    """The whole report; refused kernels get one row each (their diagnostics are printed apart)."""
    return rendered(report, report.kernels, _simulated).text


def _simulated(kernel: SimulatedKernel) -> str:
    how = kernel.policy if kernel.policy != "random" else f"random, seed {kernel.seed}"
    if kernel.jitter_percent:
        how += f", timings shortened by up to {kernel.jitter_percent} %, seed {kernel.seed}"
    lines = [
        f"kernel     {kernel.kernel}",
        f"launch     {launch_text(kernel)}",
        "",
        f"RUN        {kernel.cycles:,} cycles under {how} ({kernel.microseconds:,} us)   "
        f"{kernel.guarantee}",
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
    """A table of percentages, a column a cause."""
    shown = rows[:_MOST_ROWS]
    width = max(len(name) for name, _, _ in shown)
    lines = ["", title, "  " + " " * width + "".join(f"  {cause:>10}" for cause in _CAUSES)]
    for name, row, total in shown:
        cells = [f"  {100 * cycles / total if total else 0:>10.2f}" for cycles in astuple(row)]
        lines.append(f"  {name:<{width}}" + "".join(cells))
    if len(rows) > len(shown):
        lines.append(f"  and {len(rows) - len(shown)} more (--format json lists all)")
    return lines
