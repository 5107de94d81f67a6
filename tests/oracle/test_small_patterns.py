"""The operators of terms over patterns, against all families of lanes of small words.

A warp of 32 lanes, words of 4 and 5 bits. For patterns drawn at random, every ``u`` that they allow
is tried: the operator is computed lane by lane, and the results must have the pattern that the
domain gives. Two warps of a block share what the block agrees on, so a result on which the block is
said to agree must not change with anything else.
"""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest

from ptxwcet.flow.shapes.domain import LaneDomain
from ptxwcet.flow.shapes.pattern import (
    KNOWN,
    Agreement,
    Pattern,
    Value,
    agreement_on,
    alike,
    constant,
    join,
    limited,
    normal,
    one_pattern,
    uniform,
)
from ptxwcet.ir.terms import Op, Term, any_bits, apply, const, source, term

LANES = 32
LANE = np.arange(LANES)
DOMAIN = LaneDomain(LANES, one_pattern)
WIDTHS = (4, 5)
DRAWN = 500
NONE, WARP, BLOCK = Agreement.NONE, Agreement.WARP, Agreement.BLOCK


def drawn(width: int, chance: random.Random, *, spans: bool = True) -> Pattern | None:
    """A pattern, often one as indices of threads have it; rarely none."""
    if chance.random() < 0.05:
        return None
    stride = chance.choice((0, 0, 0, 1, 1, 2, 3, 4, 5, 8, 16, -1, -2, -4))
    first = chance.choice((0, 0, 1, 2, 3, 4, 5, 8, 12, 15, 16, -1, -4))
    lanes = chance.choice(
        (
            LANE,
            LANE,
            LANE,
            LANE >> 1,
            LANE >> 2,
            LANE & 3,
            LANE ^ 5,
            np.array(chance.choices(LANE, k=32)),
        )
    )
    align = chance.choice((KNOWN, chance.randrange(width), chance.randrange(width)))
    who = chance.choice((WARP, BLOCK))
    found = normal(Pattern(stride * lanes + first, align, agreement=who), width)
    if found.align == KNOWN or not spans or chance.random() < 0.6:
        return found
    rows = signed(families(found, width), width)
    row = chance.choice([(int(row.min()), int(row.max())) for row in rows])
    return normal(replace(found, span=(row[0] - chance.randrange(3), row[1])), width)


def signed(numbers: np.ndarray, width: int) -> np.ndarray:
    return (numbers + (1 << width - 1)) % (1 << width) - (1 << width - 1)


def families(pattern: Pattern | None, width: int) -> np.ndarray:
    """The values that a pattern allows, a row for each ``u``; of no pattern some rows at random."""
    if pattern is None:
        chance = random.Random(width)
        return np.array([[chance.getrandbits(width) for _ in LANE] for _ in range(24)])
    assert not pattern.cuts
    step = 1 << min(pattern.align, width)
    numbers = (np.arange(0, 1 << width, step)[:, None] + pattern.offsets + 0 * LANE) % (1 << width)
    if pattern.span is None:
        return numbers
    low, high = pattern.span
    read = signed(numbers, width)
    return numbers[((low <= read) & (read <= high)).all(axis=1)]


@cache
def table(operator: Term) -> np.ndarray:
    """What the operator of a term computes, for all arguments."""
    sizes = [1 << argument.width for argument in operator.args]
    numbers = [
        apply(operator.op, operator.width, operator.args, operator.value, given)
        for given in product(*(range(size) for size in sizes))
    ]
    return np.array(numbers).reshape(sizes)


def result(operator: Term, args: tuple[Pattern | None, ...]) -> Pattern | None:
    """The pattern that the domain gives for an operator."""
    widths = [argument.width for argument in operator.args]
    root = term(operator.op, operator.width, word(widths), operator.value)
    found = DOMAIN.value(root, [None if each is None else (each,) for each in args])
    return None if found is None else found[0]


def is_right(operator: Term, args: tuple[Pattern | None, ...]) -> bool:
    """Whether all results have the pattern that the domain gives."""
    found = result(operator, args)
    if found is None:
        return True
    rows = [families(s, a.width) for s, a in zip(args, operator.args, strict=True)]
    places = [
        row.reshape([len(row) if axis == other else 1 for other in range(len(rows))] + [LANES])
        for axis, row in enumerate(rows)
    ]
    numbers, size = table(operator)[tuple(places)], 1 << operator.width
    rest = (numbers - found.offsets) % size
    if (rest != rest[..., :1]).any() or (rest % (1 << min(found.align, operator.width))).any():
        return False
    if found.span is not None:
        read = signed(numbers, operator.width)
        if (read < found.span[0]).any() or (read > found.span[1]).any():
            return False
    if found.agreement is BLOCK:
        shared = tuple(axis for axis, s in enumerate(args) if s is None or s.agreement is not BLOCK)
        same = rest[..., 0]
        return not shared or bool((same.max(axis=shared) == same.min(axis=shared)).all())
    return True


