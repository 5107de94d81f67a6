"""Domains of terms against all numbers: random terms over few bits, and values of every kind.

The forms of instructions use operators in few combinations (``test_value_rules.py``). Here terms
are drawn at random, with widths from 1 to 9 and beyond 64 bits, and every number that an interval
holds, every lane and every point of the region is computed.
"""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest

from ptxwcet.flow.values.intervals import Interval
from ptxwcet.flow.values.regions import SplitRequest, Symbol
from ptxwcet.flow.values.term_intervals import Numbers, numbers, numbers_of
from ptxwcet.flow.values.transfer import term_transfer
from ptxwcet.flow.values.value import Cause, CauseKind, Known, Unknown, Value, clean_terms, wrap
from ptxwcet.ir.operands import Register
from ptxwcet.ir.semantics import Meaning
from ptxwcet.ir.terms import Op, Term, const, evaluate, signed, source, term

RING = (Op.ADD, Op.SUB, Op.MUL, Op.AND, Op.OR, Op.XOR)
OTHERS = (Op.UDIV, Op.UREM, Op.SDIV, Op.SREM, Op.SHL, Op.LSHR, Op.ASHR)
COMPARISONS = (Op.ULT, Op.SLT, Op.EQ)
COUNTS = (Op.POPC, Op.CLZ, Op.BREV, Op.NOT)
LANES = 4


def drawn(width: int, sources: list[int], depth: int, chance: random.Random) -> Term:
    """A term of a width over sources of these widths."""
    if depth == 0:
        fitting = [n for n, bits in enumerate(sources) if bits == width]
        if fitting and chance.random() < 0.8:
            return source(chance.choice(fitting), width)
        return const(chance.choice((0, 1, -1, 2, chance.getrandbits(width))), width)
    below = depth - 1
    way = chance.random()
    if width == 1 and way < 0.5:
        bits = chance.choice(sources)
        a, b = (drawn(bits, sources, below, chance) for _ in range(2))
        return term(chance.choice(COMPARISONS), 1, (a, b))
    if way < 0.4:
        a, b = (drawn(width, sources, below, chance) for _ in range(2))
        return term(chance.choice(RING), width, (a, b))
    if way < 0.5:
        return term(chance.choice(COUNTS), width, (drawn(width, sources, below, chance),))
    if way < 0.65:
        a, b = (drawn(width, sources, below, chance) for _ in range(2))
        op = chance.choice(OTHERS)
        if op in (Op.SHL, Op.LSHR, Op.ASHR):
            return term(op, width, (a, b))
        is_signed = op in (Op.SDIV, Op.SREM)
        divide = a.divided_by if op in (Op.UDIV, Op.SDIV) else a.remainder
        return divide(b, signed=is_signed)
    if way < 0.8:
        condition = drawn(1, sources, below, chance)
        yes, no = (drawn(width, sources, below, chance) for _ in range(2))
        return condition.choose(yes, no)
    wide = width + chance.choice((1, 2, 4))
    if way < 0.9 or width < 3:
        return drawn(wide, sources, below, chance).part(chance.randint(0, wide - width), width)
    narrow = chance.randint(max(1, width - 3), width - 1)
    inside = drawn(narrow, sources, below, chance)
    return inside.extended(width, signed=chance.random() < 0.5)


def interval(bits: int, chance: random.Random) -> tuple[Numbers, list[int]]:
    """Numbers of a source, and all of them as bits."""
    least = 0 if chance.random() < 0.5 else -(1 << bits - 1)
    ends = sorted(least + chance.getrandbits(bits) for _ in range(2))
    step = chance.choice((1, 1, 2, 3))
    low, high = ends[0], ends[0] + (ends[1] - ends[0]) // step * step
    held = [number % (1 << bits) for number in range(low, high + 1, step)]
    return numbers(bits, Interval(low, high, step)), held


