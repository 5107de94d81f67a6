"""Linear forms and cases of variants against enumeration of all values."""

from __future__ import annotations

from itertools import product

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from parsing import parse_kernel
from thoroughness import drawn

from ptxwcet.flow.certificates.behind import Change, Result, Span
from ptxwcet.flow.certificates.certificate import most_remainders
from ptxwcet.flow.values.integers import IntegerType
from ptxwcet.flow.values.intervals import Interval
from ptxwcet.flow.variants.body import _merged, step
from ptxwcet.flow.variants.cases import (
    Case,
    Compared,
    Joined,
    Open,
    Opposite,
    Raw,
    assumed,
    divided,
)
from ptxwcet.flow.variants.linear_forms import Form, maximum, minimum, plus, times, variable
from ptxwcet.flow.variants.operands import Stepping

NAMES = ("a", "b", "c")
numbers = st.integers(-6, 6)
forms = st.builds(
    lambda constant, cs: Form(constant, tuple((n, c) for n, c in zip(NAMES, cs, strict=True) if c)),
    st.integers(-20, 20),
    st.tuples(numbers, numbers, numbers),
)
ranges = st.fixed_dictionaries(
    {
        name: st.tuples(numbers, st.integers(0, 5)).map(lambda p: Interval(p[0], p[0] + p[1]))
        for name in NAMES
    }
)


def value(form: Form, numbers_: dict[str, int]) -> int:
    return form.constant + sum(c * number_of(name, numbers_) for name, c in form.terms)


def number_of(name: str, numbers_: dict[str, int]) -> int:
    """The number of a variable; that of ``x/3`` is the quotient of x."""
    if name in numbers_:
        return numbers_[name]
    dividend, _, divisor = name.rpartition("/")
    return number_of(dividend, numbers_) // int(divisor)


def states(bounds: dict[str, Interval]) -> list[dict[str, int]]:
    spans = [range(one.low, one.high + 1) for one in bounds.values()]
    return [dict(zip(bounds, row, strict=True)) for row in product(*spans)]


@settings(max_examples=drawn(150), deadline=None)
@given(forms, ranges, st.lists(forms, max_size=3))
def test_extremes_are_never_passed(form: Form, bounds: dict, facts: list[Form]) -> None:
    values = [
        value(form, one) for one in states(bounds) if all(value(fact, one) >= 0 for fact in facts)
    ]
    assume(values)
    assert max(values) <= maximum(form, bounds, tuple(facts))
    assert min(values) >= minimum(form, bounds, tuple(facts))


def holds(case: Case, one: dict[str, int]) -> bool:
    """Whether a state is one of a case's."""
    for name, interval in case.ranges.items():
        if not interval.holds(number_of(name, one)):
            return False
    return all(value(fact, one) >= 0 for fact in case.facts)


@settings(max_examples=drawn(150), deadline=None)
@given(forms, ranges, st.integers(1, 9))
def test_quotients_of_all_states(form: Form, bounds: dict, divisor: int) -> None:
    found = divided(Case({"r": form}, bounds), form, divisor, "fresh")
    for one in states(bounds):
        whole = {**one, "fresh": value(form, one) // divisor}
        right = [
            case
            for case, quotient in found
            if holds(case, whole)
            and value(quotient, whole) == whole["fresh"]
            and value(case.registers["r"], whole) == value(form, one)
        ]
        assert right, (one, found)


predicates = st.recursive(
    st.builds(Compared, forms, st.booleans())
    | st.builds(Open, st.sampled_from("pq"))
    | st.booleans(),
    lambda inner: st.builds(Joined, inner, inner, st.booleans()) | st.builds(Opposite, inner),
    max_leaves=4,
)


def truth(predicate: object, one: dict[str, int], opens: dict[str, bool]) -> bool:
    match predicate:
        case Compared(form, equal):
            return value(form, one) == 0 if equal else value(form, one) >= 0
        case Joined(first, second, either):
            both = truth(first, one, opens), truth(second, one, opens)
            return any(both) if either else all(both)
        case Opposite(of):
            return not truth(of, one, opens)
        case Open(name):
            return opens[name]
        case _:
            assert isinstance(predicate, bool)
            return predicate


@settings(max_examples=drawn(150), deadline=None)
@given(predicates, ranges, st.booleans())
def test_decisions_keep_every_state(predicate: object, bounds: dict, taken: bool) -> None:
    cases = assumed(Case({}, bounds), predicate, taken)
    for one in states(bounds):
        for p, q in product((False, True), repeat=2):
            opens = {"p": p, "q": q}
            if truth(predicate, one, opens) is taken:
                assert any(
                    holds(case, one) and all(opens[n] is t for n, t in case.truths.items())
                    for case in cases
                )


OPERATIONS = {
    "add.s32": lambda a, b: a + b,
    "sub.s32": lambda a, b: a - b,
    "mul.lo.s32": lambda a, b: a * b,
    "mul.hi.s32": lambda a, b: a * b >> 32,
    "mul.hi.u32": lambda a, b: (a % 2**32) * (b % 2**32) >> 32,
    "min.s32": min,
    "max.s32": max,
    "and.b32": lambda a, b: a & b,
    "or.b32": lambda a, b: a | b,
    "xor.b32": lambda a, b: a ^ b,
    "shr.s32": lambda a, b: a >> min(b % 2**32, 32),
    "shr.u32": lambda a, b: a % 2**32 >> min(b % 2**32, 32),
    "shl.b32": lambda a, b: a << b if 0 <= b < 32 else 0,
    "div.s32": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "rem.s32": lambda a, b: a - b * (abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)),
    "div.u32": lambda a, b: a % 2**32 // (b % 2**32),
    "rem.u32": lambda a, b: a % 2**32 % (b % 2**32),
}
HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n.reg .b32 %r<4>;\n"


