"""Transfer functions of ``setp`` and of ``and`` and ``or`` of predicates.

One operand may decide where the other is not known: lane by lane.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptxwcet.flow.values import comparison, integers
from ptxwcet.flow.values.integers import IntegerType
from ptxwcet.flow.values.operands import LaneState, Transfer, integer_of, join_unknown, read_operand
from ptxwcet.flow.values.regions import Wavers
from ptxwcet.flow.values.value import Cause, Known, Mask, Number, Unknown, Value
from ptxwcet.ir.kernel import Instruction, Operand, Pair, Register, Sink
from ptxwcet.ir.operation import operation_of

# The operand that decides the outcome whatever the other is.
DECISIVE = {"and": 0, "or": 1}
_JUNCTIONS = frozenset({"and", "or", "xor"})


def junction(instruction: Instruction, index: int, name: str) -> Transfer:
    """``and``, ``or`` of predicates: one operand may decide where the other is not known."""

    def transfer(state: LaneState) -> tuple[Value, ...]:
        a, b = (read_operand(state, operand, 1, index) for operand in instruction.operands[1:])
        return (_joined(a, b, name, state.active),)

    return transfer


def _joined(a: Value, b: Value, name: str, active: Mask) -> Value:
    """``and``, ``or`` or ``xor`` of two predicates, lane by lane as far as they are known."""
    both_known = isinstance(a, Known) and isinstance(b, Known)
    if isinstance(a, Known) and isinstance(b, Known) and a.valid is None and b.valid is None:
        return _combine(a.base, name, [b])
    everywhere = np.ones_like(active)
    causes: frozenset[Cause] = frozenset()
    sure = [np.zeros_like(active), np.zeros_like(active)]
    bases: list[Number] = [0, 0]
    for place, value in enumerate((a, b)):
        if isinstance(value, Known):
            sure[place] = everywhere if value.valid is None else value.valid
            bases[place] = value.base
            causes |= value.otherwise
        else:
            causes |= value.causes
    valid = sure[0] & sure[1] if both_known else np.zeros_like(active)
    result = np.broadcast_to(_as_array(_combine(bases[0], name, [Known(bases[1])])), active.shape)
    if name in DECISIVE:
        decisive = DECISIVE[name]
        for known, base in zip(sure, bases, strict=True):
            decided = known & (np.broadcast_to(np.asarray(base), active.shape) == decisive)
            result = np.where(decided, decisive, result)
            valid = valid | decided
    if not (active & valid).any():
        return Unknown(causes)
    if (active & ~valid).any():
        return Known(result.astype(np.int64), valid=valid, otherwise=causes)
    return Known(result.astype(np.int64))


def _as_array(value: Value) -> np.ndarray:
    assert isinstance(value, Known)
    return np.asarray(value.base)


def setp_transfer(instruction: Instruction, index: int) -> Transfer | None:
    """The transfer function of a ``setp`` of integers; None for words or results not known here.

    Types and operands are those of :func:`ptxwcet.flow.values.operands.computes_integers`.
    """
    operation = operation_of(instruction.form)
    kind = integer_of(operation.types[0])
    operator, *others = operation.words
    target, *sources = instruction.operands
    outputs = _setp_outputs(target)
    if outputs is None or len(others) != len(sources) - 2 or not {*others} <= _JUNCTIONS:
        return None
    joined = others[0] if others else None

    def transfer(state: LaneState) -> tuple[Value, ...]:
        values = [
            read_operand(state, operand, 1 if position == 2 else kind.bits, index)
            for position, operand in enumerate(sources)
        ]
        outcome = _compared(state, values[0], values[1], operator, kind)
        if joined is None:
            return tuple(outputs(outcome))
        return tuple(_joined(value, values[2], joined, state.active) for value in outputs(outcome))

    return transfer


def _compared(state: LaneState, a: Value, b: Value, operator: str, kind: IntegerType) -> Value:
    """A comparison; where an operand is not known, of what its interval leaves."""
    if isinstance(a, Unknown) or isinstance(b, Unknown):
        return join_unknown([value for value in (a, b) if isinstance(value, Unknown)])
    try:
        outcome = comparison.compare(a, b, operator, kind, state.active)
    except Wavers:
        outcome = None
    causes = integers.causes_of(a.terms) | integers.causes_of(b.terms)
    return Unknown(causes) if outcome is None else outcome


def _setp_outputs(target: Operand) -> Callable[[Value], list[Value]] | None:
    match target:
        case Register():
            return lambda outcome: [outcome]
        case Pair(Register(first), Register(second)):
            if first == second:  # it is not said which of the two it receives
                return None
            return lambda outcome: [outcome, comparison.opposite(outcome)]
        case Pair(Register(), Sink()):
            return lambda outcome: [outcome]
        case Pair(Sink(), Register()):
            return lambda outcome: [comparison.opposite(outcome)]
        case _:
            return None


def _combine(outcome: Number, operator: str | None, others: list[Known]) -> Value:
    if operator is None or not others:
        return Known(outcome)
    other = others[0].base
    if operator == "and":
        return Known(outcome & other)
    return Known(outcome | other if operator == "or" else outcome ^ other)
