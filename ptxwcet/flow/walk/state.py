"""The state of a walk, on which all its parts work, and how it goes back to an earlier one.

The parts are functions of this state, each in the module of its subject; they call each other
downwards, and walk a piece of the kernel again by :meth:`WalkState.region`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import ClassVar, TypeGuard

from ptxwcet.flow.effort import TooMuchEffort
from ptxwcet.flow.flow_graph import MOST_WALK_STEPS, FlowGraph
from ptxwcet.flow.graph.loops import Loop
from ptxwcet.flow.launch import PlacedFacts
from ptxwcet.flow.shapes.pattern import Agreement
from ptxwcet.flow.values.lane_state import LaneState
from ptxwcet.flow.values.regions import Symbol
from ptxwcet.flow.values.value import Cause, CauseKind, Mask, Unknown, Value
from ptxwcet.flow.walk.open_branch import OpenLoop
from ptxwcet.flow.walk.path import Counted, Departure, Path, PathNode, PathPart, Visit
from ptxwcet.flow.walk.standing import Reach, Standing
from ptxwcet.flow.walk.steps import Steps
from ptxwcet.flow.walk.stops import Infeasible, Refused, Undecided, not_counted
from ptxwcet.support.records import dataclass


@dataclass(frozen=True, slots=True)
class Exit:
    """A way out of a loop: what of the last pass is executed, and where it leaves for where."""

    path: Path
    block: int
    taken: bool
    target: int


class ExitRecorder:
    """Records, during one iteration of a user-bounded loop, the paths on which it may be left.

    ``parts``: at its exits the lanes of a warp part for good. ``agreement`` is that of loops inside
    that are left for outside of this one: who goes these ways alike.
    """

    def __init__(self, loop: Loop, graph: FlowGraph, *, parts: bool = False) -> None:
        self.loop = loop
        self.blocks = frozenset(source for source, _ in loop.exits)
        self.exits: list[Exit] = []
        self.agreement = Agreement.BLOCK
        self.if_race_free = False
        self._parts = parts
        self._graph = graph

    def leave_or_stay(
        self, block: int, taken: int, fallthrough: int | None, out: list[PathNode]
    ) -> int:
        """Notes the way out at ``block`` and goes on inside the loop."""
        leaves_when_taken = taken not in self.loop.body
        outside = taken if leaves_when_taken else fallthrough
        inside = fallthrough if leaves_when_taken else taken
        assert outside is not None
        assert inside is not None
        jumps = self._graph.jumps(block)
        leave: PathNode = Visit(block, taken=jumps and leaves_when_taken)
        stay: PathNode = Visit(block, taken=jumps and not leaves_when_taken)
        if self._parts:
            leave = stay = PathPart(block, (), (), jumps=True)
        self.exits.append(Exit((*out, leave), block, leaves_when_taken, outside))
        out.append(stay)
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
        self.counted: list[Counted] = []  # in the block that is executed, whose visit comes next
        self.loops: list[OpenLoop] = []
        self.exits: ExitRecorder | None = None
        # what was recorded before the sides of branches around: those that all lanes of the warp
        # have chosen, and those of some lanes
        self._chosen: list[list[PathNode]] = []
        self._of_some: list[list[PathNode]] = []
        self._sides: list[tuple[int, int]] = []  # that all lanes have chosen: from where to where

    def add(self, *nodes: PathNode) -> None:
        """Records what is executed next."""
        if self.counted and nodes:
            first, *rest = nodes
            if not isinstance(first, Visit):
                raise not_counted(self.counted[0].index)
            nodes = (replace(first, counted=tuple(self.counted)), *rest)
            self.counted.clear()
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
        """Enters a loop, and leaves it behind."""
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


# Block visits of one walk: seconds, and above what any kernel of samples and corpus needs (8,000).
_MOST_VISITS = 60_000
# Branches with open or divergent outcomes inside of each other: a level takes a few Python frames.
_MOST_SIDES = 100


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a walk goes back to; ``limits`` are the counts of its symbols and their slopes.

    ``relied`` are the loops whose stated bound had left something out.
    """

    registers: dict[str, Value]
    alive: Mask
    nodes: int
    standing: Standing
    limits: tuple[tuple[Symbol, int | None, dict[Symbol, int]], ...]
    relied: frozenset[int]
    counted: tuple[Counted, ...]


