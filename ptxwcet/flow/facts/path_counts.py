"""How often a path makes certain visits: at least, and at most."""

from __future__ import annotations

from collections.abc import Iterable

from ptxwcet.flow.launch import Outcome
from ptxwcet.flow.walk.path import (
    Path,
    PathChoice,
    PathEnd,
    PathFork,
    PathGone,
    PathGrowing,
    PathLate,
    PathLoop,
    PathNode,
    PathPart,
    PathRepeat,
    PathScatter,
    PathUnordered,
    Visit,
    may_end,
)

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
            case PathGrowing(first, step, body):
                executions = times * first + step * (times * (times - 1) // 2)
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
            case PathPart(block, first, second, jumps):
                return self._one_of(
                    ((Visit(block, jumps), *first), (Visit(block, taken=False), *second))
                )
            case PathChoice(alternatives):
                return self._one_of(alternatives)
            case PathEnd(leave, last, stay):
                return self._one_of(((leave, *last), (stay,)))
            case PathLate(most, sides):
                return 0, most * self._one_of(sides)[1]
            case PathScatter(most, body):
                return 0, most * self.rounds(body, 1)[1]
            case PathGone():
                return 0, 0
            case PathGrowing() | PathLoop():
                return self._node(node, 1)

    def _one_of(self, ways: Iterable[Path]) -> _Range:
        found = [self.rounds(way, 1) for way in ways] or [(0, 0)]
        return min(low for low, _ in found), max(high for _, high in found)


def _sum(ranges: Iterable[_Range]) -> _Range:
    low = high = 0
    for one, other in ranges:
        low, high = low + one, high + other
    return low, high
