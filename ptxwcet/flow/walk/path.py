"""What a warp executes, block by block, as a tree: the result of path extraction.

``Visit`` is one execution of a basic block, ``PathRepeat`` a loop iteration pattern and its count,
``PathLoop`` groups what one entry of a source loop executes, ``PathUnordered`` the two sides of a
divergent branch, ``PathFork`` an unresolved branch and its sides, ``PathChoice`` some alternatives
of which one is executed, ``PathParts`` what parts of the warp execute one after the other,
``PathEnd`` a place where the warp may end, ``PathGone`` one where all its lanes have ended. Loops
are never unrolled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field, replace
from itertools import zip_longest
from typing import TYPE_CHECKING

from ptxwcet.flow.launch import WARP_SIZE, BoundOrigin, Dim3
from ptxwcet.flow.values.regions import Symbol
from ptxwcet.support.records import dataclass

if TYPE_CHECKING:
    from ptxwcet.flow.certificates.proof import Proof

# Lanes of a warp that may end one after another before the last one.
_MOST_EARLY = WARP_SIZE - 1


@dataclass(frozen=True, slots=True)
class AffineCount:
    """``base + sum(slopes)``: a count that may depend on counters of enclosing loops."""

    base: int
    slopes: tuple[tuple[Symbol, int], ...] = ()

    def __str__(self) -> str:
        slopes = sorted((symbol.name, slope) for symbol, slope in self.slopes)
        return " + ".join([str(self.base), *(f"{slope}*{name}" for name, slope in slopes)])

    def plus(self, other: AffineCount) -> AffineCount:
        """Returns the sum of two counts."""
        slopes = dict(self.slopes)
        for symbol, slope in other.slopes:
            slopes[symbol] = slopes.get(symbol, 0) + slope
        return AffineCount(self.base + other.base, tuple((s, c) for s, c in slopes.items() if c))

    def times(self, factor: int) -> AffineCount:
        """Returns the count multiplied by a non-negative constant."""
        return AffineCount(self.base * factor, tuple((s, c * factor) for s, c in self.slopes))

    def no_less(self, other: AffineCount) -> AffineCount:
        """Returns a count that is no less than either, as symbols are not negative."""
        own, others = dict(self.slopes), dict(other.slopes)
        slopes = {s: max(own.get(s, 0), others.get(s, 0)) for s in own | others}
        base = max(self.base, other.base)
        return AffineCount(base, tuple((s, c) for s, c in slopes.items() if c))

    def extreme(self, symbol: Symbol, *, largest: bool) -> AffineCount:
        """Returns the largest (smallest) value over a symbol's range, affine in the others."""
        rest = tuple((s, c) for s, c in self.slopes if s is not symbol)
        slope = next((c for s, c in self.slopes if s is symbol), 0)
        result = AffineCount(self.base, rest)
        if slope == 0 or (slope > 0) != largest:
            return result
        assert symbol.count is not None
        last = AffineCount(symbol.count - 1, tuple(symbol.slopes.items()))
        return result.plus(
            AffineCount(last.base * slope, tuple((s, c * slope) for s, c in last.slopes))
        )

    def over_symbols(self, *, largest: bool) -> int | None:
        """Returns the largest (smallest) value over all ranges; None if one has no end."""
        count = self
        while count.slopes:
            symbol, slope = max(count.slopes, key=lambda term: term[0].serial)
            if symbol.count is None and (slope > 0) == largest:
                return None
            count = count.extreme(symbol, largest=largest)
        return count.base

    def is_more_than(self, number: int) -> bool:
        """Returns whether it is more on the whole: in the middle of the counters of loops around,
        and at the largest value of every other symbol.
        """
        highest = self
        for symbol, _ in sorted(self.slopes, key=lambda term: -term[0].serial):
            if not symbol.in_loops:
                highest = highest.extreme(symbol, largest=True)
        least, most = highest.over_symbols(largest=False), highest.over_symbols(largest=True)
        return least is None or most is None or least + most > 2 * number


@dataclass(frozen=True, slots=True)
class Counted:
    """What an instruction does to an mbarrier, or a bulk copy: ``lanes`` of the warp execute it.

    ``place`` is the mbarrier, "" of a copy of a group; ``number`` what it counts for each lane, or
    the parity that it waits for (:mod:`ptxwcet.ir.mbarriers`). ``rows`` are those of a box, of
    ``number`` bytes in all.
    """

    index: int
    place: str
    lanes: int
    number: int
    rows: int = 0


