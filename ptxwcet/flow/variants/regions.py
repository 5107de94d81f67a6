"""Parts of a kernel that variants look at: an iteration of a loop, and the way that leads to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from types import MappingProxyType

from ptxwcet.flow.certificates.passage import NotFollowed, blocks_before
from ptxwcet.flow.flow_graph import FlowGraph, Kept
from ptxwcet.flow.graph.cfg import BlockId
from ptxwcet.flow.graph.loops import Loop
from ptxwcet.flow.variants.cases import Content
from ptxwcet.flow.variants.operands import Stepping
from ptxwcet.ir.operands import Register
from ptxwcet.support.graph import reachable
from ptxwcet.support.records import dataclass

Ways = tuple[Register | None, tuple[tuple[int, bool], ...]]
"""A predicate, and where control goes on, each with the truth of the predicate that leads there."""


@dataclass(frozen=True, slots=True)
class Region:
    """Blocks from ``start`` on all ways to ``end``, which are the same for the body of a loop.

    ``relevant`` are the registers that are wanted at its end or decide branches whose sides leave
    it or write such, and what these are computed from in it; ``live`` those of them that are read
    before they are written, from each block. ``order`` has the blocks outside of inner loops, and
    the headers of those, ``inner`` the inner loops by header, ``around`` those that are entered and
    not left; ``settled`` the registers that are not written behind one, ``once`` those that a
    single instruction writes, outside of loops.
    """

    graph: FlowGraph
    blocks: frozenset[int]
    start: int
    end: int
    relevant: frozenset[str]
    written: frozenset[str]
    live: Mapping[int, frozenset[str]]
    order: tuple[int, ...]
    inner: Mapping[int, Loop]
    around: Mapping[int, Loop]
    settled: Mapping[int, frozenset[str]]
    once: frozenset[str]
    steps: dict[int, tuple[int, ...]] = field(default_factory=dict, compare=False)
    ways: dict[int, Ways] = field(default_factory=dict, compare=False)
    orders: dict[int, tuple[int, ...]] = field(default_factory=dict, compare=False)
    left: dict[int, dict[str, Content]] = field(default_factory=dict, compare=False)
    found: Kept = field(default_factory=Kept, compare=False)

    @property
    def types(self) -> Mapping[str, str]:
        """The types of the kernel's registers."""
        return self.graph.kernel.registers

    def stepping(self, *, signed: bool, splits: bool = False) -> Stepping:
        """What steps in the region need to know."""
        return Stepping(self.types, signed, splits, self.graph.meaning)

    def steps_of(self, block: int) -> tuple[int, ...]:
        """The instructions of a block that write what is relevant, found once."""
        if block not in self.steps:
            instructions = self.graph.kernel.instructions
            self.steps[block] = tuple(
                index
                for index in self.graph.indices((block,))
                if not self.relevant.isdisjoint(instructions[index].writes)
            )
        return self.steps[block]

    def ways_of(self, block: int) -> Ways:
        """The predicate that decides where control goes on behind a block, if what is known depends
        on that, and the successors, each with what leads there. Found once.
        """
        if block not in self.ways:
            self.ways[block] = self._ways_of(block)
        return self.ways[block]

    def _ways_of(self, block: int) -> Ways:
        cfg = self.graph.cfg
        successors = cfg.successors[block]
        guard = self.graph.kernel.instructions[self.graph.last(block)].guard
        taken, fallthrough = cfg.taken[block], cfg.fallthrough[block]
        is_open = len(successors) > 1 or any(
            (block, truth) in cfg.aborts for truth in (True, False)
        )
        if guard is None or taken is None or fallthrough is None or not is_open:
            return None, tuple((target, True) for target in successors)
        if guard.register not in self.relevant:  # either way the same is known
            return None, tuple((target, True) for target in successors)
        sides = (taken, not guard.negated), (fallthrough, guard.negated)
        return Register(guard.register), tuple(side for side in sides if side[0] in successors)

    def order_in(self, inner: Loop) -> tuple[int, ...]:
        """The blocks of an inner loop in order, less those from which control only goes round
        again. Found once.
        """
        if inner.header not in self.orders:
            self.orders[inner.header] = tuple(
                block
                for block in self.graph.cfg.reverse_postorder
                if block in inner.body and block in self.live
            )
        return self.orders[inner.header]

    def left_by(self, inner: Loop) -> Mapping[str, Content]:
        """What an inner loop leaves in relevant registers: unknown contents. Found once."""
        if inner.header not in self.left:
            how = self.stepping(signed=True)
            self.left[inner.header] = {
                name: how.unknown(name, f"{name}@{inner.header}")
                for name in self.graph.writes(inner.body)
                if name in self.relevant
            }
        return self.left[inner.header]

    @property
    def carried(self) -> frozenset[str]:
        """The registers that an iteration passes to the next, if the region is a loop."""
        return self.live[self.start] & self.written


