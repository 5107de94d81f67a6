"""What a warp executes, block by block, as a tree: the result of path extraction.

``Visit`` is one execution of a basic block, ``PathRepeat`` a loop iteration pattern and its count,
``PathGrowing`` a pattern whose count grows with each iteration around it (a triangular loop),
``PathLoop`` groups what one entry of a source loop executes, ``PathUnordered`` the two sides of a
divergent branch, ``PathFork`` a branch that is not decided and its sides, ``PathChoice`` some
alternatives of which one is executed, ``PathEnd`` a place where the warp may end. Loops are never
unrolled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ptxwcet.flow.launch import WARP_SIZE, BoundOrigin, Dim3
from ptxwcet.flow.values.regions import Symbol

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
        """Sum of two counts."""
        slopes = dict(self.slopes)
        for symbol, slope in other.slopes:
            slopes[symbol] = slopes.get(symbol, 0) + slope
        return AffineCount(self.base + other.base, tuple((s, c) for s, c in slopes.items() if c))

    def times(self, factor: int) -> AffineCount:
        """The count multiplied by a non-negative constant."""
        return AffineCount(self.base * factor, tuple((s, c * factor) for s, c in self.slopes))

    def no_less(self, other: AffineCount) -> AffineCount:
        """A count that is no less than either, whatever the symbols are: they are not negative."""
        one, two = dict(self.slopes), dict(other.slopes)
        slopes = {symbol: max(one.get(symbol, 0), two.get(symbol, 0)) for symbol in one | two}
        base = max(self.base, other.base)
        return AffineCount(base, tuple((s, c) for s, c in slopes.items() if c))

    def extreme(self, symbol: Symbol, *, largest: bool) -> AffineCount:
        """The largest (smallest) value over the symbol's range, affine in the other symbols."""
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
        """The largest (smallest) value over the ranges of all symbols; None if one has no end."""
        count = self
        while count.slopes:
            symbol, slope = max(count.slopes, key=lambda term: term[0].serial)
            if symbol.count is None and (slope > 0) == largest:
                return None
            count = count.extreme(symbol, largest=largest)
        return count.base

    def is_more_than(self, number: int) -> bool:
        """Whether it is more on the whole: in the middle of the counters of loops around, and at
        the largest value of every other symbol.
        """
        highest = self
        for symbol, _ in sorted(self.slopes, key=lambda term: -term[0].serial):
            if not symbol.in_loops:
                highest = highest.extreme(symbol, largest=True)
        least, most = highest.over_symbols(largest=False), highest.over_symbols(largest=True)
        return least is None or most is None or least + most > 2 * number


@dataclass(frozen=True, slots=True)
class Visit:
    """One execution of a basic block; ``taken``: the warp goes on at the target of its branch."""

    block: int
    taken: bool


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
    execute it equally often: without a reason there is no bound.
    """

    count: AffineCount
    least: AffineCount
    body: tuple[PathNode, ...]
    together: Together | None = None


@dataclass(frozen=True, slots=True)
class PathGrowing:
    """``body`` executed ``first + step * i`` times in iteration i of the PathRepeat around it."""

    first: int
    step: int
    body: tuple[PathNode, ...]


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
    executed later, at a barrier that the others come to.
    """

    alternatives: tuple[tuple[PathNode, ...], ...]
    site: int | None = None
    if_race_free: bool = False
    taken_in: tuple[tuple[Departure, ...], ...] = ()
    early: tuple[Visit, ...] = ()


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
class PathLate:
    """What lanes that left a loop execute late: at most ``most`` times one of ``sides``.

    Each side is what lanes that left alone execute before they meet the others, in any order: when
    they leave or when the others have come to the meeting.
    """

    most: int
    sides: tuple[tuple[PathNode, ...], ...]


@dataclass(frozen=True, slots=True)
class PathPart:
    """A visit of ``block`` where a warp may fall apart: a part goes on with one of the sides.

    ``jumps`` is False for a guarded end of threads. Occurs in PathScatter only.
    """

    block: int
    first: tuple[PathNode, ...]
    second: tuple[PathNode, ...]
    jumps: bool


@dataclass(frozen=True, slots=True)
class PathScatter:
    """A loop in which a warp falls apart, up to the block where its parts meet again.

    At most ``most`` parts execute it one after the other: the first one of the ways through
    ``body``, each other one the rest of such a way behind a PathPart in it.
    """

    most: int
    body: tuple[PathNode, ...]


@dataclass(frozen=True, slots=True)
class PathGone:
    """All lanes that came here have ended: what follows is for those of another side."""


