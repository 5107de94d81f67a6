"""Parametric bounds as text for people: a row for each stretch of the range."""

from __future__ import annotations

from ptxwcet.report.head import head_text
from ptxwcet.report.symbolic_model import FormulaRowData, SymbolicKernel, SymbolicReport
from ptxwcet.report.text import kernel_texts
from ptxwcet.support.diagnostics import Diagnostic

_MOST_ROWS = 40


def render_symbolic_text(report: SymbolicReport, failures: list[Diagnostic] | None = None) -> str:
    """The whole report; see :func:`ptxwcet.report.text.render_text`."""
    texts = kernel_texts(report.kernels, _bounded, failures)
    return "\n\n".join([head_text(report), *texts]) + "\n"


def _bounded(kernel: SymbolicKernel) -> str:
    block = "x".join(map(str, kernel.block))
    grid = "any grid" if kernel.grid is None else f"grid {'x'.join(map(str, kernel.grid))}"
    plural = "" if kernel.warp_count == 1 else "s"
    values = ", ".join(f"{name}={value}" for name, value in kernel.parameters)
    is_plain = kernel.name == kernel.parameter or kernel.parameter.startswith("_Z")
    name = kernel.name if is_plain else f"{kernel.name} ({kernel.parameter})"
    lines = [
        f"kernel     {kernel.kernel}",
        f"launch     block {block} ({kernel.warp_count} warp{plural}), {grid}"
        + (f"; {values}" if values else ""),
        "",
        f"BOUND      cycles for any one block alone on its SM, for each {name} in "
        f"{kernel.low:,}..{kernel.high:,}   {kernel.guarantee}",
    ]
    lines += _rows(kernel)
    lines.append(
        f"largest    {kernel.largest_cycles:,} cycles ({kernel.microseconds:,} us), "
        f"at {kernel.name} = {kernel.largest_at:,}"
    )
    head = "safe under" if kernel.guarantee == "safe-bound" else "holds only if"
    lines += ["", head, *(f"  - {a.text} [{a.state}]" for a in kernel.assumptions)]
    return "\n".join(lines)


def _rows(kernel: SymbolicKernel) -> list[str]:
    places = [_place(row, kernel.name) for row in kernel.rows]
    width = max(map(len, places))
    lines = []
    for place, row in zip(places, kernel.rows, strict=True):
        lines.append(f"  {place:<{width}}  {row.text[0]}")
        lines += [f"  {'':<{width}}    {line}" for line in row.text[1:]]
    if len(lines) > _MOST_ROWS:
        hidden = len(lines) - _MOST_ROWS
        lines[_MOST_ROWS:] = [f"  and {hidden:,} more lines (--format json lists all)"]
    return lines


def _place(row: FormulaRowData, name: str) -> str:
    first, last = f"{row.first:,}", f"{row.last:,}"
    return f"{name} = {first}" if first == last else f"{name} = {first} to {last}"
