"""What registers hold on one way through a loop body, and how a way splits into cases.

The content of a register is a :class:`Form` (a true integer that has the register's bits, modulo
its width), a predicate, or :class:`Raw`: any bits of which at most a range is known. A
:class:`Case` has contents, the ranges of variables and facts about them. Taking a decision, or the
remainder of a division, splits a case; the cases together cover all states that the case covers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from itertools import product
from typing import NamedTuple

from ptxwcet.flow.effort import Effort
from ptxwcet.flow.values.integers import IntegerType
from ptxwcet.flow.values.intervals import Interval
from ptxwcet.flow.variants.linear_forms import (
    Form,
    Ranges,
    maximum,
    minimum,
    plain_interval,
    plus,
    replaced,
    shifted,
    times,
    variable,
)
from ptxwcet.support.records import dataclass

# Remainders that a division splits a case into; more become an interval.
_MOST_REMAINDERS = 3
_MOST_NARROWINGS = 4
_WRAPPED = "wrapped"


class Raw(NamedTuple):
    """Unknown bits, of the same ``name`` wherever they are copied to.

    ``signed`` and ``unsigned`` bound them read as a number; None if only their type does.
    """

    name: str
    signed: Interval | None = None
    unsigned: Interval | None = None


class Compared(NamedTuple):
    """A predicate: ``form >= 0``, or ``form == 0`` if ``equal``."""

    form: Form
    equal: bool


class Joined(NamedTuple):
    """A predicate: both hold, or at least one (``either``)."""

    one: Predicate
    two: Predicate
    either: bool


class Opposite(NamedTuple):
    """A predicate: the other does not hold."""

    of: Predicate


class Open(NamedTuple):
    """A predicate about which nothing is known, the same wherever it is copied to."""

    name: str


Predicate = bool | Compared | Joined | Opposite | Open
Content = Form | Raw | Predicate


@dataclass(frozen=True, slots=True)
class Case:
    """One way so far: contents of registers, ranges of variables, facts, open predicates taken.

    ``stack`` has contents that are computed and not used yet. Bounding forms counts as ``effort``,
    and raises TooMuchEffort where that is used up.
    """

    registers: Mapping[str, Content]
    ranges: Ranges
    facts: tuple[Form, ...] = ()
    truths: Mapping[str, bool] = field(default_factory=dict)
    effort: Effort | None = field(default=None, compare=False)
    stack: tuple[Content, ...] = ()

    def with_register(self, name: str, content: Content) -> Case:
        """This case, with another content of a register."""
        registers = {**self.registers, name: content}
        return Case(registers, self.ranges, self.facts, self.truths, self.effort, self.stack)

    def with_range(self, name: str, bounds: Interval) -> Case:
        """This case, with one more variable."""
        ranges = {**self.ranges, name: bounds}
        return Case(self.registers, ranges, self.facts, self.truths, self.effort, self.stack)

    def with_stack(self, stack: tuple[Content, ...]) -> Case:
        """This case, with other contents that are computed and not used yet."""
        return Case(self.registers, self.ranges, self.facts, self.truths, self.effort, stack)

    def most(self, form: Form) -> int:
        """An upper bound of the form."""
        return maximum(form, self.ranges, self.facts, self.effort)

    def least(self, form: Form) -> int:
        """A lower bound of the form."""
        return minimum(form, self.ranges, self.facts, self.effort)

    def lies_in(self, form: Form, interval: Interval) -> bool:
        """Whether the form surely lies in an interval."""
        plain = plain_interval(form, self.ranges)
        return interval.covers(plain) or interval.covers(self.interval(form))

    def interval(self, form: Form) -> Interval:
        """An interval in which the form lies.

        Facts that contradict each other say that the case has no state. Nothing is concluded from
        that here: the ranges of the variables alone bound the form then.
        """
        low, high = self.least(form), self.most(form)
        return Interval(low, high) if low <= high else plain_interval(form, self.ranges)


def with_fact(case: Case, fact: Form) -> list[Case]:
    """The case where a form is at least 0; none if it never is."""
    if case.most(fact) < 0:
        return []
    if case.least(fact) >= 0:
        return [case]
    if len(fact.terms) == 1:
        ((name, c),) = fact.terms
        low, high = case.ranges[name].low, case.ranges[name].high
        if c > 0:
            low = max(low, -(fact.constant // c))
        else:
            high = min(high, fact.constant // -c)
        if low > high:
            return []  # no number in the variable's range makes the fact true
        narrowed = case.with_range(name, Interval(low, high))
        return [_with_form(narrowed, name, Form(low)) if low == high else narrowed]
    if fact in case.facts:
        return [case]
    return [replace(case, facts=(*case.facts, fact))]


def tightened(case: Case) -> Case:
    """The case with the ranges of its variables narrowed by its facts, each looked at some times.

    Facts that come late say something of numbers that were computed before.
    """
    ranges = dict(case.ranges)
    for _ in range(_MOST_NARROWINGS):
        before = dict(ranges)
        for fact in case.facts:
            most = {
                name: max(c * ranges[name].low, c * ranges[name].high) for name, c in fact.terms
            }
            whole = fact.constant + sum(most.values())
            for name, c in fact.terms:
                low, high, others = ranges[name].low, ranges[name].high, whole - most[name]
                if c > 0:
                    low = max(low, -(others // c))
                else:
                    high = min(high, others // -c)
                if low > high:
                    return case  # which has no state: see :meth:`Case.interval`
                ranges[name] = Interval(low, high)
        if ranges == before:
            break
    return replace(case, ranges=ranges)


def assumed(case: Case, predicate: Predicate, truth: bool) -> list[Case]:
    """The cases in which a predicate holds, or does not."""
    match predicate:
        case bool():
            return [case] if predicate is truth else []
        case Compared(form, equal=False):
            return with_fact(case, form if truth else shifted(times(form, -1), -1))
        case Compared(form, equal=True):
            if truth:
                return [
                    both
                    for above in with_fact(case, form)
                    for both in with_fact(above, times(form, -1))
                ]
            return [
                *with_fact(case, shifted(form, -1)),
                *with_fact(case, shifted(times(form, -1), -1)),
            ]
        case Opposite(of):
            return assumed(case, of, not truth)
        case Joined(one, two, either):
            return _assumed_joined(case, (one, two), either, truth)
    assert isinstance(predicate, Open)
    if predicate.name in case.truths:
        return [case] if case.truths[predicate.name] is truth else []
    return [replace(case, truths={**case.truths, predicate.name: truth})]


def _assumed_joined(
    case: Case, parts: tuple[Predicate, Predicate], either: bool, truth: bool
) -> list[Case]:
    one, two = parts
    if truth != either:  # both hold, or none
        return [both for first in assumed(case, one, truth) for both in assumed(first, two, truth)]
    others = [
        both for first in assumed(case, one, not truth) for both in assumed(first, two, truth)
    ]
    return [*assumed(case, one, truth), *others]


def fitting(case: Case, content: Content, kind: IntegerType) -> Form | None:
    """A form as the number of a type that has its bits; None if it may wrap around."""
    if isinstance(content, Form):
        for turn in (0, 1, -1):
            moved = shifted(content, turn << kind.bits)
            if case.lies_in(moved, kind.interval):
                return moved
    return None


def wrapped(case: Case, form: Form, kind: IntegerType) -> list[tuple[Case, Form]]:
    """The cases of a form as the number of a type that has its bits, where it wraps around at most
    once; none if it may do so more often, or does not at all.
    """
    around_once = Interval(kind.low - (1 << kind.bits), kind.high + (1 << kind.bits))
    if fitting(case, form, kind) is not None or not case.lies_in(form, around_once):
        return []
    moved = [shifted(form, turn << kind.bits) for turn in (0, 1, -1)]
    return [
        (inside, one)
        for one in moved
        for above in with_fact(case, shifted(one, -kind.low))
        for inside in with_fact(above, shifted(times(one, -1), kind.high))
    ]


def exact(case: Case, content: Content, kind: IntegerType, fresh: str) -> tuple[Case, Form]:
    """A content read as a number of a type: any number where a form may wrap around.

    That is a new variable, which is named after the form: it is the same wherever that is read;
    ``fresh`` where there is none.
    """
    form = fitting(case, content, kind)
    if form is not None:
        return case, form
    if isinstance(content, Raw):
        return _raw(case, content, kind)
    name = fresh
    if isinstance(content, Form):
        terms = "".join(f"{c:+d}*{name_}" for name_, c in content.terms)
        name = f"{_WRAPPED}({content.constant}{terms}){'s' if kind.signed else 'u'}{kind.bits}"
    if name in case.ranges:
        return case, variable(name)
    return case.with_range(name, kind.interval), variable(name)


def is_wrapped(name: str) -> bool:
    """Whether a variable stands for a form that may have wrapped around."""
    return name.startswith(_WRAPPED)


def _raw(case: Case, raw: Raw, kind: IntegerType) -> tuple[Case, Form]:
    bounds = raw.signed if kind.signed else raw.unsigned
    name = f"{raw.name}:{'s' if kind.signed else 'u'}{kind.bits}"
    if bounds is None or not kind.interval.covers(bounds):
        bounds = kind.interval
    elif raw.signed == raw.unsigned:
        name = raw.name
    if bounds.is_number:
        return case, Form(bounds.low)
    if name in case.ranges:
        return case, variable(name)
    return case.with_range(name, bounds), variable(name)


def divided(case: Case, form: Form, divisor: int, fresh: str) -> list[tuple[Case, Form]]:
    """The cases of ``floor(form / divisor)``, ``divisor`` > 0.

    Variables whose coefficients it does not divide are split by their remainder if there are few;
    otherwise the quotient is a new variable.
    """
    if divisor == 1:
        return [(case, form)]
    rest = [name for name, c in form.terms if c % divisor]
    if divisor ** len(rest) > _MOST_REMAINDERS:
        quotient = variable(fresh)
        whole = case.interval(form)
        bounds = Interval(whole.low // divisor, whole.high // divisor)
        remainder = plus(form, quotient, -divisor)
        facts = (*case.facts, remainder, shifted(times(remainder, -1), divisor - 1))
        return [(replace(case.with_range(fresh, bounds), facts=facts), quotient)]
    cases = []
    for remainders in product(range(divisor), repeat=len(rest)):
        part: Case | None = case
        numerator = form
        for name, remainder_ in zip(rest, remainders, strict=True):
            if part is not None:
                by = shifted(times(variable(f"{name}/{divisor}"), divisor), remainder_)
                part = _of_remainder(part, name, divisor, remainder_)
                numerator = replaced(numerator, name, by)
        if part is not None:
            quotient = Form(
                numerator.constant // divisor,
                tuple((name, c // divisor) for name, c in numerator.terms),
            )
            cases.append((part, quotient))
    return cases


def _of_remainder(case: Case, name: str, divisor: int, remainder: int) -> Case | None:
    """The case in which a variable has a remainder; None if it never has."""
    whole = case.ranges[name]
    low, high = -((remainder - whole.low) // divisor), (whole.high - remainder) // divisor
    if low > high:
        return None
    quotient = f"{name}/{divisor}"
    by = shifted(times(variable(quotient), divisor), remainder)
    return _with_form(case.with_range(quotient, Interval(low, high)), name, by)


def _with_form(case: Case, name: str, by: Form) -> Case:
    """The case with a form in the place of a variable, which it equals."""
    registers = {register: _put(content, name, by) for register, content in case.registers.items()}
    facts = tuple(replaced(fact, name, by) for fact in case.facts)
    stack = tuple(_put(content, name, by) for content in case.stack)
    return replace(case, registers=registers, facts=facts, stack=stack)


def _put(content: Content, name: str, by: Form) -> Content:
    """A content with a form in the place of a variable."""
    match content:
        case Form():
            return replaced(content, name, by)
        case Compared(form, equal):
            return Compared(replaced(form, name, by), equal)
        case Opposite(of):
            return Opposite(_put_predicate(of, name, by))
        case Joined(one, two, either):
            return Joined(_put_predicate(one, name, by), _put_predicate(two, name, by), either)
    return content


def _put_predicate(predicate: Predicate, name: str, by: Form) -> Predicate:
    found = _put(predicate, name, by)
    assert not isinstance(found, (Form, Raw))
    return found
