"""What all lanes of a warp, or all warps of a block, agree on, whatever the data.

A register has a *pattern* (:mod:`ptxwcet.flow.shapes.pattern`) over the lanes of any warp; a branch
is as uniform as its guard. Agreement in a warp is among the lanes that execute together. Agreement
in the block is among warps that come there in the same iteration of every loop around: behind a
branch on which warps do not agree, the n-th visit of one warp need not be like the n-th of another.

Lanes part at a branch and meet at its immediate post-dominator, or in machine code where they are
sure to reconverge (:mod:`ptxwcet.flow.graph.reconvergence`), so a register that is live there
and written on the way is at most as uniform as the branch: this covers the branches of ``if`` and
the lanes (or warps) that leave a loop in different iterations (temporal divergence). Warps come
before to where only some sides meet, as those do that a side leads past to the end: what is live
there and written on the way, they do not agree on.

What a lane reads from another one is only defined if that one takes part: between such a branch and
where its sides meet, nothing is said of it.

What a barrier reduces, and what memory holds between two barriers, is alike for warps that have
executed as many barriers. Where warps part at a branch and wait at barriers before its sides meet,
they need not have when they come to a block that both sides lead to.

The analysis is flow-insensitive in registers and optimistic: values only fall, until nothing
changes. What instructions make of values: :mod:`ptxwcet.flow.shapes.results` and
:mod:`ptxwcet.flow.shapes.opaque`.

Cost: linear in the kernel for each round, a few rounds; blocks times branches for the regions.

Warps agree at a branch in the same iteration of every loop around. Whether they agree when each of
them comes there for the n-th time is another question: in one iteration a warp may go past it that
another one does not, at a branch where they part, and come there in the next.

The n-th barrier that a warp executes is the n-th of every other warp, whichever instructions they
are. So what a barrier reduces is alike for all warps at one instruction only if they come to it
after as many barriers, and so is what memory holds between two barriers. They do not where they
part at a branch, wait at barriers before its sides meet, and come to a block from several sides.
Warps that end, or never come to the block again, are not among those that come there. Where some
barrier may be one of a part of the block none of this is claimed anywhere.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property, lru_cache

import numpy as np

from ptxwcet.flow.graph.cfg import BlockId, ControlFlowGraph
from ptxwcet.flow.graph.control_flow import ControlFlow
from ptxwcet.flow.graph.liveness import Liveness
from ptxwcet.flow.launch import WARP_SIZE, Launch
from ptxwcet.flow.shapes.domain import LaneDomain
from ptxwcet.flow.shapes.opaque import OpaqueResults
from ptxwcet.flow.shapes.pattern import (
    Agreement,
    Pattern,
    Value,
    agreement_on,
    alike,
    constant,
    limited,
    normal,
    one_pattern,
)
from ptxwcet.flow.shapes.results import RegisterValues, is_function
from ptxwcet.flow.values.slicing import deciding
from ptxwcet.flow.values.transfer import register_width
from ptxwcet.ir.kernel import (
    Immediate,
    Instruction,
    Kernel,
    Space,
    counts_at_mbarriers,
)
from ptxwcet.ir.op_classes import ControlEffect, OpClass
from ptxwcet.support.graph import reachable
from ptxwcet.support.worklist import Worklist


class BarrierOrder:
    """Where warps may have executed different numbers of barriers.

    ``guarded`` are the barriers with a guard. Cost of a question: linear in the blocks.
    """

    def __init__(self, kernel: Kernel, cfg: ControlFlowGraph, live: Liveness) -> None:
        self._cfg = cfg
        self._live = live
        self._block_of = {
            index: block.id
            for block in cfg.blocks
            for index in cfg.barriers
            if block.start <= index < block.end
        }
        self._waiting = set(self._block_of.values())
        self.guarded = [
            index for index in cfg.barriers if kernel.instructions[index].guard is not None
        ]

    def lost_behind(self, branch: BlockId, meeting: BlockId | None) -> set[BlockId]:
        """The blocks that warps come to by several sides of a branch at which they part."""
        if self._waiting.isdisjoint(self._live.between(branch, meeting)):
            return set()
        found: set[BlockId] = set()
        seen: set[BlockId] = set()
        for target in set(self._cfg.successors[branch]):
            reached = reachable(self._cfg.successors, [target])
            found |= seen & reached
            seen |= reached
        return found

    def behind(self, index: int) -> set[BlockId]:
        """The block of a barrier and those that it leads to."""
        return reachable(self._cfg.successors, [self._block_of[index]])


class Visits:
    """At which branches warps have to agree so that their n-th visits are in one iteration."""

    def __init__(self, flow: ControlFlow, live: Liveness) -> None:
        self._flow = flow
        self._cfg = flow.cfg
        self._live = live
        self._found: dict[BlockId, tuple[BlockId, ...]] = {}

    def parting(self, block: BlockId) -> tuple[BlockId, ...]:
        """The branches of which one side may lead past ``block``, by whatever is decided on it, and
        to it later; another may lead to it at once. Cost: linear in the kernel for each branch that
        leads there, once.
        """
        if block not in self._found:
            self._found[block] = tuple(
                branch.id for branch in self._cfg.blocks if self._may_miss(branch.id, block)
            )
        return self._found[block]

    def _may_miss(self, branch: BlockId, block: BlockId) -> bool:
        sides, meeting = set(self._cfg.successors[branch]), self._flow.meeting(branch)
        if len(sides) < 2 or block not in self._live.between(branch, meeting):
            return False
        missing = {side for side in sides if self._leads_past(side, branch, block)}
        ends = (branch, meeting)
        hitting = {s for s in sides if block in reachable(self._cfg.successors, [s], ends)}
        return any(missing - {side} for side in hitting)

    def _leads_past(self, side: BlockId, branch: BlockId, block: BlockId) -> bool:
        """Whether warps may come from a side of a branch to where its sides meet, or to the branch
        again, without ``block``, and to that behind.
        """
        meeting = self._flow.meeting(branch)
        avoided = reachable(self._cfg.successors, [side], (block,))
        again = [one for one in (branch, meeting) if one is not None and one in avoided]
        return block in reachable(self._cfg.successors, again)


class BranchAgreements:
    """Who takes the branch at the end of a block alike; BLOCK where there is none.

    Computed when the first branch is asked for. ``without_races`` is the same for kernels without
    data races: memory that some thread reads is not written by another between two barriers, so
    that the warps of the block find the same at the same address.
    """

    def __init__(self, flow: ControlFlow, launch: Launch) -> None:
        self._flow = flow
        self._launch = launch

    @cached_property
    def live(self) -> Liveness:
        """Which registers of the kernel are live where."""
        return Liveness(self._flow.kernel, self._flow.cfg)

    def __getitem__(self, block: int) -> Agreement:
        """Who takes the branch at the end of ``block`` alike."""
        return self._found[block]

    def without_races(self, block: int) -> Agreement:
        """Who takes it alike if no thread writes what another reads between two barriers."""
        return self._found_without_races[block]

    def part_at(self, index: int) -> bool:
        """Whether some lanes of a warp may execute instruction ``index`` without others whose guard
        lets them execute it, too.
        """
        return index in self._settled[1]

    def parting(self, block: int) -> tuple[BlockId, ...]:
        """The branches at which warps have to agree so that their n-th visits of ``block`` are in
        the same iteration, and they agree on what they find there.
        """
        return self._visits.parting(BlockId(block))

    @property
    def _found(self) -> tuple[Agreement, ...]:
        return self._settled[0]

    @cached_property
    def _settled(self) -> tuple[tuple[Agreement, ...], frozenset[int]]:
        return _settled(self._flow, self._launch, self.live, race_free=False)

    @cached_property
    def _visits(self) -> Visits:
        return Visits(self._flow, self.live)

    @cached_property
    def _found_without_races(self) -> tuple[Agreement, ...]:
        return _settled(self._flow, self._launch, self.live, race_free=True)[0]


def _settled(
    flow: ControlFlow, launch: Launch, live: Liveness, *, race_free: bool
) -> tuple[tuple[Agreement, ...], frozenset[int]]:
    """Agreement at the end of each block, and the instructions that parted lanes may execute."""
    kernel, cfg = flow.kernel, flow.cfg
    values = _Uniformity(kernel, launch, live.undefined(), race_free=race_free)
    order = BarrierOrder(kernel, cfg, live)
    barriers = () if kernel.code is not None else cfg.barriers
    partial = any(_may_be_partial(kernel.instructions[index], launch) for index in barriers)
    if partial or counts_at_mbarriers(kernel):
        values.disorder(0, len(kernel.instructions))
    capped: set[tuple[int, Agreement]] = set()
    immediate = flow.postdominators.immediate
    while True:
        values.settle()
        agreements = tuple(values.at_end(block.end - 1) for block in cfg.blocks)
        changed = False
        for block in cfg.reverse_postorder:
            agreement = agreements[block]
            if agreement is Agreement.BLOCK or (block, agreement) in capped:
                continue
            capped.add((block, agreement))
            meetings = flow.reconvergence.meetings if agreement is Agreement.NONE else immediate
            meeting = meetings[block]
            for name in live.joined(block, meeting):
                changed |= values.cap(name, agreement)
            for name in live.joined_before(block, meeting):
                changed |= values.cap(name, Agreement.WARP)
            if agreement is Agreement.NONE:
                for parted in live.between(block, meeting):
                    changed |= values.part(cfg.blocks[parted].start, cfg.blocks[parted].end)
            for apart in order.lost_behind(block, meeting):
                changed |= values.disorder(cfg.blocks[apart].start, cfg.blocks[apart].end)
        for index in order.guarded:
            if values.guard_agreement(index) is not Agreement.BLOCK:
                for apart in order.behind(index):
                    changed |= values.disorder(cfg.blocks[apart].start, cfg.blocks[apart].end)
        if not changed:
            return agreements, values.parted


def _may_be_partial(barrier: Instruction, launch: Launch) -> bool:
    """Whether warps of the block may have nothing to do with a barrier of PTX."""
    if barrier.control is ControlEffect.ARRIVE:
        return True
    reduces = bool(barrier.writes)
    if barrier.op_class is not OpClass.BARRIER or len(barrier.operands) != (4 if reduces else 2):
        return False
    count = barrier.operands[2 if reduces else 1]
    whole = (launch.threads, launch.warps * WARP_SIZE)
    return not (isinstance(count, Immediate) and count.value in whole)


_DOMAIN = LaneDomain(WARP_SIZE, one_pattern)


class _Uniformity:
    """Values of the registers on which branches and barriers depend, in the lanes of any warp;
    ``settle`` lowers them until every instruction that writes them agrees.
    """

    def __init__(
        self, kernel: Kernel, launch: Launch, undefined: Iterable[str], *, race_free: bool
    ) -> None:
        self._kernel = kernel
        self._values = RegisterValues(kernel, _special_values(launch.block), _DOMAIN)
        self._caps: dict[str, Agreement] = {}
        self._opaque = OpaqueResults(self._values, kernel, launch, race_free=race_free)
        self._parted: set[int] = set()
        self._unordered: set[int] = set()
        self._readers: dict[str, list[int]] = defaultdict(list)
        asked = {
            name
            for instruction in kernel.instructions
            if instruction.control is not ControlEffect.NONE
            for name in instruction.reads
        }
        self._deciding = frozenset(deciding(kernel, asked))
        for index in self._deciding:
            for name in kernel.instructions[index].reads:
                self._readers[name].append(index)
        self._wanted = asked | set(self._readers)
        for name in undefined:  # each lane may find something else in it
            self._values[name] = None
        self._pending = Worklist(self._deciding)

    def settle(self) -> None:
        """Evaluates instructions until no value falls any more."""
        while self._pending:
            index = self._pending.pop()
            instruction = self._kernel.instructions[index]
            writes = instruction.writes
            if any(name not in self._values for name in instruction.reads):
                continue  # comes again when what it reads has a value
            values = self._evaluate(index, instruction)
            guard = instruction.guard
            for name, value in zip(writes, values, strict=True):
                limit = Agreement.BLOCK
                if guard is not None:
                    limit = agreement_on(self._values[guard.register])
                self._lower(name, value, limit)

    def cap(self, name: str, agreement: Agreement) -> bool:
        """Limits a register for good; True if that changes a value that matters."""
        return name in self._wanted and self._lower(name, self._values.get(name), agreement)

    def part(self, start: int, end: int) -> bool:
        """Says of instructions that not all lanes of a warp may execute them together; True if
        that was not known.
        """
        new = set(range(start, end)) - self._parted
        self._parted |= new
        self._pending.add(new & self._deciding)
        return bool(new)

    def disorder(self, start: int, end: int) -> bool:
        """Says of instructions that warps may come to them after different numbers of barriers;
        True if that was not known.
        """
        new = set(range(start, end)) - self._unordered
        self._unordered |= new
        self._pending.add(new & self._deciding)
        return bool(new)

    def guard_agreement(self, index: int) -> Agreement:
        """Who executes a guarded instruction alike."""
        guard = self._kernel.instructions[index].guard
        return agreement_on(self._values.get(guard.register)) if guard else Agreement.BLOCK

    @property
    def parted(self) -> frozenset[int]:
        """The instructions that not all lanes of a warp may execute together."""
        return frozenset(self._parted)

    def at_end(self, index: int) -> Agreement:
        """Who takes the branch that instruction ``index`` is alike."""
        if index < 0:
            return Agreement.BLOCK
        instruction = self._kernel.instructions[index]
        if instruction.control in (ControlEffect.NONE, ControlEffect.BARRIER, ControlEffect.ARRIVE):
            return Agreement.BLOCK
        agreement = self.guard_agreement(index)
        if instruction.control is ControlEffect.INDIRECT_BRANCH:
            for name in instruction.reads:
                agreement = min(agreement, agreement_on(self._values.get(name)))
        return agreement

    def _lower(self, name: str, value: Value, limit: Agreement) -> bool:
        """Joins a value to that of a register, on which at most ``limit`` agree from now on; True
        if that changes it.
        """
        width = register_width(self._kernel.registers[name])
        self._caps[name] = limit = min(limit, self._caps.get(name, Agreement.BLOCK))
        old = self._values.get(name, ())
        new = limited(one_pattern(old, value, width), limit, width)
        if new is old:
            return False
        self._values[name] = new
        self._pending.add(self._readers[name])
        return True

    def _evaluate(self, index: int, instruction: Instruction) -> tuple[Value, ...]:
        if is_function(instruction):
            return self._values.results(instruction)
        form = instruction.form
        if instruction.space is Space.PARAM and (form.implicit_reads or form.implicit_writes):
            return self._values.moved(instruction)
        agreement = self._opaque.agreement(
            instruction,
            is_whole=index not in self._parted,
            is_ordered=index not in self._unordered,
        )
        return (alike(agreement),) * len(instruction.writes)


@lru_cache(maxsize=64)
def _special_values(block: tuple[int, int, int]) -> dict[str, Value]:
    """Returns the values of special registers in the lanes of any warp of such a block."""
    x, y, z = block
    lanes = np.arange(WARP_SIZE, dtype=np.int64)
    names = [f"%{name}.{axis}" for name in ("ctaid", "nctaid") for axis in "xyz"]
    values: dict[str, Value] = dict.fromkeys((*names, "%gridid"), alike(Agreement.BLOCK))
    for axis, size in zip("xyz", block, strict=True):
        values[f"%ntid.{axis}"] = (constant(size),)
    values["%laneid"] = (normal(Pattern(lanes), 32),)
    values["%warpid"] = alike(Agreement.WARP)
    in_rows = x % WARP_SIZE == 0
    if x == 1:
        values["%tid.x"] = (constant(0),)
    elif in_rows or y * z == 1:
        values["%tid.x"] = (Pattern(lanes, 5),)
    elif WARP_SIZE % x == 0:
        values["%tid.x"] = None
    values["%tid.y"] = (constant(0),) if y == 1 else alike(_agrees(in_rows))
    values["%tid.z"] = (constant(0),) if z == 1 else alike(_agrees(x * y % WARP_SIZE == 0))
    return values


def _agrees(in_warp: bool) -> Agreement:
    return Agreement.WARP if in_warp else Agreement.NONE
