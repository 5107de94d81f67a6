"""What comments in the PTX say about the loops around them.

The compiler keeps each execution of an ``asm volatile`` and their order, but copies it when it
unrolls, and may leave it outside of any loop. So what is counted are *passings*: if every way
through one iteration of a loop in the PTX passes at least ``c`` copies, no entry has more than
``N // c`` whole iterations (``docs/flow-facts.md`` has the argument and its limits).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

from ptxwcet.flow.facts.asm_comments import orphan
from ptxwcet.flow.facts.stated import FactSource, Mark, conflict
from ptxwcet.flow.graph.cfg import BlockId, ControlFlowGraph
from ptxwcet.flow.graph.loops import Loop, LoopForest
from ptxwcet.ir.kernel import Kernel
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError

_ELSEWHERE = "its own loop has probably been unrolled completely inside of this one"
_TWO_LOOPS = (
    "if one of them was in a loop inside that the compiler has unrolled completely, remove it or "
    "write #pragma unroll 1 before that loop"
)


@dataclass(frozen=True, slots=True)
class MarkedBound:
    """What the comments in one loop say of its body executions for each entry.

    ``is_total``: it follows from passings in a whole run, whatever loop the comment was in.
    """

    most: int
    source: FactSource
    is_total: bool


@dataclass(frozen=True, slots=True)
class _Group:
    """The copies of one comment in one loop: how many a block holds for sure."""

    mark: Mark
    counts: dict[BlockId, int]


def marked_bounds(
    kernel: Kernel, cfg: ControlFlowGraph, forest: LoopForest, marks: tuple[Mark, ...]
) -> dict[int, MarkedBound]:
    """Most body executions for each entry that comments state, by loop id.

    Raises PtxwcetError: PW249 for a comment of this kernel that bounds nothing, PW215 for two that
    contradict each other. Cost: blocks of the loops times comments in them.
    """
    stated: dict[int, list[MarkedBound]] = defaultdict(list)
    for loop, group in _groups(kernel, cfg, forest, marks):
        passed = _fewest(cfg, forest, loop, group.counts)
        elsewhere = not group.mark.is_total and _is_elsewhere(kernel, cfg, loop, group.mark)
        problem = _ELSEWHERE if elsewhere else _unusable(loop, group.mark, passed)
        if problem is not None:
            raise PtxwcetError(_bounds_nothing(cfg.name(loop.header), group.mark, problem))
        name = group.mark.source.name
        if passed > 1:
            name += f" ({group.mark.number} passings, {passed} an iteration)"
        source, number = FactSource(name, group.mark.span), group.mark.number
        stated[loop.id].append(MarkedBound(number // passed, source, group.mark.is_total))
    return {loop: _together(cfg, forest.loops[loop], bounds) for loop, bounds in stated.items()}


def _groups(
    kernel: Kernel, cfg: ControlFlowGraph, forest: LoopForest, marks: tuple[Mark, ...]
) -> list[tuple[Loop, _Group]]:
    """The comments of the kernel by innermost loop and origin."""
    groups: dict[tuple[int, object], tuple[Loop, _Group]] = {}
    looped: set[object] = set()
    seen: dict[object, Mark] = {}
    gaps: set[object] = set()
    for copy in _copies(marks, _blocks_by_start(kernel, cfg)):
        mark, block = copy.mark, copy.block
        seen.setdefault(copy.comment, mark)
        for loop in copy.loops(forest):
            looped.add(copy.comment)
            group = groups.setdefault((loop.id, copy.identity), (loop, _Group(mark, {})))[1]
            gap = copy.identity, block, mark.anchor, mark.other
            if mark.is_sure and gap not in gaps:  # said twice in one place: one passing
                group.counts[block] = group.counts.get(block, 0) + 1
                gaps.add(gap)
    lost = [mark for comment, mark in seen.items() if comment not in looped]
    if lost:
        raise PtxwcetError([orphan(mark.span) for mark in lost])
    return list(groups.values())


@dataclass(frozen=True, slots=True)
class _Copy:
    """A comment in one copy of its function: the blocks of ``mark.anchor`` and ``mark.other``.

    ``comment`` is equal for what may be copies of one comment, ``identity`` for what are.
    """

    mark: Mark
    block: BlockId
    other: BlockId
    comment: object
    identity: object

    def loops(self, forest: LoopForest) -> Iterator[Loop]:
        """The innermost loops that it is in; two if it is not sure in which of two blocks."""
        blocks = (self.block,) if self.mark.is_sure else (self.block, self.other)
        inside = {loop.id: loop for block in blocks if (loop := forest.innermost(block))}
        yield from inside.values()


def _copies(marks: tuple[Mark, ...], block_of: dict[int, list[BlockId]]) -> Iterator[_Copy]:
    for number, mark in enumerate(marks):
        places = zip(block_of.get(mark.anchor, ()), block_of.get(mark.other, ()), strict=False)
        for instance, (block, other) in enumerate(places):
            fact = mark.is_total, mark.number, instance
            identity = mark.origin or number, *fact
            yield _Copy(mark, block, other, (mark.origin, *fact), identity)


def _blocks_by_start(kernel: Kernel, cfg: ControlFlowGraph) -> dict[int, list[BlockId]]:
    """The blocks that hold the instructions which start at an offset: one for each copy."""
    found: dict[int, list[BlockId]] = defaultdict(list)
    for block in cfg.blocks:
        for index in range(block.start, block.end):
            found[kernel.instructions[index].start].append(block.id)
    return found


def _fewest(
    cfg: ControlFlowGraph, forest: LoopForest, loop: Loop, counts: dict[BlockId, int]
) -> int:
    """The least number of copies on a way from the header to the end of a latch."""
    done: set[BlockId] = set()
    waiting = [(counts.get(loop.header, 0), loop.header)]
    while waiting:
        passed, block = heappop(waiting)
        if block in done:
            continue
        if block in loop.latches:
            return passed
        done.add(block)
        for target in cfg.successors[block]:
            if target in loop.body and target not in done:
                heappush(waiting, (passed + counts.get(target, 0), target))
    return 0


def _unusable(loop: Loop, mark: Mark, passed: int) -> str | None:
    """Why passings say nothing about the iterations of a loop; None if they do."""
    if passed == 0:
        return "a way through the loop does not pass it"
    if not mark.is_total and len(loop.latches) > 1:
        return "the loop jumps back from several places, and may be two loops in one"
    if not mark.is_total and passed > 1 and mark.number < 2 * passed:
        return (
            f"an iteration passes it {passed} times, so that the loop would run no second time; "
            f"{_ELSEWHERE}"
        )
    return None


def _is_elsewhere(kernel: Kernel, cfg: ControlFlowGraph, loop: Loop, mark: Mark) -> bool:
    """Whether what controls a loop stands, in the source, outside of the loop of the comment."""
    if not mark.around:
        return False
    own, *outer = mark.around
    lines = set()
    for block in {*loop.latches, *(source for source, _ in loop.exits)}:
        place = kernel.instructions[cfg.blocks[block].end - 1].location
        while place is not None:
            if place.line and place.file.rpartition("/")[2] == mark.file:
                lines.add(place.line)
            place = place.inlined_at
    if not lines or lines & own.control:
        return False
    around = frozenset().union(*(one.control for one in outer))
    return bool(lines & around) or not any(line in own.lines for line in lines)


def _bounds_nothing(name: str, mark: Mark, reason: str) -> Diagnostic:
    return Diagnostic(
        "PW249",
        f"this comment does not bound the loop at {name}: {reason}",
        mark.span,
        help="write #pragma unroll 1 before its loop, put it where every iteration passes, or "
        f"bound the loop with --loop-bound '{name}=N' or in a facts file",
    )


def _together(cfg: ControlFlowGraph, loop: Loop, stated: list[MarkedBound]) -> MarkedBound:
    """All that comments say of one loop. Bounds must agree, totals may be larger or smaller.

    Two comments with different bounds in one loop are no matter of taking the smaller: one of them
    may have been in a loop inside that the compiler has unrolled completely.
    """
    bounds = [row for row in stated if not row.is_total]
    for bound in bounds[1:]:
        if bound.most != bounds[0].most:
            first = str(bounds[0].most), bounds[0].source
            loop_name = f"the loop at {cfg.name(loop.header)}"
            contrary = str(bound.most), bound.source
            raise PtxwcetError(conflict(loop_name, first, contrary, _TWO_LOOPS))
    return min(stated, key=lambda row: row.most)
