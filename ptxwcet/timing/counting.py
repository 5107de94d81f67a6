"""Computes the cost of operations on mbarriers, of waits for them, and of bulk copies.

A copy is issued in a slot, occupies the engine of its SM for its bytes, and arrives at its mbarrier
a latency later; a wait costs one poll, and states the time of each further one
(docs/methods/mbarriers.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ptxwcet.claims import Assumption, AssumptionState
from ptxwcet.flow.launch import WARP_SIZE
from ptxwcet.flow.walk.path import Visit, WarpPath, nodes_in
from ptxwcet.ir.kernel import Instruction, Kernel, registers_at_entry
from ptxwcet.ir.mbarriers import MbarrierUse, Use, use_of
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.machine.model import Machine, RefusedOp
from ptxwcet.memory.analysis import Transactions
from ptxwcet.memory.counting import LINE, SECTOR
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.timing.cost import (
    BULK_COPIES,
    COPY_REGISTERS,
    SMALL_COPIES,
    charge_transactions,
    name_of,
    naming_others,
    refused_by,
    row_of,
    timed_as,
)
from ptxwcet.warp.program import REGISTERS, Mbarrier, PartialBarrier, TimedInstruction

MBARRIERS_COUNT = Assumption(
    "mbarriers-count",
    "what counts at an mbarrier has done so when it has ended, in the order of its warp, a bulk "
    "copy when its last byte has come, and an arrival behind small copies (cp.async) after the "
    "last of them in the time of its row; a wait is answered in the time of its row, for all "
    "lanes alike, and while the phase is not over its warp does not ask again before the time of "
    "the machine file has passed; nothing else writes to the memory of an mbarrier",
    AssumptionState.ASSUMED,
    "mbarriers and bulk copies",
)
"""The assumption of bounds of programs with mbarriers."""

REGISTERS_SUFFICE = Assumption(
    "registers-suffice",
    "once all warps of the block that give up registers (setmaxnreg.dec) have done so, each that "
    "takes some (setmaxnreg.inc) finds them: all together fit in what the block has; asking for "
    "them before takes nothing that others need",
    AssumptionState.ASSUMED,
    "registers that warps hand over",
)
"""The assumption of bounds of programs whose warps wait for registers."""


def require_registers(paths: Sequence[WarpPath], kernel: Kernel) -> None:
    """Raises PtxwcetError (PW504) where warps take more registers than others can ever give up.

    This applies only where the number at their start is known. An SM allots them in multiples of 8
    per thread. Cost: linear in the path trees.
    """
    start = registers_at_entry(kernel)
    if start is None:
        return
    start = -(-start // _REGISTER_STEP) * _REGISTER_STEP
    changes = []
    for path in paths:
        has, last = start, 0
        visits = (node for node in nodes_in(path.nodes) if isinstance(node, Visit))
        for counted in (use for visit in visits for use in visit.counted):
            used = use_of(kernel.instructions[counted.index])
            if isinstance(used, MbarrierUse) and used.use in (Use.GIVE, Use.TAKE):
                has = (max if used.use is Use.TAKE else min)(has, counted.number)
                last = counted.index
        changes.append((len(path.warps) * WARP_SIZE * (has - start), len(path.warps), has, last))
    if sum(change for change, *_ in changes) <= 0:
        return
    taken, freed = (sum(max(0, sign * change) for change, *_ in changes) for sign in (1, -1))
    notes = (
        f"{warps} warps {'take' if change > 0 else 'give up'} {abs(change):,}: each of their "
        f"threads starts with {start} and has {has} at last"
        for change, warps, has, _ in changes
        if change
    )
    message = (
        f"warps wait for ever for registers: they take {taken:,} (setmaxnreg.inc), and the others "
        f"of the block give up {freed:,} (setmaxnreg.dec)"
    )
    span = kernel.instructions[max(changes)[-1]].span
    remedy = (
        "let the block have as many registers at its end as at its start (.maxnreg): take fewer, "
        "or give up more"
    )
    raise PtxwcetError(Diagnostic("PW504", message, span, tuple(notes), remedy))


_REGISTER_STEP = 8


@dataclass(frozen=True, slots=True)
class Counting:
    """The mbarrier, the lanes and the number that each counts; and the instructions after it that a
    waiting warp executes before it polls again. ``rows`` are those of the box of a tensor copy.
    """

    place: str
    lanes: int
    number: int
    round: tuple[TimedInstruction, ...] = ()
    rows: int = 0


def cost_of_counting(
    instruction: Instruction, machine: Machine, counted: Counting, origin: int
) -> TimedInstruction | PartialBarrier | Diagnostic:
    """Returns the cost of an operation on an mbarrier, or of a bulk copy, by some lanes of a warp.

    Cost: constant; a refusal names the machines of the tool that would not refuse.
    """

    def cost_on(machine: Machine) -> TimedInstruction | PartialBarrier | Diagnostic:
        return _counting_on(machine, instruction, counted, origin)

    return naming_others(cost_on(machine), cost_on, machine, instruction.op_class)


def _counting_on(
    machine: Machine, instruction: Instruction, counted: Counting, origin: int
) -> TimedInstruction | PartialBarrier | Diagnostic:
    op_class, used = instruction.op_class, use_of(instruction)
    assert op_class is not None
    timing = row_of(instruction, op_class, machine)
    if isinstance(timing, RefusedOp):
        return refused_by(instruction, op_class, timing.reason, machine)
    if not counted.lanes:
        return timed_as(instruction, timing, machine, origin)
    assert isinstance(used, MbarrierUse)
    rates, lanes, number = dict(timing.rates), counted.lanes, counted.number
    if op_class is OpClass.ASYNC_BULK:
        caches = machine.l1_cache, machine.l2_cache, machine.carve_out
        if any(cache is not None for cache in caches):
            reason = "it says what caches keep, and which bytes copies touch is not known"
            return refused_by(instruction, op_class, reason, machine)
        if counted.rows and _TENSOR_BYTES not in rates:
            reason = f"it does not say how fast boxes of tensors are (rates: {_TENSOR_BYTES})"
            return refused_by(instruction, op_class, reason, machine)
        rows, rate = counted.rows or 1, rates[_TENSOR_BYTES if counted.rows else "bytes"]
        if used.use is Use.COPY_OUT:
            rate = rates.get("out_bytes", rate)
        # Each row of a box begins in a cycle of its own.
        copied = lanes * rows * -(-number // rows // rate)
        initiation = lanes * timing.initiation_cycles
        initiation = initiation + copied if counted.rows else max(initiation, copied)
        timing = replace(timing, initiation_cycles=initiation)
    after = 0
    if used.use is Use.COPY:  # The servers' part of the time stays in its latency.
        timing, after = replace(timing, latency_cycles=0), timing.latency_cycles
    if used.use in (Use.GIVE, Use.TAKE):
        timed = timed_as(instruction, timing, machine, origin)
        own, waits = timed.initiation_cycles + timed.latency_cycles, used.use is Use.TAKE
        handed = Mbarrier(round_cycles=own) if waits else Mbarrier(arrivals=1)
        return PartialBarrier(timed, REGISTERS, 0, waits, handed)
    number_of = origin % COPY_REGISTERS
    copies = (BULK_COPIES[number_of],) if used.use is Use.COPY_OUT else ()
    timed = timed_as(instruction, timing, machine, origin, copies=copies)
    is_read = OpClass.LOAD_GLOBAL if used.use is Use.COPY else None
    timed = charge_transactions(timed, _moved(used.use, counted), machine, op_class=is_read)
    if used.use is Use.COPY_OUT:
        return timed
    mbarrier = Mbarrier()
    match used.use:
        case Use.INIT:
            mbarrier = Mbarrier(expects=number)
        case Use.INVAL:
            mbarrier = Mbarrier(ends=True)
        case Use.ARRIVE:
            mbarrier = Mbarrier(arrivals=lanes * number)
        case Use.ARRIVE_EXPECT:
            mbarrier = Mbarrier(arrivals=lanes, owes=lanes * number)
        case Use.ARRIVE_BEHIND:
            own = timed.initiation_cycles + timed.latency_cycles
            mbarrier = Mbarrier(arrivals=lanes * number, after_cycles=own, behind=SMALL_COPIES)
        case Use.EXPECT:
            mbarrier = Mbarrier(owes=lanes * number)
        case Use.COMPLETE:
            mbarrier = Mbarrier(brings=lanes * number)
        case Use.COPY:
            mbarrier = Mbarrier(brings=lanes * number, after_cycles=after)
        case Use.WAIT:
            _, _, kind = name_of(instruction).partition(".")
            if kind not in rates:
                reason = f"it does not say how soon a warp asks again (rates: {kind})"
                return refused_by(instruction, op_class, reason, machine)
            own, is_whole = timed.initiation_cycles + timed.latency_cycles, lanes == WARP_SIZE
            spent = sum(map(_whole_cycles, counted.round))
            polling = timed, *counted.round
            charged = sum(polled.initiation_cycles + polled.path_cycles for polled in polling)
            mbarrier = Mbarrier(
                parity=number & 1,
                round_cycles=2 * own + spent,
                poll_cycles=charged,
                again_cycles=max(rates[kind], rates.get(f"whole_{kind}", 0) if is_whole else 0),
            )
        case _:
            pass
    return PartialBarrier(timed, counted.place, 0, used.use is Use.WAIT, mbarrier)


def _whole_cycles(timed: TimedInstruction) -> int:
    return timed.initiation_cycles + timed.latency_cycles + timed.bubble_cycles


def _moved(use: Use, counted: Counting) -> Transactions:
    """Returns the transactions of copies and mbarrier operations: lanes arrive one after the other,
    copies begin at a multiple of 16 bytes and fill neither the first nor the last sector.
    """
    lanes, number = counted.lanes, counted.number
    if use not in (Use.COPY, Use.COPY_OUT):
        times = 2 if use is Use.ARRIVE_BEHIND else 1  # the instruction, then the arrival
        return Transactions(passes=1 if use is Use.WAIT else times * lanes)
    if counted.rows:
        return _moved_box(use, counted)
    sectors, lines = lanes * (number // SECTOR + 1), lanes * (number // LINE + 2)
    return Transactions(sectors, lines, partial=2 * lanes if use is Use.COPY_OUT else 0)


def _moved_box(use: Use, counted: Counting) -> Transactions:
    """Returns the transactions of tensor copies, and of the tensor map, which the engine reads.

    Rows begin anywhere, each at an address of its own. Their map may require all of each 256 bytes
    that a copy into shared memory touches (its L2 promotion).
    """
    rows, length = counted.lanes * counted.rows, counted.number // counted.rows

    def pieces(size: int) -> int:
        return rows * ((length - 2) // size + 2)

    is_out = use is Use.COPY_OUT
    sectors = pieces(SECTOR) if is_out else pieces(_PROMOTED) * (_PROMOTED // SECTOR)
    lines = pieces(LINE) + counted.lanes * _MAP_LINES
    sectors += counted.lanes * _MAP_SECTORS
    return Transactions(sectors, lines, partial=2 * rows if is_out else 0)


_TENSOR_BYTES = "tensor_bytes"
_PROMOTED = 256
_MAP_SECTORS, _MAP_LINES = 4, 2  # 128 bytes at a multiple of 64
