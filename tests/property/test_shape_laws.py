"""The order of shapes, and that operators of terms keep it.

``one`` is below ``other`` if their join is ``other``: then it claims no more families of lanes.
"""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest
from test_shape_domain import (
    BLOCK,
    DOMAIN,
    DRAWN,
    OPERATORS,
    WARP,
    all_shapes,
    drawn,
    families,
    name_of,
)

from ptxwcet.flow.shapes.shape import VARYING, Agreement, Shape, join, limited, reduced
from ptxwcet.ir.terms import Term


def below(one: Shape, other: Shape) -> bool:
    return join(one, other) == other


def claim(shape: Shape) -> set[tuple[int, ...]]:
    """The values of both warps of a block in words of 3 bits."""
    rows = [tuple(row) for row in families(shape, 3, random.Random())]
    if shape.agreement is BLOCK:
        return {row + row for row in rows}
    return {one + two for one in rows for two in rows}


def test_shapes_are_partially_ordered() -> None:
    shapes = all_shapes(3)
    order = np.array([[below(a, b) for b in shapes] for a in shapes])
    assert order.diagonal().all()
    assert not (order & order.T & ~np.eye(len(shapes), dtype=bool)).any()
    assert not ((order.astype(int) @ order.astype(int) > 0) & ~order).any()


def test_the_order_is_that_of_what_is_claimed() -> None:
    claims = {shape: claim(shape) for shape in all_shapes(3) if shape.agreement}
    for (one, mine), (other, theirs) in product(claims.items(), repeat=2):
        assert not below(one, other) or mine <= theirs, (one, other)


def test_a_join_is_the_least_upper_bound() -> None:
    shapes = all_shapes(3)
    above = {one: {other for other in shapes if below(one, other)} for one in shapes}
    for one, other in product(shapes, repeat=2):
        joined = join(one, other)
        assert joined == join(other, one) == reduced(joined, 3)
        assert above[one] & above[other] == above[joined]


def test_a_limit_raises() -> None:
    for shape, limit in product(all_shapes(3), Agreement):
        found = limited(shape, limit)
        assert found.agreement <= limit
        assert found == VARYING or claim(shape) <= claim(found)


@pytest.mark.parametrize(("width", "one"), OPERATORS, ids=name_of)
def test_operators_are_monotone(width: int, one: Term) -> None:
    """Of lesser shapes the result is a lesser one."""
    chance = random.Random(f"{name_of(one)} again")
    mistakes = []
    for _ in range(DRAWN):
        low = [drawn(argument.width, chance) for argument in one.args]
        high = [join(s, drawn(a.width, chance)) for s, a in zip(low, one.args, strict=True)]
        if chance.random() < 0.8:
            high = [
                s if chance.random() < 0.5 else reduced(weaker(s, chance), a.width)
                for s, a in zip(low, one.args, strict=True)
            ]
        if not below(DOMAIN.result(one, low), DOMAIN.result(one, high)):
            mistakes.append((low, high))
    assert mistakes == []


def weaker(shape: Shape, chance: random.Random) -> Shape:
    """The same without a number, less aligned, or agreed on by fewer."""
    if not shape.agreement:
        return VARYING
    align = min(shape.align, chance.randint(0, 6))
    return Shape(chance.choice((shape.agreement, WARP)), shape.stride, align)
