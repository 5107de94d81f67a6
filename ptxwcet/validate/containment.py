"""Checks whether a sequence of basic blocks is one of those that an analysed path represents."""

from __future__ import annotations

from collections.abc import Iterator

from ptxwcet.flow.walk.path import (
    AffineCount,
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
    nodes_in,
)
from ptxwcet.support.records import dataclass


@dataclass(frozen=True, slots=True)
class Departure:
    """The place where a sequence leaves a path: the steps before, and ``step`` (None: the end)."""

    position: int
    step: Visit | None


def find_departure(path: Path, executed: Path) -> Departure | None:
    """Returns None if ``executed``, a single sequence, is one that ``path`` allows.

    The order of the sides of a divergent branch is free, a loop may run any number of times within
    its range, one alternative of a choice is taken; a side that is also in a PathParts may be
    executed there instead of at its branch. Cost: linear in the sequence for paths without
    choices, unrolled; at most quadratic with choices.
    """
    steps = tuple(unrolled(executed))
    matcher = _Matcher(steps, frozenset(_late_sides(path)))
    *whole, last = path or (PathGone(),)
    if isinstance(last, PathParts) and not last.least:  # of those that end before, too
        ends = matcher.side(tuple(whole), frozenset({0}))
        ends = matcher.late(last.sides, ends, last.most)
    else:
        ends = matcher.side(path, frozenset({0}))
    if len(steps) in ends:
        return None
    place = matcher.furthest
    return Departure(place, steps[place] if place < len(steps) else None)


def _late_sides(path: Path) -> Iterator[Path]:
    """Yields the sides that lanes may execute when the others are at the reconvergence point."""
    for node in nodes_in(path):
        if isinstance(node, PathParts) and not node.least:
            yield from node.sides


def unrolled(path: Path) -> Iterator[Visit]:
    """Yields the visits of a path with exact counts and one order. Raises ValueError."""
    for node in path:
        match node:
            case Visit():
                yield node
            case PathRepeat(count, least, body) if count == least:
                for _ in range(_number(count)):
                    yield from unrolled(body)
            case _:
                raise ValueError("an executed path has one order and exact counts")


def length(path: Path) -> int:
    """Returns the number of visits of :func:`unrolled`. Cost: linear in the tree."""
    return sum(
        _number(node.count) * length(node.body) if isinstance(node, PathRepeat) else 1
        for node in path
    )


def _number(count: AffineCount) -> int:
    if count.slopes:
        raise ValueError("a count depends on another loop")
    return count.base


