"""What all lanes of a warp, or all warps of a block, agree on, whatever the data.

A register has a *shape* (:mod:`ptxwcet.flow.shapes.shape`); a branch is as uniform as its guard.
Agreement in a warp is among the lanes that execute together. Agreement in the block is among warps
that come there in the same iteration of every loop around: behind a branch on which warps do not
agree, the n-th visit of one warp need not be like the n-th of another.

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

The analysis is flow-insensitive in registers and optimistic: shapes only fall, until nothing
changes. What instructions do to shapes: :mod:`ptxwcet.flow.shapes.domain` and
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
from functools import cached_property

from ptxwcet.flow.graph.cfg import BlockId, ControlFlowGraph
from ptxwcet.flow.graph.control_flow import ControlFlow
from ptxwcet.flow.graph.liveness import Liveness
from ptxwcet.flow.launch import WARP_SIZE, Launch
from ptxwcet.flow.shapes.domain import result_shapes
from ptxwcet.flow.shapes.opaque import OpaqueShapes
from ptxwcet.flow.shapes.shape import (
    MOST_ALIGNED,
    VARYING,
    Agreement,
    Shape,
    all_uniform,
    constant,
    join,
    limited,
    uniform,
)
from ptxwcet.flow.values.accesses import variable_moves
from ptxwcet.flow.values.slicing import deciding
from ptxwcet.flow.values.transfer import register_width
from ptxwcet.ir.kernel import (
    Immediate,
    Instruction,
    Kernel,
    Negated,
    Operand,
    Register,
    Space,
    SpecialRegister,
    SymbolRef,
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
    shapes = _Shapes(kernel, launch, live.undefined(), race_free=race_free)
    order = BarrierOrder(kernel, cfg, live)
    barriers = () if kernel.code is not None else cfg.barriers
    partial = any(_may_be_partial(kernel.instructions[index], launch) for index in barriers)
    if partial or counts_at_mbarriers(kernel):
        shapes.disorder(0, len(kernel.instructions))
    capped: set[tuple[int, Agreement]] = set()
    immediate = flow.postdominators.immediate
    while True:
        shapes.settle()
        agreements = tuple(shapes.at_end(block.end - 1) for block in cfg.blocks)
        changed = False
        for block in cfg.reverse_postorder:
            agreement = agreements[block]
            if agreement is Agreement.BLOCK or (block, agreement) in capped:
                continue
            capped.add((block, agreement))
            meetings = flow.reconvergence.meetings if agreement is Agreement.NONE else immediate
            meeting = meetings[block]
            for name in live.joined(block, meeting):
                changed |= shapes.cap(name, agreement)
            for name in live.joined_before(block, meeting):
                changed |= shapes.cap(name, Agreement.WARP)
            if agreement is Agreement.NONE:
                for parted in live.between(block, meeting):
                    changed |= shapes.part(cfg.blocks[parted].start, cfg.blocks[parted].end)
            for apart in order.lost_behind(block, meeting):
                changed |= shapes.disorder(cfg.blocks[apart].start, cfg.blocks[apart].end)
        for index in order.guarded:
            if shapes.guard_agreement(index) is not Agreement.BLOCK:
                for apart in order.behind(index):
                    changed |= shapes.disorder(cfg.blocks[apart].start, cfg.blocks[apart].end)
        if not changed:
            return agreements, shapes.parted


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


class _Shapes:
    """Shapes of the registers on which branches and barriers depend; ``settle`` lowers them until
    every instruction that writes them agrees.
    """

    def __init__(
        self, kernel: Kernel, launch: Launch, undefined: Iterable[str], *, race_free: bool
    ) -> None:
        self._kernel = kernel
        self._specials = _special_shapes(launch)
        self._shapes: dict[str, Shape] = {}
        self._caps: dict[str, Agreement] = {}
        self._opaque = OpaqueShapes(self._operand, kernel, launch, race_free=race_free)
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
            self._shapes[name] = VARYING
        self._pending = Worklist(self._deciding)

    def settle(self) -> None:
        """Evaluates instructions until no shape falls any more."""
        while self._pending:
            index = self._pending.pop()
            instruction = self._kernel.instructions[index]
            writes = instruction.writes
            if any(name not in self._shapes for name in instruction.reads):
                continue  # comes again when what it reads has a shape
            shapes = self._evaluate(index, instruction)
            guard = instruction.guard
            for name, shape in zip(writes, shapes, strict=True):
                limit = self._caps.get(name, Agreement.BLOCK)
                if guard is not None:
                    limit = min(limit, self._shapes[guard.register].uniform)
                self._lower(name, limited(shape, limit))

    def cap(self, name: str, agreement: Agreement) -> bool:
        """Limits a register for good; True if that changes a shape that matters."""
        if name not in self._wanted:
            return False
        limit = min(agreement, self._caps.get(name, Agreement.BLOCK))
        self._caps[name] = limit
        return self._lower(name, limited(self._shapes.get(name, VARYING), limit))

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
        return self._shapes.get(guard.register, VARYING).uniform if guard else Agreement.BLOCK

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
                agreement = min(agreement, self._shapes.get(name, VARYING).uniform)
        return agreement

    def _lower(self, name: str, shape: Shape) -> bool:
        old = self._shapes.get(name)
        new = shape if old is None else join(old, shape)
        if new == old:
            return False
        self._shapes[name] = new
        self._pending.add(self._readers[name])
        return True

    def _evaluate(self, index: int, instruction: Instruction) -> tuple[Shape, ...]:
        results = result_shapes(instruction, self._kernel.registers, self._operand)
        if results is not None:
            return results
        form = instruction.form
        if instruction.space is Space.PARAM and (form.implicit_reads or form.implicit_writes):
            moves = variable_moves(instruction)
            return tuple(self._moved(target, moves.get(target)) for target in instruction.writes)
        shape = self._opaque.shape(
            instruction,
            is_whole=index not in self._parted,
            is_ordered=index not in self._unordered,
        )
        return (shape,) * len(instruction.writes)

    def _moved(self, target: str, source: Operand | None) -> Shape:
        """The shape of what moves through a thread's variable: kept if no bits are cut or added."""
        if source is None:
            return VARYING
        shape, kinds = self._operand(source), self._kernel.registers
        widths = [
            kinds[side.name] for side in (source, Register(target)) if isinstance(side, Register)
        ]
        is_whole = len(widths) == 2 and register_width(widths[0]) == register_width(widths[1])
        return shape if is_whole else all_uniform([shape])

    def _operand(self, operand: Operand) -> Shape:
        match operand:
            case Register(name):
                return self._shapes[name]
            case Negated(inner):
                return all_uniform([self._operand(inner)])
            case Immediate(value):
                return constant(value) if isinstance(value, int) else uniform(Agreement.BLOCK)
            case SpecialRegister(name):
                return self._specials.get(name, VARYING)
            case SymbolRef():
                return uniform(Agreement.BLOCK)
            case _:
                return VARYING


