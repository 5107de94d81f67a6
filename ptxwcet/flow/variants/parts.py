"""Parts of terms on cases: how their arguments are read."""

from __future__ import annotations

from dataclasses import dataclass

from ptxwcet.flow.values import term_intervals
from ptxwcet.flow.values.integers import IntegerType
from ptxwcet.flow.values.intervals import Interval
from ptxwcet.flow.values.term_intervals import Numbers
from ptxwcet.flow.variants.cases import Case, Content, Open, Predicate, Raw, exact, fitting, wrapped
from ptxwcet.flow.variants.linear_forms import Form
from ptxwcet.flow.variants.operands import Stepping, predicate_of
from ptxwcet.ir.operands import Operand, Register
from ptxwcet.ir.terms import Op, Term
from ptxwcet.ir.terms import signed as read_signed

_BIT = Interval(0, 1)


@dataclass(frozen=True, slots=True)
class Operands:
    """What an instruction reads, by the numbers of sources in its terms, and how."""

    sources: tuple[Operand, ...]
    how: Stepping


def unknown(term: Term, name: str) -> Content:
    """A content of which nothing is known."""
    return Open(name) if term.width == 1 else Raw(name)


def leaf(operands: Operands, case: Case, term: Term, name: str) -> Content:
    """What a constant or an operand is."""
    if term.op is Op.CONST:
        return bool(term.value) if term.width == 1 else Form(read_signed(term.value, term.width))
    if term.op is Op.ANY:
        return unknown(term, name)
    operand = operands.sources[term.value]
    if term.width == 1:
        return predicate_of(case, operand, f"{name}?{term.value}")
    if isinstance(operand, Register):
        content = case.registers.get(operand.name, Raw(operand.name))
        if isinstance(content, (Form, Raw)):
            return content
    return Raw(f"{name}?{term.value}")


@dataclass(frozen=True, slots=True)
class Part:
    """A term whose arguments are computed: ``slots`` says where; None: an operand, to be read."""

    operands: Operands
    term: Term
    name: str
    slots: tuple[int | None, ...]

    @property
    def width(self) -> int:
        """Bits of the result."""
        return self.term.width

    def content(self, case: Case, place: int) -> Content:
        """What an argument is."""
        slot = self.slots[place]
        if slot is not None:
            return case.stack[slot]
        return leaf(self.operands, case, self.term.args[place], f"{self.name}.{place}")

    def predicate(self, case: Case, place: int) -> Predicate:
        """An argument of one bit."""
        content = self.content(case, place)
        assert not isinstance(content, (Form, Raw))
        return content

    def kind(self, place: int, *, signed: bool) -> IntegerType:
        """The type that an argument is read as."""
        return IntegerType(self.term.args[place].width, signed=signed)

    def number(self, case: Case, place: int, *, signed: bool) -> tuple[Case, Form]:
        """An argument as a number of its width. Unknown bits are that number from here on."""
        content = self.content(case, place)
        case, form = exact(case, content, self.kind(place, signed=signed), f"{self.name}v{place}")
        if not isinstance(content, Raw):
            return case, form
        slot = self.slots[place]
        if slot is not None:
            return case.with_stack((*case.stack[:slot], form, *case.stack[slot + 1 :])), form
        leaf = self.term.args[place]
        operand = self.operands.sources[leaf.value] if leaf.op is Op.SOURCE else None
        if isinstance(operand, Register):
            case = case.with_register(operand.name, form)
        return case, form

    def split_number(self, case: Case, place: int, *, signed: bool) -> list[tuple[Case, Form]]:
        """:meth:`number`, case by case of how often it wraps around, if that is wanted."""
        content, kind = self.content(case, place), self.kind(place, signed=signed)
        if self.operands.how.splits and isinstance(content, Form):
            found = wrapped(case, content, kind)
            if found:
                return found
        return [self.number(case, place, signed=signed)]

    def bits(self, case: Case, place: int) -> tuple[Case, Form]:
        """An argument as some number with its bits."""
        content = self.content(case, place)
        if isinstance(content, Form):
            return case, content
        return self.number(case, place, signed=self.operands.how.signed)

    def fits(self, case: Case, place: int, *, signed: bool) -> bool:
        """Whether an argument is a number of its width as it is, or unknown."""
        content = self.content(case, place)
        kind = self.kind(place, signed=signed)
        return isinstance(content, Raw) or fitting(case, content, kind) is not None

    def signs(self, case: Case) -> bool:
        """Whether all arguments are better read as signed or as unsigned numbers."""
        likely = self.operands.how.signed
        places = range(len(self.term.args))
        for one in (likely, not likely):
            if all(self.fits(case, place, signed=one) for place in places):
                return one
        return likely

    def constant(self, case: Case, place: int) -> int | None:
        """An argument that is one number, read as a signed one."""
        content, found = self.content(case, place), None
        if isinstance(content, Form) and not content.terms:
            found = content.constant
        if isinstance(content, Raw) and content.signed is not None and content.signed.is_number:
            found = content.signed.low
        width = self.term.args[place].width
        return None if found is None else read_signed(found % (1 << width), width)

    def amount(self, case: Case) -> int | None:
        """The number of bits by which a shift moves, at most all of them."""
        found = self.constant(case, 1)
        return None if found is None else min(found % (1 << self.width), self.width)

    def numbers(self, case: Case, place: int) -> Numbers:
        """The numbers that an argument may be."""
        content, width = self.content(case, place), self.term.args[place].width
        if width == 1:
            is_decided = isinstance(content, bool)
            return term_intervals.numbers(
                1, Interval(int(content is True), int(not is_decided or content is True))
            )
        readings = []
        for signed in (False, True):
            kind = self.kind(place, signed=signed)
            fitted = fitting(case, content, kind)
            bounds = kind.interval if fitted is None else case.interval(fitted)
            if isinstance(content, Raw):
                bounds = (content.signed if signed else content.unsigned) or kind.interval
            readings.append(bounds)
        return Numbers(*readings)
