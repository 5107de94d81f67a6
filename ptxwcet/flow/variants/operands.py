"""How the rules of variants read the operands of an instruction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ptxwcet.flow.values import ranges
from ptxwcet.flow.values.integers import IntegerType
from ptxwcet.flow.values.transfer import register_width
from ptxwcet.flow.values.value import wrap
from ptxwcet.flow.variants.cases import (
    Case,
    Content,
    Open,
    Opposite,
    Predicate,
    Raw,
    exact,
    fitting,
)
from ptxwcet.flow.variants.linear_forms import Form, plus, variable
from ptxwcet.ir.kernel import Immediate, Instruction, Negated, Operand, Register

Cases = list[tuple[Case, Content]]
"""Cases, and what is computed in each."""


@dataclass(frozen=True, slots=True)
class Stepping:
    """What steps need to know: types of registers, and how bits are read where nothing says."""

    types: Mapping[str, str]
    signed: bool

    def width(self, name: str) -> int:
        """Bits of a register."""
        return register_width(self.types[name])

    def unknown(self, name: str, fresh: str) -> Content:
        """A content of which nothing is known."""
        return Open(fresh) if self.types[name] == "pred" else Raw(fresh)


def predicate_of(case: Case, operand: Operand, fresh: str) -> Predicate:
    """The predicate that an operand holds."""
    match operand:
        case Register(name):
            found = case.registers.get(name, Open(f"{name}@0"))
            return Open(fresh) if isinstance(found, (Form, Raw)) else found
        case Negated(inner):
            return Opposite(predicate_of(case, inner, fresh))
        case Immediate(value) if isinstance(value, int):
            return value != 0
        case _:
            return Open(fresh)


def is_float(instruction: Instruction) -> bool:
    """Whether an instruction computes or compares floating-point numbers."""
    return any(word[:1] in "ft" and word[1:].isdigit() for word in instruction.modifiers)


@dataclass(frozen=True, slots=True)
class OneStep:
    """An instruction that computes one integer of a type."""

    instruction: Instruction
    kind: IntegerType
    fresh: str
    how: Stepping

    def has(self, *words: str) -> bool:
        """Whether the mnemonic has one of the words."""
        return any(word in self.instruction.modifiers for word in words)

    def content(self, case: Case, place: int) -> Content:
        """The content of a source operand; the first has place 1."""
        match self.instruction.operands[place]:
            case Register(name):
                return case.registers.get(name, Raw(name))
            case Immediate(value) if isinstance(value, int):
                number = wrap(value, 64)
                assert isinstance(number, int)
                return Form(number)
            case _:
                return Raw(f"{self.fresh}?{place}")

    def bits(self, case: Case, place: int) -> tuple[Case, Form]:
        """An operand as some number with its bits."""
        content = self.content(case, place)
        if isinstance(content, Form):
            return case, content
        return self.number(case, place, replace(self.kind, signed=self.how.signed))

    def number(self, case: Case, place: int, kind: IntegerType | None = None) -> tuple[Case, Form]:
        """An operand as a number of the type. Unknown bits are that number from here on."""
        content = self.content(case, place)
        case, form = exact(case, content, kind or self.kind, f"{self.fresh}v{place}")
        if isinstance(content, Raw):
            operand = self.instruction.operands[place]
            types, bits = self.how.types, (kind or self.kind).bits
            if isinstance(operand, Register) and operand.name in types:
                whole = self.how.width(operand.name) == bits
                case = case.with_register(operand.name, form) if whole else case
        return case, form

    def fits(self, case: Case, place: int, kind: IntegerType) -> bool:
        """Whether an operand is a number of a type as it is, or unknown."""
        content = self.content(case, place)
        return isinstance(content, Raw) or fitting(case, content, kind) is not None

    def constant(self, case: Case, place: int) -> int | None:
        """An operand that is one number."""
        content = self.content(case, place)
        if isinstance(content, Form) and not content.terms:
            return content.constant
        if isinstance(content, Raw) and content.signed is not None:
            return content.signed.low if content.signed.is_number else None
        return None


StepRule = Callable[[Case, OneStep], Cases]
"""What an instruction computes."""


def numbers(case: Case, s: OneStep) -> tuple[Case, list[Form]]:
    """All source operands as numbers of the type."""
    forms = []
    for place in range(1, len(s.instruction.operands)):
        case, form = s.number(case, place)
        forms.append(form)
    return case, forms


def by_interval(case: Case, s: OneStep, name: str, forms: list[Form]) -> Cases:
    """A result of which only an interval is known, from the intervals of its operands."""
    intervals = [case.interval(form) for form in forms]
    found = ranges.RULES[name](s.kind, intervals)
    if found is None:
        return [(case, Raw(s.fresh))]
    return [(case.with_range(s.fresh, found), variable(s.fresh))]


def no_more_than(case: Case, s: OneStep, name: str, forms: list[Form], most: list[Form]) -> Cases:
    """The same for a result that is at most each of ``most`` that is not negative."""
    ((part, content),) = by_interval(case, s, name, forms)
    if isinstance(content, Form):
        above = tuple(plus(form, content, -1) for form in most if part.least(form) >= 0)
        part = replace(part, facts=(*part.facts, *above))
    return [(part, content)]
