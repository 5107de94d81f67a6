"""A kernel's control flow as the walk needs it, and what the walk asks about places in it."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field, replace
from itertools import chain
from typing import TypeVar

from ptxwcet.flow.effort import Effort
from ptxwcet.flow.graph.cfg import BlockId
from ptxwcet.flow.graph.control_flow import ControlFlow
from ptxwcet.flow.graph.loops import Loop, leaving
from ptxwcet.flow.launch import ArrayRange, Launch
from ptxwcet.flow.shapes.pattern import Agreement
from ptxwcet.flow.shapes.uniformity import BranchAgreements
from ptxwcet.flow.values.transfer import register_width
from ptxwcet.ir.kernel import Instruction
from ptxwcet.ir.op_classes import ControlEffect, OpClass
from ptxwcet.ir.semantics import Meaning, meaning_of
from ptxwcet.support.graph import reachable
from ptxwcet.support.records import dataclass

_Kind = TypeVar("_Kind")

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


class Kept:
    """What the parts of the walk keep: of each class the one instance, empty at first."""

    def __init__(self) -> None:
        self._kept: dict[type, object] = {}

    def __getitem__(self, kind: type[_Kind]) -> _Kind:
        if kind not in self._kept:
            self._kept[kind] = kind()
        found = self._kept[kind]
        assert isinstance(found, kind)
        return found


@dataclass(slots=True)
class Work:
    """What all walks over a graph have done: blocks visited, branches found open, variants.

    ``most_visits`` is how many blocks all of them together may visit, None: no limit.
    ``unresolved_branches`` are not decided in some walk; at ``parting`` lanes of a warp go both
    ways. ``uncounted`` are loops that were not counted without a variant; ``relied`` are loops
    whose stated bound has left something out that was walked, a side of a branch or iterations;
    ``excluded`` says which values and blocks facts have left out of the launch; ``told_apart``:
    walks know the index of each lane. ``of_graph``, ``of_kernel`` and ``of_launch`` are what the
    parts of the walk have found out and keep: of the kernel whatever is said of it, for all
    launches and for this one. ``walking`` counts instructions executed in all walks, ``searching``
    what variants were looked for with, ``proving`` the solver's effort for their certificates.
    """

    visits: int = 0
    most_visits: int | None = None
    unresolved_branches: set[int] = field(default_factory=set)
    parting: set[int] = field(default_factory=set)
    before_barriers: frozenset[int] | None = None
    uncounted: set[int] = field(default_factory=set)
    relied: set[int] = field(default_factory=set)
    excluded: tuple[str, ...] = ()
    told_apart: bool = True
    of_graph: Kept = field(default_factory=Kept)
    of_kernel: Kept = field(default_factory=Kept)
    of_launch: Kept = field(default_factory=Kept)
    walking: Effort = field(default_factory=lambda: Effort(MOST_WALK_STEPS))
    searching: Effort = field(default_factory=lambda: Effort(MOST_SEARCH_STEPS))
    proving: Effort = field(default_factory=lambda: Effort(MOST_PROOF_STEPS))

    def tell_apart_no_more(self) -> bool:
        """From now on walks do not tell lanes apart, and have a new budget of steps, with what is
        left of the old one; False if that is not allowed, or is the case already.
        """
        if not self.told_apart or self.most_visits is not None:
            return False
        most = self.walking.most * MOST_STEPS_TOGETHER // MOST_WALK_STEPS
        most += max(0, self.walking.most - self.walking.spent)
        self.told_apart, self.walking = False, Effort(most)
        self.relied, self.uncounted = set(), set()
        return True

    @classmethod
    def part(cls, parts: int, of_graph: Kept | None = None) -> Work:
        """An empty record for trial walks, with an equal share of the steps: one of ``parts``."""
        work = cls(of_graph=Kept() if of_graph is None else of_graph)
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
        work.of_graph, work.of_kernel = self.of_graph, self.of_kernel
        for name in _EFFORTS:
            effort = getattr(self, name)
            setattr(work, name, Effort((effort.most - effort.spent) // 2))
        return work

    def count(self, other: Work) -> None:
        """Adds the steps that a record from :meth:`shared` has taken."""
        for name in _EFFORTS:
            getattr(self, name).spent += getattr(other, name).spent


_EFFORTS = ("walking", "searching", "proving")


class _Written(dict[int, list[str]]):
    """The registers that are written in the blocks that were asked for."""


class _Temporaries(dict[int, frozenset[str]]):
    """What the loops that were asked for write for one iteration alone."""


class _Meanings(dict[int, "Meaning | None"]):
    """The terms of the instructions that were asked for."""


class _Agreements(dict[tuple[int, int, int], BranchAgreements]):
    """Who takes branches alike, of the sizes of a block that were asked for."""


def agreements_of(flow: ControlFlow, launch: Launch, kept: Kept) -> BranchAgreements:
    """Who takes the branches of a kernel alike, found once for all launches of such blocks."""
    found = kept[_Agreements]
    if launch.block not in found:
        found[launch.block] = BranchAgreements(flow, launch)
    return found[launch.block]


@dataclass(frozen=True, slots=True)
class FlowGraph(ControlFlow):
    """A kernel's control flow and what the walk needs to know about it.

    ``loaded`` says of loads, by index, in which range the integers lie that they give.
    """

    control_registers: frozenset[str]
    agreements: BranchAgreements
    loaded: Mapping[int, ArrayRange] = field(default_factory=dict)
    work: Work = field(default_factory=Work)

    def meeting(self, block: int) -> BlockId | None:
        """Returns where lanes or warps that part at a branch go on together: lanes where they are
        sure to reconverge, warps at the immediate post-dominator. Cost: constant, once a few rounds
        over the kernel.
        """
        together, above = self.reconvergence.meetings[block], self.postdominators.immediate[block]
        parts = together != above and self.agreements[block] is Agreement.NONE
        return together if parts else above

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
            self.work.before_barriers = frozenset(reachable(self.cfg.predecessors, pending))
        waits = self.work.before_barriers.intersection(sides)
        ends = [one for one in sides if self.is_final(BlockId(one))]
        if working and waits:
            going = reachable(self.cfg.successors, waits)
            ends = [one for one in sides if one not in waits and self._runs_out(one, going)]
        return ends[0] if ends and waits else None

    def _runs_out(self, block: int, others: Collection[int]) -> bool:
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
                if (is_transfer and one.guard is not None) or self._waits_for_lanes(one):
                    return False
            seen.add(block)
            (block,) = self.cfg.successors[block]
        return block == self.cfg.exit

    def _waits_for_lanes(self, instruction: Instruction) -> bool:
        """Whether it may wait for other lanes of the warp, or may exchange something with them."""
        if self.kernel.code is None:
            return ".sync" in instruction.words
        return instruction.op_class in (OpClass.CONTROL_OTHER, OpClass.SHUFFLE, OpClass.VOTE)

    def distance_to_exit(self, block: int) -> int:
        """Number of post-dominators of a block."""
        count, immediate = 0, self.postdominators.immediate
        above = immediate[block]
        while above is not None:
            count, above = count + 1, immediate[above]
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
        inside[-1] = []
        behind = reachable(inside, inside[block])
        if -1 not in behind:
            return None
        ways = {other: reachable(inside, inside[block], (other,)) for other in behind - {block}}
        candidates = [other for other, before in ways.items() if -1 not in before]
        for candidate in candidates:
            if candidate != -1 and ways[candidate].isdisjoint({*candidates} - {candidate}):
                return candidate
        return loop.header

    def rounds_before(self, loop: Loop, stop: int) -> Loop:
        """Returns the part of a loop that lanes repeat which go back to its header before they come
        to its block ``stop``, as a loop with the same number. Cost: linear in the loop.

        A loop with several latches is a nest for lanes that meet at ``stop``: those that go back
        from an earlier latch repeat this part until all of them have come there.
        """
        ahead = {block: self._inside(loop, block) for block in loop.body}
        behind: dict[BlockId, list[BlockId]] = {block: [] for block in loop.body}
        for source, targets in ahead.items():
            for target in targets:
                behind[target].append(source)
        entered = reachable(ahead, (loop.header,), (stop,))
        latches = tuple(latch for latch in loop.latches if latch in entered)
        body = frozenset(entered & reachable(behind, latches, (stop,)))
        return replace(loop, latches=latches, body=body, exits=leaving(self.cfg, body))

    def goes_back(self, loop: Loop, block: BlockId, stop: int) -> bool:
        """Whether a way from a block of a loop goes back to its header before it comes to ``stop``.

        Cost: linear in the loop.
        """
        ahead = {inner: self._inside(loop, inner) for inner in loop.body}
        latches = {*loop.latches} if stop != loop.header else set()
        return not latches.isdisjoint({block} | reachable(ahead, ahead[block], (stop,)))

    def is_on_side(self, block: BlockId, branch: int) -> bool:
        """Whether a block lies on a side of a branch, before its sides meet in the loop around.

        Cost: linear in the graph.
        """
        meeting, loop = self.meeting(branch), self.forest.innermost(BlockId(branch))
        if meeting is None or (loop is not None and meeting not in loop.body):
            return False
        return block in reachable(self.cfg.successors, self.cfg.successors[branch], (meeting,))

    def _inside(self, loop: Loop, block: BlockId) -> list[BlockId]:
        """Returns the successors of a block in a loop but for its header."""
        inside = loop.body - {loop.header}
        return [target for target in self.cfg.successors[block] if target in inside]

    def block_of(self, index: int) -> BlockId:
        """The block that holds instruction ``index``. Cost: logarithmic."""
        return BlockId(bisect_right(self.cfg.blocks, index, key=lambda block: block.start) - 1)

    def indices(self, blocks: Iterable[int]) -> Iterator[int]:
        """The indices of the instructions of blocks, in order."""
        for block in sorted(blocks):
            yield from range(self.cfg.blocks[block].start, self.cfg.blocks[block].end)

    def writes(self, blocks: Iterable[int]) -> Counter[str]:
        """How many instructions of some blocks write each register."""
        return Counter(chain.from_iterable(map(self._written, sorted(blocks))))

    def _written(self, block: int) -> list[str]:
        """The registers that the instructions of a block write, one after the other, found once."""
        found = self.work.of_graph[_Written]
        if block not in found:
            written = (self.kernel.instructions[index].writes for index in self.indices((block,)))
            found[block] = [name for names in written for name in names]
        return found[block]

    def temporaries(self, loop: Loop) -> frozenset[str]:
        """The registers that a loop writes and in which no iteration finds what an earlier one has
        left, found once.
        """
        found, loop = self.work.of_graph[_Temporaries], self.forest.loops[loop.id]
        if loop.id not in found:
            kept = self.agreements.live.at(loop.header)
            found[loop.id] = frozenset(self.writes(loop.body)).difference(kept)
        return found[loop.id]

    def meaning(self, index: int) -> Meaning | None:
        """The terms of an instruction, None if it has none. Cost: constant, once."""
        found = self.work.of_graph[_Meanings]
        if index not in found:
            found[index] = meaning_of(self.kernel.instructions[index], self.kernel.registers)
        return found[index]

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
