"""The state of a walk, on which all its parts work, and how it goes back to an earlier one.

The parts are functions of this state, each in the module of its subject; they call each other
downwards, and walk a piece of the kernel again by :meth:`WalkState.region`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, TypeGuard

from ptxwcet.flow.effort import TooMuchEffort
from ptxwcet.flow.flow_graph import MOST_WALK_STEPS, FlowGraph
from ptxwcet.flow.graph.loops import Loop
from ptxwcet.flow.launch import PlacedFacts
from ptxwcet.flow.values.lane_state import LaneState
from ptxwcet.flow.values.regions import Symbol
from ptxwcet.flow.values.value import Cause, CauseKind, Mask, Unknown, Value
from ptxwcet.flow.walk.exits import ExitRecorder
from ptxwcet.flow.walk.open_branch import OpenLoop
from ptxwcet.flow.walk.path import Path, PathNode
from ptxwcet.flow.walk.steps import Steps
from ptxwcet.flow.walk.stops import Infeasible, Refused, Undecided

# Block visits of one walk: seconds, and above what any kernel of samples and corpus needs (8,000).
_MOST_VISITS = 60_000
# Branches with open or divergent outcomes inside of each other: a level takes a few Python frames.
_MOST_SIDES = 100


class Reach(Enum):
    """Which runs come to where the walk stands, with at least one lane of its mask.

    ``ALWAYS``: all that the facts allow; ``ON_SIDE``: those that take the side of the innermost
    open branch around; ``PERHAPS``: it is not known which.
    """

    ALWAYS = "always"
    ON_SIDE = "on side"
    PERHAPS = "perhaps"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a walk goes back to; ``limits`` are the counts of its symbols and their slopes."""

    registers: dict[str, Value]
    alive: Mask
    nodes: int
    is_exact: bool
    has_gone: bool
    reach: Reach
    limits: tuple[tuple[Symbol, int | None, dict[Symbol, int]], ...]


class WalkState(ABC):
    """What a walk knows where it stands: lanes, path so far, what is open around it.

    ``observer``, if there is one, is told of each visit before it: the walk, the block, its lanes.
    """

    observer: ClassVar[Callable[[WalkState, int, Mask], None] | None] = None

    def __init__(self, graph: FlowGraph, state: LaneState, facts: PlacedFacts) -> None:
        self.graph = graph
        self.cfg = graph.cfg
        self.state = state
        self.facts = facts
        self.steps = Steps(graph)
        self.out: list[PathNode] = []
        self.symbols: list[Symbol] = [s for s in state.index.symbols if s is not None]
        self.exits: ExitRecorder | None = None
        self.is_exact = True  # the masks are those of the run; else a warp may have fewer lanes
        self.has_gone = False  # lanes may have ended for good: the masks are no more exact
        self.reach = Reach.ALWAYS
        self.endings = 0  # open branches so far on whose side all lanes may have ended
        # open branches around whose other lanes may wait elsewhere, and why they are open
        self.apart: list[tuple[int, frozenset[Cause]]] = []
        self.open_loops: list[OpenLoop] = []
        # what was recorded before the sides of branches around: those that all lanes of the warp
        # have chosen, and those of some lanes
        self.chosen: list[list[PathNode]] = []
        self.sides_around: list[list[PathNode]] = []
        self.parameters: list[Symbol] = [*state.parameter_symbols]  # and narrowed ones
        self.apart_in: list[Loop] = []  # loops around in which the warp falls apart
        self.meetings: set[int | None] = set()  # where the parts meet
        self.proofs = 0  # proofs of closed forms around
        self.open_branches: set[int] = set()
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
            raise self._too_long(block)
        try:
            self.graph.work.walking.spend(1 + len(self.steps.of(block)))
        except TooMuchEffort:
            raise self._too_long(block) from None

    def check_depth(self, block: int) -> None:
        """Raises Refused (PW206) if too many loops and sides of branches are in each other."""
        if len(self.chosen) + len(self.sides_around) + len(self.open_loops) > _MOST_SIDES:
            raise self._too_long(block)

    def _too_long(self, block: int) -> Refused:
        remedy = "bound the irregular loops of the kernel with --loop-bound"
        if self.open_loops:
            label = self.cfg.name(self.open_loops[-1].loop.header)
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
        if self.proofs and block not in self.open_branches:
            raise Undecided(self.graph.last(block), causes)
        self.open_branches.add(block)
        self.graph.work.open_branches.add(block)

    def contradict(self, reason: Refused, reach: Reach | None = None) -> None:
        """Facts exclude that any run comes here, or to where the walk's ``reach`` was that one.

        If all runs do, the facts contradict the analysis: raises ``reason``. If all do that take
        the side around, none takes that side: raises Infeasible. Otherwise nothing follows for
        what has been walked, and the fact is of no use here; nor in a proof, which supposes what
        it has not proved yet.
        """
        if self.proofs:
            return
        match reach or self.reach:
            case Reach.ALWAYS:
                raise reason
            case Reach.ON_SIDE:
                raise Infeasible(reason)
            case Reach.PERHAPS:
                pass

    def may_meet(self, meeting: int | None) -> TypeGuard[int]:
        """Whether lanes may leave the loop here for ``meeting`` and stay in the loops around it."""
        if meeting is None or len(self.sides_around) != self.open_loops[-1].depth:
            return False
        return all(meeting in opened.loop.body for opened in self.open_loops[:-1])

    def chosen_prefix(self) -> Path:
        """What the warp has executed in this iteration before the sides that it has chosen."""
        opened = self.open_loops[-1]
        return tuple(node for out in self.chosen[opened.chosen :] for node in out)

    def forget(self, loop: Loop, blocks: Collection[int] | None = None) -> None:
        """Makes everything that the loop may change unknown, or what ``blocks`` behind it may."""
        cause = Unknown(self.cause_of(loop))
        for block in loop.body if blocks is None else blocks:
            for step in self.steps.of(block):
                if step.transfer is not None:
                    for name in step.instruction.writes:
                        if name in self.graph.control_registers:
                            self.state.registers[name] = cause

    def cause_of(self, loop: Loop) -> frozenset[Cause]:
        """Why what the loop may change is not known behind it."""
        return frozenset({Cause(CauseKind.LOOP, self.cfg.name(loop.header))})

    def snapshot(self) -> Snapshot:
        """The state as it is now. Cost: linear in registers and symbols."""
        limits = tuple((s, s.count, s.slopes) for s in self.symbols)
        return Snapshot(
            dict(self.state.registers),
            self.state.alive.copy(),
            len(self.out),
            self.is_exact,
            self.has_gone,
            self.reach,
            limits,
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Undoes everything since the snapshot."""
        self.go_back(snapshot)
        for symbol, count, slopes in snapshot.limits:
            symbol.count, symbol.slopes = count, slopes

    def go_back(self, snapshot: Snapshot) -> None:
        """Goes on from there another way; what was required of symbols stays required."""
        self.state.registers = dict(snapshot.registers)
        self.state.alive = snapshot.alive.copy()
        del self.out[snapshot.nodes :]
        self.is_exact, self.has_gone = snapshot.is_exact, snapshot.has_gone
        self.reach = snapshot.reach
