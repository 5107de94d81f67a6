"""What transfer functions read: the state of the lanes, and operands in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ptxwcet.flow.values import comparison
from ptxwcet.flow.values.integers import IntegerType
from ptxwcet.flow.values.value import Cause, CauseKind, Known, Mask, Unknown, Value, combine, wrap
from ptxwcet.ir.kernel import (
    Immediate,
    Instruction,
    Negated,
    Operand,
    Register,
    Space,
    SpecialRegister,
    SymbolRef,
)
from ptxwcet.ir.operation import NumberKind, NumberType, operation_of


class LaneState(Protocol):
    """What a transfer function may read, in the lanes that are active."""

    @property
    def active(self) -> Mask:
        """The lanes that execute the instruction."""
        ...

    def register(self, name: str) -> Value:
        """The register's value; Unknown unless known in all active lanes."""
        ...

    def special(self, name: str) -> Value:
        """A special register's value."""
        ...

    def parameter(self, name: str, offset: int, kind: IntegerType) -> Value | None:
        """A kernel parameter, or part of one, as ``kind``; None if there is none of the name."""
        ...

    def address(self, name: str) -> Known | None:
        """The address of a variable whose bytes are known."""
        ...

    def load(self, space: Space, address: Known, kind: IntegerType) -> Known | None:
        """What lies at an address in memory that cannot change; None if that is not known."""
        ...


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


def join_unknown(values: list[Unknown]) -> Unknown:
    """An unknown value with the causes of all."""
    causes: frozenset[Cause] = frozenset()
    for value in values:
        causes |= value.causes
    return Unknown(causes)