def word(widths: list[int]) -> tuple[Term, ...]:
    return tuple(source(place, width) for place, width in enumerate(widths))


_UNARY = (Op.NOT, Op.POPC, Op.CLZ, Op.BREV)
_PREDICATES = (Op.ULT, Op.SLT, Op.EQ)
_APART = {Op.CONST, Op.SOURCE, Op.ANY, Op.ITE, Op.ZEXT, Op.SEXT, Op.EXTRACT, *_UNARY, *_PREDICATES}


def operators(width: int) -> list[Term]:
    """Each operator on words of so many bits, and on single bits."""
    pair = word([width, width])
    first = pair[0]
    found = [term(op, width, (first,)) for op in _UNARY]
    found += [term(op, 1, pair) for op in _PREDICATES]
    found += [term(op, width, pair) for op in Op if op not in _APART]
    found += [term(Op.ITE, width, (source(9, 1), *pair))]
    found += [term(op, width + more, (first,)) for op in (Op.ZEXT, Op.SEXT) for more in (1, 3)]
    found += [first.part(low, bits) for low in range(width) for bits in range(1, width - low + 1)]
    found += [term(op, 1, word([1, 1])) for op in (Op.AND, Op.OR, Op.XOR, Op.EQ)]
    return [*found, ~source(0, 1), term(Op.ZEXT, width, (source(0, 1),))]


OPERATORS = [
    (width, operator) for width in WIDTHS for operator in operators(width) if operator.args
]


def name_of(operator: object) -> str:
    if not isinstance(operator, Term):
        return str(operator)
    return f"{operator.op.name}-{operator.value}-{operator.width}-of-{operator.args[0].width}"


@pytest.mark.parametrize(("width", "operator"), OPERATORS, ids=name_of)
def test_an_operator_keeps_what_it_says(width: int, operator: Term) -> None:
    chance = random.Random(name_of(operator))
    widths = [argument.width for argument in operator.args]
    choices = [tuple(drawn(bits, chance) for bits in widths) for _ in range(DRAWN)]
    assert [args for args in choices if not is_right(operator, args)] == []


def weaker(pattern: Pattern | None, width: int, chance: random.Random) -> Pattern | None:
    """The same less aligned, or agreed on by fewer."""
    if pattern is None or chance.random() < 0.1:
        return None
    align = min(pattern.align, chance.randrange(width + 1))
    who = chance.choice((pattern.agreement, WARP))
    return normal(Pattern(pattern.offsets, align, agreement=who), width)


def claims_no_less(operator: Pattern | None, other: Pattern | None, width: int) -> bool:
    """Whether a pattern allows no values that another one does not."""
    if operator is None or other is None:
        return other is None
    theirs = {row.tobytes() for row in families(other, width)}
    mine = (row.tobytes() for row in families(operator, width))
    return operator.agreement >= other.agreement and all(row in theirs for row in mine)


