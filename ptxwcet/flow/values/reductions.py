"""Transfer functions of ``redux.sync`` and ``elect.sync``: what all lanes of a warp find together.

What a lane gets is defined if its member mask names it and all members execute the instruction
together (PTX ISA, ``redux.sync``). A lane elsewhere may give to it, too, if it executes another
``redux.sync`` with the same mask. So nothing is said where the lanes of a warp may have parted, nor
where the members are not known.

PTX ISA, instructions with ``sync``: a lane waits until all members of its mask that have not ended
execute the same instruction with the same mask; what it gets is undefined if its own mask does not
name it. So a result is one of certain lanes only if every lane that may execute the instruction is
known to be a member: where a number names all of them, or where each has its mask from
``activemask``, which names the lane that executes it. Nothing is known of a mask that is data.

Masks of lanes are integers here: bit ``i`` is lane ``i``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from ptxwcet.flow.launch import WARP_SIZE, Launch
from ptxwcet.flow.values import integers, ranges
from ptxwcet.flow.values.intervals import Interval, around
from ptxwcet.flow.values.lane_state import LaneState
from ptxwcet.flow.values.operands import Transfer, integer_of, read_operand
from ptxwcet.flow.values.value import Cause, Known, Mask, Unknown, Value
from ptxwcet.ir.kernel import Instruction, Kernel, Register
from ptxwcet.ir.operands import Pair
from ptxwcet.ir.operation import operation_of


def name_all(members: int, lanes: int) -> bool:
    """Whether a mask of 32 bits, read with any sign, names all of these lanes."""
    return not lanes & ~members


def lanes_of_some(launch: Launch) -> int:
    """The lanes that at least one warp of a block has."""
    return (1 << min(launch.threads, WARP_SIZE)) - 1


def lanes_of_all(launch: Launch) -> int:
    """The lanes that every warp of a block has."""
    return (1 << (launch.threads % WARP_SIZE or WARP_SIZE)) - 1


def naming_themselves(kernel: Kernel) -> frozenset[str]:
    """Registers that hold in each lane a mask which names that lane, whenever they hold one: those
    that only ``activemask`` writes. Cost: linear in the kernel.
    """
    masks = {one.writes[0] for one in kernel.instructions if _is_activemask(one)}
    written_otherwise = {
        name for step in kernel.instructions if not _is_activemask(step) for name in step.writes
    }
    return frozenset(masks - written_otherwise)


def _is_activemask(instruction: Instruction) -> bool:
    return operation_of(instruction.form).name == "activemask"


_MASK_BITS = 32
_Rule = Callable[[Interval, Interval], Interval]


def is_election(instruction: Instruction) -> bool:
    """Whether it elects one lane of a warp."""
    return operation_of(instruction.form).name == "elect"


def election_transfer(instruction: Instruction, cause: Cause) -> Transfer:
    """The transfer function of an ``elect.sync`` for lanes of which none is or may be elsewhere:
    the lowest one is elected, on the assumption ``elected-lane-is-lowest``, where all lanes of each
    warp execute it with a mask that names them. ``cause`` names the instruction. Cost of a call:
    linear in the lanes.
    """
    (written, members), results = instruction.operands, len(instruction.writes)
    says_who = isinstance(written, Pair) and isinstance(written.second, Register)
    ways = (" of some lanes of a warp", " with a mask that is not one of all lanes")
    parted, unnamed = (replace(cause, name=cause.name + way) for way in ways)

    def transfer(state: LaneState) -> tuple[Value, ...]:
        mask = read_operand(state, members, _MASK_BITS, cause.instruction)
        rows = state.active.reshape(-1, WARP_SIZE)
        if (state.active != state.alive).any() or not rows[:, 0].all():
            return (Unknown(frozenset({parted})),) * results
        if not _names_all(mask, state.active):
            return (Unknown(frozenset({unnamed})),) * results
        chosen = np.arange(state.active.size) % WARP_SIZE == 0
        both = Known(0), Known(chosen.astype(np.int64))
        return both[-results:] if says_who else both[:1]

    return transfer


def is_reduction(instruction: Instruction) -> bool:
    """Whether it reduces integers over a warp."""
    operation = operation_of(instruction.form)
    return (
        operation.name == "redux"
        and "sync" in operation.words
        and all(one.is_integer for one in operation.types)
    )


def reduction_transfer(instruction: Instruction, cause: Cause) -> Transfer:
    """The transfer function of a ``redux.sync`` of integers that whole warps execute.

    Whole: all lanes of a warp that exist execute it together. ``cause`` names the instruction. Cost
    of a call: linear in the lanes.
    """
    operation = operation_of(instruction.form)
    rule = next(rule for word, rule in _RULES.items() if word in operation.words)
    kind = integer_of(operation.types[0])
    _, source, members = instruction.operands

    def transfer(state: LaneState) -> tuple[Value, ...]:
        value = read_operand(state, source, kind.bits, cause.instruction)
        mask = read_operand(state, members, _MASK_BITS, cause.instruction)
        causes = _causes(value, cause)
        if not _names_all(mask, state.active):
            return (Unknown(_causes(mask, cause) | causes),)
        interval = rule(ranges.interval_of(value, kind, state.active), _sizes(state.active))
        if kind.interval.covers(interval) and ranges.is_narrower(interval, kind):
            return (ranges.bounded(interval, kind.bits, causes),)
        return (Unknown(causes),)

    return transfer


def _names_all(mask: Value, active: Mask) -> bool:
    """Whether a member mask is a number that names every lane that executes."""
    if not isinstance(mask, Known) or not mask.is_uniform_constant:
        return False
    assert isinstance(mask.base, int)
    lanes = np.unique(np.flatnonzero(active) % WARP_SIZE)
    return name_all(mask.base, sum(1 << int(lane) for lane in lanes))


def _sizes(active: Mask) -> Interval:
    """How many lanes of a warp execute it: the fewest and the most of all warps that do."""
    counts = active.reshape(-1, WARP_SIZE).sum(axis=1)
    return around(int(count) for count in counts if count)


def _causes(value: Value, cause: Cause) -> frozenset[Cause]:
    """Why a value is not one number; ``cause`` if it is."""
    found = value.causes if isinstance(value, Unknown) else integers.causes_of(value.terms)
    return found or frozenset({cause})


def _one_of_them(values: Interval, sizes: Interval) -> Interval:
    return values


def _sum(values: Interval, sizes: Interval) -> Interval:
    ends = (values.low, values.high)
    return around(end * size for end in ends for size in (sizes.low, sizes.high))


_RULES: Mapping[str, _Rule] = {
    "min": _one_of_them,
    "max": _one_of_them,
    "add": _sum,
    "and": lambda values, _: Interval(0, values.high),
    "or": lambda values, _: Interval(values.low, (1 << values.high.bit_length()) - 1),
    "xor": lambda values, _: Interval(0, (1 << values.high.bit_length()) - 1),
}
"""By operation: from the numbers of the lanes, and how many lanes there are, to those of the
result. A sum may leave its type; bit strings have no sign."""