@dataclass(frozen=True, slots=True)
class Scattered:
    """A loop around in which the lanes of a warp have parted for good, and where the parts meet."""

    loop: Loop
    meetings: set[int | None]


class WalkState(ABC):
    """What a walk knows where it stands, each thing with an owner.

    ``state`` has registers and the lanes that are alive, ``standing`` what is known of the lanes of
    the mask, ``trail`` what was recorded so far and inside of what, ``scattered`` the loops around
    in which the warp falls apart. ``endings`` counts the open branches so far on whose side all
    lanes may have ended; it does not go back. ``parameters`` are the symbols of parameters, and
    what narrows them.

    ``observer``, if there is one, is told of each visit before it: the walk, the block, its lanes.
    """

    observer: ClassVar[Callable[[WalkState, int, Mask], None] | None] = None

    def __init__(self, graph: FlowGraph, state: LaneState, facts: PlacedFacts) -> None:
        self.graph = graph
        self.cfg = graph.cfg
        self.state = state
        self.facts = facts
        self.steps = Steps(graph)
        self.trail = Trail()
        self.standing = Standing()
        self.endings = 0
        self.scattered: list[Scattered] = []
        # of loops without a closed form so far: their entries, the most iterations of one
        self.in_vain: dict[int, tuple[int, int]] = {}
        self.parameters: list[Symbol] = [*state.parameter_symbols]
        self._symbols: list[Symbol] = [s for s in state.index.symbols if s is not None]
        self._proofs = 0  # proofs of closed forms around
        self._open_branches: set[int] = set()
        self._visits = 0

    @abstractmethod
    def region(
        self, block: int, mask: Mask, stop: int | None, loop: Loop | None
    ) -> tuple[int, Mask]:
        """Walks until ``stop``, the exit, the header of ``loop``, or a block outside ``loop``.

        Returns where it stands and the lanes that arrived there.
        """

    def count_visit(self, block: int) -> None:
        """Counts a visit of a block. Raises Refused (PW206) if there were too many."""
        self._visits += 1
        self.graph.work.visits += 1
        most = self.graph.work.most_visits
        if self._visits > _MOST_VISITS or (most is not None and self.graph.work.visits > most):
            raise self.too_long(block)
        self.spend(1 + len(self.steps.of(block)), self.cfg.blocks[block].start)

    def spend(self, steps: int, index: int) -> None:
        """Counts what is done at an instruction, as steps. Raises Refused (PW206) for too many."""
        try:
            self.graph.work.walking.spend(steps)
        except TooMuchEffort:
            raise self.too_long(self.graph.block_of(index)) from None

    def check_depth(self, block: int) -> None:
        """Raises Refused (PW206) if too many loops and sides of branches are in each other."""
        if self.trail.depth > _MOST_SIDES:
            raise self.too_long(block)

    def too_long(self, block: int) -> Refused:
        """Refuses what takes more than a walk may (PW206)."""
        remedy = "bound the irregular loops of the kernel with --loop-bound"
        if self.trail.loops:
            label = self.cfg.name(self.trail.loops[-1].loop.header)
            remedy = f"bound the loops that it stands in: --loop-bound '{label}=ITERATIONS'"
        return Refused(
            "PW206",
            self.cfg.blocks[block].start,
            f"the path was not settled in {_MOST_VISITS} block visits, {MOST_WALK_STEPS} "
            f"instructions and {_MOST_SIDES} branches inside of each other",
            remedy,
        )

    def note_open(self, block: int, causes: frozenset[Cause]) -> None:
        """Notes an open branch, or raises Undecided.

        A branch is open for good only if it was so in an iteration executed plainly.

        In the proof of a closed form more is unknown: there a new open branch ends the proof.
        """
        if self._proofs and block not in self._open_branches:
            raise Undecided(self.graph.last(block), causes)
        self._open_branches.add(block)
        self.graph.work.open_branches.add(block)

    @property
    def may_pair(self) -> bool:
        """Whether what the block chooses here is paired with that of warps walked apart."""
        return bool(self.cfg.barriers) and len(self.state.warps) < self.state.launch.warps

    @property
    def is_proving(self) -> bool:
        """Whether it stands in the proof of a closed form, which supposes what is not shown yet."""
        return self._proofs > 0

    @contextmanager
    def proof(self) -> Iterator[Symbol]:
        """Begins the proof of a closed form; gives the symbol of the iteration's number."""
        counter = Symbol(f"k{len(self._symbols)}", len(self._symbols))
        self._symbols.append(counter)
        self._proofs += 1
        try:
            yield counter
        finally:
            self._proofs -= 1
            self._symbols.remove(counter)

    def contradict(
        self, reason: Refused, reach: Reach | None = None, loop: int | None = None
    ) -> None:
        """Facts exclude that any run comes here, or to where the walk had that ``reach``.

        If all runs do, the facts contradict the analysis: raises ``reason``. If all do that take
        the side around, none takes that side: raises Infeasible. Otherwise nothing follows for
        what has been walked, and the fact is of no use here; nor in a proof, which supposes what
        it has not proved yet. ``loop`` is the one whose stated bound it is.
        """
        if self._proofs:
            return
        reach = reach or self.standing.reach
        if loop is not None and reach is not Reach.PERHAPS:
            self.graph.work.relied.add(loop)
        match reach:
            case Reach.ALWAYS:
                raise reason
            case Reach.ON_SIDE:
                raise Infeasible(reason)
            case Reach.PERHAPS:
                pass

    def may_meet(self, meeting: int | None) -> TypeGuard[int]:
        """Whether lanes may leave the loop here for ``meeting`` and stay in the loops around it."""
        *around, innermost = self.trail.loops
        if meeting is None or self.trail.sides_of_some != innermost.depth:
            return False
        return all(meeting in opened.loop.body for opened in around)

    def forget(self, loop: Loop, blocks: Collection[int] | None = None) -> None:
        """Makes everything that the loop may change unknown, or what ``blocks`` behind it may."""
        cause = Unknown(self.cause_of(loop))
        for block in loop.body if blocks is None else blocks:
            for step in self.steps.of(block):
                if step.transfer is not None:
                    for name in step.writes:
                        if name in self.graph.control_registers:
                            self.state.registers[name] = cause

    def cause_of(self, loop: Loop) -> frozenset[Cause]:
        """Why what the loop may change is not known behind it."""
        return frozenset({Cause(CauseKind.LOOP, self.cfg.name(loop.header))})

    def snapshot(self) -> Snapshot:
        """The state as it is now. Cost: linear in registers and symbols."""
        limits = tuple((s, s.count, s.slopes) for s in self._symbols)
        registers, alive = dict(self.state.registers), self.state.alive.copy()
        relied = frozenset(self.graph.work.relied)
        counted = tuple(self.trail.counted)
        nodes = len(self.trail.nodes)
        return Snapshot(registers, alive, nodes, self.standing, limits, relied, counted)

    def restore(self, snapshot: Snapshot) -> None:
        """Undoes everything since the snapshot."""
        self.go_back(snapshot)
        self.graph.work.relied = set(snapshot.relied)
        for symbol, count, slopes in snapshot.limits:
            symbol.count, symbol.slopes = count, slopes

    def go_back(self, snapshot: Snapshot) -> None:
        """Goes on from there another way; what was required of symbols stays required."""
        self.state.registers = dict(snapshot.registers)
        self.state.alive = snapshot.alive.copy()
        del self.trail.nodes[snapshot.nodes :]
        self.trail.counted[:] = snapshot.counted
        self.standing = snapshot.standing
