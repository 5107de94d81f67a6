"""The operators of terms over shapes, against all families of lanes of small words.

Four lanes, words of 4 and 6 bits. For shapes drawn at random, every ``u`` that they allow is tried:
the operator is computed lane by lane, and the results must have the shape that the domain says. Two
warps of a block share what the block agrees on, so a result on which the block is said to agree
must not change with anything else.
"""

from __future__ import annotations

import random
from functools import cache
from itertools import product

import numpy as np
import pytest

from ptxwcet.flow.shapes.domain import ShapeDomain
from ptxwcet.flow.shapes.shape import (
    VARYING,
    Agreement,
    Shape,
    combined,
    constant,
    difference,
    reduced,
    scaled,
    uniform,
)
from ptxwcet.ir.terms import Op, Term, any_bits, apply, const, source, term

LANES = 4
LANE = np.arange(LANES)
DOMAIN = ShapeDomain(LANES)
WIDTHS = (4, 6)
DRAWN = 3000
NONE, WARP, BLOCK = Agreement.NONE, Agreement.WARP, Agreement.BLOCK


@cache
def all_shapes(width: int) -> list[Shape]:
    """Every shape of a word, each once."""
    strides = range(1 - (1 << width - 1), (1 << width - 1) + 1)
    known = [Shape(BLOCK, s, 0, c) for s, c in product(strides, range(1 << width))]
    others = [Shape(w, s, a) for w, s, a in product((WARP, BLOCK), strides, range(width))]
    return [VARYING, *dict.fromkeys(reduced(one, width) for one in (*known, *others))]


def drawn(width: int, chance: random.Random) -> Shape:
    """A shape, often one as indices of threads have it."""
    if width < 3 or chance.random() < 0.3:
        return chance.choice(all_shapes(width))
    stride = chance.choice((0, 0, 0, 1, 1, 2, 3, 4, 5, 8, 16, -1, -2, -4))
    known = chance.choice((0, 0, 1, 2, 3, 4, 5, 8, 12, 15, 16, 31, 32, 48, 63, -1, -4))
    if chance.random() < 0.5:
        return reduced(Shape(BLOCK, stride, 0, known), width)
    return reduced(Shape(chance.choice((WARP, BLOCK)), stride, chance.randint(0, width - 1)), width)


def families(shape: Shape, width: int, chance: random.Random) -> np.ndarray:
    """Values of a shape, one row for each ``u``; of VARYING some rows at random."""
    if shape.agreement is NONE:
        rows = [[chance.getrandbits(width) for _ in range(LANES)] for _ in range(24)]
        return np.array(rows)
    if shape.constant is not None:
        bases = np.array([shape.constant])
    else:
        bases = np.arange(0, 1 << width, 1 << min(shape.align, width))
    return (bases[:, None] + shape.stride * LANE) % (1 << width)


@cache
def table(one: Term) -> np.ndarray:
    """What the operator of a term computes, for all arguments."""
    sizes = [1 << argument.width for argument in one.args]
    numbers = [
        apply(one.op, one.width, one.args, one.value, given)
        for given in product(*(range(size) for size in sizes))
    ]
    return np.array(numbers).reshape(sizes)


def is_right(one: Term, args: tuple[Shape, ...], chance: random.Random) -> bool:
    """Whether all results have the shape that the domain gives."""
    found = DOMAIN.result(one, list(args))
    if found.agreement is NONE:
        return True
    rows = [families(s, a.width, chance) for s, a in zip(args, one.args, strict=True)]
    places = [
        row.reshape([len(row) if axis == other else 1 for other in range(len(rows))] + [LANES])
        for axis, row in enumerate(rows)
    ]
    rest = (table(one)[tuple(places)] - found.stride * LANE) % (1 << one.width)
    if (rest != rest[..., :1]).any() or (rest % (1 << min(found.align, one.width))).any():
        return False
    if found.constant is not None and (rest != found.constant % (1 << one.width)).any():
        return False
    same = rest[..., 0]
    shared = [axis for axis, shape in enumerate(args) if shape.agreement is not BLOCK]
    if found.agreement is BLOCK and shared:
        return bool((same.max(axis=tuple(shared)) == same.min(axis=tuple(shared))).all())
    return True


def word(width: int, count: int) -> tuple[Term, ...]:
    return tuple(source(place, width) for place in range(count))


_UNARY = (Op.NOT, Op.POPC, Op.CLZ, Op.BREV)
_PREDICATES = (Op.ULT, Op.SLT, Op.EQ)
_APART = {Op.CONST, Op.SOURCE, Op.ANY, Op.ITE, Op.ZEXT, Op.SEXT, Op.EXTRACT, *_UNARY, *_PREDICATES}


def operators(width: int) -> list[Term]:
    """Each operator on words of so many bits, and on single bits."""
    pair = word(width, 2)
    one = pair[0]
    found = [term(op, width, (one,)) for op in _UNARY]
    found += [term(op, 1, pair) for op in _PREDICATES]
    found += [term(op, width, pair) for op in Op if op not in _APART]
    found += [term(Op.ITE, width, (source(9, 1), *pair))]
    found += [term(op, width + more, (one,)) for op in (Op.ZEXT, Op.SEXT) for more in (1, 3)]
    found += [one.part(low, bits) for low in range(width) for bits in range(1, width - low + 1)]
    found += [term(op, 1, word(1, 2)) for op in (Op.AND, Op.OR, Op.XOR, Op.EQ)]
    return [*found, ~source(0, 1), term(Op.ZEXT, width, (source(0, 1),))]


OPERATORS = [(width, one) for width in WIDTHS for one in operators(width) if one.args]


