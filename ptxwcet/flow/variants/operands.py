"""How steps read registers and operands on cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ptxwcet.flow.values.operands import register_width
from ptxwcet.flow.variants.cases import Case, Content, Open, Opposite, Predicate, Raw
from ptxwcet.flow.variants.linear_forms import Form
from ptxwcet.ir.kernel import Instruction
from ptxwcet.ir.operands import Immediate, Negated, Operand, Register
from ptxwcet.ir.semantics import Meaning, meaning_of
from ptxwcet.support.records import dataclass


@dataclass(frozen=True, slots=True)
class Stepping:
    """What steps need to know: types of registers, and how bits are read where nothing says.

    ``splits``: where numbers that may wrap around are compared, a case is split by whether they
    do. ``known`` are the terms of instructions of a kernel, by index.
    """

    types: Mapping[str, str]
    signed: bool
    splits: bool = False
    known: Callable[[int], Meaning | None] | None = None

    def width(self, name: str) -> int:
        """The width of a register in bits."""
        return register_width(self.types[name])

    def unknown(self, name: str, fresh: str) -> Content:
        """A content of which nothing is known."""
        return Open(fresh) if self.types.get(name, "pred") == "pred" else Raw(fresh)

    def meaning(self, instruction: Instruction, index: int) -> Meaning | None:
        """The terms of an instruction, None if it has none."""
        return meaning_of(instruction, self.types) if self.known is None else self.known(index)


def predicate_of(case: Case, operand: Operand, fresh: str) -> Predicate:
    """The predicate that an operand holds."""
    match operand:
        case Register(name):
            content = case.registers.get(name, Open(f"{name}@0"))
            return Open(fresh) if isinstance(content, (Form, Raw)) else content
        case Negated(inner):
            return Opposite(predicate_of(case, inner, fresh))
        case Immediate(value) if isinstance(value, int):
            return value != 0
        case _:
            return Open(fresh)