@settings(max_examples=drawn(250), deadline=None)
@given(
    st.sampled_from(sorted(OPERATIONS)),
    st.tuples(st.integers(-70, 70), st.integers(0, 6)),
    st.one_of(st.integers(-9, 40), st.tuples(st.integers(-9, 20), st.integers(0, 4))),
    st.booleans(),
)
def test_what_instructions_compute(operation: str, a: tuple, b: object, signed: bool) -> None:
    """Some case has the true result, modulo the width."""
    source = str(b) if isinstance(b, int) else "%r2"
    text = f"{HEAD}{operation} %r3, %r1, {source};\nret;\n}}\n"
    kernel = parse_kernel(text)
    bounds = {"a": Interval(a[0], a[0] + a[1])}
    if not isinstance(b, int):
        bounds["b"] = Interval(b[0], b[0] + b[1])
    registers = {"%r1": variable("a"), "%r2": variable("b")}
    start = Case(registers, bounds)
    cases = step(start, kernel.instructions[0], 0, Stepping(kernel.registers, signed))
    for one in states(bounds):
        second = b if isinstance(b, int) else one["b"]
        if second == 0 and operation[:3] in ("div", "rem"):
            continue
        assert any(admits(case, one, OPERATIONS[operation](one["a"], second)) for case in cases), (
            one
        )


def admits(case: Case, one: dict[str, int], result: int) -> bool:
    """Whether a case has a state with these sources in which the result is this, modulo 2**32.

    New variables may be anything in their range; a quotient by a constant is what it is.
    """
    for name in one:
        if not case.ranges[name].holds(one[name]):
            return False
    content = case.registers["%r3"]
    if not isinstance(content, Form):
        return True
    known = Form(0, tuple((name, c) for name, c in content.terms if is_known(name, one)))
    rest = plus(content, known, -1)
    low, high = minimum(rest, case.ranges), maximum(rest, case.ranges)
    missing = result - value(known, one)
    return low + (missing - low) % 2**32 <= high


def is_known(name: str, one: dict[str, int]) -> bool:
    dividend, slash, divisor = name.rpartition("/")
    return name in one or bool(slash and divisor.isdigit() and is_known(dividend, one))


def test_euclid_needs_no_more_steps() -> None:
    worst = [0] * 400
    for b in range(1, 400):
        for a in range(400):
            steps, x, y = 0, a, b
            while x % y:
                steps, x, y = steps + 1, y, x % y
            worst[b] = max(worst[b], steps)
    for most in range(1, 400):
        assert max(worst[1 : most + 1]) <= most_remainders(most)
    assert most_remainders(2**31 - 1) == 44
    assert most_remainders(2**32 - 1) == 45


def test_what_is_behind_a_loop() -> None:
    zero, one = Span(0, 0), Span(1, 1)
    adds = Result("%r1", "%r1", 32, Change(Span(0, 1), None), Change(zero, None))
    assert adds.behind(Span(5, 6), 10) == Span(5, 16)
    assert adds.behind(Span(5, 2**31 - 5), 10) is None
    sets = Result("%r1", "%r1", 32, Change(Span(-2, 0), Span(3, 4)), Change(one, Span(7, 7)))
    assert sets.behind(zero, 4) == Span(-7, 7)


def test_times_is_repeated_addition() -> None:
    form = plus(variable("a"), Form(3), 2)
    assert times(form, 3) == plus(plus(form, form), form)
    assert IntegerType(32, signed=True).high == 2**31 - 1


contents = st.sampled_from((Form(1), variable("a"), Raw("x"), True))
held = st.dictionaries(st.sampled_from("pqr"), contents, max_size=3)
stepped = st.builds(
    lambda low, step, count: Interval(low, low + step * count, step),
    numbers,
    st.integers(1, 3),
    st.integers(0, 2),
)
RANGES = st.dictionaries(st.sampled_from(NAMES), stepped, max_size=3)


@settings(max_examples=drawn(300), deadline=None)
@given(st.data(), st.frozensets(st.sampled_from("pqr")), st.booleans())
def test_cases_that_meet(data: st.DataObject, live: frozenset[str], alike: bool) -> None:
    """Against the definition: one for each content of the live registers, of what all have."""
    kept = [
        (data.draw(RANGES), data.draw(st.sampled_from(((), (variable("a"),)))), {"t": True})
        for _ in range(2)
    ]
    cases = [
        Case(data.draw(held), *data.draw(st.sampled_from(kept)))
        for _ in range(data.draw(st.integers(0, 4)))
    ]
    groups: dict[object, list[Case]] = {}
    for case in cases:
        shown = frozenset((name, what) for name, what in case.registers.items() if name in live)
        groups.setdefault((shown, case.facts if alike else ()), []).append(case)
    expected = []
    for (shown, _), group in groups.items():
        first, *others = group
        bounds = dict(first.ranges)
        for other in others:
            shared = bounds.keys() & other.ranges.keys()
            bounds = {name: bounds[name].hull(other.ranges[name]) for name in shared}
        facts = tuple(fact for fact in first.facts if all(fact in one.facts for one in others))
        expected.append(Case(dict(shown), bounds, facts, {"t": True}))
    assert _merged(cases, live, alike=alike) == expected