def body_of(graph: FlowGraph, loop: Loop, wanted: frozenset[str] = frozenset()) -> Region:
    """One iteration of a loop, for its branches and registers that are ``wanted`` besides.

    Cost: a few rounds over its blocks.
    """
    inner = [graph.forest.loops[child] for child in loop.children]
    return _region(graph, loop.body, (loop.header, loop.header), inner, wanted)


def ways_to(
    graph: FlowGraph, loop: Loop, wanted: frozenset[str], steps: Iterable[int], outer: int = 0
) -> tuple[Region, ...]:
    """What leads to a loop, from at most so many of ``steps`` dominators before, each way once.

    ``wanted`` are registers at its header. Ways begin in the loop around, or ``outer`` loops
    further out: of these one iteration is walked, from any state. Cost: of each, as above.
    """
    entered = [one for one in graph.forest.around(loop.header) if one.header != loop.header]
    if outer > len(entered):
        return ()
    first = [loop, *entered][outer]
    starts = dict.fromkeys(_ancestor(graph, first, most) for most in steps)
    ways = (_way(graph, start, loop, wanted) for start in starts if start is not None)
    return tuple(way for way in ways if way is not None)


def _way(graph: FlowGraph, start: BlockId, loop: Loop, wanted: frozenset[str]) -> Region | None:
    """What leads to a loop from a block; None if that is not followed."""
    try:
        blocks, around = blocks_before(graph, start, loop)
    except NotFollowed:
        return None
    inner = [
        one
        for one in graph.forest.loops
        if one.header in blocks
        and loop.header not in one.body
        and (one.parent is None or loop.header in graph.forest.loops[one.parent].body)
    ]
    return _region(graph, blocks, (start, loop.header), inner, wanted, around)


def _ancestor(graph: FlowGraph, loop: Loop, steps: int) -> BlockId | None:
    """A block that dominates a loop in the loop around, outside of others or at their header."""
    around = None if loop.parent is None else graph.forest.loops[loop.parent]
    ancestor = None
    block: BlockId | None = loop.header
    for _ in range(steps):
        block = graph.dominators.immediate[block] if block is not None else None
        if block is None or (around is not None and block not in around.body):
            break
        for enclosing in graph.forest.around(block):
            if enclosing.parent == loop.parent and loop.header not in enclosing.body:
                block = enclosing.header
        ancestor = block
        if around is not None and block == around.header:
            break
    return ancestor


def _region(
    graph: FlowGraph,
    blocks: Collection[int],
    ends: tuple[int, int],
    inner: list[Loop],
    wanted: frozenset[str],
    around: Mapping[BlockId, Loop] = MappingProxyType({}),
) -> Region:
    start, end = ends
    relevant = _relevant(graph, blocks, ends, wanted)
    live: Mapping[int, frozenset[str]] = _live(
        graph, blocks, relevant, (end, wanted) if start != end else None
    )
    hidden = {block for one in inner for block in one.body if block != one.header}
    order = tuple(
        block for block in graph.cfg.reverse_postorder if block in blocks and block not in hidden
    )
    counts, again = graph.writes(blocks), set(_in_loops(graph, around.values()))
    headers: dict[int, Loop] = {one.header: one for one in inner}
    entered: dict[int, Loop] = {one.header: one for one in around.values()}
    settled: dict[int, frozenset[str]] = {
        one.header: _settled(graph, blocks, one, end) for one in inner
    }
    return Region(
        graph,
        frozenset(blocks),
        start,
        end,
        relevant,
        frozenset(again.union(counts)),
        live,
        order,
        dict(headers),
        entered,
        settled,
        frozenset(name for name, count in counts.items() if count == 1)
        - again.union(_in_loops(graph, inner)),
    )


