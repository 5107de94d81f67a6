"""Resolves a workload with several paths to one concrete path.

Counting constraints on a whole run (:class:`~ptxwcet.warp.program.Tally`) are spent along the
program: each node takes as much as possible beyond its minimum.

A simulator runs single paths. Where the analysis left a decision open (sides of a divergent branch
in either order, an undecided branch, a loop bounded but not counted), a resolution takes one: the
first or largest, or one at random. Each is a possible execution of the model's block, so a bound
for all of them holds for each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from zlib import crc32

from ptxwcet.simulator.policies import mix
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.warp.program import (
    BlockChoice,
    BlockRepeat,
    BlockWorkload,
    Choice,
    Node,
    Repeat,
    Tally,
    Unordered,
    WarpClass,
    WarpProgram,
)
from ptxwcet.warp.segments import has_barrier
from ptxwcet.warp.structure import bodies


def resolve_workload(workload: BlockWorkload, seed: int | None) -> BlockWorkload:
    """Returns the workload with every decision taken, or itself without decisions.

    With ``seed`` None the sides are in the given order, and the first alternative and the largest
    count of every loop are taken. Otherwise they are drawn, once per node, for all warps of a class
    and all enclosing iterations; decisions about barriers are drawn once for the block. Constraints
    are kept; a seed may leave a part unspent. Cost: linear in the program trees, times the depth of
    loops for each constraint.

    Raises PtxwcetError (PW545) if no path is found that keeps all constraints.
    """
    if all(c.program.is_single_path for c in workload.classes):
        return workload
    classes = []
    for number, warp_class in enumerate(workload.classes):
        resolver = _Resolver(seed, number, is_alone=len(workload.classes) == 1)
        body = resolver.whole(warp_class.program.body)
        classes.append(WarpClass(WarpProgram(body), warp_class.warps))
    return BlockWorkload(tuple(classes), workload.scoreboard)


_MASK = (1 << 64) - 1


class _Resolver:
    def __init__(self, seed: int | None, number: int, *, is_alone: bool) -> None:
        self._seed = seed
        self._is_alone = is_alone
        self._number = number
        self._drawn = 0
        self._left: dict[str, int] = {}  # the amount beyond the minimum, by constraint

    def _below(self, count: int) -> int:
        """Returns a draw from ``count`` possibilities; 0 without a seed."""
        if self._seed is None or count <= 1:
            return 0
        self._drawn += 1
        return mix(self._seed, self._number, self._drawn) % count

    def _agreed(self, key: int, count: int) -> int:
        """Returns a draw that all warps of the block share; 0 without a seed."""
        return 0 if self._seed is None else mix(self._seed, key & _MASK, count) % count

    def whole(self, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        """Returns a path through a program that keeps its limits. Raises PtxwcetError (PW545)."""
        needed = _least(nodes)
        self._left = {tally.key: tally.most - needed[tally.key] for tally in _tallies(nodes)}
        body = self.body(nodes)
        if any(left < 0 for left in self._left.values()):
            raise PtxwcetError(_no_path())
        return body

    def _affordable(self, cost: Counter[str], most: int) -> int:
        """Returns how often, up to ``most``, the remaining amounts can pay this additional cost."""
        return min([most, *(max(0, self._left[key]) // much for key, much in cost.items() if much)])

    def _pay(self, cost: Counter[str], times: int = 1) -> None:
        for key, much in cost.items():
            self._left[key] -= times * much

    def _repeat(self, node: Repeat | BlockRepeat) -> Iterator[Node]:
        """Yields iterations that differ: the first ones take the most, the last ones the least."""
        once, spare = _least(node.body), node.count - node.least
        if not has_barrier(node.body):
            more = self._affordable(once, spare)
            more -= self._below(more + 1)
        else:  # warps of other classes must do the same
            more = self._affordable(once, spare) if self._is_alone else 0
        self._pay(once, more)
        remaining = node.least + more
        while remaining:
            before = dict(self._left)
            body = self.body(node.body)
            spent = Counter({key: left - self._left[key] for key, left in before.items()})
            alike = self._affordable(spent, remaining - 1)
            if any(spent.values()):
                alike -= self._below(alike + 1)
            self._pay(spent, alike)
            yield Repeat(1 + alike, body)
            remaining -= 1 + alike

    def _side(self, sides: tuple[tuple[Node, ...], ...]) -> tuple[Node, ...]:
        """Returns a side that the remaining amounts allow; any of them if none does."""
        if not self._left:
            return self.body(sides[self._below(len(sides))])
        least = _least((Choice(sides),))
        costs = [Counter(_least(side)) for side in sides]
        for cost in costs:
            cost.subtract(least)
        allowed = [n for n, cost in enumerate(costs) if self._affordable(cost, 1)]
        chosen = allowed[self._below(len(allowed))] if allowed else 0
        self._pay(costs[chosen])
        return self.body(sides[chosen])

    def body(self, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        out: list[Node] = []
        for node in nodes:
            match node:
                case Tally():
                    pass
                case Repeat() | BlockRepeat() if self._left and any(_tallies(node.body)):
                    out += self._repeat(node)
                case Repeat(count=count, body=inner, least=least):
                    fewer = self._below(count - least + 1)
                    out.append(Repeat(count - fewer, self.body(inner)))
                case BlockRepeat(site, count, inner):
                    fewer = self._agreed(crc32(site.encode()), count)
                    out.append(Repeat(count - fewer, self.body(inner)))
                case Unordered(first, second):
                    sides = (second, first) if self._below(2) else (first, second)
                    out += [*self.body(sides[0]), *self.body(sides[1])]
                case Choice(alternatives):
                    if alternatives:
                        out += self._side(alternatives)
                case BlockChoice(site, alternatives):
                    side = alternatives[self._agreed(site, len(alternatives))]
                    self._pay(_least(side))
                    self._pay(_least((node,)), -1)
                    out += self.body(side)
                case _:
                    out.append(node)
        return tuple(out)


def _tallies(body: tuple[Node, ...]) -> Iterator[Tally]:
    """Yields the tallies of a body, each place once."""
    for node in body:
        if isinstance(node, Tally):
            yield node
        for inner in bodies(node):
            yield from _tallies(inner)


def _least(body: tuple[Node, ...]) -> Counter[str]:
    """Returns the least number of times that each path through a body passes tallies, by key."""
    total: Counter[str] = Counter()
    for node in body:
        match node:
            case Tally(key):
                total[key] += 1
            case Repeat(least=least, body=inner) | BlockRepeat(least=least, body=inner):
                for key, times in _least(inner).items():
                    total[key] += least * times
            case Unordered(first, second):
                total += _least((*first, *second))
            case Choice(alternatives) | BlockChoice(alternatives=alternatives):
                sides = [_least(side) for side in alternatives]
                for key in set(sides[0]) if sides else ():
                    total[key] += min(side[key] for side in sides)
            case _:
                pass
    return total


def _no_path() -> Diagnostic:
    return Diagnostic(
        "PW545",
        "no way through a warp's program was found that keeps all stated totals",
        help="check the totals of the facts file; the bound holds for whatever they allow",
    )
