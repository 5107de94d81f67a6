"""What operators of terms compute on cases.

Sums, differences and products with constants are exact, whatever wraps around. What depends on the
numbers themselves (an order, a quotient, a wider type) is exact where they are known to be in the
type, else any number of the type. A remainder splits a case where it matters. Of everything else an
interval is known, that of :mod:`ptxwcet.flow.values.term_intervals`.

What is computed and not used yet is on the case's stack, so that what is put for a variable is put
there, too. A choice splits a case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from ptxwcet.flow.values import term_intervals
from ptxwcet.flow.values.integers import IntegerType
from ptxwcet.flow.values.intervals import Interval, around
from ptxwcet.flow.values.term_intervals import Numbers
from ptxwcet.flow.variants.cases import (
    Case,
    Compared,
    Content,
    Joined,
    Open,
    Opposite,
    Predicate,
    Raw,
    assumed,
    divided,
    exact,
    fitting,
    wrapped,
)
from ptxwcet.flow.variants.linear_forms import Form, plus, shifted, times, variable
from ptxwcet.flow.variants.operands import Stepping, predicate_of
from ptxwcet.ir.operands import Operand, Register
from ptxwcet.ir.semantics import Meaning
from ptxwcet.ir.terms import Op, Term
from ptxwcet.ir.terms import signed as read_signed
from ptxwcet.support.records import dataclass

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
        """How all arguments are read best: as signed numbers, or not."""
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


Cases = list[tuple[Case, Content]]
"""Cases, and what is computed in each."""

Rule = Callable[[Case, Part], Cases]
"""From a part whose arguments are computed to what it is, case by case."""


def by_interval(case: Case, part: Part) -> Cases:
    """A result of which only an interval is known, from the intervals of its arguments."""
    arguments = [part.numbers(case, place) for place in range(len(part.term.args))]
    result = term_intervals.applied(part.term, arguments)
    if part.width == 1:
        bits = result.unsigned
        return [(case, bool(bits.low) if bits.is_number else Open(part.name))]
    best = min(result, key=lambda one: one.high - one.low)
    if best.is_number:
        return [(case, Form(best.low))]
    if best.high - best.low >= (1 << part.width) - 1:
        return [(case, Raw(part.name))]
    return [(case.with_range(part.name, best), variable(part.name))]


def _no_more_than(case: Case, part: Part, most: tuple[int, ...], *, signed: bool) -> Cases:
    """A result by its interval that is at most each argument of ``most`` that is not negative."""
    for place in range(len(part.term.args)):
        case, _ = part.number(case, place, signed=signed)
    forms = [part.number(case, place, signed=signed)[1] for place in most]
    ((after, content),) = by_interval(case, part)
    if isinstance(content, Form) and content.terms:
        above = tuple(plus(form, content, -1) for form in forms if after.least(form) >= 0)
        after = replace(after, facts=(*after.facts, *above))
    return [(after, content)]


# --- sums and products ----------------------------------------------------------------------------


def _ring(sign: int) -> Rule:
    def rule(case: Case, part: Part) -> Cases:
        case, a = part.bits(case, 0)
        case, b = part.bits(case, 1)
        if sign < 0 and _is_lowest(b, a):
            return _cleared(case, a, part.width)
        return [(case, plus(a, b, sign))]

    return rule


def _product(case: Case, part: Part) -> Cases:
    """A product: exact if a factor is constant, else an interval."""
    for place, other in ((1, 0), (0, 1)):
        factor = part.constant(case, place)
        if factor is not None:
            case, a = part.bits(case, other)
            return [(case, times(a, factor))]
    signed = part.signs(case)
    case, a = part.number(case, 0, signed=signed)
    case, b = part.number(case, 1, signed=signed)
    range_a, range_b = case.interval(a), case.interval(b)
    bounds = around(x * y for x in (range_a.low, range_a.high) for y in (range_b.low, range_b.high))
    return [(case.with_range(part.name, bounds), variable(part.name))]


def _quotient(signed: bool, remainder: bool) -> Rule:
    def rule(case: Case, part: Part) -> Cases:
        case, a = part.number(case, 0, signed=signed)
        case, b = part.number(case, 1, signed=signed)
        if not b.terms and b.constant > 0 and case.least(a) >= 0:
            split = _remainders if remainder else divided
            return [*split(case, a, b.constant, part.name)]
        units = (*(form == variable(form.terms[0][0]) for form in (a, b) if form.terms),)
        if remainder and units == (True, True) and not case.interval(b).holds(0):
            name = f"rem({a.terms[0][0]},{b.terms[0][0]})"
            divisors = case.interval(b)
            most = max(abs(divisors.low), abs(divisors.high)) - 1
            low = 0 if case.least(a) >= 0 else -most
            return [(case.with_range(name, Interval(low, most)), variable(name))]
        return _no_more_than(case, part, (0, 1) if remainder else (0,), signed=signed)

    return rule


def _remainders(case: Case, form: Form, divisor: int, name: str) -> list[tuple[Case, Form]]:
    """The cases of what ``floor(form / divisor)`` leaves."""
    found = []
    for one, quotient in divided(case.with_stack((*case.stack, form)), form, divisor, name):
        *below, numerator = one.stack
        assert isinstance(numerator, Form)
        found.append((one.with_stack(tuple(below)), plus(numerator, quotient, -divisor)))
    return found


# --- shifts and bits ------------------------------------------------------------------------------


def _shift_left(case: Case, part: Part) -> Cases:
    amount = part.amount(case)
    if amount is None:
        return by_interval(case, part)
    case, a = part.bits(case, 0)
    return [(case, times(a, 1 << amount) if amount < part.width else Form(0))]


def _shift_right(signed: bool) -> Rule:
    def rule(case: Case, part: Part) -> Cases:
        amount = part.amount(case)
        case, a = part.number(case, 0, signed=signed)
        if amount is None:
            return by_interval(case, part)
        return [*divided(case, a, 1 << amount, part.name)]

    return rule


def _complement(case: Case, part: Part) -> Cases:
    case, a = part.bits(case, 0)
    return [(case, shifted(times(a, -1), -1))]


def _and(case: Case, part: Part) -> Cases:
    """``and``: exact for masks of low or high bits, ``x & (x - 1)``, ``x & -x``, or an interval."""
    for place, other in ((1, 0), (0, 1)):
        mask = part.constant(case, place)
        if mask is None:
            continue
        size = (mask + 1) if mask >= 0 else -mask
        if size & (size - 1) == 0:
            case, a = part.bits(case, other)
            if mask >= 0:
                return [*_remainders(case, a, size, part.name)]
            return [(one, times(by, size)) for one, by in divided(case, a, size, part.name)]
    case, a = part.bits(case, 0)
    case, b = part.bits(case, 1)
    if plus(a, b, -1) in (Form(1), Form(-1)):  # x & (x - 1)
        return _cleared(case, a if plus(a, b, -1) == Form(1) else b, part.width)
    if plus(a, b) == Form(0) and a.constant == 0 and _is_unit(a):  # x & -x
        return _lowest(case, a.terms[0][0], part.width)
    return _no_more_than(case, part, (0, 1), signed=False)


def _or(case: Case, part: Part) -> Cases:
    """``or``: a sum if no bit may be set in both operands, else an interval."""
    if all(isinstance(part.content(case, place), Form) for place in (0, 1)):
        case, a = part.bits(case, 0)
        case, b = part.bits(case, 1)
        for high, low in ((a, b), (b, a)):
            if case.interval(low).low >= 0 and case.most(low) < _divisor(high, part.width):
                return [(case, plus(high, low))]
    return by_interval(case, part)


def _xor(case: Case, part: Part) -> Cases:
    """``xor``: a number without its lowest bit if that is the other operand, else an interval."""
    case, a = part.bits(case, 0)
    case, b = part.bits(case, 1)
    for bit, number in ((a, b), (b, a)):
        if _is_lowest(bit, number):
            return _cleared(case, number, part.width)
    return by_interval(case, part)


def _divisor(form: Form, width: int) -> int:
    """The largest power of two that divides a form, up to that of the width."""
    bits = 1 << width
    for number in (form.constant, *dict(form.terms).values()):
        bits |= number
    return bits & -bits


def _lowest(case: Case, name: str, bits: int) -> Cases:
    """The lowest bit of a variable: at least 1 and at most the number, unless that is 0."""
    number, bit = variable(name), f"lowest({name})"
    if case.least(number) < 0 or case.most(number) >= 1 << bits:  # of other bits than the number's
        return [(case, Raw(f"lowest{bits}({name})"))]
    is_positive = case.least(number) >= 1
    case = case.with_range(bit, Interval(int(is_positive), 1 << bits - 1))
    if is_positive:
        case = replace(case, facts=(*case.facts, plus(number, variable(bit), -1)))
    return [(case, variable(bit))]


def _is_unit(form: Form) -> bool:
    """Whether a form has one variable, once."""
    return len(form.terms) == 1 and abs(form.terms[0][1]) == 1


def _is_lowest(bit: Form, number: Form) -> bool:
    """Whether a form is the lowest bit of a number that is one variable."""
    names = [name for name, c in number.terms if c == 1]
    return number.constant == 0 and bit in [variable(f"lowest({name})") for name in names]


def _cleared(case: Case, a: Form, bits: int) -> Cases:
    """``a`` without its lowest bit: another number of which only the order to ``a`` is known."""
    is_number = not a.constant and _is_unit(a) and a.terms[0][1] == 1
    if not is_number or case.least(a) < 0 or case.most(a) >= 1 << bits:
        return [(case, Raw(f"cleared{bits}{a}"))]
    name = f"cleared({a.terms[0][0]})"
    case = case.with_range(name, Interval(0, case.interval(a).high))
    return [(case, variable(name))]


# --- widths ---------------------------------------------------------------------------------------


def _extended(signed: bool) -> Rule:
    return lambda case, part: [part.number(case, 0, signed=signed)]


def _truth(case: Case, part: Part) -> Cases:
    predicate = part.predicate(case, 0)
    return [
        (after, Form(int(truth)))
        for truth in (True, False)
        for after in assumed(case, predicate, truth)
    ]


def _part_of(case: Case, part: Part) -> Cases:
    """Low bits of a number are a number with these bits; higher ones what division leaves them."""
    if part.width == 1:
        return by_interval(case, part)
    case, a = part.bits(case, 0)
    return [*divided(case, a, 1 << part.term.value, part.name)]


# --- comparisons ----------------------------------------------------------------------------------


def _less(signed: bool) -> Rule:
    def rule(case: Case, part: Part) -> Cases:
        return [
            (after, Compared(shifted(plus(b, a, -1), -1), equal=False))
            for before, a in part.split_number(case, 0, signed=signed)
            for after, b in part.split_number(before, 1, signed=signed)
        ]

    return rule


def _equal(case: Case, part: Part) -> Cases:
    signed = part.signs(case)
    case, a = part.number(case, 0, signed=signed)
    case, b = part.number(case, 1, signed=signed)
    return [(case, Compared(plus(a, b, -1), equal=True))]


def _joined(either: bool) -> Rule:
    return lambda case, part: [
        (case, Joined(part.predicate(case, 0), part.predicate(case, 1), either))
    ]


RULES: Mapping[Op, Rule] = {
    Op.ADD: _ring(1),
    Op.SUB: _ring(-1),
    Op.MUL: _product,
    Op.UDIV: _quotient(False, False),
    Op.UREM: _quotient(False, True),
    Op.SDIV: _quotient(True, False),
    Op.SREM: _quotient(True, True),
    Op.AND: _and,
    Op.OR: _or,
    Op.XOR: _xor,
    Op.NOT: _complement,
    Op.SHL: _shift_left,
    Op.LSHR: _shift_right(False),
    Op.ASHR: _shift_right(True),
    Op.ULT: _less(False),
    Op.SLT: _less(True),
    Op.EQ: _equal,
    Op.ZEXT: _extended(False),
    Op.SEXT: _extended(True),
    Op.EXTRACT: _part_of,
}
"""Of numbers; what has no row is known by its interval."""

RULES_OF_PREDICATES: Mapping[Op, Rule] = {
    Op.AND: _joined(False),
    Op.OR: _joined(True),
    Op.NOT: lambda case, part: [(case, Opposite(part.predicate(case, 0)))],
    Op.ZEXT: _truth,
}
"""Of arguments of one bit."""


_MOST_PARTS = 60
"""Parts of a term, as often as they occur; of larger ones nothing is known."""


def computed(
    case: Case, meaning: Meaning, fresh: str, how: Stepping
) -> Iterator[tuple[Case, tuple[Content, ...]]]:
    """The cases behind an instruction, with the contents of the registers that it writes.

    ``fresh`` names what it leaves open. Cost: linear in the parts of its terms for each case.
    """
    reader = _Reader(Operands(meaning.sources, how))
    cases, base = [case], len(case.stack)
    for place, root in enumerate(meaning.results):
        name = f"{fresh}.{place}" if place else fresh
        cases = [after for one in cases for after in reader.pushed(one, root, name)]
    for final in cases:
        yield final.with_stack(final.stack[:base]), final.stack[base:]


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads terms over the operands of an instruction."""

    operands: Operands

    def pushed(self, case: Case, term: Term, name: str) -> list[Case]:
        """The cases with what a term is on top of what is computed already."""
        found = (
            self.contents(case, term, name) if _is_small(term) else [(case, unknown(term, name))]
        )
        return [one.with_stack((*one.stack, content)) for one, content in found]

    def contents(self, case: Case, term: Term, name: str) -> Cases:
        """What a term is, case by case; ``name`` is for what it leaves open."""
        if not term.args:
            return [(case, leaf(self.operands, case, term, name))]
        if term.op is Op.ITE:
            return self._chosen(case, term, name)
        base, cases = len(case.stack), [case]
        slots: list[int | None] = []
        for place, argument in enumerate(term.args):
            slots.append(base + sum(slot is not None for slot in slots) if argument.args else None)
            if argument.args:
                below = f"{name}.{place}"
                cases = [
                    now.with_stack((*now.stack, content))
                    for before in cases
                    for now, content in self.contents(before, argument, below)
                ]
        rule = (RULES_OF_PREDICATES if term.args[0].width == 1 else RULES).get(term.op, by_interval)
        part = Part(self.operands, term, name, tuple(slots))
        return [
            (after.with_stack(after.stack[:base]), content)
            for before in cases
            for after, content in rule(before, part)
        ]

    def _chosen(self, case: Case, term: Term, name: str) -> Cases:
        """One side where the condition holds, the other where it does not."""
        condition, *sides = term.args
        found: Cases = []
        for one, predicate in self.contents(case, condition, f"{name}.0"):
            assert not isinstance(predicate, (Form, Raw))
            for truth, side, place in zip((True, False), sides, (1, 2), strict=True):
                for part in assumed(one, predicate, truth):
                    found += self.contents(part, side, f"{name}.{place}")
        return found


def _is_small(term: Term) -> bool:
    """Whether a term has few parts, counted as often as they occur."""
    pending, count = [term], 0
    while pending and count <= _MOST_PARTS:
        count += 1
        pending += pending.pop().args
    return count <= _MOST_PARTS