def _in_loops(graph: FlowGraph, loops: Iterable[Loop]) -> Counter[str]:
    return graph.writes({block for one in loops for block in one.body})


def _settled(graph: FlowGraph, blocks: Collection[int], inner: Loop, end: int) -> frozenset[str]:
    """The registers that nothing writes between an inner loop and the end of a region."""
    around = {*range(len(graph.cfg.blocks))}.difference(blocks) | {end}
    seen = reachable(graph.cfg.successors, [target for _, target in inner.exits], around)
    return frozenset(graph.writes(inner.body).keys() - graph.writes(seen).keys())


def _relevant(
    graph: FlowGraph, blocks: Collection[int], ends: tuple[int, int], wanted_at_end: frozenset[str]
) -> frozenset[str]:
    definitions: dict[str, list[int]] = {}
    written = {block: graph.writes((block,)).keys() for block in blocks}
    for index in graph.indices(blocks):
        for name in graph.kernel.instructions[index].writes:
            definitions.setdefault(name, []).append(index)
    open_: dict[int, tuple[str, frozenset[int] | None]] = {}
    for block in blocks:
        guard = graph.kernel.instructions[graph.last(block)].guard
        if guard is not None and (graph.jumps(block) or (block, True) in graph.cfg.aborts):
            open_[block] = guard.register, _sides(graph, block, blocks, ends)
    relevant: set[str] = set()
    wanted: list[str] = [*wanted_at_end]
    while True:
        while wanted:
            name = wanted.pop()
            if name not in relevant:
                relevant.add(name)
                for index in definitions.get(name, ()):
                    wanted += _reads(graph, index)
        deciding = [
            block
            for block, (_, sides) in open_.items()
            if sides is None or any(not relevant.isdisjoint(written[one]) for one in sides)
        ]
        if not deciding:
            return frozenset(relevant)
        wanted += [open_.pop(block)[0] for block in deciding]


def _sides(
    graph: FlowGraph, block: int, blocks: Collection[int], ends: tuple[int, int]
) -> frozenset[int] | None:
    """The blocks between a branch and where its sides meet again; None if they do not in a region:
    then it matters which is taken, whatever is written on them.
    """
    meeting = graph.meeting(block)
    if (block, True) in graph.cfg.aborts or (block, False) in graph.cfg.aborts:
        return None
    sides = reachable(graph.cfg.successors, graph.cfg.successors[block], (meeting,))
    return frozenset(sides) if sides.isdisjoint(ends) and sides.issubset(blocks) else None


def _reads(graph: FlowGraph, index: int) -> Collection[str]:
    """The registers on which depends what is known of an instruction's results.

    Of loads and all else without terms nothing is known but whether they are executed.
    """
    instruction = graph.kernel.instructions[index]
    if not instruction.writes or graph.meaning(index) is not None:
        return instruction.reads
    return () if instruction.guard is None else (instruction.guard.register,)


def _live(
    graph: FlowGraph,
    blocks: Collection[int],
    relevant: frozenset[str],
    at_end: tuple[int, frozenset[str]] | None,
) -> dict[int, frozenset[str]]:
    """The relevant registers that are read before they are written, from each block."""
    live: dict[int, frozenset[str]] = {block: frozenset() for block in blocks}
    if at_end is not None:
        live[at_end[0]] = at_end[1]
    order = [block for block in reversed(graph.cfg.reverse_postorder) if block in blocks]
    changed = True
    while changed:
        changed = False
        for block in order:
            now: set[str] = set()
            for target in graph.cfg.successors[block]:
                now |= live.get(target, frozenset())
            bounds = graph.cfg.blocks[block]
            for index in range(bounds.end - 1, bounds.start - 1, -1):
                instruction = graph.kernel.instructions[index]
                if instruction.guard is None:
                    now -= set(instruction.writes)
                now |= relevant.intersection(_reads(graph, index))
            changed |= now != live[block]
            live[block] = frozenset(now)
    return live
