"""Branches and loops of kernels as text for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptxwcet.commands.bound.loop_text import PER_ENTRY
from ptxwcet.commands.cfg.study import DescribedKernel, branch_rows
from ptxwcet.flow.graph.divergence import DivergentSet, select_divergent_edges
from ptxwcet.flow.values.condition_text import place_of
from ptxwcet.support.printable import aligned


def render_flow_text(described: DescribedKernel, shown: DivergentSet) -> str:
    """Tables of branches, loops and the divergent edges of a set for a kernel.

    Diagnostics are printed apart. Raises PtxwcetError (PW234) for too many edges.
    """
    return "\n".join(_kernel(described, shown)) + "\n"


def _kernel(described: DescribedKernel, shown: DivergentSet) -> Iterator[str]:
    yield f"kernel     {described.kernel.readable}"
    if described.refusals:
        first = described.refusals[0]
        yield f"REFUSED    [{first.code}] {first.message}"
    yield ""
    branches = branch_rows(described)
    yield from _table("branches (block, line, who goes the same way, how; taken if)", branches)
    yield ""
    yield from _table(f"loops (block, line, {PER_ENTRY}, why)", _loops(described))
    if shown is not DivergentSet.NONE:
        yield ""
        yield from _table("divergent edges (from, to, which kind)", _edges(described, shown))


def _edges(described: DescribedKernel, shown: DivergentSet) -> list[tuple[str, ...]]:
    cfg = described.cfg
    found = select_divergent_edges(described.flow, shown)
    return [(cfg.name(p), cfg.name(s), one.value) for (p, s), one in found.edges.items()]


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
    yield title if rows else f"no {title.partition(' (')[0]}"
    if not rows:
        return
    yield from (f"  {line}".rstrip() for line in aligned(rows))