def _special_shapes(launch: Launch) -> dict[str, Shape]:
    x, y, z = launch.block
    shapes = {
        f"%ntid.{axis}": constant(size) for axis, size in zip("xyz", launch.block, strict=True)
    }
    block = uniform(Agreement.BLOCK)
    shapes |= {f"%{name}.{axis}": block for name in ("ctaid", "nctaid") for axis in "xyz"}
    shapes["%gridid"] = block
    shapes["%laneid"] = Shape(Agreement.BLOCK, 1, MOST_ALIGNED, 0)
    shapes["%warpid"] = uniform(Agreement.WARP)
    in_rows = x % WARP_SIZE == 0
    if x == 1:
        shapes["%tid.x"] = constant(0)
    elif in_rows or y * z == 1:
        shapes["%tid.x"] = Shape(Agreement.WARP, 1, 5)
    elif WARP_SIZE % x == 0:
        shapes["%tid.x"] = VARYING
    shapes["%tid.y"] = constant(0) if y == 1 else uniform(_agrees(in_rows))
    shapes["%tid.z"] = constant(0) if z == 1 else uniform(_agrees(x * y % WARP_SIZE == 0))
    return shapes


def _agrees(in_warp: bool) -> Agreement:
    return Agreement.WARP if in_warp else Agreement.NONE
