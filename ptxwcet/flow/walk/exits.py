"""The ways out of a loop bounded by the user, recorded during one iteration."""

from __future__ import annotations

from ptxwcet.flow.flow_graph import FlowGraph
from ptxwcet.flow.graph.loops import Loop
from ptxwcet.flow.walk.path import Path, PathNode, Visit


class ExitRecorder:
    """Records, during one iteration of a user-bounded loop, the paths on which it may be left."""

    def __init__(self, loop: Loop, graph: FlowGraph) -> None:
        self.loop = loop
        self.blocks = frozenset(source for source, _ in loop.exits)
        self.paths: list[Path] = []
        self.target: int | None = None
        self._graph = graph
        self._consistent = True

    def leave_or_stay(
        self, block: int, taken: int, fallthrough: int | None, out: list[PathNode]
    ) -> int:
        """Notes the way out at ``block`` and goes on inside the loop."""
        leaves_when_taken = taken not in self.loop.body
        outside = taken if leaves_when_taken else fallthrough
        inside = fallthrough if leaves_when_taken else taken
        assert outside is not None
        assert inside is not None
        self.paths.append((*out, Visit(block, taken=leaves_when_taken)))
        joins = self._graph.postdominators[block] == outside
        if joins and self._consistent and self.target in (None, outside):
            self.target = outside
        else:
            self.target, self._consistent = None, False
        out.append(Visit(block, taken=not leaves_when_taken))
        return inside
