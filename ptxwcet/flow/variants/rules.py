"""What integer instructions compute on cases, by opcode."""

from __future__ import annotations

from dataclasses import replace

from ptxwcet.flow.values.integers import IntegerType, integer_type
from ptxwcet.flow.values.intervals import Interval
from ptxwcet.flow.variants.bits import bitwise_and, bitwise_xor, cleared, is_lowest
from ptxwcet.flow.variants.cases import Case, Compared, Raw, assumed, divided, exact
from ptxwcet.flow.variants.linear_forms import Form, plus, shifted, times, variable
from ptxwcet.flow.variants.operands import (
    Cases,
    OneStep,
    StepRule,
    by_interval,
    no_more_than,
    numbers,
    predicate_of,
)

_NOT_RING = frozenset({"sat", "cc", "relu"})


def _copy(case: Case, s: OneStep) -> Cases:
    return [(case, s.content(case, 1))]


def _ring(sign: int) -> StepRule:
    def rule(case: Case, s: OneStep) -> Cases:
        if s.has(*_NOT_RING):
            return [(case, Raw(s.fresh))]
        case, a = s.bits(case, 1)
        case, b = s.bits(case, 2)
        if sign < 0 and is_lowest(b, a):
            return cleared(case, a, s.kind.bits)
        return [(case, plus(a, b, sign))]

    return rule


def _negated(case: Case, s: OneStep) -> Cases:
    case, a = s.bits(case, 1)
    return [(case, times(a, -1))]


def _complement(case: Case, s: OneStep) -> Cases:
    case, a = s.bits(case, 1)
    return [(case, shifted(times(a, -1), -1))]


def _product(case: Case, s: OneStep) -> Cases:
    """``mul`` and the product of ``mad``: exact with a constant factor, else an interval."""
    wide, high = s.has("wide"), s.has("hi")
    for place, other in ((2, 1), (1, 2)):
        factor = s.constant(case, place)
        if factor is None:
            continue
        if wide or high:
            case, factor_form = s.number(case, place)
            case, a = s.number(case, other)
            if factor_form.terms:
                return [(case, Raw(s.fresh))]
            whole = times(a, factor_form.constant)
            return [*divided(case, whole, 1 << s.kind.bits, s.fresh)] if high else [(case, whole)]
        case, a = s.bits(case, other)
        return [(case, times(a, factor))]
    case, a = s.number(case, 1)
    case, b = s.number(case, 2)
    one, two = case.interval(a), case.interval(b)
    bounds = one.times(two.low).hull(one.times(two.high))
    if high:
        bounds = Interval(bounds.low >> s.kind.bits, bounds.high >> s.kind.bits)
    elif not wide and not s.kind.interval.covers(bounds):
        return [(case, Raw(s.fresh))]
    return [(case.with_range(s.fresh, bounds), variable(s.fresh))]


def _product_and_sum(case: Case, s: OneStep) -> Cases:
    if s.has(*_NOT_RING):
        return [(case, Raw(s.fresh))]
    bits = 2 * s.kind.bits if s.has("wide") else s.kind.bits
    summand = OneStep(s.instruction, replace(s.kind, bits=bits), s.fresh, s.how)
    found: Cases = []
    for part, content in _product(case, s):
        part, b = summand.bits(part, 3)
        whole = Raw(s.fresh) if isinstance(content, Raw) else content
        found.append((part, plus(whole, b) if isinstance(whole, Form) else whole))
    return found


def _shift_left(case: Case, s: OneStep) -> Cases:
    amount = s.constant(case, 2)
    amount = amount if amount is None else amount % (1 << 32)
    if amount is None or amount < 0:
        return [(case, Raw(s.fresh))]
    case, a = s.bits(case, 1)
    return [(case, times(a, 1 << amount) if amount < s.kind.bits else Form(0))]


def _shift_right(case: Case, s: OneStep) -> Cases:
    amount = s.constant(case, 2)
    amount = amount if amount is None else amount % (1 << 32)
    case, a = s.number(case, 1)
    if amount is None or amount < 0:
        case, n = s.number(case, 2, IntegerType(32, signed=False))
        return by_interval(case, s, "shr", [a, n])
    return [*divided(case, a, 1 << min(amount, s.kind.bits), s.fresh)]


def _interval(name: str) -> StepRule:
    def rule(case: Case, s: OneStep) -> Cases:
        if name == "bfe":
            case, a = s.number(case, 1)
            case, start = s.number(case, 2, IntegerType(32, signed=False))
            case, length = s.number(case, 3, IntegerType(32, signed=False))
            return by_interval(case, s, name, [a, start, length])
        case, forms = numbers(case, s)
        return by_interval(case, s, name, forms)

    return rule


