"""Totals: how often a warp may do something in a whole run, all entries of a loop together.

In a path a total is a set of visits (a block, and whether the warp goes on at the target of its
branch) of which a run of a warp makes at most so many:

* of a loop that is left at its end only, all visits of its header: each execution of the body has
  one;
* of another loop, the visits of the block that jumps back in which it does so, one for each whole
  iteration: the last one, partial, is not counted, as in bounds of entries;
* of a function, the visits of the first block of each of its copies, one for each call.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ptxwcet.flow.graph.cfg import BlockId
from ptxwcet.flow.graph.control_flow import ControlFlow
from ptxwcet.flow.graph.loops import Loop
from ptxwcet.flow.launch import Outcome, PlacedTotal
from ptxwcet.flow.walk.iterations import is_rotated
from ptxwcet.flow.walk.path import (
    BlockPaths,
    Path,
    PathChoice,
    PathEnd,
    PathFork,
    PathGone,
    PathLoop,
    PathNode,
    PathParts,
    PathRepeat,
    PathUnordered,
    Visit,
    may_end,
)
from ptxwcet.ir.op_classes import ControlEffect
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError

_Range = tuple[int, int]


def count_visits(nodes: Path, visits: frozenset[Outcome]) -> _Range:
    """The least and the largest number of ``visits`` over the ways that a path stands for.

    Counts must not depend on symbols. Where lanes may end, the least is not known, and 0. Cost:
    linear in the tree.
    """
    least, most = _Counter(visits).rounds(nodes, 1)
    return (0 if may_end(nodes) else least), most


class _Counter:
    def __init__(self, visits: frozenset[Outcome]) -> None:
        self._visits = visits

    def rounds(self, nodes: Path, times: int) -> _Range:
        """The visits in ``times`` rounds of ``nodes``; a growing loop grows from round to round."""
        return _sum(self._node(node, times) for node in nodes)

    def _node(self, node: PathNode, times: int) -> _Range:
        match node:
            case PathRepeat(count, body=body, step=step) if step:
                executions = times * count.base + step * (times * (times - 1) // 2)
                low, high = self.rounds(body, 1)
                return executions * low, executions * high
            case PathLoop(body=body):
                return self.rounds(body, times)
            case _:
                low, high = self._once(node)
                return times * low, times * high

    def _once(self, node: PathNode) -> _Range:
        match node:
            case Visit(block, taken):
                here = int((block, taken) in self._visits)
                return here, here
            case PathRepeat(count, least, body):
                assert count.slopes == least.slopes == (), "an open count"
                return self.rounds(body, least.base)[0], self.rounds(body, count.base)[1]
            case PathUnordered(first, second):
                return self.rounds((*first, *second), 1)
            case PathFork(first=first, second=second):
                first_visit, second_visit, both_visits = node.visits
                return self._one_of(
                    ((first_visit, *first), (second_visit, *second), (both_visits, *first, *second))
                )
            case PathChoice(alternatives):
                return self._one_of(alternatives)
            case PathEnd(leave, last, stay):
                return self._one_of(((leave, *last), (stay,)))
            case PathParts(most, sides):
                return 0, most * self._one_of(sides)[1]
            case PathGone():
                return 0, 0
            case PathLoop():
                return self._node(node, 1)

    def _one_of(self, ways: Iterable[Path]) -> _Range:
        found = [self.rounds(way, 1) for way in ways] or [(0, 0)]
        return min(low for low, _ in found), max(high for _, high in found)


def _sum(ranges: Iterable[_Range]) -> _Range:
    low = high = 0
    for one, other in ranges:
        low, high = low + one, high + other
    return low, high


_COPY = re.compile(r"(?:.*:)?(?P<function>[^:#]+)#[0-9]+:entry")


def loop_visits(flow: ControlFlow, loop: Loop) -> frozenset[Outcome]:
    """The visits that count the body executions of a loop; none where no visits do.

    A loop that may be left elsewhere than at its end and jumps back from several blocks, or from a
    table of targets, is not counted.
    """
    if is_rotated(loop):
        return _all_visits(loop.header)
    if len(loop.latches) > 1:
        return frozenset()
    (latch,) = loop.latches
    kernel, cfg = flow.kernel, flow.cfg
    start, end = cfg.blocks[latch].start, cfg.blocks[latch].end
    control = kernel.instructions[end - 1].control if end > start else ControlEffect.NONE
    if control is not ControlEffect.BRANCH:
        falls = control in (ControlEffect.NONE, ControlEffect.BARRIER, ControlEffect.ARRIVE)
        return _all_visits(latch) if falls else frozenset()
    if cfg.taken[latch] == loop.header:
        only = cfg.fallthrough[latch] in (None, loop.header)
        return _all_visits(latch) if only else frozenset({(latch, True)})
    return frozenset({(latch, False)})


def _all_visits(block: BlockId) -> frozenset[Outcome]:
    return frozenset({(block, True), (block, False)})


def copies_of(flow: ControlFlow) -> Iterator[tuple[str, BlockId, frozenset[Outcome]]]:
    """Each copy of a function in a kernel: its name, the block that calls it, the visits that do.

    A copy that begins with a loop is entered more often than it is called: then the visits are
    those of the calling block. Cost: linear in the labels.
    """
    blocks = [block for block in flow.cfg.blocks if block.start < block.end]
    block_of = {block.start: block.id for block in blocks}
    block_before = {block.end: block.id for block in blocks}
    for label, index in flow.kernel.labels.items():
        match = _COPY.fullmatch(label)
        if match is None or index not in block_of:
            continue
        entry = block_of[index]
        caller = block_before[index]
        if flow.forest.loop_at(entry) is None:
            yield match["function"], caller, _all_visits(entry)
        elif flow.cfg.taken[caller] == entry:
            yield match["function"], caller, frozenset({(caller, True)})
        else:
            yield match["function"], caller, frozenset({(caller, False)})


def totals_in_force(
    flow: ControlFlow,
    paths: BlockPaths,
    totals: Iterable[PlacedTotal],
    *,
    exist: bool = True,
) -> tuple[PlacedTotal, ...]:
    """The totals that some warp of these blocks might exceed without them.

    ``exist``: every launch has such blocks. Then raises PtxwcetError (PW217) for a total that every
    run of a warp exceeds; otherwise the total says that there are none, and cuts nothing of what
    they would execute. Cost: linear in the paths for each.
    """
    in_force = []
    for total in totals:
        counts = [count_visits(warp.nodes, total.visits) for warp in paths.warps]
        least = max((low for low, _ in counts), default=0)
        if least > total.most and exist:
            raise PtxwcetError(_contradicted(flow, total, least))
        if least > total.most:
            continue
        if max((high for _, high in counts), default=0) > total.most:
            in_force.append(total)
    return tuple(in_force)


def _contradicted(flow: ControlFlow, total: PlacedTotal, least: int) -> Diagnostic:
    kernel, cfg = flow.kernel, flow.cfg
    block = min(block for block, _ in total.visits)
    return Diagnostic(
        "PW217",
        f"{total.source} says {total.most:,} {total.what} in a run of a warp, but path analysis "
        f"finds at least {least:,}",
        kernel.instructions[cfg.blocks[block].start].span,
        (f"in kernel {kernel.readable}, block {cfg.name(BlockId(block))}",),
        "correct the fact or the launch facts: both cannot be true",
    )
