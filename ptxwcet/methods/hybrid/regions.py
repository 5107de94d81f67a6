"""Trees of acyclic regions between a source and a sink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from ptxwcet.methods.hybrid.tree_nodes import Alternative, Serial, TimingTree
from ptxwcet.support.graph import topological_order

Edges: TypeAlias = dict[int, list[tuple[int, TimingTree]]]
"""By source: the target of each edge, and what it takes."""


def region_tree(
    source: int, sink: int, edges: Edges, attached: Mapping[int, Sequence[TimingTree]]
) -> TimingTree | None:
    """What all ways from ``source`` to ``sink`` take; ``attached`` comes before leaving a vertex.

    Alternatives end where all of them meet, at the immediate post-dominator. None if there is a
    cycle or no way. Cost: quadratic in the vertices.
    """
    pairs = ((vertex, target) for vertex, ways in edges.items() for target, _ in ways)
    order = topological_order(source, pairs)
    if order is None:
        return None
    to_sink = _Ways(sink)
    for vertex in reversed(order):
        if vertex != sink:
            to_sink.add(vertex, edges.get(vertex, []), attached.get(vertex, ()))
    return to_sink.chain(source, sink) if source in to_sink.next else None


class _Ways:
    """``next`` is the immediate post-dominator of each vertex on a way to the sink."""

    def __init__(self, sink: int) -> None:
        self.next: dict[int, int] = {sink: sink}
        self._height: dict[int, int] = {sink: 0}
        self._block: dict[int, tuple[TimingTree, ...]] = {}

    def add(
        self, vertex: int, edges: Sequence[tuple[int, TimingTree]], before: Sequence[TimingTree]
    ) -> None:
        """The block of a vertex whose successors are known."""
        ways = [(target, tree) for target, tree in edges if target in self.next]
        if not ways:
            return
        meeting = ways[0][0]
        for target, _ in ways[1:]:
            meeting = self._meet(meeting, target)
        self.next[vertex] = meeting
        self._height[vertex] = self._height[meeting] + 1
        choices = [
            Serial((tree, self.chain(target, meeting))) if target != meeting else tree
            for target, tree in ways
        ]
        choice = choices[0] if len(choices) == 1 else Alternative(tuple(choices))
        self._block[vertex] = (*before, choice)

    def _meet(self, one: int, other: int) -> int:
        while one != other:
            if self._height[one] < self._height[other]:
                one, other = other, one
            one = self.next[one]
        return one

    def chain(self, vertex: int, end: int) -> TimingTree:
        """The tree of all ways from a vertex to one of its post-dominators."""
        parts: list[TimingTree] = []
        while vertex != end:
            parts += self._block[vertex]
            vertex = self.next[vertex]
        return parts[0] if len(parts) == 1 else Serial(tuple(parts))
