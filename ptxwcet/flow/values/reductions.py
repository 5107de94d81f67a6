"""Transfer functions of ``redux.sync``: one number from those of all lanes of a warp.

What a lane gets is defined if its member mask names it and all members execute the instruction
together (PTX ISA, ``redux.sync``). A lane elsewhere may give to it, too, if it executes another
``redux.sync`` with the same mask. So nothing is said where the lanes of a warp may have parted, nor
where the members are not known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ptxwcet.flow.launch import WARP_SIZE
from ptxwcet.flow.values import integers, ranges
from ptxwcet.flow.values.intervals import Interval, around
from ptxwcet.flow.values.members import name_all
from ptxwcet.flow.values.operands import LaneState, Transfer, integer_of, read_operand
from ptxwcet.flow.values.value import Cause, Known, Mask, Unknown, Value
from ptxwcet.ir.kernel import Instruction
from ptxwcet.ir.operation import operation_of

_MASK_BITS = 32
_Rule = Callable[[Interval, Interval], Interval]


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


def _common_bits(values: Interval, sizes: Interval) -> Interval:
    return Interval(0, values.high)


def _all_bits(values: Interval, sizes: Interval) -> Interval:
    return Interval(values.low, (1 << values.high.bit_length()) - 1)


def _odd_bits(values: Interval, sizes: Interval) -> Interval:
    return Interval(0, (1 << values.high.bit_length()) - 1)


_RULES: Mapping[str, _Rule] = {
    "min": _one_of_them,
    "max": _one_of_them,
    "add": _sum,
    "and": _common_bits,
    "or": _all_bits,
    "xor": _odd_bits,
}
"""By operation: from the numbers of the lanes, and how many lanes there are, to those of the
result. A sum may leave its type; bit strings have no sign."""