def name_of(one: object) -> str:
    if not isinstance(one, Term):
        return str(one)
    return f"{one.op.name}-{one.value}-{one.width}-of-{one.args[0].width}"


@pytest.mark.parametrize(("width", "one"), OPERATORS, ids=name_of)
def test_an_operator_keeps_what_it_says(width: int, one: Term) -> None:
    chance = random.Random(name_of(one))
    widths = [argument.width for argument in one.args]
    if len(widths) == 1:
        choices = [(shape,) for shape in all_shapes(widths[0])]
    else:
        choices = [tuple(drawn(bits, chance) for bits in widths) for _ in range(DRAWN)]
    assert [args for args in choices if not is_right(one, args, chance)] == []


@pytest.mark.parametrize("width", [1, 3, 6])
def test_leaves(width: int) -> None:
    assert DOMAIN.shape(any_bits(width), []) == VARYING
    assert DOMAIN.shape(const(-1, width), []) == reduced(constant(-1), width)
    for shape in all_shapes(width):
        assert DOMAIN.shape(source(0, width), [shape]) == shape


@pytest.mark.parametrize("stride", [-9, -8, 8, 9, 40])
@pytest.mark.parametrize("align", [0, 3, 4, 64])
def test_numbers_of_a_source_need_not_fit_its_width(stride: int, align: int) -> None:
    shape = Shape(WARP, stride, align)
    rows, bits = families(shape, 4, random.Random()), reduced(shape, 4)
    assert {tuple(row) for row in rows} == {
        tuple(row) for row in families(bits, 4, random.Random())
    }


@pytest.mark.parametrize("width", [4, 6])
def test_sums_and_multiples_of_numbers(width: int) -> None:
    chance = random.Random(width)
    for _ in range(DRAWN):
        s, t, a, b = (chance.randint(-99, 99) for _ in range(4))
        one, two = reduced(Shape(BLOCK, s, 0, a), width), reduced(Shape(BLOCK, t, 0, b), width)
        total, rest = Shape(BLOCK, s + t, 0, a + b), Shape(BLOCK, s - t, 0, a - b)
        assert combined(one, two, width) == reduced(total, width)
        assert difference(one, two, width) == reduced(rest, width)
        assert scaled(one, b, width) == reduced(Shape(BLOCK, s * b, 0, a * b), width)


# --- what must not be lost ------------------------------------------------------------------------

FULL = ShapeDomain()
INDEX = Shape(WARP, 1, 5)  # of a thread, in a block whose rows are whole warps
LANE_ID = Shape(BLOCK, 1, 64, 0)
X, Y = source(0, 32), source(1, 32)
FEW, SOME, MANY = uniform(BLOCK), uniform(BLOCK, 5), uniform(WARP)


@pytest.mark.parametrize(
    ("one", "sources", "expected"),
    [
        (X.less_than(64, signed=False), [INDEX], MANY),
        (X.less_than(64, signed=True), [INDEX], MANY),
        (const(63, 32).less_than(X, signed=True), [INDEX], MANY),
        (const(64, 32).less_than(X, signed=True), [INDEX], VARYING),
        (X.less_than(Y, signed=True), [INDEX, SOME], MANY),
        (X.less_than(Y, signed=True), [INDEX, FEW], VARYING),
        (X.equals(Y), [INDEX, Shape(BLOCK, 1)], MANY),
        ((X & 31).equals(32), [INDEX], constant(0)),
        (X & 31, [INDEX], Shape(BLOCK, 1, 64, 0)),
        (X & 96, [INDEX], uniform(WARP, 5)),
        (X & 3, [Shape(WARP, 4)], uniform(WARP)),
        (X | 32, [LANE_ID], Shape(BLOCK, 1, 5, 32)),
        (X | Y, [LANE_ID, SOME], Shape(BLOCK, 1, 5)),
        (X ^ Y, [INDEX, SOME], INDEX),
        (~X, [LANE_ID], Shape(BLOCK, -1, 0, 2**32 - 1)),
        (X.shifted_right(5, signed=True), [INDEX], MANY),
        (X.shifted_right(4, signed=True), [INDEX], VARYING),
        (X.shifted_right(2, signed=False), [Shape(WARP, 4, 7)], INDEX),
        (X.extended(64, signed=True), [INDEX], INDEX),
        (X.extended(64, signed=False) * 2**20, [INDEX], Shape(WARP, 2**20, 25)),
        (X.part(0, 8).extended(32, signed=False), [INDEX], INDEX),
        (term(Op.UDIV, 32, (X, const(32, 32))), [INDEX], MANY),
        (term(Op.UREM, 32, (X, const(32, 32))), [INDEX], Shape(BLOCK, 1, 64, 0)),
        (X.less_than(64, signed=True).choose(Y, Y + 4), [INDEX, uniform(BLOCK, 2)],
         uniform(WARP, 2)),
        (X.part(5, 4), [Shape(WARP, 513, 5)], MANY),
        (X * Y, [INDEX, constant(12)], Shape(WARP, 12, 7)),
        (X * Y, [INDEX, SOME], VARYING),
        (X * Y, [Shape(WARP, 2**28), SOME], uniform(WARP, 5)),
        (X & 0, [VARYING], constant(0)),
        (X.shifted_left(Y), [SOME, FEW], SOME),
    ],
)  # fmt: skip
def test_what_is_known(one: Term, sources: list[Shape], expected: Shape) -> None:
    assert FULL.shape(one, sources) == expected


def test_every_operator_is_tried() -> None:
    leaves = {Op.CONST, Op.SOURCE, Op.ANY}
    assert {one.op for _, one in OPERATORS} == set(Op) - leaves
