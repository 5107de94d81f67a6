"""What a walk has recorded so far, and the loops and sides of branches that it is in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ptxwcet.flow.flow_graph import FlowGraph
from ptxwcet.flow.graph.loops import Loop
from ptxwcet.flow.walk.open_branch import OpenLoop
from ptxwcet.flow.walk.path import Departure, Path, PathNode, Visit


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
        joins = self._graph.meeting(block) == outside
        if joins and self._consistent and self.target in (None, outside):
            self.target = outside
        else:
            self.target, self._consistent = None, False
        out.append(Visit(block, taken=not leaves_when_taken))
        return inside


class Trail:
    """The ``nodes`` of the piece that is being recorded, and what is recorded around it.

    A piece is a side of a branch, an iteration, or what a part of a warp executes: it begins with
    no nodes, and whoever began it puts it where it belongs. ``loops`` are those that the walk
    stands in, inner ones last. ``exits`` records the ways out of the loop around, if its user's
    bound asks for them.
    """

    def __init__(self) -> None:
        self.nodes: list[PathNode] = []
        self.loops: list[OpenLoop] = []
        self.exits: ExitRecorder | None = None
        # what was recorded before the sides of branches around: those that all lanes of the warp
        # have chosen, and those of some lanes
        self._chosen: list[list[PathNode]] = []
        self._of_some: list[list[PathNode]] = []
        self._sides: list[tuple[int, int]] = []  # that all lanes have chosen: from where to where

    def add(self, *nodes: PathNode) -> None:
        """Records what is executed next."""
        self.nodes += nodes

    @property
    def last(self) -> PathNode | None:
        """What was recorded last in this piece."""
        return self.nodes[-1] if self.nodes else None

    @property
    def depth(self) -> int:
        """How many loops and sides of branches are around."""
        return len(self._chosen) + len(self._of_some) + len(self.loops)

    @property
    def sides_of_some(self) -> int:
        """How many sides of branches are around that only some lanes of the warp take."""
        return len(self._of_some)

    @contextmanager
    def piece(self, exits: ExitRecorder | None = None) -> Iterator[None]:
        """Begins a piece; the nodes are those of the piece around again behind it."""
        outer, outer_exits = self.nodes, self.exits
        self.nodes, self.exits = [], exits
        try:
            yield
        finally:
            self.nodes, self.exits = outer, outer_exits

    @contextmanager
    def side(
        self, visit: PathNode | None, edge: tuple[int, int], *, chosen: bool
    ) -> Iterator[None]:
        """Begins a piece that is a side of a branch, which all lanes have ``chosen`` or some take.

        ``visit`` is how the block of the branch is visited, if that is not recorded yet; ``edge``
        is from where to where the side leads.
        """
        around = self._chosen if chosen else self._of_some
        if chosen:
            self._sides.append(edge)
        around.append(self.nodes if visit is None else [*self.nodes, visit])
        try:
            with self.piece():
                yield
        finally:
            around.pop()
            if chosen:
                self._sides.pop()

    @contextmanager
    def entry(self, loop: Loop) -> Iterator[None]:
        """Enters a loop, and leaves it when the block ends."""
        outer, self.exits = self.exits, None
        self.loops.append(OpenLoop(loop, len(self._of_some), len(self._chosen)))
        try:
            yield
        finally:
            self.exits = outer
            self.loops.pop()

    def enter_again(self) -> None:
        """Forgets what was noted of the innermost loop."""
        loop = self.loops.pop().loop
        self.loops.append(OpenLoop(loop, len(self._of_some), len(self._chosen)))

    def departure(self, block: int, *, taken: bool) -> Departure:
        """A branch that leaves the loop, by the sides that the warp has chosen before it."""
        return (*self._sides[self.loops[-1].chosen :], (block, taken))

    def chosen_prefix(self) -> Path:
        """What the warp has executed in this iteration before the sides that it has chosen."""
        return tuple(node for nodes in self._chosen[self.loops[-1].chosen :] for node in nodes)
