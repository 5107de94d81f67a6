"""The state of a walk, on which all its parts work, and how it goes back to an earlier one.

The parts are functions of this state, each in the module of its subject; they call each other
downwards, and walk a part of the kernel again by :meth:`WalkState.region`.
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
from ptxwcet.flow.values.lane_state import LaneState
from ptxwcet.flow.values.regions import Symbol
from ptxwcet.flow.values.value import Cause, CauseKind, Mask, Unknown, Value
from ptxwcet.flow.walk.path import Counted, Departure, Path, PathNode, Visit
from ptxwcet.flow.walk.reachability import Reach, Reachability
from ptxwcet.flow.walk.steps import Steps
from ptxwcet.flow.walk.stops import Infeasible, Refused, Undecided, not_counted
from ptxwcet.flow.walk.unresolved import OpenLoop
from ptxwcet.support.records import dataclass


class RecordedPath:
    """The ``nodes`` of the sub-path that is being recorded, and what is recorded around it.

    A sub-path is a side of a branch, an iteration, or what a part of a warp executes: it begins
    with no nodes, and whoever began it puts it where it belongs. ``loops`` are those that the walk
    stands in, inner ones last.
    """

    def __init__(self) -> None:
        self.nodes: list[PathNode] = []
        self.counted: list[Counted] = []  # in the block that is executed, whose visit comes next
        self.loops: list[OpenLoop] = []
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
        """What was recorded last in this sub-path."""
        return self.nodes[-1] if self.nodes else None

    @property
    def depth(self) -> int:
        """How many loops and sides of branches are around."""
        return len(self._chosen) + len(self._of_some) + len(self.loops)

    @property
    def sides_of_some(self) -> int:
        """How many sides of branches are around that only some lanes of the warp take."""
        return len(self._of_some)

    @property
    def bounded(self) -> OpenLoop | None:
        """The loop around whose exits are recorded, unless a side of a branch is between."""
        if not self.loops:
            return None
        opened = self.loops[-1]
        is_within = (opened.depth, opened.chosen) == (len(self._of_some), len(self._chosen))
        return opened if is_within and opened.exits is not None else None

    @contextmanager
    def sub_path(self) -> Iterator[None]:
        """Begins a sub-path; the nodes are those of the one around again behind it."""
        outer, self.nodes = self.nodes, []
        try:
            yield
        finally:
            self.nodes = outer

    @contextmanager
    def side(self, before: Path, edge: tuple[int, int], *, chosen: bool) -> Iterator[None]:
        """Begins the sub-path of a side of a branch, which all lanes have ``chosen`` or some take.

        What is executed ``before`` it is not recorded yet; ``edge`` is from where to where the side
        leads.
        """
        around = self._chosen if chosen else self._of_some
        if chosen:
            self._sides.append(edge)
        around.append([*self.nodes, *before])
        try:
            with self.sub_path():
                yield
        finally:
            around.pop()
            if chosen:
                self._sides.pop()

    @contextmanager
    def entry(self, loop: Loop) -> Iterator[None]:
        """Enters a loop, and leaves it behind."""
        self.loops.append(OpenLoop(loop, len(self._of_some), len(self._chosen)))
        try:
            yield
        finally:
            self.loops.pop()

    def enter_again(self) -> None:
        """Forgets what was noted of the innermost loop."""
        loop = self.loops.pop().loop
        self.loops.append(OpenLoop(loop, len(self._of_some), len(self._chosen)))

    def departure(self, block: int, *, taken: bool) -> Departure:
        """Returns a branch that leaves the loop, with the sides chosen before it."""
        return (*self._sides[self.loops[-1].chosen :], (block, taken))

    def chosen_prefix(self) -> Path:
        """Returns what this iteration has executed before the sides that the warp has chosen."""
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
    reachability: Reachability
    limits: tuple[tuple[Symbol, int | None, dict[Symbol, int]], ...]
    relied: frozenset[int]
    counted: tuple[Counted, ...]


@dataclass(frozen=True, slots=True)
class Diverged:
    """A loop around in which the lanes of a warp have parted for good, and where the parts meet."""

    loop: Loop
    meetings: set[int | None]


class WalkState(ABC):
    """What a walk knows where it stands, each thing with an owner.

    ``state`` has registers and the lanes that are alive, ``reachability`` what is known of the
    lanes of the mask, ``recorded`` what was recorded so far and inside of what, ``diverged`` the
    loops around in which the warp diverges for good. ``endings`` counts the unresolved branches so
    far on whose side all lanes may have ended; it does not go back. ``parameters`` are the symbols
    of parameters, and what refines them.

    ``observer``, if there is one, is told of each visit before it: the walk, the block, its lanes.
    """

    observer: ClassVar[Callable[[WalkState, int, Mask], None] | None] = None

    def __init__(self, graph: FlowGraph, state: LaneState, facts: PlacedFacts) -> None:
        self.graph = graph
        self.cfg = graph.cfg
        self.state = state
        self.facts = facts
        self.steps = Steps(graph)
        self.recorded = RecordedPath()
        self.reachability = Reachability()
        self.endings = 0
        self.diverged: list[Diverged] = []
        # of loops without a closed form so far: their entries, the most iterations of one
        self.negative_cache: dict[int, tuple[int, int]] = {}
        self.parameters: list[Symbol] = [*state.parameter_symbols]
        self._symbols: list[Symbol] = [s for s in state.index.symbols if s is not None]
        self._proofs = 0  # proofs of closed forms around
        self._unresolved_branches: set[int] = set()
        self._visits = 0

    @abstractmethod
    def region(
        self, block: int, mask: Mask, stop: int | None, loop: Loop | None
    ) -> tuple[int, Mask]:
        """Walks until ``stop``, the exit, the header of ``loop``, or a block outside ``loop``.

        Returns where it stands and the lanes that arrived there.
        """

    def arrive(self, block: int, mask: Mask) -> Mask:
        """Returns the lanes that go on at a block where ``mask`` arrives: those at the exit end."""
        if block != self.cfg.exit or not mask.any():
            return mask
        self.state.alive &= ~mask
        return mask & False

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
        if self.recorded.depth > _MOST_SIDES:
            raise self.too_long(block)

    def too_long(self, block: int) -> Refused:
        """Refuses what takes more than a walk may (PW206)."""
        remedy = "bound the irregular loops of the kernel with --loop-bound"
        if self.recorded.loops:
            label = self.cfg.name(self.recorded.loops[-1].loop.header)
            remedy = f"bound the loops that it stands in: --loop-bound '{label}=ITERATIONS'"
        return Refused(
            "PW206",
            self.cfg.blocks[block].start,
            f"the path was not settled in {_MOST_VISITS} block visits, {MOST_WALK_STEPS} "
            f"instructions and {_MOST_SIDES} branches inside of each other",
            remedy,
        )

    def note_unresolved(self, block: int, causes: frozenset[Cause]) -> None:
        """Notes an unresolved branch, or raises Undecided.

        A branch is open for good only if it was so in an iteration executed plainly.

        In the proof of a closed form more is unknown: there a new unresolved branch ends the proof.
        """
        if self._proofs and block not in self._unresolved_branches:
            raise Undecided(self.graph.last(block), causes)
        self._unresolved_branches.add(block)
        self.graph.work.unresolved_branches.add(block)

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
        reach = reach or self.reachability.reach
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
        """Returns whether lanes may leave the loop here for ``meeting`` and stay in the loops
        around it.
        """
        *around, innermost = self.recorded.loops
        if meeting is None or self.recorded.sides_of_some != innermost.depth:
            return False
        return all(meeting in opened.loop.body for opened in around)

    def havoc(self, loop: Loop, blocks: Collection[int] | None = None) -> None:
        """Makes everything that the loop may change unknown, or what ``blocks`` behind it may."""
        cause = Unknown(self.cause_of(loop))
        for block in loop.body if blocks is None else blocks:
            for step in self.steps.of(block):
                if step.transfer is not None:
                    for name in step.writes:
                        if name in self.graph.control_registers:
                            self.state.registers[name] = cause

    def cause_of(self, loop: Loop) -> frozenset[Cause]:
        """Returns why what the loop may change is not known behind it."""
        return frozenset({Cause(CauseKind.LOOP, self.cfg.name(loop.header))})

    def snapshot(self) -> Snapshot:
        """Returns the state as it is now. Cost: linear in registers and symbols."""
        limits = tuple((s, s.count, s.slopes) for s in self._symbols)
        registers, alive = dict(self.state.registers), self.state.alive.copy()
        relied = frozenset(self.graph.work.relied)
        counted = tuple(self.recorded.counted)
        nodes = len(self.recorded.nodes)
        return Snapshot(registers, alive, nodes, self.reachability, limits, relied, counted)

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
        del self.recorded.nodes[snapshot.nodes :]
        self.recorded.counted[:] = snapshot.counted
        self.reachability = snapshot.reachability