def _extremum(largest: bool) -> StepRule:
    def rule(case: Case, s: OneStep) -> Cases:
        if s.has(*_NOT_RING) or len(s.instruction.operands) != 3:
            return [(case, Raw(s.fresh))]
        case, a = s.number(case, 1)
        case, b = s.number(case, 2)
        first = Compared(plus(a, b, -1) if largest else plus(b, a, -1), equal=False)
        return [
            (one, a if truth else b)
            for truth in (True, False)
            for one in assumed(case, first, truth)
        ]

    return rule


def _absolute(case: Case, s: OneStep) -> Cases:
    case, a = s.number(case, 1)
    if case.least(a) <= s.kind.low:
        return [(case, Raw(s.fresh))]
    positive = Compared(a, equal=False)
    return [
        (one, a if truth else times(a, -1))
        for truth in (True, False)
        for one in assumed(case, positive, truth)
    ]


def _select(case: Case, s: OneStep) -> Cases:
    predicate = predicate_of(case, s.instruction.operands[3], f"{s.fresh}p")
    return [
        (one, s.content(one, 1 if truth else 2))
        for truth in (True, False)
        for one in assumed(case, predicate, truth)
    ]


def _quotient(remainder: bool) -> StepRule:
    def rule(case: Case, s: OneStep) -> Cases:
        case, a = s.number(case, 1)
        case, b = s.number(case, 2)
        if not b.terms and b.constant > 0 and case.least(a) >= 0:
            found = divided(case, a, b.constant, s.fresh)
            if not remainder:
                return [*found]
            return [
                (one, plus(s.number(one, 1)[1], quotient, -b.constant)) for one, quotient in found
            ]
        pure = all(form in (variable(form.terms[0][0]),) for form in (a, b) if form.terms)
        if remainder and pure and a.terms and b.terms and not case.least(b) <= 0 <= case.most(b):
            name = f"rem({a.terms[0][0]},{b.terms[0][0]})"
            divisors = case.interval(b)
            most = max(abs(divisors.low), abs(divisors.high)) - 1
            low = 0 if case.least(a) >= 0 else -most
            return [(case.with_range(name, Interval(low, most)), variable(name))]
        if remainder:
            return no_more_than(case, s, "rem", [a, b], [a, b])
        return no_more_than(case, s, "div", [a, b], [a])

    return rule


def _converted(case: Case, s: OneStep) -> Cases:
    kinds = [t for t in map(integer_type, s.instruction.modifiers) if t is not None]
    written = s.instruction.writes[0]
    if len(kinds) != 2 or s.has("sat"):
        return [(case, Raw(s.fresh))]
    target, source = kinds
    read = source if target.bits > source.bits else replace(target, signed=target.signed)
    if target.bits <= source.bits and s.how.width(written) == target.bits:
        content = s.content(case, 1)
        if isinstance(content, Form) or target.bits == source.bits:
            return [(case, content)]
        return [s.number(case, 1, source)]
    case, form = s.number(case, 1, read)
    return [
        exact(case, form, target, s.fresh) if s.how.width(written) > target.bits else (case, form)
    ]


def _insert(case: Case, s: OneStep) -> Cases:
    """``bfi`` of all bits above a position: a shifted number and the low bits of another."""
    start, length = s.constant(case, 3), s.constant(case, 4)
    if start is None or length is None:
        return [(case, Raw(s.fresh))]
    start, length = start & 255, length & 255
    if not 0 < start < s.kind.bits <= start + length:
        return [(case, Raw(s.fresh))]
    case, above = s.bits(case, 1)
    case, below = s.number(case, 2, IntegerType(s.kind.bits, signed=False))
    if case.most(below) >= 1 << start:
        case, below = case.with_range(s.fresh, Interval(0, (1 << start) - 1)), variable(s.fresh)
    return [(case, plus(times(above, 1 << start), below))]


STEP_RULES: dict[str, StepRule] = {
    "mov": _copy,
    "add": _ring(1),
    "sub": _ring(-1),
    "neg": _negated,
    "not": _complement,
    "mul": _product,
    "mad": _product_and_sum,
    "shl": _shift_left,
    "shr": _shift_right,
    "and": bitwise_and,
    "or": _interval("or"),
    "xor": bitwise_xor,
    "min": _extremum(False),
    "max": _extremum(True),
    "abs": _absolute,
    "selp": _select,
    "div": _quotient(False),
    "rem": _quotient(True),
    "cvt": _converted,
    "popc": _interval("popc"),
    "clz": _interval("clz"),
    "bfi": _insert,
    "bfe": _interval("bfe"),
}
