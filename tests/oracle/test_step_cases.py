"""What an instruction does on cases, for every form, against its execution.

Registers hold constants, variables of a small range somewhere in their type, sums of these, or
unknown bits of a known range. For all states of the variables that are tried, one of the cases
behind the instruction must have the numbers that the emulator computes: its ranges and facts hold,
with some number for what the step has left open.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import numpy as np
import pytest
from instruction_forms import Form, executed, form
from test_value_rules import FORMS, bits_as, register_width

from ptxwcet.flow.values.intervals import Interval
from ptxwcet.flow.variants import linear_forms
from ptxwcet.flow.variants.body import step
from ptxwcet.flow.variants.cases import Case, Compared, Content, Joined, Open, Opposite, Raw
from ptxwcet.flow.variants.operands import Stepping
from ptxwcet.ir.instruction_set import ROWS

ROUNDS = 14
STATES = 16
MOST = 8
Numbers = dict[str, int]


def content(name: str, bits: int, chance: random.Random, ranges: dict[str, Interval]) -> Content:
    """Something for a register of a width."""
    if bits == 1:
        return chance.choice([True, False, Open(name)])
    half = 1 << bits - 1
    edges = [0, 1, -1, 3, 8, bits - 1, bits, 255, -9, half - 5, half, -half, 2 * half - 5]
    edge = chance.choice([*edges, chance.randrange(2 * half)])
    way = chance.random()
    if way < 0.3:
        return linear_forms.Form(edge)
    least = chance.choice([0, edge, edge - 2])
    span = chance.choice([0, 1, 4, 7, 40, chance.randrange(half)])
    if way < 0.45:
        low = least % half
        bounds = Interval(low, min(low + span, half - 1))
        turned = Interval(bounds.low - half, bounds.high - half)
        return chance.choice(
            [
                Raw(name, bounds, bounds),
                Raw(name, turned),
                Raw(name, turned, bounds.plus(Interval(half, half))),
            ]
        )
    ranges[name] = Interval(least, least + span)
    form = linear_forms.variable(name)
    if way < 0.8:
        return form
    return linear_forms.Form(chance.choice([0, 1, -1, 8]), ((name, chance.choice([-1, 2, 3, 8])),))


def drawn(bounds: Interval, chance: random.Random) -> int:
    return chance.choice([bounds.low, bounds.high, chance.randint(bounds.low, bounds.high)])


def value(form: linear_forms.Form, known: Numbers) -> int | None:
    """The number of a form; None if one of its variables is open."""
    total = form.constant
    for name, c in form.terms:
        number = number_of(name, known)
        if number is None:
            return None
        total += c * number
    return total


def number_of(name: str, known: Numbers) -> int | None:
    """The number of a variable that a step has named after what it is."""
    if name in known:
        return known[name]
    for word, meaning in (("lowest(", lambda x: x & -x), ("cleared(", lambda x: x & (x - 1))):
        if name.startswith(word):
            inner = number_of(name[len(word) : -1], known)
            return None if inner is None else meaning(inner)
    if name.startswith("rem("):
        a, b = (number_of(one, known) for one in name[4:-1].split(","))
        if a is None or not b:
            return None
        return abs(a) % abs(b) * (-1 if a < 0 else 1)
    dividend, slash, divisor = name.rpartition("/")
    inner = number_of(dividend, known) if slash else None
    return None if inner is None else inner // int(divisor)


def fresh(
    case: Case, form: linear_forms.Form, result: int, bits: int, known: Numbers
) -> Iterator[Numbers]:
    """What is known with numbers for the open variable of a form, so that it is the result."""
    opened = [(name, c) for name, c in form.terms if number_of(name, known) is None]
    closed = tuple(one for one in form.terms if one not in opened)
    rest = value(linear_forms.Form(form.constant, closed), known)
    assert rest is not None
    missing = (result - rest) % (1 << bits)
    if not opened:
        if missing == 0:
            yield known
        return
    ((name, c), *others) = opened
    common = math.gcd(c, 1 << bits)
    every = (1 << bits) // common
    if others or every == 1:
        yield known  # not looked at
    elif missing % common == 0:
        least = missing // common * pow(c // common, -1, every) % every
        bounds = case.ranges[name]
        first = bounds.low + (least - bounds.low) % every
        numbers = range(first, bounds.high + 1, every)
        yield from ({**known, name: number} for number in numbers[:MOST])
        if len(numbers) > MOST:
            yield known  # not looked at


def is_state(case: Case, known: Numbers) -> bool:
    """Whether ranges and facts allow the numbers, as far as they are known."""
    for name, bounds in case.ranges.items():
        number = number_of(name, known)
        if number is not None and not bounds.holds(number):
            return False
    return all((found := value(fact, known)) is None or found >= 0 for fact in case.facts)


def may_be(case: Case, found: Content, truth: bool, known: Numbers) -> bool:
    """Whether a predicate may have an outcome."""
    match found:
        case bool():
            return found is truth
        case Open(name):
            return name not in known or bool(known[name]) is truth
        case Opposite(of):
            return may_be(case, of, not truth, known)
        case Joined(one, two, either):
            if truth is either:
                return any(may_be(case, part, truth, known) for part in (one, two))
            return all(may_be(case, part, truth, known) for part in (one, two))
        case Compared(form, equal):
            number = value(form, known)
            return number is None or (number == 0 if equal else number >= 0) is truth
    raise AssertionError(found)


def admits(case: Case, results: list[tuple[Content, int, int]], known: Numbers) -> bool:
    """Whether a case has a state with these sources and results."""
    if any(name in case.truths and case.truths[name] is not bool(n) for name, n in known.items()):
        return False
    if not results:
        return is_state(case, known)
    (found, result, bits), *others = results
    if bits == 1:
        return may_be(case, found, bool(result), known) and admits(case, others, known)
    if isinstance(found, Raw):
        for bounds, least in ((found.unsigned, 0), (found.signed, -(1 << bits - 1))):
            if bounds is not None and not bounds.holds((result - least) % (1 << bits) + least):
                return False
        return admits(case, others, known)
    assert isinstance(found, linear_forms.Form), found
    return any(admits(case, others, more) for more in fresh(case, found, result, bits, known))


def mistake(program: list[Form], chance: random.Random) -> str | None:
    """An example in which no case has the results of statements, as text."""
    kinds = program[0].kernel.registers
    names = {name for one in program for name in (*one.instruction.reads, *one.instruction.writes)}
    widths = {name: register_width(kinds.get(name, "pred")) for name in sorted(names)}
    for _ in range(ROUNDS):
        ranges: dict[str, Interval] = {}
        given = {name: content(name, bits, chance, ranges) for name, bits in widths.items()}
        cases, how = [Case(given, ranges)], Stepping(kinds, chance.random() < 0.5)
        for index, one in enumerate(program):
            cases = [new for case in cases for new in step(case, one.instruction, index, how)]
        states = [state(given, ranges, widths, chance) for _ in range(STATES)]
        words = {
            name: bits_as([numbers[name] for _, numbers in states], bits)
            for name, bits in widths.items()
        }
        for one in program:
            words = guarded(one, words)
        last = program[-1]
        for place, (known, numbers) in enumerate(states):
            if last.text[:3] in ("div", "rem") and not numbers[last.instruction.reads[-1]]:
                continue
            if not any(fits(case, last, words, place, known) for case in cases):
                return f"{last}: {numbers} of {given}, {ranges}: {cases}"
    return None


def guarded(one: Form, words: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The registers after a statement, which lanes execute whose guard holds."""
    after = executed(one, one.step(STATES), words)
    guard = one.instruction.guard
    if guard is not None:
        runs = words[guard.register] != guard.negated
        after = {name: np.where(runs, new, words[name]) for name, new in after.items()}
    return {**words, **after}


