"""How often a warp executes the blocks of a kernel at most, from the paths of a launch."""

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
    PathGrowing,
    PathLate,
    PathLoop,
    PathNode,
    PathPart,
    PathRepeat,
    PathScatter,
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
        """How often all warps of a block of threads execute a block of instructions, at most."""
        if not self.is_known:
            return None
        counted = iter(self._of_warps)
        sums = (
            sum(len(warp.warps) * next(counted)[block] for warp in piece.warps)
            for piece in self._pieces
        )
        return max(sums, default=0)

    def in_an_entry(self, loop: int, block: int) -> int | None:
        """How often a warp executes a block of a loop each time that it enters the loop, at most.

        What of the loop is executed without being told as one counts as an entry, too.
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
    """Visits of blocks, but of those in the loop ``without``; ``around``: iterations around.

    The largest numbers of an entry of each loop are put into ``entries``. Raises _Open.
    """
    found: Counter[int] = Counter()
    for node in nodes:
        parts = [_visits(part, _inner(node, around), without, entries) for part in parts_of(node)]
        match node:
            case PathLoop(loop) if loop == without:
                continue
            case PathLoop(loop):
                entries[loop] = _largest([entries.get(loop, Counter()), *parts])
            case PathChoice() | PathLate():
                parts = [_largest(parts)]
            case Visit(block) | PathFork(block) | PathPart(block):
                found[block] += 1
            case PathEnd(leave, last, stay):
                found.update({leave.block, stay.block})
                found.update(visit.block for visit in last)
        if isinstance(node, PathChoice):
            for visit in node.early:
                found[visit.block] += WARP_SIZE
        for part in parts:
            for block, count in part.items():
                found[block] += count * _times(node, around)
    return found


def _inner(node: PathNode, around: int) -> int:
    """Iterations around what is in a node."""
    return _number(node.count) if isinstance(node, PathRepeat) else around


def _times(node: PathNode, around: int) -> int:
    """Returns how often what is in a node is executed."""
    match node:
        case PathRepeat(count):
            return _number(count)
        case PathGrowing(first, step):
            return max(0, first, first + step * (around - 1))
        case PathLate(most) | PathScatter(most):
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
