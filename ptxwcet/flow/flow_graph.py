"""A kernel's control flow as the walk needs it, and what the walk asks about places in it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ptxwcet.flow.effort import Effort
from ptxwcet.flow.graph.cfg import BlockId, ControlFlowGraph
from ptxwcet.flow.graph.dominance import compute_dominators
from ptxwcet.flow.graph.loops import Loop, LoopForest
from ptxwcet.flow.launch import ArrayRange
from ptxwcet.flow.shapes.uniformity import BranchAgreements
from ptxwcet.flow.values.transfer import register_width
from ptxwcet.ir.kernel import Kernel
from ptxwcet.ir.op_classes import ControlEffect

# What ends threads.
ENDINGS = (ControlEffect.RETURN, ControlEffect.EXIT, ControlEffect.TRAP)


# Instructions that all walks over a kernel may execute while they tell lanes apart, with what their
# paths cost later on, and how many again once they do not; steps of searches for variants. Each is
# some seconds (benchmarks/slowest.py).
MOST_WALK_STEPS = 64_000
MOST_STEPS_TOGETHER = 43_000
MOST_SEARCH_STEPS = 1_000_000
# Effort of the solver for all certificates of a kernel: about ten seconds.
MOST_PROOF_STEPS = 100_000


@dataclass(slots=True)
class Work:
    """What all walks over a graph have done: blocks visited, branches found open, variants.

    ``most_visits`` is how many blocks all of them together may visit, None: no limit.
    ``open_branches`` are not decided in some walk; at ``parting`` lanes of a warp go both ways.
    ``regions``, ``ways``, ``results``, ``variants`` and ``searches`` belong to
    :mod:`ptxwcet.flow.walk.variants`; ``uncounted`` are loops that were not counted without a
    variant; ``relied`` are loops whose stated bound has left something out that was walked, a side
    of a branch or iterations; ``excluded`` says which values and blocks facts have left out of the
    launch; ``passages`` are those of
    :mod:`ptxwcet.flow.certificates.proof`, ``states`` what contradicted certificates, by loop;
    ``steps`` those of :mod:`ptxwcet.flow.walk.steps`, by block; ``told_apart``: walks know the
    index of each lane.
    ``walking`` counts instructions executed in all walks, ``searching`` what variants were looked
    for with, ``proving`` the solver's effort for their certificates.
    """

    visits: int = 0
    most_visits: int | None = None
    open_branches: set[int] = field(default_factory=set)
    parting: set[int] = field(default_factory=set)
    dominators: tuple[BlockId | None, ...] = ()
    before_barriers: frozenset[int] | None = None
    regions: dict[int, Any] = field(default_factory=dict)
    ways: dict[tuple[int, int], Any] = field(default_factory=dict)
    results: dict[int, Any] = field(default_factory=dict)
    variants: dict[Any, Any] = field(default_factory=dict)
    searches: dict[Any, int] = field(default_factory=dict)
    uncounted: set[int] = field(default_factory=set)
    relied: set[int] = field(default_factory=set)
    excluded: tuple[str, ...] = ()
    passages: dict[Any, Any] = field(default_factory=dict)
    states: dict[int, list[Any]] = field(default_factory=dict)
    steps: dict[int, Any] = field(default_factory=dict)
    told_apart: bool = True
    walking: Effort = field(default_factory=lambda: Effort(MOST_WALK_STEPS))
    searching: Effort = field(default_factory=lambda: Effort(MOST_SEARCH_STEPS))
    proving: Effort = field(default_factory=lambda: Effort(MOST_PROOF_STEPS))

    def tell_apart_no_more(self) -> bool:
        """From now on walks do not tell lanes apart, and have a new budget of steps; False if that
        is not allowed, or is the case already.
        """
        if not self.told_apart or self.most_visits is not None:
            return False
        most = self.walking.most * MOST_STEPS_TOGETHER // MOST_WALK_STEPS
        self.told_apart, self.walking = False, Effort(most)
        self.relied, self.uncounted = set(), set()
        return True

    @classmethod
    def part(cls, parts: int) -> Work:
        """An empty record for trial walks, with an equal share of the steps: one of ``parts``."""
        work = cls()
        for effort in (work.walking, work.searching, work.proving):
            effort.most //= parts
        return work

    def limit(self, all_together: Work, most_visits: int | None) -> None:
        """Counts its steps together with those of other records, and limits its visits."""
        self.walking, self.searching = all_together.walking, all_together.searching
        self.proving, self.most_visits = all_together.proving, most_visits

    def shared(self) -> Work:
        """A record for trying another launch of the same kernel. It may take half of the steps that
        this one has left, which are counted here (:meth:`count`), and shares what was found out
        about loops.
        """
        work = Work()
        for name in _EFFORTS:
            effort = getattr(self, name)
            setattr(work, name, Effort((effort.most - effort.spent) // 2))
        work.regions, work.variants, work.searches = self.regions, self.variants, self.searches
        work.ways = self.ways
        work.passages, work.states = self.passages, self.states
        return work

    def count(self, other: Work) -> None:
        """Adds the steps that a record from :meth:`shared` has taken."""
        for name in _EFFORTS:
            getattr(self, name).spent += getattr(other, name).spent


_EFFORTS = ("walking", "searching", "proving")


@dataclass(frozen=True, slots=True)
class FlowGraph:
    """A kernel's control flow and what the walk needs to know about it.

    ``loaded`` says of loads, by index, in which range the integers lie that they give.
    """

    kernel: Kernel
    cfg: ControlFlowGraph
    forest: LoopForest
    postdominators: tuple[BlockId | None, ...]
    control_registers: frozenset[str]
    agreements: BranchAgreements
    work: Work = field(default_factory=Work)
    loaded: Mapping[int, ArrayRange] = field(default_factory=dict)

    @property
    def dominators(self) -> tuple[BlockId | None, ...]:
        """The immediate dominator of each block. Cost: near linear, once."""
        if not self.work.dominators:
            self.work.dominators = tuple(compute_dominators(self.cfg).immediate)
        return self.work.dominators

    def is_final(self, block: BlockId) -> bool:
        """Whether nothing but the end of the thread follows. Cost: constant."""
        bounds = self.cfg.blocks[block]
        if block == self.cfg.exit:
            return True
        last = self.kernel.instructions[bounds.end - 1]
        ends = last.control in ENDINGS and last.guard is None
        return bounds.end == bounds.start + 1 and ends

    def way_out(self, *sides: int, working: bool = False) -> int | None:
        """The one of two sides of a branch on which lanes only end, if those of the other one may
        come to a barrier. ``working``: they may do more, without a branch, in blocks of their own:
        where the others come along as well, compilers let lanes wait for one another, which none
        of those at the barrier would do. Cost: constant, once linear in the graph; with
        ``working`` linear.
        """
        if self.work.before_barriers is None:
            pending = [self.block_of(index) for index in self.cfg.barriers]
            self.work.before_barriers = _led_to(self.cfg.predecessors, pending)
        waits = self.work.before_barriers.intersection(sides)
        ends = [one for one in sides if self.is_final(BlockId(one))]
        if working and waits:
            going = _led_to(self.cfg.successors, waits)
            ends = [one for one in sides if one not in waits and self._runs_out(one, going)]
        return ends[0] if ends and waits else None

    def _runs_out(self, block: int, others: frozenset[int]) -> bool:
        """Whether one way alone leads from a block to the end, on which no others come along.

        It passes no block twice. The last block may be that of others, if it does nothing else. No
        transfer on it has a guard, wherever that leads, and nothing waits for lanes of the warp:
        those at a barrier do not come.
        """
        seen: set[int] = set()
        while block != self.cfg.exit and block not in seen and len(self.cfg.successors[block]) == 1:
            if block in others and not self.is_final(BlockId(block)):
                return False
            bounds = self.cfg.blocks[block]
            for one in self.kernel.instructions[bounds.start : bounds.end]:
                is_transfer = one.control is not ControlEffect.NONE
                if (is_transfer and one.guard is not None) or ".sync" in one.mnemonic:
                    return False
            seen.add(block)
            (block,) = self.cfg.successors[block]
        return block == self.cfg.exit

    def distance_to_exit(self, block: int) -> int:
        """Number of post-dominators of a block."""
        count = 0
        above = self.postdominators[block]
        while above is not None:
            count, above = count + 1, self.postdominators[above]
        return count

    def meeting_inside(self, loop: Loop, block: int) -> int | None:
        """Where all ways from a block that stay in the loop meet first: at the latest its header.

        None if no way from it stays in. Cost: linear in the loop for each asked block.
        """
        inside: dict[int, list[int]] = {
            source: [
                -1 if target == loop.header else target
                for target in self.cfg.successors[source]
                if target in loop.body
            ]
            for source in loop.body
        }
        reachable = _reachable(inside, block, None)
        if -1 not in reachable:
            return None
        candidates = [
            other
            for other in reachable
            if other != block and -1 not in _reachable(inside, block, other)
        ]
        for candidate in candidates:
            before = _reachable(inside, block, candidate)
            if candidate != -1 and before.isdisjoint(set(candidates) - {candidate}):
                return candidate
        return loop.header

    def block_of(self, index: int) -> BlockId:
        """The block that holds instruction ``index``. Cost: logarithmic."""
        return BlockId(bisect_right(self.cfg.blocks, index, key=lambda block: block.start) - 1)

    def last(self, block: int) -> int:
        """Index of the last instruction of a block."""
        return self.cfg.blocks[block].end - 1

    def jumps(self, block: int) -> bool:
        """Whether a block ends with a branch."""
        return self.kernel.instructions[self.last(block)].control is ControlEffect.BRANCH

    def switches(self, block: int) -> bool:
        """Whether a block ends with an indexed branch."""
        index = self.last(block)
        effect = ControlEffect.INDIRECT_BRANCH
        return index >= 0 and self.kernel.instructions[index].control is effect

    def width(self, name: str) -> int:
        """Width of a register in bits."""
        return register_width(self.kernel.registers[name])


def _led_to(next_of: Sequence[Iterable[int]], starts: Iterable[int]) -> frozenset[int]:
    """The blocks that ways from some of them lead to, these included."""
    found: set[int] = set()
    pending = [*starts]
    while pending:
        one = pending.pop()
        if one not in found:
            found.add(one)
            pending += next_of[one]
    return frozenset(found)


def _reachable(successors: dict[int, list[int]], start: int, without: int | None) -> set[int]:
    """What ``start`` leads to, by at least one edge, if ``without`` is left out."""
    seen: set[int] = set()
    pending = list(successors.get(start, ()))
    while pending:
        block = pending.pop()
        if block != without and block not in seen:
            seen.add(block)
            pending += successors.get(block, ())
    return seen