def fits(case: Case, one: Form, after: dict, place: int, known: Numbers) -> bool:
    """Whether a case has the results of a lane."""
    kinds = one.kernel.registers
    rows = [
        (case.registers[name], int(after[name][place]), register_width(kinds[name]))
        for name in one.instruction.writes
        if name in kinds
    ]
    return admits(case, rows, known)


def state(
    given: dict[str, Content], ranges: dict[str, Interval], widths: Numbers, chance: random.Random
) -> tuple[Numbers, Numbers]:
    """Numbers of variables and open predicates, and of registers."""
    known = {name: drawn(bounds, chance) for name, bounds in ranges.items()}
    numbers = {}
    for name, what in given.items():
        match what:
            case bool():
                numbers[name] = int(what)
            case Open():
                numbers[name] = known[name] = chance.getrandbits(1)
            case Raw(_, bounds):
                assert bounds is not None
                numbers[name] = drawn(bounds, chance)
                known[name] = numbers[name]
            case linear_forms.Form():
                found = value(what, known)
                assert found is not None
                numbers[name] = found % (1 << widths[name])
    return known, numbers


@pytest.mark.every(3)
@pytest.mark.parametrize("name", sorted(ROWS))
def test_some_case_has_what_is_executed(name: str) -> None:
    found = [mistake([one], random.Random(f"{one}")) for one in FORMS[name]]
    assert [one for one in found if one is not None] == []


