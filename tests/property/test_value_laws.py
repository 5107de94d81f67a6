"""The laws of abstract values, against what they claim: sets of numbers, lane by lane.

In a lane a value claims a set of pairs: what the symbols stand for there, and what the register
holds. Every operation on values is compared with the sets, which are written out.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ptxwcet.flow.values.comparison import opposite
from ptxwcet.flow.values.regions import Symbol
from ptxwcet.flow.values.value import (
    Condition,
    Known,
    Mask,
    Unknown,
    Value,
    implies,
    join,
    merge,
    wrap,
)

LANES = 3
WIDTH = 2
SYMBOLS = (
    Symbol("a", -2, 3, fixed=True, is_own=True),
    Symbol("b", -1, 2, fixed=True, is_own=True),
)
NUMBERS = range(-2, 2)
Claim = frozenset[tuple[tuple[int, ...], int]]


def claim(value: Value, lane: int) -> Claim:
    """What the symbols and the register may be in a lane."""
    out = set()
    for places in product(*(range(symbol.last + 1) for symbol in SYMBOLS)):
        at = dict(zip(SYMBOLS, places, strict=True))
        out |= {(places, number) for number in NUMBERS if _is_allowed(value, lane, at, number)}
    return frozenset(out)


def _is_allowed(value: Value, lane: int, at: dict[Symbol, int], number: int) -> bool:
    if isinstance(value, Unknown):
        condition = value.condition
        if condition is None or (condition.lanes is not None and not condition.lanes[lane]):
            return True
        span = condition.when if number else condition.otherwise
        return span is None or span[0] <= at[condition.symbol] <= span[1]
    if value.valid is not None and not value.valid[lane]:
        return True
    total = _in_lane(value.base, lane)
    total += sum(_in_lane(c, lane) * at[symbol] for symbol, c in value.terms.items())
    return wrap(total, WIDTH) == number


def _in_lane(number: object, lane: int) -> int:
    return number if isinstance(number, int) else int(number[lane])  # type: ignore[index]


masks = st.lists(st.booleans(), min_size=LANES, max_size=LANES).map(np.array)
numbers = st.integers(-2, 1) | st.lists(st.integers(-2, 1), min_size=LANES, max_size=LANES).map(
    lambda lanes: np.array(lanes, dtype=np.int64)
)


@st.composite
def conditions(draw: st.DrawFn) -> Condition:
    symbol = draw(st.sampled_from(SYMBOLS))

    def span() -> tuple[int, int] | None:
        first = draw(st.integers(0, symbol.last))
        return draw(st.none() | st.tuples(st.just(first), st.integers(first, symbol.last)))

    return Condition(symbol, span(), span(), draw(st.none() | masks))


unknowns = st.builds(Unknown, st.just(frozenset()), st.none() | conditions())
knowns = st.builds(
    Known,
    numbers,
    st.dictionaries(st.sampled_from(SYMBOLS), numbers, max_size=2),
    st.none() | masks,
)
values = unknowns | knowns


@given(values, values, masks)
def test_what_implies_claims_no_more(one: Value, other: Value, lanes: Mask) -> None:
    if implies(one, other, lanes):
        assert all(claim(one, lane) <= claim(other, lane) for lane in np.flatnonzero(lanes))


@given(values, values, values, masks)
def test_implication_is_an_order(one: Value, two: Value, three: Value, lanes: Mask) -> None:
    assert implies(one, one, lanes)
    if implies(one, two, lanes) and implies(two, three, lanes):
        assert implies(one, three, lanes)


@given(values, values, masks)
def test_a_write_keeps_only_what_is_true(old: Value, new: Value, mask: Mask) -> None:
    merged = merge(old, new, mask)
    for lane in range(LANES):
        assert claim(new if mask[lane] else old, lane) <= claim(merged, lane)


@given(values, values, masks, masks)
def test_a_meeting_keeps_what_both_sides_say(
    one: Value, two: Value, first: Mask, second: Mask
) -> None:
    joined = join(one, two, (first, second), frozenset())
    for lane in range(LANES):
        mine, theirs = claim(one, lane), claim(two, lane)
        if first[lane] and second[lane]:
            may_be = mine | theirs
        elif first[lane]:
            may_be = mine
        elif second[lane]:
            may_be = theirs
        else:  # the lane was on no side: both are what it held before
            may_be = mine & theirs
        assert may_be <= claim(joined, lane)


@given(unknowns)
def test_the_opposite_of_an_open_predicate_says_the_opposite(predicate: Unknown) -> None:
    flipped = opposite(predicate)
    for lane in range(LANES):
        holds = {(at, number) for at, number in claim(predicate, lane) if number in (0, 1)}
        fails = {(at, 1 - number) for at, number in holds}
        assert fails <= claim(flipped, lane)


@given(conditions(), conditions(), masks)
def test_conditions_are_joined_and_compared_as_their_sets(
    one: Condition, two: Condition, lanes: Mask
) -> None:
    joined = one.or_else(two)
    for lane in range(LANES):
        mine = claim(Unknown(frozenset(), one), lane)
        theirs = claim(Unknown(frozenset(), two), lane)
        assert mine | theirs <= claim(Unknown(frozenset(), joined), lane)
        if one.implies(two, lanes) and lanes[lane]:
            assert mine <= theirs
