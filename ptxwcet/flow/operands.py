"""What transfer functions read: the state of the lanes, and operands in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ptxwcet.flow import comparison
from ptxwcet.flow.integers import IntegerType, integer_type
from ptxwcet.flow.values import Cause, CauseKind, Known, Mask, Unknown, Value, combine, wrap
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


def instruction_type(instruction: Instruction) -> IntegerType | None:
    """The last integer type that an instruction names, PREDICATE for ``pred``, or None."""
    for modifier in reversed(instruction.modifiers):
        if modifier == "pred":
            return PREDICATE
        kind = integer_type(modifier)
        if kind is not None:
            return kind
    return None


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
    """Unknown for the causes of all."""
    causes: frozenset[Cause] = frozenset()
    for value in values:
        causes |= value.causes
    return Unknown(causes)
