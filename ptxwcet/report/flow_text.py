"""Branches and loops of kernels as text for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptxwcet.control_flow import DescribedKernel, branch_rows
from ptxwcet.flow.conditions import place_of


def render_flow_text(kernels: Sequence[DescribedKernel]) -> str:
    """A table of branches and a table of loops for each kernel. Diagnostics are printed apart."""
    return "\n".join("\n".join(_kernel(one)) + "\n" for one in kernels)


def _kernel(described: DescribedKernel) -> Iterator[str]:
    yield f"kernel     {described.kernel.name}"
    if described.refusals:
        first = described.refusals[0]
        yield f"REFUSED    [{first.code}] {first.message}"
    yield ""
    rows = branch_rows(described)
    yield from _table("branches (block, line, who goes the same way, how; taken if)", rows)
    yield ""
    yield from _table("loops (block, line, body executions an entry, why)", _loops(described))


def _loops(described: DescribedKernel) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for loop in described.forest.loops:
        note = described.notes.loops[loop.id]
        start = described.cfg.blocks[loop.header].start
        name = "  " * (loop.depth - 1) + described.cfg.name(loop.header)
        place = place_of(described.kernel.instructions[start])
        rows.append((name, place, note.bound, note.reason))
    return rows


def _table(title: str, rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    yield title if rows else f"no {title.partition(' ')[0]}"
    if not rows:
        return
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield ("  " + "  ".join(cells)).rstrip()
