"""Bits of numbers on cases: masks, and numbers that lose or double their lowest bit."""

from __future__ import annotations

from dataclasses import replace

from ptxwcet.flow.values.intervals import Interval
from ptxwcet.flow.variants.cases import Case, Raw, divided
from ptxwcet.flow.variants.linear_forms import Form, plus, times, variable
from ptxwcet.flow.variants.operands import Cases, OneStep, by_interval, no_more_than, numbers


def bitwise_and(case: Case, s: OneStep) -> Cases:
    """``and``: masks of low or high bits, ``x & (x - 1)``, ``x & -x``; else an interval."""
    for place, other in ((2, 1), (1, 2)):
        mask = s.constant(case, place)
        if mask is None:
            continue
        size = (mask + 1) if mask >= 0 else -mask
        if size & (size - 1) == 0:
            case, a = s.bits(case, other)
            multiples = [
                (one, times(quotient, size)) for one, quotient in divided(case, a, size, s.fresh)
            ]
            if mask < 0:
                return [*multiples]
            return [(one, plus(_again(one, s, other), part, -1)) for one, part in multiples]
    case, a = s.bits(case, 1)
    case, b = s.bits(case, 2)
    if plus(a, b, -1) in (Form(1), Form(-1)):  # x & (x - 1)
        return cleared(case, a if plus(a, b, -1) == Form(1) else b, s.kind.bits)
    if plus(a, b) == Form(0) and a.constant == 0 and _is_unit(a):  # x & -x
        return _lowest(case, a.terms[0][0], s.kind.bits)
    case, forms = numbers(case, s)
    return no_more_than(case, s, "and", forms, forms)


def bitwise_xor(case: Case, s: OneStep) -> Cases:
    """``xor``: a number without its lowest bit, else an interval."""
    case, a = s.bits(case, 1)
    case, b = s.bits(case, 2)
    for bit, number in ((a, b), (b, a)):
        if is_lowest(bit, number):
            return cleared(case, number, s.kind.bits)
    case, forms = numbers(case, s)
    return by_interval(case, s, "xor", forms)


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


def _again(case: Case, s: OneStep, place: int) -> Form:
    """An operand that has been read as bits, with what was put for its variables since."""
    _, form = s.bits(case, place)
    return form


def _is_unit(form: Form) -> bool:
    """Whether a form has one variable, once."""
    return len(form.terms) == 1 and abs(form.terms[0][1]) == 1


def is_lowest(bit: Form, number: Form) -> bool:
    """Whether a form is the lowest bit of a number that is one variable."""
    names = [name for name, c in number.terms if c == 1]
    return number.constant == 0 and bit in [variable(f"lowest({name})") for name in names]


def cleared(case: Case, a: Form, bits: int) -> Cases:
    """``a`` without its lowest bit: another number of which only the order to ``a`` is known."""
    is_number = not a.constant and _is_unit(a) and a.terms[0][1] == 1
    if not is_number or case.least(a) < 0 or case.most(a) >= 1 << bits:
        return [(case, Raw(f"cleared{bits}{a}"))]
    name = f"cleared({a.terms[0][0]})"
    case = case.with_range(name, Interval(0, case.interval(a).high))
    return [(case, variable(name))]