_Leaf = Visit | PathEnd | PathGone
_Sides = PathUnordered | PathFork | PathPart
PathNode = (
    _Leaf | PathRepeat | PathGrowing | PathLoop | _Sides | PathChoice | PathLate | PathScatter
)
Path = tuple[PathNode, ...]


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


def close_symbol(nodes: Path, symbol: Symbol, *, growing: bool = False) -> Path:
    """Removes a symbol from all counts below: their extremes over its range take its place.

    With ``growing``, ``nodes`` are the iterations that ``symbol`` counts: counts that are affine in
    it alone become PathGrowing instead, and stay exact.
    """
    growing = growing and not symbol.slopes
    return tuple(_close_node(node, symbol, growing) for node in nodes)


def _close_node(node: PathNode, symbol: Symbol, growing: bool) -> PathNode:
    match node:
        case Visit() | PathEnd() | PathGone():
            return node
        case PathGrowing(body=body):  # counts of loops in it may depend on those around it
            return replace(node, body=close_symbol(body, symbol))
        case PathRepeat(count, least, body):
            inside = close_symbol(body, symbol)
            if growing and count == least and len(count.slopes) == 1 and inside == body:
                (counter, step) = count.slopes[0]
                if counter is symbol:
                    return PathGrowing(count.base, step, body)
            most, fewest = count.extreme(symbol, largest=True), least.extreme(symbol, largest=False)
            together = node.together
            if count == least and most != fewest:
                together = Together(next(visited_blocks(body)), str(count))
            return PathRepeat(most, fewest, inside, together)
        case PathLoop(body=body, iterations=iterations):
            return replace(
                node,
                body=close_symbol(body, symbol, growing=growing),
                iterations=iterations.extreme(symbol, largest=True),
            )
        case PathUnordered(first, second):
            return PathUnordered(close_symbol(first, symbol), close_symbol(second, symbol))
        case PathScatter(body=body):
            return replace(node, body=close_symbol(body, symbol))
        case PathFork(first=first, second=second) | PathPart(first=first, second=second):
            sides = close_symbol(first, symbol), close_symbol(second, symbol)
            return replace(node, first=sides[0], second=sides[1])
        case PathLate(sides=late):
            return replace(node, sides=tuple(close_symbol(side, symbol) for side in late))
        case PathChoice(alternatives):
            sides_closed = tuple(close_symbol(side, symbol) for side in alternatives)
            return replace(node, alternatives=sides_closed)


def at_value(nodes: Path, s: int) -> Path:
    """The path where the only symbol in its counts has a value. Cost: linear in the tree."""

    def number(count: AffineCount) -> AffineCount:
        return AffineCount(count.base + sum(slope * s for _, slope in count.slopes))

    def node_at(node: PathNode) -> PathNode:
        match node:
            case PathRepeat(count, least, body):
                return replace(
                    node, count=number(count), least=number(least), body=at_value(body, s)
                )
            case PathLoop(body=body, iterations=iterations):
                return replace(node, body=at_value(body, s), iterations=number(iterations))
            case PathGrowing(body=body):
                return replace(node, body=at_value(body, s))
            case PathUnordered(first, second):
                return PathUnordered(at_value(first, s), at_value(second, s))
            case PathFork(first=first, second=second) | PathPart(first=first, second=second):
                return replace(node, first=at_value(first, s), second=at_value(second, s))
            case PathScatter(body=body):
                return replace(node, body=at_value(body, s))
            case PathChoice(alternatives):
                return replace(node, alternatives=tuple(at_value(one, s) for one in alternatives))
            case PathLate(sides=sides):
                return replace(node, sides=tuple(at_value(one, s) for one in sides))
            case Visit() | PathEnd() | PathGone():
                return node

    return tuple(node_at(node) for node in nodes)


def is_exact(nodes: Path) -> bool:
    """Whether all iteration counts below are known exactly."""
    for node in nodes:
        match node:
            case PathRepeat(count, least, body):
                if count != least or not is_exact(body):
                    return False
            case PathLoop(body=body) | PathGrowing(body=body):
                if not is_exact(body):
                    return False
            case PathUnordered(first, second):
                if not is_exact(first + second):
                    return False
            case PathChoice() | PathFork() | PathEnd() | PathLate() | PathScatter() | PathPart():
                return False
            case _:
                pass
    return True


def may_end(nodes: Path) -> bool:
    """Whether lanes may end for good on the way through. Cost: linear in the tree."""
    for node in nodes:
        match node:
            case PathEnd() | PathGone():
                return True
            case PathRepeat(body=body) | PathLoop(body=body) | PathGrowing(body=body):
                ends = may_end(body)
            case PathScatter(body=body):
                ends = may_end(body)
            case (
                PathUnordered(first, second)
                | PathFork(first=first, second=second)
                | PathPart(first=first, second=second)
            ):
                ends = may_end(first) or may_end(second)
            case PathChoice(alternatives) | PathLate(sides=alternatives):
                ends = any(may_end(side) for side in alternatives)
            case Visit():
                ends = False
        if ends:
            return True
    return False


