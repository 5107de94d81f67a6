"""Intervals refuse what is none; sums of large numbers in lanes are exact."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from ptxwcet.flow.values.integers import Exact, IntegerType, extremes, interval_in, shifted
from ptxwcet.flow.values.intervals import Interval, around
from ptxwcet.flow.values.ranges import bounded, interval_of
from ptxwcet.flow.values.regions import Symbol
from ptxwcet.flow.values.value import Known

pytestmark = pytest.mark.fast

LANES = np.ones(4, bool)


@pytest.mark.parametrize(("low", "high", "step"), [(1, 0, 1), (0, 3, 2), (0, 2, 0), (0, 2, -1)])
def test_what_is_no_interval(low: int, high: int, step: int) -> None:
    with pytest.raises(ValueError, match="not an interval"):
        Interval(low, high, step)


@pytest.mark.parametrize("number", [np.int64(1), np.uint8(1), 1.0, True])
def test_only_plain_integers(number: object) -> None:
    for ends in ((number, 2), (0, number), (0, 4, number)):
        with pytest.raises(TypeError, match="Python ints"):
            Interval(*ends)  # type: ignore[arg-type]


def test_an_interval_around_nothing() -> None:
    with pytest.raises(ValueError, match="empty"):
        around(())


def test_operations_hold_all_results() -> None:
    small = [Interval(a, b) for a in range(-2, 3) for b in range(a, 3)]
    for one, two in product(small, small):
        both = set(range(one.low, one.high + 1)) & set(range(two.low, two.high + 1))
        met = one.meet(two)
        assert both == (set() if met is None else set(range(met.low, met.high + 1)))
        assert one.hull(two) == around((one.low, one.high, two.low, two.high))
        sums = [a + b for a in (one.low, one.high) for b in (two.low, two.high)]
        assert one.plus(two) == around(sums)
        assert one.covers(two) == (one.meet(two) == two)
        for factor in (-3, 0, 2):
            assert one.times(factor) == around((one.low * factor, one.high * factor))


def symbol(count: int) -> Symbol:
    return Symbol("e", -1, count, fixed=True)


@pytest.mark.parametrize("lanes", [False, True])
def test_sums_beyond_64_bits(lanes: bool) -> None:
    """By hand: 2**62 with a symbol up to 2**62 is from 2**62 to 2**63."""
    base = np.full(4, 1 << 62, np.int64) if lanes else 1 << 62
    exact = Exact(base, {symbol((1 << 62) + 1): 1})
    assert interval_in(exact, LANES) == Interval(1 << 62, 1 << 63)
    low, high = extremes(exact)
    assert np.all(np.asarray(low) == 1 << 62)
    assert np.all(np.asarray(high, dtype=object) == 1 << 63)


def test_coefficients_of_lanes_beyond_64_bits() -> None:
    coefficients = np.array([1 << 62, -(1 << 62), 0, 1], np.int64)
    exact = Exact(np.arange(4, dtype=np.int64), {symbol(5): coefficients})
    assert interval_in(exact, LANES) == Interval(1 - (1 << 64), 1 << 64)
    low, high = extremes(exact)
    assert [int(one) for one in high] == [1 << 64, 1, 2, 7]
    assert [int(one) for one in low] == [0, 1 - (1 << 64), 2, 3]


def test_an_offset_beyond_64_bits() -> None:
    exact = shifted(Exact(np.full(4, (1 << 63) - 1, np.int64), {}), 1)
    assert [int(one) for one in exact.base] == [1 << 63] * 4


def test_the_index_of_a_block_times_a_large_number() -> None:
    """A block index below 2**31, shifted by 32, from 0x7000000000000000 on: not a signed number."""
    index = Symbol("ctaid.x", -2, (1 << 31) - 1, splittable=True)
    value = Known(0x7000 << 48, {index: 1 << 32})
    kind = IntegerType(64, signed=False)
    last = (0x7000 << 48) + ((1 << 31) - 2 << 32)
    found = interval_of(value, kind, LANES)
    assert found.low == 0x7000 << 48
    assert found.high >= min(last, kind.high)


def test_a_step_of_the_highest_bit() -> None:
    value = bounded(Interval(0, 1 << 63, 1 << 63), 64, frozenset())
    assert isinstance(value, Known)
    ((_, step),) = value.terms.items()
    assert -(1 << 63) <= step < 1 << 63
