"""Natural loops with their nesting, and irreducible regions.

An edge whose target dominates its source is a *back edge*; its target is a *header*, its source a
*latch*. The natural loop of a header is the header and every block that reaches one of its latches
without passing it; the back edges to one header make one loop. Loops are disjoint or nested.

What cycles remain when the back edges are removed have several entries, none of which dominates the
others. Their strongly connected components are the *irreducible regions*: no bound is attempted on
them, they are named and refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NewType

from ptxwcet.flow.graph.cfg import BlockId, ControlFlowGraph, Edge, transpose
from ptxwcet.flow.graph.dominance import DominatorTree
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.graph import cyclic_components
from ptxwcet.support.records import dataclass

LoopId = NewType("LoopId", int)

MAX_LOOP_DEPTH = 200
"""Deepest nest accepted: written kernels stay below 10; bodies cost depth times blocks to store."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A natural loop. ``depth`` is 1 for an outermost loop; ``body`` contains the header.

    ``exits`` are the edges that leave the body, by source and in successor order. ``children`` are
    the loops directly inside.
    """

    id: LoopId
    header: BlockId
    latches: tuple[BlockId, ...]
    body: frozenset[BlockId]
    parent: LoopId | None
    depth: int
    exits: tuple[Edge, ...]
    children: tuple[LoopId, ...] = ()


@dataclass(frozen=True, slots=True)
class IrreducibleRegion:
    """A cycle, or several entangled, with more than one entry. Blocks and entries ascend."""

    blocks: tuple[BlockId, ...]
    entries: tuple[BlockId, ...]


@dataclass(frozen=True, slots=True)
class LoopForest:
    """The loops of a graph, outer before inner; ``loops[i].id == i``.

    ``loop_of[b]`` is the innermost loop around block ``b``.
    """

    loops: tuple[Loop, ...]
    loop_of: tuple[LoopId | None, ...]
    irreducible: tuple[IrreducibleRegion, ...]
    back_edges: frozenset[Edge]

    @property
    def is_reducible(self) -> bool:
        """Whether every cycle is a natural loop."""
        return not self.irreducible

    def loop_at(self, header: BlockId) -> Loop | None:
        """The loop whose header is ``header``. Cost: O(1)."""
        loop = self.innermost(header)
        return loop if loop is not None and loop.header == header else None

    def innermost(self, block: BlockId) -> Loop | None:
        """The innermost loop around ``block``. Cost: O(1)."""
        loop = self.loop_of[block]
        return None if loop is None else self.loops[loop]

    def around(self, block: BlockId) -> Iterable[Loop]:
        """The loops around ``block``, innermost first."""
        loop = self.innermost(block)
        while loop is not None:
            yield loop
            loop = None if loop.parent is None else self.loops[loop.parent]


def find_loops(cfg: ControlFlowGraph, dominators: DominatorTree) -> LoopForest:
    """All natural loops and irreducible regions.

    Cost: linear in edges times nesting depth. Raises PtxwcetError (PW231) for a nest deeper than
    ``MAX_LOOP_DEPTH``.
    """
    rank = [-1] * len(cfg.blocks)
    for position, block in enumerate(cfg.reverse_postorder):
        rank[block] = position
    retreating = [(u, v) for u, v in cfg.edges() if rank[v] <= rank[u]]
    back_edges = frozenset(e for e in retreating if dominators.dominates(e[1], e[0]))
    latches: dict[BlockId, list[BlockId]] = {}
    for source, header in sorted(back_edges):
        latches.setdefault(header, []).append(source)
    headers = sorted(latches, key=lambda block: rank[block])
    parents, loop_of = _nest(cfg, headers, latches)
    loops = _materialise(cfg, headers, latches, parents, loop_of)
    # Every retreating edge of a reducible graph is a back edge (Hecht and Ullman), so the
    # search for irreducible regions is needed only if one is not.
    entangled = len(back_edges) < len(retreating)
    regions = _irreducible_regions(cfg, back_edges) if entangled else ()
    return LoopForest(loops, tuple(loop_of), regions, back_edges)


_Nesting = tuple[list[LoopId | None], list[LoopId | None]]


def _nest(
    cfg: ControlFlowGraph, headers: Sequence[BlockId], latches: dict[BlockId, list[BlockId]]
) -> _Nesting:
    """Parent of each loop and innermost loop of each block.

    Inner loops come first (``headers`` backwards: a dominator precedes in reverse postorder). Each
    walks backwards from its latches; a loop found on the way becomes a child and is stepped over.
    """
    parents: list[LoopId | None] = [None] * len(headers)
    outermost = list(range(len(headers)))  # with path halving: the outermost loop known so far
    loop_of: list[LoopId | None] = [None] * len(cfg.blocks)
    for number in range(len(headers) - 1, -1, -1):
        header, loop = headers[number], LoopId(number)
        loop_of[header] = loop
        pending = list(latches[header])
        while pending:
            block = pending.pop()
            inner = loop_of[block]
            if inner is None:
                loop_of[block] = loop
                pending.extend(cfg.predecessors[block])
                continue
            top = _outermost(outermost, inner)
            if top != loop:
                outermost[top] = loop
                parents[top] = loop
                pending.extend(cfg.predecessors[headers[top]])
    return parents, loop_of


def _outermost(outermost: list[int], loop: int) -> int:
    while outermost[loop] != loop:
        outermost[loop] = outermost[outermost[loop]]
        loop = outermost[loop]
    return loop


def _materialise(
    cfg: ControlFlowGraph,
    headers: Sequence[BlockId],
    latches: dict[BlockId, list[BlockId]],
    parents: Sequence[LoopId | None],
    loop_of: Sequence[LoopId | None],
) -> tuple[Loop, ...]:
    """The loops with bodies, depths and exits."""
    depths = _depths(cfg, headers, parents)
    bodies: list[set[BlockId]] = [set() for _ in headers]
    children: list[list[LoopId]] = [[] for _ in headers]
    for block, innermost in enumerate(loop_of):
        if innermost is not None:
            bodies[innermost].add(BlockId(block))
    for number in range(len(headers) - 1, -1, -1):
        parent = parents[number]
        if parent is not None:
            bodies[parent] |= bodies[number]
            children[parent].insert(0, LoopId(number))
    return tuple(
        Loop(
            id=LoopId(number),
            header=header,
            latches=tuple(latches[header]),
            body=frozenset(bodies[number]),
            parent=parents[number],
            depth=depths[number],
            exits=leaving(cfg, bodies[number]),
            children=tuple(children[number]),
        )
        for number, header in enumerate(headers)
    )


def _depths(
    cfg: ControlFlowGraph, headers: Sequence[BlockId], parents: Sequence[LoopId | None]
) -> list[int]:
    depths: list[int] = []
    for header, parent in zip(headers, parents, strict=True):
        depths.append(1 if parent is None else depths[parent] + 1)
        if depths[-1] > MAX_LOOP_DEPTH:
            raise PtxwcetError(
                Diagnostic(
                    "PW231",
                    f"loops are nested more than {MAX_LOOP_DEPTH} deep (at {cfg.name(header)})",
                    help="split the kernel: no bound is computed for such a nest",
                )
            )
    return depths


def leaving(cfg: ControlFlowGraph, body: Collection[BlockId]) -> tuple[Edge, ...]:
    """Returns the edges that leave some blocks, by source. Cost: linear in the blocks."""
    return tuple(
        (block, target)
        for block in sorted(body)
        for target in cfg.successors[block]
        if target not in body
    )


def _irreducible_regions(
    cfg: ControlFlowGraph, back_edges: frozenset[Edge]
) -> tuple[IrreducibleRegion, ...]:
    forward = [
        [target for target in targets if (source, target) not in back_edges]
        for source, targets in enumerate(cfg.successors)
    ]
    before = transpose(forward)
    return tuple(
        IrreducibleRegion(
            blocks=tuple(BlockId(block) for block in sorted(component)),
            entries=tuple(
                BlockId(block)
                for block in sorted(component)
                if block == cfg.entry or not component.issuperset(before[block])
            ),
        )
        for component in cyclic_components(forward)
    )