def lies(number: int, width: int, found: Numbers) -> bool:
    one, two = found.unsigned, found.signed
    a, b = number, signed(number, width)
    return (
        one.holds(a) and two.holds(b) and not (a - one.low) % one.step
        and not (b - two.low) % two.step
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_every_number_lies_in_the_interval(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(250):
        sources = [chance.choice((3, 4, 5)) for _ in range(2)]
        root = drawn(chance.choice((1, 3, 4, 5, 6)), sources, chance.randint(1, 4), chance)
        given = [interval(bits, chance) for bits in sources]
        known = {source(n, bits): given[n][0] for n, bits in enumerate(sources)}
        found = numbers_of(root, known.get)
        for values in product(*(held for _, held in given)):
            for undetermined in (0, -1):
                number = evaluate(root, values, undetermined)
                assert lies(number, root.width, found), (root, values, number, found)


class State:
    """What a transfer function reads."""

    active = np.ones(LANES, dtype=bool)

    def __init__(self, values: dict[str, Value]) -> None:
        self.values = values

    def register(self, name: str) -> Value:
        return self.values[name]


def content(bits: int, symbols: list[Symbol], chance: random.Random) -> Value:
    def lanes(draw: range) -> int | np.ndarray:
        if chance.random() < 0.5:
            return chance.randint(draw[0], draw[-1])
        drawn = [chance.randint(draw[0], draw[-1]) for _ in range(LANES)]
        return np.array(drawn, dtype=np.int64)

    half = 1 << bits - 1
    if chance.random() < 0.2:
        return Unknown(frozenset())
    if bits == 1:
        return Known(lanes(range(2)))
    base = lanes(range(-half, half))
    if chance.random() < 0.4:
        return Known(base)
    steps = {s: lanes(range(-3, 4)) for s in symbols if chance.random() < 0.7}
    return Known(base, clean_terms({s: wrap(c, bits) for s, c in steps.items()}))


def number_of(value: Known, lane: int, point: dict[Symbol, int]) -> int:
    def at(x: object) -> int:
        return x if isinstance(x, int) else int(x[lane])  # type: ignore[index]

    return at(value.base) + sum(at(c) * point[s] for s, c in value.terms.items() if s in point)


def is_canonical(value: Value, width: int) -> bool:
    """Whether numbers are written as all rules expect them: signed, predicates as 0 or 1."""
    if isinstance(value, Unknown):
        return True
    least, size = (0, 2) if width == 1 else (-(1 << width - 1), 1 << width)
    numbers = [value.base, *value.terms.values()]
    bases = np.concatenate([np.atleast_1d(np.asarray(one, dtype=object)) for one in numbers])
    return all(least <= number < least + size for number in bases)


def contains(value: Value, lane: int, point: dict[Symbol, int], number: int, width: int) -> bool:
    if isinstance(value, Unknown) or (value.valid is not None and not value.valid[lane]):
        return True
    distance = (number - number_of(value, lane, point)) % (1 << width)
    new = [symbol for symbol in value.terms if symbol not in point]
    if not new:
        return distance == 0
    (symbol,) = new
    c = value.terms[symbol]
    step = c if isinstance(c, int) else int(c[lane])
    return distance % step == 0 and distance // step <= symbol.last


@pytest.mark.parametrize("seed", range(12))
def test_every_lane_holds_what_is_computed(seed: int) -> None:
    chance = random.Random(1000 + seed)
    for _ in range(120):
        sources = [chance.choice((1, 4, 6, 33, 64)) for _ in range(2)]
        width = chance.choice((1, 4, 6, 7, 33, 64, 66, 128))
        root = drawn(width, sources, chance.randint(1, 4), chance)
        while root.width > 64:
            root = root.part(chance.choice((0, 3, root.width - 60)), 60)
        symbols = [
            Symbol("n", -2, chance.randint(1, 4), fixed=True),
            Symbol("k", 0, chance.choice([None, chance.randint(1, 4)])),
        ]
        names = ["a", "b"]
        given = {n: content(w, symbols, chance) for n, w in zip(names, sources, strict=True)}
        meaning = Meaning((root,), tuple(map(Register, names)))
        transfer = term_transfer(meaning, Cause(CauseKind.NOT_AFFINE, "term"))
        try:
            (result,) = transfer(State(given))  # type: ignore[arg-type]
        except SplitRequest:
            continue
        assert is_canonical(result, root.width), (root, given, result)
        for point in points(symbols):
            for lane in range(LANES):
                values = []
                for name, bits in zip(names, sources, strict=True):
                    value = given[name]
                    drawn_number = chance.getrandbits(bits)
                    if isinstance(value, Known):
                        drawn_number = number_of(value, lane, point)
                    values.append(drawn_number % (1 << bits))
                for undetermined in (0, -1):
                    number = evaluate(root, values, undetermined)
                    where = (root, given, point, lane, values, number, result)
                    assert contains(result, lane, point, number, root.width), where


def points(symbols: list[Symbol]) -> list[dict[Symbol, int]]:
    """All points of the region that is left; four of a symbol without an end."""
    found: list[dict[Symbol, int]] = [{}]
    for symbol in symbols:
        longer = []
        for point in found:
            last = 3 if symbol.count is None else symbol.count - 1
            last += sum(c * point[s] for s, c in symbol.slopes.items())
            numbers = range(last + 1) if last < 5 else (0, 1, 2, last - 1, last)
            longer += [{**point, symbol: number} for number in numbers]
        found = longer
    return found


@pytest.mark.parametrize("is_signed", [False, True])
def test_a_choice_refines_both_sides_of_what_it_compares(is_signed: bool) -> None:
    """The least interval around what is chosen, on both of its sides, for all ends of intervals."""
    bits, half = 4, 8 * is_signed
    one, two = source(0, bits), source(1, bits)
    less = one.less_than(two, signed=is_signed)
    for low, high, least, most in ((0, 13, 3, 9), (4, 6, 2, 12), (2, 12, 4, 6), (5, 9, 0, 7)):
        spans = range(low - half, high + 1 - half), range(least - half, most + 1 - half)
        known = [numbers(bits, Interval(span[0], span[-1])) for span in spans]
        for condition, holds in ((less, True), (~less, False)):
            for chosen, place in ((one, 0), (two, 1)):
                root = condition.choose(chosen, const(spans[place][0], bits))
                found = numbers_of(root, dict(zip((one, two), known, strict=True)).get)
                taken = [pair[place] for pair in product(*spans) if (pair[0] < pair[1]) is holds]
                interval = found.read(signed=is_signed)
                assert (interval.low, interval.high) == (spans[place][0], max(taken))