@dataclass(frozen=True, slots=True)
class Visit:
    """One execution of a basic block; ``taken``: the warp goes on at the target of its branch.

    ``counted``: what it does to mbarriers, in order.
    """

    block: int
    taken: bool
    counted: tuple[Counted, ...] = ()


@dataclass(frozen=True, slots=True)
class Together:
    """Why all warps of the block execute a loop's iterations equally often: barriers may be in it.

    Their number is ``counted``, a formula in the numbers of the iterations around, or the branches
    that end the loop are taken alike by the whole block; ``if_race_free``: they are if the kernel
    has no data races. ``site`` is a block in the loop. Equal for loops that warps of different
    paths execute equally often.
    """

    site: int
    counted: str = ""
    if_race_free: bool = False


@dataclass(frozen=True, slots=True)
class PathRepeat:
    """``body`` executed at least ``least`` and at most ``count`` times in a row.

    Where these differ and barriers are in the body, ``together`` says why all warps of the block
    execute it equally often: without a reason there is no bound. With a ``step`` both numbers grow
    by it with each iteration of the PathRepeat around (a triangular loop).
    """

    count: AffineCount
    least: AffineCount
    body: tuple[PathNode, ...]
    together: Together | None = None
    step: int = 0


@dataclass(frozen=True, slots=True)
class PathLoop:
    """Everything that one entry of loop ``loop`` executes; at most ``iterations`` bodies.

    ``proof`` is the certificate of a loop that is not counted, and what that was confirmed for;
    ``one_by_one``: it was counted by executing each iteration.
    """

    loop: int
    body: tuple[PathNode, ...]
    iterations: AffineCount
    origin: BoundOrigin
    reason: str
    proof: Proof | None = field(default=None, compare=False)
    one_by_one: bool = field(default=False, compare=False)

    @property
    def obtained(self) -> str:
        """How the bound was obtained, in a word: that of a proof is a certificate."""
        return "certificate" if self.proof is not None else self.origin.value


@dataclass(frozen=True, slots=True)
class PathUnordered:
    """Both sides of a divergent branch, in an order that the hardware chooses."""

    first: tuple[PathNode, ...]
    second: tuple[PathNode, ...]


@dataclass(frozen=True, slots=True)
class PathFork:
    """A visit of ``block`` whose branch is not decided, and what follows it up to the meeting.

    The warp executes ``first``, where the branch leads, or ``second``, or both in either order,
    because some of its lanes may go one way and some the other. ``straight``: the branch leads to
    the meeting itself, so that a warp whose lanes part does not take it. ``jumps`` is False for a
    guarded end of threads: lanes that take it leave the kernel.
    """

    block: int
    first: tuple[PathNode, ...]
    second: tuple[PathNode, ...]
    straight: bool
    jumps: bool

    @property
    def visits(self) -> tuple[Visit, Visit, Visit]:
        """How the block is visited before ``first`` alone, ``second`` alone, and both."""
        parting = self.jumps and not self.straight
        block = self.block
        return Visit(block, self.jumps), Visit(block, False), Visit(block, parting)


Departure = tuple[object, ...]
"""Where a way leaves a loop, as :class:`~ptxwcet.flow.walk.open_branch.OpenLoop` notes it."""


@dataclass(frozen=True, slots=True)
class PathChoice:
    """Exactly one alternative is executed; which one is not known.

    ``site`` is the block whose branch decides it if all warps of the block take it alike (a loop's
    header if that ends the loop), else None. ``if_race_free``: they do if the kernel has no data
    races. ``taken_in`` tells the ways out of a loop from one another, one entry each: at which
    branches they leave it and, where several do at one, in which passes. Equal ways of several
    passes are one, so that their order alone does not say it. ``early`` is what lanes execute
    that end here while others go on: with the branch before it the last alternative, or, if it is
    executed later, at a barrier that the others come to. ``by_parts``: parts of a warp that has
    diverged for good (:class:`PathParts`) decide each for itself, and each may begin here.
    """

    alternatives: tuple[tuple[PathNode, ...], ...]
    site: int | None = None
    if_race_free: bool = False
    taken_in: tuple[tuple[Departure, ...], ...] = ()
    early: tuple[Visit, ...] = ()
    by_parts: bool = False


@dataclass(frozen=True, slots=True)
class PathEnd:
    """A visit of a block whose branch may lead to the end of the kernel.

    The warp visits it as ``leave`` and then ``last`` and has ended, or as ``stay`` and goes on,
    all of its lanes or some. On a side of a branch only the lanes of that side end.
    """

    leave: Visit
    last: tuple[Visit, ...]
    stay: Visit


