"""Parametric bounds as text for people: a row for each part of the range."""

from __future__ import annotations

from collections.abc import Sequence

from ptxwcet.commands.bound.report import rests_on
from ptxwcet.commands.bound.symbolic import FormulaRowData, SymbolicKernel, SymbolicReport
from ptxwcet.commands.bound.text import Rendered, rendered
from ptxwcet.report.head import launch_text

_MOST_ROWS = 40


def render_symbolic_text(report: SymbolicReport) -> Rendered:
    """Returns the whole report; see :func:`ptxwcet.commands.bound.text.render_text`."""
    return rendered(report, report.kernels, _bounded)


def _bounded(kernel: SymbolicKernel) -> str:
    is_plain = kernel.name == kernel.parameter or kernel.parameter.startswith("_Z")
    name = kernel.name if is_plain else f"{kernel.name} ({kernel.parameter})"
    stated = f"{name} in {kernel.low:,}..{kernel.high:,}"
    lines = [
        f"kernel     {kernel.kernel}",
        f"launch     {launch_text(kernel)}",
        "",
        *_launch(kernel, stated),
        f"BOUND      cycles for any one block alone on its SM, for each {stated}   "
        f"{kernel.guarantee}",
        *_rows(kernel.rows, kernel.name),
        f"largest    {kernel.largest_cycles:,} cycles ({kernel.microseconds:,} us), "
        f"at {kernel.name} = {kernel.largest_at:,}",
    ]
    head = "safe under" if kernel.guarantee == "safe-bound" else "holds only if"
    launch = None if kernel.launch is None else kernel.launch.assumptions
    return "\n".join([*lines, "", head, *rests_on(kernel.assumptions, launch)])


def _launch(kernel: SymbolicKernel, stated: str) -> list[str]:
    launch = kernel.launch
    if launch is None:
        reason = kernel.launch_not_bounded
        return [f"KERNEL     not bounded as a whole: {reason}"] if reason else []
    return [
        f"KERNEL     cycles for all blocks of the launch, for each {stated}   {launch.guarantee}",
        *_rows(launch.rows, kernel.name),
        f"           not exact: the launch with one {kernel.name} alone may have a smaller bound",
        f"largest    {launch.largest_cycles:,} cycles ({launch.microseconds:,} us), "
        f"at {kernel.name} = {launch.largest_at:,}",
        "",
    ]


def _rows(rows: Sequence[FormulaRowData], name: str) -> list[str]:
    places = [_place(formula, name) for formula in rows]
    width = max(map(len, places))
    lines = []
    for place, formula in zip(places, rows, strict=True):
        lines.append(f"  {place:<{width}}  {formula.text[0]}")
        lines += [f"  {'':<{width}}    {line}" for line in formula.text[1:]]
    if len(lines) > _MOST_ROWS:
        hidden = len(lines) - _MOST_ROWS
        lines[_MOST_ROWS:] = [f"  and {hidden:,} more lines (--format json lists all)"]
    return lines


def _place(row: FormulaRowData, name: str) -> str:
    first, last = f"{row.first:,}", f"{row.last:,}"
    return f"{name} = {first}" if first == last else f"{name} = {first} to {last}"
