"""What transfer functions read: the state of the lanes, and operands in it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from ptxwcet.flow.values import comparison
from ptxwcet.flow.values.integers import IntegerType
from ptxwcet.flow.values.lane_state import LaneState
from ptxwcet.flow.values.value import Cause, CauseKind, Known, Unknown, Value, combine, wrap
from ptxwcet.ir.kernel import (
    Immediate,
    Instruction,
    Negated,
    Operand,
    Register,
    SpecialRegister,
    SymbolRef,
)
from ptxwcet.ir.operation import NumberKind, NumberType, operation_of

Transfer = Callable[[LaneState], tuple[Value, ...]]
# No result by a rule: the cause is the instruction that asked for it.
NOT_AFFINE = Unknown(frozenset())
PREDICATE = IntegerType(1, signed=False)


def integer_of(kind: NumberType) -> IntegerType:
    """A type as rules of integers see it: bit strings are unsigned, predicates have one bit.

    Meant for single integers and predicates.
    """
    return PREDICATE if kind.bits == 1 else IntegerType(kind.bits, kind.is_signed)


def instruction_type(instruction: Instruction) -> IntegerType | None:
    """The last type that an instruction names if all are single integers or predicates, or None.

    ``pred`` is PREDICATE.
    """
    types = operation_of(instruction.form).types
    if not types or any(not (one.is_integer or one.kind is NumberKind.PREDICATE) for one in types):
        return None
    return integer_of(types[-1])


@cache
def register_width(kind: str) -> int:
    """Bits of a register of a declared type: 1 for ``pred``, 32 for ``f16x2``, else its number."""
    if kind == "pred":
        return 1
    bits, _, count = kind.lstrip("abfsu").partition("x")
    return int(bits) * int(count or 1)


def read_operand(state: LaneState, operand: Operand, bits: int, index: int) -> Value:
    """The value of a source operand, reduced to ``bits`` (predicates: 0 or 1)."""
    match operand:
        case Register(name):
            return state.register(name)
        case Immediate(value) if isinstance(value, int):
            return Known(int(value != 0) if bits == 1 else wrap(value, bits))
        case SpecialRegister(name):
            return state.special(name)
        case Negated(inner):
            return comparison.opposite(read_operand(state, inner, bits, index))
        case SymbolRef(name, offset):
            start = state.address(name)
            if start is not None:
                return combine(start, Known(offset), 1, bits)
            return Unknown(frozenset({Cause(CauseKind.LAUNCH, f"address of {name}", index)}))
        case _:
            return Unknown(frozenset({Cause(CauseKind.OPERATION, "operand", index)}))