@dataclass(frozen=True, slots=True)
class PathParts:
    """``least`` to ``most`` times one of ``sides``, each time executed by a part of the warp.

    With a ``least`` of 0 a side is what lanes execute that left a loop alone, before they meet the
    others: when they leave, or when the others have come to the meeting. With 1 it is a loop in
    which the warp diverges without reconvergence, up to the block where its parts meet again: the
    first part executes one of the ways through the side, each other one the rest of such a way
    behind a PathChoice ``by_parts`` in it.
    """

    most: int
    sides: tuple[tuple[PathNode, ...], ...]
    least: int = 0


@dataclass(frozen=True, slots=True)
class PathGone:
    """All lanes that came here have ended: what follows is for those of another side."""


_Leaf = Visit | PathEnd | PathGone
PathNode = _Leaf | PathRepeat | PathLoop | PathUnordered | PathFork | PathChoice | PathParts
Path = tuple[PathNode, ...]


def chosen_by_parts(
    block: int, first: Path = (), second: Path = (), *, jumps: bool = True
) -> PathChoice:
    """Returns the visit of a branch that each part of a warp takes for itself, and its sides.

    ``jumps`` is False for a guarded end of threads.
    """
    ways = (Visit(block, jumps), *first), (Visit(block, taken=False), *second)
    return PathChoice(ways, by_parts=True)


@dataclass(frozen=True, slots=True)
class WarpPath:
    """What the warps numbered ``warps`` execute, from entry to exit."""

    nodes: Path
    warps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BlockPaths:
    """The paths of all warps of the blocks with an index from ``first`` to ``last``.

    ``relied`` are loops whose stated bounds have left something out, here or in other blocks;
    ``excluded`` says in words which values and blocks facts have left out of the launch.
    """

    first: Dim3
    last: Dim3
    warps: tuple[WarpPath, ...]
    relied: frozenset[int] = frozenset()
    excluded: tuple[str, ...] = ()


def parts_of(node: PathNode) -> tuple[Path, ...]:
    """Returns the paths inside of a node, in order."""
    match node:
        case PathRepeat(body=body) | PathLoop(body=body):
            return (body,)
        case PathUnordered(first, second) | PathFork(first=first, second=second):
            return first, second
        case PathChoice(alternatives) | PathParts(sides=alternatives):
            return alternatives
        case Visit() | PathEnd() | PathGone():
            return ()


def _with_parts(node: PathNode, parts: tuple[Path, ...]) -> PathNode:
    """Returns the node with other paths in the place of those inside of it."""
    match node:
        case PathRepeat() | PathLoop():
            return replace(node, body=parts[0])
        case PathUnordered() | PathFork():
            return replace(node, first=parts[0], second=parts[1])
        case PathChoice():
            return replace(node, alternatives=parts)
        case PathParts():
            return replace(node, sides=parts)
        case Visit() | PathEnd() | PathGone():
            return node


def nodes_in(nodes: Path) -> Iterator[PathNode]:
    """Yields all nodes of a path, outer before inner. Cost: linear in the tree."""
    for node in nodes:
        yield node
        for part in parts_of(node):
            yield from nodes_in(part)


def close_symbol(nodes: Path, symbol: Symbol, *, growing: bool = False) -> Path:
    """Removes a symbol from all counts below: their extremes over its range take its place.

    With ``growing``, ``nodes`` are the iterations that ``symbol`` counts: counts that are affine in
    it alone get a step instead, and stay exact.
    """
    growing = growing and not symbol.slopes
    return tuple(_close_node(node, symbol, growing) for node in nodes)


def _close_node(node: PathNode, symbol: Symbol, growing: bool) -> PathNode:
    # what grows below may depend on the loops around it: only bodies of loops stay iterations
    grows_on = growing and isinstance(node, PathLoop)
    parts = tuple(close_symbol(part, symbol, growing=grows_on) for part in parts_of(node))
    if isinstance(node, PathLoop):
        node = replace(node, iterations=node.iterations.extreme(symbol, largest=True))
    if not isinstance(node, PathRepeat):
        return _with_parts(node, parts)
    count, least, (inside,) = node.count, node.least, parts
    if growing and count == least and len(count.slopes) == 1 and inside == node.body:
        (counter, step) = count.slopes[0]
        if counter is symbol:
            first = AffineCount(count.base)
            return PathRepeat(first, first, node.body, step=step)
    most, fewest = count.extreme(symbol, largest=True), least.extreme(symbol, largest=False)
    together = node.together
    if count == least and most != fewest:
        together = Together(next(visited_blocks(node.body)), str(count))
    return PathRepeat(most, fewest, inside, together, node.step)


