"""Transfer functions of floating-point operations that PTX determines to the last bit.

Floating-point numbers are registers' bits here, as everywhere: what is known in each lane without
symbols is computed lane by lane (:mod:`ptxwcet.flow.values.floats`); of ranges, those of positive
numbers are ranges of their bits, and of others an upper end is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from ptxwcet.flow.values import integers, ranges
from ptxwcet.flow.values.floats import (
    Floats,
    Result,
    format_of,
    from_patterns,
    is_determined,
    patterns,
    result_of,
)
from ptxwcet.flow.values.integers import IntegerType
from ptxwcet.flow.values.intervals import Interval
from ptxwcet.flow.values.lane_state import LaneState
from ptxwcet.flow.values.operands import Transfer, integer_of
from ptxwcet.flow.values.value import Cause, CauseKind, Known, Mask, Unknown, Value, wrap
from ptxwcet.ir.kernel import Immediate, Instruction, Operand, Register
from ptxwcet.ir.operation import NumberType, Operation, operation_of

_EITHER = frozenset(("min", "max"))
"""What is known of one operand says something of the result."""


def float_operation(instruction: Instruction) -> Operation | None:
    """The operation of an instruction on registers and literals that has a rule, or None."""
    operation = operation_of(instruction.form)
    operands = instruction.operands
    if "tf32" in instruction.form.modifiers:
        return None  # a number of fewer digits
    if not is_determined(operation) or len(instruction.writes) != 1 or len(operands) < 2:
        return None
    plain = all(isinstance(one, (Register, Immediate)) for one in operands)
    return operation if plain and isinstance(operands[0], Register) else None


def takes_either(operation: Operation) -> bool:
    """Whether one operand that is known is enough."""
    return operation.name in _EITHER


def float_transfer(instruction: Instruction, index: int, width: int) -> Transfer | None:
    """The transfer function of :func:`float_operation`; None if it has no rule.

    ``width``: bits of the register that it writes. Cost: of a call, linear in the lanes.
    """
    operation = float_operation(instruction)
    if operation is None:
        return None
    target, origin = operation.types[0], operation.types[-1]
    sources = instruction.operands[1:]
    if format_of(target) is not None and width != target.bits:
        return None
    unknown = Unknown(frozenset({Cause(CauseKind.FLOAT, instruction.mnemonic, index)}))

    def transfer(state: LaneState) -> tuple[Value, ...]:
        read = [_read(state, one, origin) for one in sources]
        value = _in_lanes(operation, read, state.active, width)
        if value is None:
            found = result_of(operation, [_range(one, origin, state.active) for one in read])
            interval = _pattern_range(found, target)
            if interval is not None and interval.high - interval.low < (1 << width) - 1:
                return (ranges.bounded(interval, width, _origins(read) or unknown.causes),)
        return (_why(read, unknown) if value is None else value,)

    return transfer


def _read(state: LaneState, operand: Operand, kind: NumberType) -> Value:
    """The bits of an operand; a literal as the nearest number of its type."""
    if isinstance(operand, Register):
        return state.register(operand.name)
    assert isinstance(operand, Immediate)
    form = format_of(kind)
    if form is None:
        assert isinstance(operand.value, int)
        return Known(wrap(operand.value, kind.bits))
    if operand.value != operand.value or isinstance(operand.value, int):
        return Unknown(frozenset())
    try:
        return Known(wrap(form.pattern(operand.value), form.bits))
    except OverflowError:
        return Unknown(frozenset())


def _in_lanes(
    operation: Operation, values: Sequence[Value], active: Mask, width: int
) -> Value | None:
    """The result in each active lane; None if it is not known in all."""
    known = [one for one in values if isinstance(one, Known) and not one.terms]
    if len(known) < len(values) or any(one.valid is not None for one in known):
        return None
    if all(isinstance(one.base, int) for one in known):
        number = _number(operation, tuple(int(one.base) for one in known))
        return None if number is None else Known(wrap(number, width))
    columns = [np.broadcast_to(np.asarray(one.base), active.shape).tolist() for one in known]
    lanes = np.zeros(active.shape, dtype=np.int64)
    for lane in np.flatnonzero(active).tolist():
        number = _number(operation, tuple(column[lane] for column in columns))
        if number is None:
            return None
        lanes[lane] = wrap(number, width)
    return Known(lanes)


@lru_cache(maxsize=4096)
def _number(operation: Operation, words: tuple[int, ...]) -> int | None:
    """The result's bits, or its number, for the operands' bits; None if it is not determined."""
    kind = operation.types[-1]
    read = [_of_interval(Interval(word, word), Interval(word, word), kind) for word in words]
    interval = _pattern_range(result_of(operation, read), operation.types[0])
    return interval.low if interval is not None and interval.is_number else None


def _range(value: Value, kind: NumberType, active: Mask) -> Floats | Interval:
    """The numbers that an operand may be."""
    if format_of(kind) is None:
        return ranges.interval_of(value, integer_of(kind), active)
    unsigned, signed = (
        ranges.interval_of(value, IntegerType(kind.bits, is_signed), active)
        for is_signed in (False, True)
    )
    return _of_interval(unsigned, signed, kind)


def _of_interval(unsigned: Interval, signed: Interval, kind: NumberType) -> Floats | Interval:
    """Of bits read with and without sign; a single number may be given in any reading."""
    form, size = format_of(kind), 1 << kind.bits
    if signed.is_number:
        low = signed.low % size
        high = low - size if low >= size >> 1 else low
        unsigned, signed = Interval(low, low), Interval(high, high)
    if form is None:
        return signed if kind.is_signed else unsigned
    return from_patterns(unsigned, signed, form)


def _pattern_range(found: Result, kind: NumberType) -> Interval | None:
    form = format_of(kind)
    if isinstance(found, Floats):
        assert form is not None
        return patterns(found, form)
    return found


def _origins(values: Sequence[Value]) -> frozenset[Cause]:
    """Why the operands of a range are not known."""
    found: frozenset[Cause] = frozenset()
    for value in values:
        found |= value.causes if isinstance(value, Unknown) else integers.causes_of(value.terms)
    return found


def _why(values: Sequence[Value], otherwise: Unknown) -> Unknown:
    """Parameters alone, where values for them would settle it."""
    causes = _origins(values)
    if causes and all(cause.kind is CauseKind.PARAMETER for cause in causes):
        return Unknown(causes)
    return otherwise
