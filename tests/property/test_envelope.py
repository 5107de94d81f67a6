"""The largest of overlapping functions, and its rows, against the definition number by number."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import drawn

from ptxwcet.bounds.formula import formula_of, largest, side_by_side, upper_envelope, value_at
from ptxwcet.bounds.parametric import Progression, Range, Unsettled


@st.composite
def progressions(draw: st.DrawFn, low: int, high: int) -> Progression:
    first = draw(st.integers(low, high))
    step = draw(st.sampled_from((1, 1, 2, 3, 4, 6, 8)))
    most = (high - first) // step + 1
    count = draw(st.one_of(st.integers(1, most), st.just(most)))
    slope = draw(st.integers(-9, 40))
    return Progression(Range(first, step, count), draw(st.integers(-200, 200)), slope)


@st.composite
def covers(draw: st.DrawFn) -> tuple[int, int, list[Progression]]:
    low = draw(st.integers(-50, 50))
    high = low + draw(st.integers(0, 150))
    whole = Progression(
        Range(low, 1, high - low + 1), draw(st.integers(-99, 99)), draw(st.integers(0, 5))
    )
    return low, high, [whole, *draw(st.lists(progressions(low, high), max_size=6))]


def highest(functions: Sequence[Progression], number: int) -> int:
    values = []
    for one in functions:
        u, remainder = divmod(number - one.numbers.first, one.numbers.step)
        if remainder == 0 and 0 <= u < one.numbers.count:
            values.append(one.base + one.slope * u)
    return max(values)


@settings(max_examples=drawn(400), deadline=None)
@given(covers(), st.sampled_from((2, 3, 8, 1024)))
def test_envelope_and_rows_are_the_maximum(
    cover: tuple[int, int, list[Progression]], divisor: int
) -> None:
    low, high, functions = cover
    expected = [highest(functions, number) for number in range(low, high + 1)]
    found = upper_envelope(functions, low, high)
    assert sum(one.numbers.count for one in found) == high - low + 1
    assert [value_at(found, number) for number in range(low, high + 1)] == expected
    formula = formula_of(found)
    assert [formula.at(number) for number in range(low, high + 1)] == expected
    divided = formula_of(found, divisor)
    assert [divided.at(number) for number in range(low, high + 1)] == [
        ceil(Fraction(value, divisor)) for value in expected
    ]
    assert largest(found)[0] == max(expected)
    assert expected[largest(found)[1] - low] == max(expected)


@settings(max_examples=drawn(200), deadline=None)
@given(st.data(), st.integers(-50, 50), st.integers(0, 150))
def test_functions_side_by_side(data: st.DataObject, low: int, width: int) -> None:
    high = low + width
    whole = Progression(Range(low, 1, width + 1), 0, 1)
    functions = [
        upper_envelope(
            [whole, *data.draw(st.lists(progressions(low, high), max_size=4))], low, high
        )
        for _ in range(3)
    ]
    found: dict[int, list[int]] = {}
    for numbers, lines in side_by_side(functions, low, high):
        for u in range(numbers.count):
            values = [base + slope * u for base, slope in lines]
            assert found.setdefault(numbers.first + numbers.step * u, values) is values
    assert found == {
        number: [value_at(one, number) for one in functions] for number in range(low, high + 1)
    }


def test_lines_cross_far_away() -> None:
    functions = [
        Progression(Range(0, 1, 10**12), 10**9, 2),
        Progression(Range(0, 2, 10**11), 0, 7),
        Progression(Range(1, 2, 10**11), 5, 5),
    ]
    found = upper_envelope(functions, 0, 10**12 - 1)
    crossing = 10**9 * 2 // 3  # where 7 * K / 2 passes 10^9 + 2 * K
    for number in (0, crossing - 2, crossing, crossing + 2, 2 * 10**9 + 1, 2 * 10**11 + 2):
        assert value_at(found, number) == highest(functions, number)
    assert len(formula_of(found).rows) < 9


def test_a_gap_is_an_error() -> None:
    functions = [Progression(Range(0, 2, 50), 1, 1), Progression(Range(1, 2, 40), 1, 1)]
    with pytest.raises(Unsettled, match="anything for 81"):
        upper_envelope(functions, 0, 99)


def test_long_periods_are_refused() -> None:
    functions = [Progression(Range(0, step, 10), 1, 1) for step in (997, 991, 983)]
    with pytest.raises(Unsettled):
        upper_envelope(functions, 0, 10**6)


def test_values_outside_of_all_are_errors() -> None:
    function = Progression(Range(4, 1, 1), 3, 0)
    with pytest.raises(ValueError, match="9 is in no progression"):
        value_at((function,), 9)
    with pytest.raises(ValueError, match=r"9 is not in 4\.\.4"):
        formula_of((function,)).at(9)