def at_value(nodes: Path, s: int) -> Path:
    """Returns the path where the only symbol in its counts has a value. Cost: linear."""

    def number(count: AffineCount) -> AffineCount:
        return AffineCount(count.base + sum(slope * s for _, slope in count.slopes))

    def node_at(node: PathNode) -> PathNode:
        node = _with_parts(node, tuple(at_value(part, s) for part in parts_of(node)))
        if isinstance(node, PathRepeat):
            return replace(node, count=number(node.count), least=number(node.least))
        if isinstance(node, PathLoop):
            return replace(node, iterations=number(node.iterations))
        return node

    return tuple(node_at(node) for node in nodes)


def is_exact(nodes: Path) -> bool:
    """Returns whether all iteration counts below are known exactly."""
    return not any(
        isinstance(node, PathChoice | PathFork | PathEnd | PathParts)
        or (isinstance(node, PathRepeat) and node.count != node.least)
        for node in nodes_in(nodes)
    )


def may_end(nodes: Path) -> bool:
    """Returns whether lanes may end for good on the way through. Cost: linear in the tree."""
    return any(isinstance(node, PathEnd | PathGone) for node in nodes_in(nodes))


def early_ends(nodes: Path) -> dict[tuple[Visit, ...], int]:
    """Returns what lanes of a warp execute that end while others go on, and how often a warp may.

    As often as there are places, and not more than there are lanes but the one that goes on last.
    Cost: linear in the tree.
    """
    ends: dict[tuple[Visit, ...], int] = {}
    for node in nodes:
        times = _MOST_EARLY if isinstance(node, PathRepeat | PathParts) else 1
        if isinstance(node, PathChoice) and node.early:
            ends[node.early] = min(ends.get(node.early, 0) + 1, _MOST_EARLY)
        for part in parts_of(node):
            for what, count in early_ends(part).items():
                ends[what] = min(ends.get(what, 0) + count * times, _MOST_EARLY)
    return ends


def grows(nodes: Path) -> bool:
    """Returns whether a count depends on the number of the iteration that ``nodes`` are."""
    return any(
        (isinstance(node, PathRepeat) and node.step != 0)
        or (isinstance(node, PathLoop) and grows(node.body))
        for node in nodes
    )


def visited_blocks(nodes: Path) -> Iterator[int]:
    """Yields the blocks of a path, each occurrence in the tree once."""
    return (block for block, _ in visits(nodes))


def visits(nodes: Path) -> Iterator[tuple[int, bool | None]]:
    """Yields the blocks of a path, and whether their branch is taken.

    It is None if it may do either, or does both. Each occurrence in the tree comes once.
    """
    for node, following in zip_longest(nodes, nodes[1:]):
        match node:
            case Visit(block, taken):
                yield block, None if isinstance(following, PathUnordered) else taken
            case PathFork(block):
                yield block, None
            case PathEnd(leave, last):
                yield from ((visit.block, visit.taken) for visit in (leave, *last))
        for part in parts_of(node):
            yield from visits(part)


def rests_on_no_races(nodes: Path) -> bool:
    """Returns whether warps of a block go together only if the kernel has no data races."""
    return any(
        (isinstance(node, PathChoice) and node.if_race_free)
        or (
            isinstance(node, PathRepeat)
            and node.together is not None
            and node.together.if_race_free
        )
        or any(map(rests_on_no_races, parts_of(node)))
        for node in nodes
        if not (isinstance(node, PathParts) and node.least)  # no barrier in it
    )


def largest_bounds(paths: Iterable[Path]) -> dict[int, PathLoop]:
    """Returns the first entry of each loop with the largest bound of all paths."""
    most: dict[int, PathLoop] = {}
    for nodes in paths:
        for entry in loop_entries(nodes):
            earlier = most.get(entry.loop)
            if earlier is None or entry.iterations.base > earlier.iterations.base:
                most[entry.loop] = entry
    return most


def loop_entries(nodes: Path) -> Iterator[PathLoop]:
    """Yields all loops of a path, outer before inner."""
    return (node for node in nodes_in(nodes) if isinstance(node, PathLoop))
