"""Bounds on the executions of the blocks of a kernel by a warp, from the paths of a launch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ptxwcet.flow.launch import WARP_SIZE
from ptxwcet.flow.walk.path import (
    AffineCount,
    BlockPaths,
    Path,
    PathChoice,
    PathEnd,
    PathFork,
    PathLoop,
    PathNode,
    PathParts,
    PathRepeat,
    Visit,
    parts_of,
)


class _Open(Exception):
    """A count has no largest value."""


class Executions:
    """Visits of blocks on the paths of all warps of a launch. Cost: linear in the paths."""

    def __init__(self, pieces: Sequence[BlockPaths]) -> None:
        self._warps = [(len(warp.warps), warp.nodes) for piece in pieces for warp in piece.warps]
        self._pieces = pieces
        self._entries: dict[int, Counter[int]] = {}
        self._outside: dict[int, Counter[int]] = {}
        try:
            self._of_warps = [_visits(nodes, 1, None, self._entries) for _, nodes in self._warps]
            self.is_known = True
        except _Open:
            self._of_warps, self.is_known = [], False

    def most(self, block: int) -> int | None:
        """Returns how often a warp executes a block at most; None if nothing is known of it."""
        if not self.is_known:
            return None
        return max((each[block] for each in self._of_warps), default=0)

    def of_block(self, block: int) -> int | None:
        """Returns the most executions of a basic block by all warps of a thread block."""
        if not self.is_known:
            return None
        counted = iter(self._of_warps)
        sums = (
            sum(len(warp.warps) * next(counted)[block] for warp in piece.warps)
            for piece in self._pieces
        )
        return max(sums, default=0)

    def in_an_entry(self, loop: int, block: int) -> int | None:
        """Returns the most executions of a block of a loop by a warp, per entry of the loop.

        Executions of the loop's blocks outside a path loop count as an entry, too.
        """
        if not self.is_known:
            return None
        if loop not in self._outside:
            counted = [_visits(nodes, 1, loop, {}) for _, nodes in self._warps]
            self._outside[loop] = _largest(counted)
        return self._entries.get(loop, Counter())[block] + self._outside[loop][block]


def _visits(
    nodes: Path, around: int, without: int | None, entries: dict[int, Counter[int]]
) -> Counter[int]:
    """Counts visits of blocks outside the loop ``without``; ``around``: iterations around.

    The largest counts of an entry of each loop are put into ``entries``. Raises _Open.
    """
    visits: Counter[int] = Counter()
    for node in nodes:
        parts = [_visits(part, _inner(node, around), without, entries) for part in parts_of(node)]
        match node:
            case PathLoop(loop) if loop == without:
                continue
            case PathLoop(loop):
                entries[loop] = _largest([entries.get(loop, Counter()), *parts])
            case PathChoice() | PathParts():
                parts = [_largest(parts)]
            case Visit(block) | PathFork(block):
                visits[block] += 1
            case PathEnd(leave, last, stay):
                visits.update({leave.block, stay.block})
                visits.update(visit.block for visit in last)
        if isinstance(node, PathChoice):
            for visit in node.early:
                visits[visit.block] += WARP_SIZE
        for part in parts:
            for block, count in part.items():
                visits[block] += count * _times(node, around)
    return visits


def _inner(node: PathNode, around: int) -> int:
    """Returns the iterations around the content of a node."""
    return _number(node.count) if isinstance(node, PathRepeat) else around


def _times(node: PathNode, around: int) -> int:
    """Returns how often the content of a node is executed."""
    match node:
        case PathRepeat(count, step=step):
            return max(_number(count), _number(count.plus(AffineCount(step * (around - 1)))))
        case PathParts(most):
            return most
        case _:
            return 1


def _number(count: AffineCount) -> int:
    """Returns the largest value of a count. Raises _Open."""
    most = count.over_symbols(largest=True)
    if most is None:
        raise _Open
    return max(0, most)


def _largest(counts: Iterable[Counter[int]]) -> Counter[int]:
    """Returns the largest number of each."""
    found: Counter[int] = Counter()
    for each in counts:
        found |= each
    return found