@pytest.mark.parametrize(("width", "operator"), OPERATORS, ids=name_of)
def test_operators_are_monotone(width: int, operator: Term) -> None:
    """Of patterns that say less, without spans, the result says no more."""
    chance = random.Random(f"{name_of(operator)} again")
    mistakes = []
    for _ in range(DRAWN // 5):
        low = tuple(drawn(argument.width, chance, spans=False) for argument in operator.args)
        high = tuple(weaker(s, a.width, chance) for s, a in zip(low, operator.args, strict=True))
        if not claims_no_less(result(operator, low), result(operator, high), operator.width):
            mistakes.append((low, high))
    assert mistakes == []


@pytest.mark.parametrize("width", [3, 5])
def test_joins_and_limits_claim_no_more(width: int) -> None:
    chance = random.Random(width)
    joins = 0
    for _ in range(DRAWN):
        operator, two = drawn(width, chance), drawn(width, chance)
        if operator is None or two is None:
            continue
        if chance.random() < 0.5:  # the same lanes, which have a join
            moved = chance.randrange(-4, 5)
            two = normal(
                Pattern(operator.offsets + moved, two.align, agreement=two.agreement), width
            )
        both = join(operator, two, width)
        joins += both is not None
        assert claims_no_less(operator, both, width)
        assert claims_no_less(two, both, width)
        for limit in Agreement:
            value = limited((operator,), limit, width)
            assert (value is None) == (limit is NONE)
            assert value is None or claims_no_less(operator, value[0], width)
            assert value is None or value[0].align == KNOWN or value[0].agreement <= limit
    assert joins > DRAWN // 4


@pytest.mark.parametrize("width", [1, 3, 5])
def test_leaves(width: int) -> None:
    assert DOMAIN.value(any_bits(width), []) is None
    assert keys(DOMAIN.value(const(-1, width), [])) == [normal(constant(-1), width).key]
    chance = random.Random(width)
    for _ in range(40):
        pattern = drawn(width, chance)
        assert pattern is None or keys(DOMAIN.value(source(0, width), [(pattern,)])) == [
            pattern.key
        ]


def keys(value: Value) -> list[tuple[object, ...]]:
    return [pattern.key for pattern in value or ()]


# --- what must not be lost ------------------------------------------------------------------------


def lanes(stride: int, align: int = KNOWN, first: int = 0, who: Agreement = WARP) -> Value:
    return (Pattern(stride * LANE + first, align, agreement=who),)


INDEX = lanes(1, 5)  # of a thread, in a block whose rows are whole warps
LANE_ID = lanes(1)
X, Y = source(0, 32), source(1, 32)
FEW, MANY = alike(BLOCK), alike(WARP)
SOME: Value = (Pattern(0, 5, agreement=BLOCK),)


@pytest.mark.parametrize(
    ("operator", "sources", "expected"),
    [
        (X.less_than(64, signed=False), [INDEX], MANY),
        (X.less_than(64, signed=True), [INDEX], MANY),
        (const(63, 32).less_than(X, signed=True), [INDEX], MANY),
        (const(64, 32).less_than(X, signed=True), [INDEX], None),
        (X.less_than(Y, signed=True), [INDEX, SOME], MANY),
        (X.less_than(Y, signed=True), [INDEX, FEW], None),
        (X.equals(Y), [INDEX, lanes(1, 0, who=BLOCK)], MANY),
        ((X & 31).equals(32), [INDEX], (constant(0),)),
        (X & 31, [INDEX], LANE_ID),
        (X & 96, [INDEX], (uniform(5),)),
        (X & 3, [lanes(4, 0)], MANY),
        (X | 32, [LANE_ID], lanes(1, KNOWN, 32)),
        (X | Y, [LANE_ID, SOME], lanes(1, 5, who=BLOCK)),
        (X ^ Y, [INDEX, SOME], INDEX),
        (~X, [LANE_ID], lanes(-1, KNOWN, -1)),
        (X.shifted_right(5, signed=True), [INDEX], MANY),
        (X.shifted_right(4, signed=True), [INDEX], (Pattern(LANE // 16, 1),)),
        (X.shifted_right(2, signed=False), [lanes(4, 7)], INDEX),
        (X.extended(64, signed=True), [INDEX], INDEX),
        (X.extended(64, signed=False) * 2**20, [INDEX], lanes(2**20, 25)),
        (X.part(0, 8).extended(32, signed=False), [INDEX], INDEX),
        (term(Op.UDIV, 32, (X, const(32, 32))), [INDEX], MANY),
        (term(Op.UREM, 32, (X, const(32, 32))), [INDEX], LANE_ID),
        (X.less_than(64, signed=True).choose(Y, Y + 4), [INDEX, (uniform(2),)],
         (uniform(2),)),
        (X.part(5, 4), [lanes(513, 5)], MANY),
        (X * Y, [INDEX, (constant(12),)], lanes(12, 7)),
        (X * Y, [INDEX, SOME], None),
        (X * Y, [lanes(2**28, 0), SOME], (uniform(5),)),
        (X & 0, [MANY], (constant(0),)),
        (X * Y, [None, (constant(0),)], (constant(0),)),
        (X.shifted_right(Y, signed=False), [None, (constant(32),)], (constant(0),)),
        (X.shifted_left(Y), [SOME, FEW], SOME),
    ],
)  # fmt: skip
def test_what_is_known(operator: Term, sources: list[Value], expected: Value) -> None:
    """Spans are not compared."""
    found = DOMAIN.value(operator, sources)
    plain = None if found is None else tuple(replace(pattern, span=None) for pattern in found)
    assert agreement_on(found) == agreement_on(expected)
    assert keys(plain) == keys(
        expected and tuple(normal(each, operator.width) for each in expected)
    )


def test_every_operator_is_tried() -> None:
    leaves = {Op.CONST, Op.SOURCE, Op.ANY}
    assert {operator.op for _, operator in OPERATORS} == set(Op) - leaves
