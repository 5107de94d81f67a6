"""The iterations of one entry of a loop, as they are found, and the path that they make.

What a *body execution* is, for analysis, facts and totals alike (``docs/facts-file.md``): a thread
executes the body of a loop once for each time that it jumps back to the loop's first block. If the
loop is left only from blocks that jump back (:func:`is_rotated`), the pass that ends there is a
body execution, too. A pass that is left elsewhere is none. Of all that people may mean by a number
of iterations this is the least, so that a bound that is meant otherwise holds all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from ptxwcet.flow.graph.loops import Loop
from ptxwcet.flow.launch import WARP_SIZE, BoundOrigin
from ptxwcet.flow.values.value import Mask
from ptxwcet.flow.walk.path import (
    AffineCount,
    Path,
    PathChoice,
    PathLoop,
    PathNode,
    PathRepeat,
    Together,
    grows,
    loop_entries,
    parts_of,
)
from ptxwcet.flow.walk.unresolved import OpenLoop
from ptxwcet.support.records import dataclass

if TYPE_CHECKING:
    from ptxwcet.flow.certificates.proof import Proof


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a loop by the lanes ``mask``, on the way to the block ``stop``."""

    loop: Loop
    mask: Mask
    stop: int | None


@dataclass(frozen=True, slots=True)
class Claim:
    """A loop's body executes at most ``most`` times an entry: the user or a variant says so."""

    most: int
    origin: BoundOrigin = BoundOrigin.USER
    reason: str = "--loop-bound"
    proof: Proof | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """``count`` times ``period`` iterations, each time along ``nodes``, and why."""

    nodes: Path
    count: AffineCount
    period: int
    reason: str


@dataclass(frozen=True, slots=True)
class _Run:
    """``least`` to ``count`` times ``nodes``; no decision ends the loop before ``found`` times.

    ``period``: so many iterations are the ``nodes``.
    """

    nodes: Path
    count: AffineCount
    least: AffineCount
    found: AffineCount
    period: int = 1

    def plus(self, other: _Run) -> _Run:
        """Returns the two runs, which follow the same nodes each time, as one."""
        count, least = self.count.plus(other.count), self.least.plus(other.least)
        return _Run(self.nodes, count, least, self.found.plus(other.found), self.period)

    def cut(self, most: int) -> _Run:
        """Returns the run with at most so many iterations, if that is less on the whole."""
        rounds = most // self.period
        if not self.count.is_more_than(rounds):
            return self
        return replace(self, count=AffineCount(rounds), least=AffineCount(0))

    def together(self, opened: OpenLoop) -> Together:
        """Returns why the block executes it equally often if its ways out are taken alike.

        If the decided exits do not say one number, warps agree on the formula as well.
        """
        counted = str(self.found) if self.found.slopes else ""
        return Together(opened.loop.header, counted, if_race_free=opened.if_race_free)


