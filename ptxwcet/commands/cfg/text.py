"""Branches and loops of kernels as text for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptxwcet.commands.bound.loop_text import PER_ENTRY, loop_place
from ptxwcet.commands.cfg.study import DescribedKernel, branch_rows
from ptxwcet.flow.graph.control_flow import ControlFlow
from ptxwcet.flow.graph.divergence import DivergentSet, select_divergent_edges
from ptxwcet.flow.paths.dot import source_lines
from ptxwcet.ir.kernel import Kernel
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


def render_machine_code(kernel: Kernel) -> str:
    """Returns tables of blocks, loops and barriers of machine code without a launch.

    Raises PtxwcetError for a refused kernel.
    """
    return "\n".join(_machine_code(ControlFlow.of(kernel))) + "\n"


def _machine_code(flow: ControlFlow) -> Iterator[str]:
    kernel, cfg, code = flow.kernel, flow.cfg, flow.kernel.code
    assert code is not None
    yield f"kernel     {kernel.readable}"
    yield f"registers  {code.registers} a thread, and {code.local_bytes} bytes of local memory"
    yield f"shared     {kernel.shared_bytes} bytes a block"
    for keyword, threads in (
        ("requires", kernel.required_threads),
        ("at most", kernel.max_threads),
    ):
        if threads is not None:
            yield f"block      {keyword} {'x'.join(map(str, threads))}"
    for parameter, at in zip(kernel.parameters, code.parameters_at, strict=True):
        yield f"parameter  {parameter.index}: {parameter.size_bytes} bytes at c[0x0][{at:#x}]"
    yield ""
    yield from _table("blocks (name, where, leads to)", list(_blocks(flow)))
    yield ""
    loops = [
        ("  " * (loop.depth - 1) + cfg.name(loop.header), str(len(loop.body)))
        for loop in flow.forest.loops
    ]
    yield from _table("loops (block, number of blocks)", loops)
    yield ""
    barriers = [
        (f"{code.encoded[index].address:#06x}", kernel.instructions[index].span.text)
        for index in cfg.barriers
    ]
    yield from _table("barriers (address, as written)", barriers)


def _blocks(flow: ControlFlow) -> Iterator[tuple[str, ...]]:
    cfg = flow.cfg
    for block in cfg.blocks[:-1]:
        ways = []
        for successor in cfg.successors[block.id]:
            is_taken = successor == cfg.taken[block.id] and cfg.has_two_ways(block.id)
            ways.append(cfg.name(successor) + (" (taken)" if is_taken else ""))
        where = ", ".join(source_lines(flow.kernel, block.start, block.end))
        yield cfg.name(block.id), where, ", ".join(ways) or "unreachable"


def _edges(described: DescribedKernel, shown: DivergentSet) -> list[tuple[str, ...]]:
    cfg = described.cfg
    found = select_divergent_edges(described.flow, shown)
    return [(cfg.name(p), cfg.name(s), one.value) for (p, s), one in found.edges.items()]


def _loops(described: DescribedKernel) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for loop in described.forest.loops:
        note = described.notes.loops[loop.id]
        name = "  " * (loop.depth - 1) + described.cfg.name(loop.header)
        rows.append((name, loop_place(described.flow, loop), note.bound, note.reason))
    return rows


def _table(title: str, rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    yield title if rows else f"no {title.partition(' (')[0]}"
    if not rows:
        return
    yield from (f"  {line}".rstrip() for line in aligned(rows))