def early_ends(nodes: Path) -> dict[tuple[Visit, ...], int]:
    """What lanes of a warp execute that end while others go on, and how often a warp may.

    As often as there are places, and not more than there are lanes but the one that goes on last.
    Cost: linear in the tree.
    """
    found: dict[tuple[Visit, ...], int] = {}
    for node in nodes:
        times = 1
        parts: tuple[Path, ...] = ()
        match node:
            case PathLoop(body=body):
                parts = (body,)
            case PathRepeat(body=body) | PathGrowing(body=body) | PathScatter(body=body):
                parts, times = (body,), _MOST_EARLY
            case (
                PathUnordered(first, second)
                | PathFork(first=first, second=second)
                | PathPart(first=first, second=second)
            ):
                parts = (first, second)
            case PathChoice(alternatives, early=early):
                parts = alternatives
                if early:
                    found[early] = min(found.get(early, 0) + 1, _MOST_EARLY)
            case PathLate(sides=sides):
                parts, times = sides, _MOST_EARLY
            case Visit() | PathEnd() | PathGone():
                pass
        for part in parts:
            for what, count in early_ends(part).items():
                found[what] = min(found.get(what, 0) + count * times, _MOST_EARLY)
    return found


def grows(nodes: Path) -> bool:
    """Whether a count depends on the number of the iteration that ``nodes`` are."""
    return any(
        isinstance(node, PathGrowing) or (isinstance(node, PathLoop) and grows(node.body))
        for node in nodes
    )


def visited_blocks(nodes: Path) -> Iterator[int]:
    """The blocks of a path, each occurrence in the tree once."""
    return (block for block, _ in visits(nodes))


def visits(nodes: Path) -> Iterator[tuple[int, bool | None]]:
    """The blocks of a path with whether it goes on at the target of the branch at their end.

    It is None if it may do either, or does both. Each occurrence in the tree comes once.
    """
    for number, node in enumerate(nodes):
        match node:
            case Visit(block, taken):
                parts = any(
                    isinstance(one, PathUnordered) for one in nodes[number + 1 : number + 2]
                )
                yield block, None if parts else taken
            case PathRepeat(body=body) | PathLoop(body=body) | PathGrowing(body=body):
                yield from visits(body)
            case PathUnordered(first, second):
                yield from visits(first)
                yield from visits(second)
            case PathFork(block, first, second) | PathPart(block, first, second):
                yield block, None
                yield from visits(first)
                yield from visits(second)
            case PathScatter(_, body):
                yield from visits(body)
            case PathChoice(alternatives) | PathLate(sides=alternatives):
                for side in alternatives:
                    yield from visits(side)
            case PathEnd(leave, last):
                yield from ((visit.block, visit.taken) for visit in (leave, *last))


def rests_on_no_races(nodes: Path) -> bool:
    """Whether warps of a block go together only if the kernel has no data races."""
    for node in nodes:
        match node:
            case PathChoice(alternatives, _, if_race_free):
                rests = if_race_free or any(rests_on_no_races(side) for side in alternatives)
            case PathRepeat(body=body, together=together):
                races = together is not None and together.if_race_free
                rests = races or rests_on_no_races(body)
            case PathLoop(body=body) | PathGrowing(body=body):
                rests = rests_on_no_races(body)
            case PathScatter(body=body):  # no barrier in it
                rests = False
            case (
                PathUnordered(first, second)
                | PathFork(first=first, second=second)
                | PathPart(first=first, second=second)
            ):
                rests = rests_on_no_races(first) or rests_on_no_races(second)
            case PathLate(sides=sides):
                rests = any(rests_on_no_races(side) for side in sides)
            case Visit() | PathEnd() | PathGone():
                rests = False
        if rests:
            return True
    return False


def loop_entries(nodes: Path) -> Iterator[PathLoop]:
    """All loops of a path, outer before inner."""
    for node in nodes:
        match node:
            case PathLoop(body=body):
                yield node
                yield from loop_entries(body)
            case PathRepeat(body=body) | PathGrowing(body=body):
                yield from loop_entries(body)
            case (
                PathUnordered(first, second)
                | PathFork(first=first, second=second)
                | PathPart(first=first, second=second)
            ):
                yield from loop_entries(first)
                yield from loop_entries(second)
            case PathScatter(_, body):
                yield from loop_entries(body)
            case PathChoice(alternatives) | PathLate(sides=alternatives):
                for side in alternatives:
                    yield from loop_entries(side)
            case _:
                pass