class Iterations:
    """Iterations of one loop entry, run-length encoded; ``last`` is the final, partial one."""

    def __init__(self) -> None:
        self._runs: list[_Run] = []
        self.total = AffineCount(0)
        self.last: Path = ()
        self.is_stopped = False

    @property
    def fewest(self) -> int:
        """The least total over all values of the symbols in it; 0 if that is not known."""
        return max(0, self.total.over_symbols(largest=False) or 0)

    def add(self, nodes: Path, count: AffineCount, period: int, most: int | None = None) -> bool:
        """Adds ``count`` times ``period`` iterations, each time along ``nodes``.

        A run has at most ``most`` of these iterations if that is given: then it may have fewer.
        Says whether that cuts them.
        """
        self.total = self.total.plus(count.times(period))
        least = unlimited = count
        if most is not None:
            highest, rounds = count.over_symbols(largest=True), -(-most // period)
            if highest is None or highest > rounds:
                count, least = AffineCount(rounds), AffineCount(0)
        run = _Run(nodes, count, least, unlimited, period)
        if self._runs and self._runs[-1].nodes == nodes and not grows(nodes):
            run = self._runs.pop().plus(run)
        self._runs.append(run)
        return count != unlimited

    def cut(self, most: int) -> bool:
        """Cuts all entries at so many iterations; returns whether that is less than before."""
        runs = [run.cut(most) for run in self._runs]
        is_cut, self._runs = runs != self._runs, runs
        return is_cut

    def bodies(self, loop: int, *, rotated: bool) -> AffineCount:
        """Returns the body executions of the lanes that stay longest, or fewer.

        Lanes that stay longer than others go on in a nested entry of the same loop, once they have
        jumped back.
        """
        nested = [node.iterations for node in _outermost(self.last, loop)]
        if not nested:
            return self.total.plus(AffineCount(int(rotated)))
        return self.total.plus(AffineCount(1)).plus(reduce(AffineCount.no_less, nested))

    def most_bodies(self, loop: int, *, rotated: bool) -> AffineCount | None:
        """Returns the most body executions of a lane, with those in nested entries of the loop in a
        pass; None if there is no such number. ``rotated``: the whole loop is. Cost: linear in the
        paths.
        """
        count = self.total.plus(AffineCount(int(rotated)))
        passes = [(run.count, run.nodes) for run in self._runs]
        for times, nodes in (*passes, (AffineCount(1), self.last)):
            again = _back_edges(nodes, loop, rotated=rotated)
            if again is None:
                return None
            count = count.plus(times.times(again))
        return count

    def path(self, opened: OpenLoop, *, may_pair: bool) -> Path:
        """Returns the iterations and the last one, which any way out that was noted may end.

        ``may_pair``: ways out may be paired with those of warps that are walked apart.
        """
        nodes: list[PathNode] = []
        ways_out = tuple(opened.ways_out)
        site = opened.loop.header if opened.agree else None
        for run in self._runs:
            if ways_out:
                why = run.together(opened) if opened.agree else None
                nodes.append(PathRepeat(run.count, AffineCount(0), run.nodes, why))
            elif run.count == run.least == AffineCount(1):
                nodes += run.nodes
            else:
                why = run.together(opened) if run.count != run.found else None
                nodes.append(PathRepeat(run.count, run.least, run.nodes, why))
        if not ways_out:
            return (*nodes, *self.last)
        is_last = not self.is_stopped or bool(self.last)
        ends = (self.last, *ways_out) if is_last else ways_out
        is_told = may_pair and opened.agree
        taken_in = opened.taken_in(ways_out) if is_told else ()
        if is_told and is_last:
            taken_in = ((), *taken_in)
        return (*nodes, PathChoice(ends, site, opened.if_race_free, taken_in))


def _outermost(nodes: Path, loop: int) -> Iterator[PathLoop]:
    """Yields the entries of a loop that are in no other one of them: each counts those in it."""
    entries = list(loop_entries(nodes))
    while entries:
        first, *entries = entries
        if first.loop == loop:
            yield first
            del entries[: sum(1 for _ in loop_entries(first.body))]


def _back_edges(nodes: Path, loop: int, *, rotated: bool) -> int | None:
    """Returns the most back edges of a loop for and in nested entries of it, by a lane."""
    total = 0
    for node in nodes:
        if isinstance(node, PathLoop) and node.loop == loop:
            most = node.iterations.over_symbols(largest=True)
            again = None if most is None else 1 + most - rotated
        else:
            sides = [_back_edges(part, loop, rotated=rotated) for part in parts_of(node)]
            counts = [side for side in sides if side is not None]
            again = max(counts, default=0) if len(counts) == len(sides) else None
            if again and isinstance(node, PathRepeat):
                times = None if node.step else node.count.over_symbols(largest=True)
                again = None if times is None else again * times
        if again is None:
            return None
        total += again
    return total


def is_rotated(loop: Loop) -> bool:
    """Returns whether the loop tests at its end: it is left only where it also jumps back."""
    return all(source in loop.latches for source, _ in loop.exits)


def most_lanes(mask: Mask) -> int:
    """Returns the largest number of lanes that a warp has in a mask."""
    return int(mask.reshape(-1, WARP_SIZE).sum(axis=1).max())