PARTS = """
neg.s32 %r2, %r1; sub.s32 %r2, 0, %r1; and.b32 %r3, %r1, %r2; and.b32 %r3, %r2, %r1;
add.s32 %r2, %r1, -1; sub.s32 %r0, %r1, %r3; xor.b32 %r0, %r1, %r3; xor.b32 %r0, %r3, %r1;
add.s32 %r0, %r1, %r3; and.b32 %r1, %r1, %r3; shl.b32 %r2, %r1, 3; shr.u32 %r3, %r1, 1;
shr.s32 %r3, %r1, 1; and.b32 %r3, %r2, 7; or.b32 %r0, %r2, %r3; cvt.u64.u32 %d1, %r1;
cvt.s64.s32 %d1, %r1; cvt.u32.u64 %r3, %d1; cvt.u16.u32 %h1, %r1; cvt.u32.u16 %r1, %h1;
cvt.s32.s16 %r3, %h1; not.b32 %r2, %r1; rem.u32 %r3, %r1, %r2; div.s32 %r3, %r1, 3;
setp.lt.s32 %p0, %r1, %r3; setp.ge.u32 %p1, %r1, %r2; and.pred %p2, %p0, %p1;
selp.b32 %r0, %r1, %r3, %p0; @%p0 add.s32 %r3, %r3, 1; @!%p1 mov.u32 %r3, %r1;
max.s32 %r3, %r1, %r2; min.u32 %r3, %r3, %r2; mad.lo.s32 %r3, %r1, 5, %r2;
neg.s64 %d2, %d1; and.b64 %d3, %d1, %d2; sub.s64 %d0, %d1, %d3; cvt.u64.u32 %d2, %r2;
"""
POOL = [f"{one.strip()};" for one in PARTS.split(";") if one.strip()]
LOWEST = ["neg.s32 %r2, %r1;", "and.b32 %r3, %r1, %r2;"]
LOWEST_OF_64 = ["neg.s64 %d2, %d1;", "and.b64 %d3, %d1, %d2;"]
NARROWED = ["cvt.u16.u32 %h1, %r1;", "neg.s16 %h2, %h1;", "and.b16 %h3, %h1, %h2;"]
FIXED = [
    [*LOWEST, "sub.s32 %r0, %r1, %r3;"],
    [*LOWEST, "xor.b32 %r0, %r1, %r3;"],
    [*LOWEST, "add.s32 %r0, %r1, %r3;"],
    [*LOWEST_OF_64, "sub.s64 %d0, %d1, %d3;"],
    [*LOWEST_OF_64, "cvt.u32.u64 %r0, %d3;"],
    [*NARROWED, "sub.s16 %h0, %h1, %h3;"],
    ["cvt.u64.u32 %d1, %r1;", *LOWEST_OF_64, "sub.s64 %d0, %d1, %d3;"],
    ["cvt.u32.u64 %r1, %d1;", *LOWEST, "sub.s32 %r0, %r1, %r3;"],
    ["add.s32 %r2, %r1, -1;", "and.b32 %r0, %r1, %r2;"],
    ["cvt.u16.u32 %h1, %r1;", "add.s16 %h2, %h1, -1;", "and.b16 %h0, %h1, %h2;"],
]


@pytest.mark.every(4)
@pytest.mark.parametrize("number", range(len(FIXED) + 30))
def test_some_case_has_what_statements_compute_together(number: int) -> None:
    chance = random.Random(number)
    drawn = [chance.sample(POOL, chance.randint(2, 5)) for _ in range(8)]
    for texts in [FIXED[number]] if number < len(FIXED) else drawn:
        program = [form(text) for text in texts]
        for _ in range(4):
            assert mistake(program, chance) is None, texts