class _Matcher:
    """A mapping from positions in the sequence to those that a path may lead to."""

    def __init__(self, steps: tuple[Visit, ...], late: frozenset[Path]) -> None:
        self._steps = steps
        self._late_sides = late
        # the positions where a body may end, and where lanes in it may end for good
        self._known: dict[
            tuple[int, int, frozenset[int], int, frozenset[int]],
            tuple[frozenset[int], frozenset[int]],
        ] = {}
        self._parts: frozenset[int] = frozenset()  # where a part of the warp may have begun
        self._gone: frozenset[int] = frozenset()
        self.furthest = 0

    def side(self, nodes: Path, starts: frozenset[int]) -> frozenset[int]:
        """Returns where ``nodes``, all that some lanes execute, may end: at the end or an exit.

        Then the lanes of the other side continue.
        """
        outer, self._gone = self._gone, frozenset()
        ends = self.body(nodes, starts) | self._gone
        self._gone = outer
        return ends

    def body(
        self, nodes: Path, starts: frozenset[int], iteration: int = 0, *, begin: int = 0
    ) -> frozenset[int]:
        """Returns where ``nodes[begin:]``, in iteration ``iteration`` of the repeat, may end.

        Answers are cached: the sides of nested forks are needed repeatedly.
        """
        key = (id(nodes), begin, starts, iteration, self._parts)
        answer = self._known.get(key)
        if answer is None:
            outer, self._gone = self._gone, frozenset()
            ends = starts
            for node in nodes[begin:]:
                if not ends and not self._parts:
                    break
                ends = self._node(node, ends, iteration)
            answer = self._known[key] = (ends, self._gone)
            self._gone = outer
        self._gone |= answer[1]
        return answer[0]

    def _node(self, node: PathNode, starts: frozenset[int], iteration: int) -> frozenset[int]:
        match node:
            case Visit():
                steps = self._steps
                ends = frozenset(p + 1 for p in starts if p < len(steps) and steps[p] == node)
                self.furthest = max(self.furthest, *ends, 0)
                return ends
            case PathRepeat(count, least, body, step=step):
                more = step * iteration
                return self._repeat(body, starts, (_number(least) + more, _number(count) + more))
            case PathLoop(body=body):
                # Its last lanes may end for good in it while those that left early wait after it.
                return self._of_some(body, starts, iteration)
            case PathUnordered(left, right):
                return self.side(right, self.side(left, starts)) | self.side(
                    left, self.side(right, starts)
                )
            case PathFork(first=left, second=right):
                taken, past, parting = (self._node(v, starts, 0) for v in node.visits)
                both = self.side(right, self.side(left, parting)) | self.side(
                    left, self.side(right, parting)
                )
                for here, elsewhere in ((left, right), (right, left)):
                    if elsewhere in self._late_sides:
                        both |= self.side(here, parting)
                return self.side(left, taken) | self.side(right, past) | both
            case PathParts(most, sides, least):
                return self._diverged(node, starts) if least else self.late(sides, starts, most)
            case PathChoice(alternatives, by_parts=True):
                return self._by_parts(alternatives, starts)
            case PathGone():
                self._gone |= starts
                return frozenset()
            case PathEnd(leave, last, stay):
                gone = self._node(leave, starts, 0)
                self._gone |= gone | self.body(last, gone)
                return self._node(stay, starts, 0)
            case PathChoice(alternatives):
                # Only some lanes execute these; they continue alone while others wait after them.
                way = self._of_some if () in alternatives else self.body
                return frozenset[int]().union(*(way(side, starts) for side in alternatives))

    def _of_some(self, nodes: Path, starts: frozenset[int], iteration: int = 0) -> frozenset[int]:
        """Returns where ``nodes`` may end, executed by all lanes or by some while others wait.

        The lanes that end for good in it were all lanes, or the others continue.
        """
        outer, self._gone = self._gone, frozenset()
        ends = self.body(nodes, starts, iteration) | self._gone
        self._gone |= outer
        return ends

    def late(self, sides: tuple[Path, ...], starts: frozenset[int], most: int) -> frozenset[int]:
        """Returns where up to ``most`` of ``sides``, executed in sequence, may end."""
        ends = starts
        for _ in range(most):
            starts = frozenset[int]().union(*(self.side(side, starts) for side in sides)) - ends
            if not starts:
                break
            ends |= starts
        return ends

    def _by_parts(self, alternatives: tuple[Path, ...], starts: frozenset[int]) -> frozenset[int]:
        """Returns ends of a branch's sides for parts of the warp that come to it or begin in it.

        A part that comes to it may continue with another side than that of its jump.
        """
        visited = [self._node(way[0], starts, 0) for way in alternatives]
        begun = visited[0] | self._parts
        rests = zip(alternatives, visited, strict=True)
        return frozenset[int]().union(*(self.body(way, at | begun, begin=1) for way, at in rests))

    def _diverged(self, node: PathParts, starts: frozenset[int]) -> frozenset[int]:
        """Returns ends of the first part, then of others that begin where one has ended."""
        ((body,), outer) = node.sides, self._parts
        self._parts = frozenset()
        ends = latest = self.side(body, starts)
        for _ in range(node.most - 1):
            self._parts = latest
            new = self.side(body, frozenset())
            self._parts = frozenset()
            latest = new - ends
            if not latest:
                break
            ends |= latest
        self._parts = outer
        return ends

    def _repeat(self, body: Path, starts: frozenset[int], times: tuple[int, int]) -> frozenset[int]:
        least, most = times
        if self._parts:
            least = min(least, 1)  # a part that begins inside has fewer iterations left
        ends = starts if least <= 0 else frozenset[int]()
        for iteration in range(most):
            before = starts
            starts = self.body(body, starts, iteration)
            if iteration + 1 >= least:
                ends |= starts
            if not starts or (self._parts and starts == before):
                break
        return ends
