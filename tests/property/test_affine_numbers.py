"""Affine numbers against the whole numbers that they stand for."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import drawn

from ptxwcet.bounds.formula import Formula, formula_of, largest
from ptxwcet.bounds.parametric import Progression, Range, Unsettled, carried, solve
from ptxwcet.support.affine import (
    Affine,
    CutRange,
    CutResidues,
    NotAffine,
    parts,
    variable,
)

SMALL = st.integers(-40, 40)
COMPARISONS: Sequence[Callable[[int, int], bool]] = (
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
    operator.eq,
    operator.ne,
)


def value(number: int, u: int) -> int:
    base, slope = parts(number)
    return base + slope * u


@settings(max_examples=drawn(500))
@given(SMALL, SMALL, SMALL, SMALL, st.integers(1, 60))
def test_sums_and_multiples(a: int, b: int, c: int, d: int, count: int) -> None:
    x, y = variable(a, b, count), variable(c, d, count)
    for u in range(count):
        p, q = a + b * u, c + d * u
        assert value(x + y, u) == p + q
        assert value(x - y, u) == p - q
        assert value(x + c, u) == value(c + x, u) == p + c
        assert value(c - x, u) == c - p
        assert value(x * c, u) == value(c * x, u) == p * c
        assert value(-x, u) == -p


@settings(max_examples=drawn(500))
@given(SMALL, SMALL, SMALL, SMALL, st.integers(1, 60), st.sampled_from(COMPARISONS))
def test_a_comparison_holds_for_all_numbers_or_is_cut(
    a: int, b: int, c: int, d: int, count: int, compare: Callable[[int, int], bool]
) -> None:
    outcomes = [compare(a + b * u, c + d * u) for u in range(count)]
    if len(set(outcomes)) == 2:
        with pytest.raises(CutRange) as cut:
            compare(variable(a, b, count), variable(c, d, count))
        assert 0 < cut.value.at < count
    else:
        assert compare(variable(a, b, count), variable(c, d, count)) == outcomes[0]


@settings(max_examples=drawn(500))
@given(SMALL, SMALL, st.integers(1, 60), st.integers(1, 12))
def test_a_division_holds_for_all_numbers_or_is_cut(
    a: int, b: int, count: int, divisor: int
) -> None:
    x = variable(a, b, count)
    if len({(a + b * u) % divisor for u in range(count)}) > 1:
        with pytest.raises(CutResidues) as cut:
            divmod(x, divisor)
        modulus = cut.value.modulus
        for first in range(min(modulus, count)):
            assert len({(a + b * u) % divisor for u in range(first, count, modulus)}) == 1
        return
    quotient, remainder = divmod(x, divisor)
    assert (quotient, remainder) == (x // divisor, x % divisor)
    for u in range(count):
        assert (value(quotient, u), value(remainder, u)) == divmod(a + b * u, divisor)


def test_what_has_no_answer_is_refused() -> None:
    x = variable(1, 1, 1000)
    for operation in (
        lambda: x * x,
        lambda: range(x),
        lambda: int(x),
        lambda: 7 // x,
        lambda: 7 % x,
        lambda: divmod(7, x),
        lambda: x // x,
    ):
        with pytest.raises(NotAffine):
            operation()


def test_short_ranges_are_cut_instead() -> None:
    assert [p.base for p in solve(lambda s: s * s, 5)] == [0, 1, 4, 9, 16]


def test_one_number_is_a_number() -> None:
    assert type(variable(5, 3, 1)) is int
    assert type(variable(5, 0, 9)) is int
    assert type(variable(5, 3, 9) - variable(1, 3, 9)) is int


def staircase(s: int) -> int:
    return max(7 * ((s + 31) // 32) + 3, 40, s // 6) + (s % 3 == 0) * 2 + (5 if s < 9 else 0)


FUNCTIONS: Sequence[Callable[[int], int]] = (
    lambda s: 4,
    lambda s: 3 * s + 7,
    lambda s: max(s, 100 - s, 3 * s - 200),
    lambda s: min(s, 90) + s // 4 - (s + 1) // 6,
    staircase,
)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("count", [1, 2, 50, 777])
def test_solved_is_the_function(function: Callable[[int], int], count: int) -> None:
    solved = solve(function, count)
    covered = [one.numbers.first + one.numbers.step * u for one in solved for u in _places(one)]
    assert sorted(covered) == list(range(count))
    for one in solved:
        for u in _places(one):
            assert one.base + one.slope * u == function(one.numbers.first + one.numbers.step * u)
    check_formula(formula_of(solved), function, count)
    assert largest(solved)[0] == max(map(function, range(count)))
    assert function(largest(solved)[1]) == largest(solved)[0]


def _places(one: Progression) -> range:
    return range(one.numbers.count)


def check_formula(formula: Formula, function: Callable[[int], int], count: int) -> None:
    assert (formula.low, formula.high) == (0, count - 1)
    assert [formula.at(s) for s in range(count)] == [function(s) for s in range(count)]


@given(st.integers(-9, 9), st.integers(1, 5), st.integers(1, 60))
def test_solved_is_carried_to_other_numbers(first: int, step: int, count: int) -> None:
    for function in FUNCTIONS:
        values = {
            one.numbers.first + one.numbers.step * u: one.base + one.slope * u
            for one in carried(solve(function, 60), Range(first, step, count))
            for u in _places(one)
        }
        assert values == {first + step * s: function(s) for s in range(count)}


def test_rows_are_few() -> None:
    rows = formula_of(solve(lambda s: 5 + 7 * ((s + 31) // 32), 10**9)).rows
    assert [(row.first, row.period) for row in rows] == [(0, 32)]
    rows = formula_of(solve(lambda s: 5 + 7 * s + (s < 3), 10**9)).rows
    assert [(row.first, row.last, row.period) for row in rows] == [(0, 2, 1), (3, 10**9 - 1, 1)]


def test_a_wrong_row_is_not_believed() -> None:
    # progressions that overlap: no formula can agree with both
    wrong = (Progression(Range(0, 1, 9), 5, 1), Progression(Range(4, 1, 1), 3, 0))
    with pytest.raises(AssertionError):
        formula_of(wrong)


def test_what_does_not_settle_is_refused() -> None:
    def digits(s: int) -> int:
        return len([i for i in range(5000) if s > i])

    with pytest.raises(Unsettled, match="no repeat"):
        solve(digits, 10**9)
    with pytest.raises(Unsettled, match="product"):
        solve(lambda s: s * s, 10**9)


def test_affine_numbers_show_themselves() -> None:
    assert repr(variable(5, 3, 9)) == "Affine(5 + 3 u, u < 9)"
    assert isinstance(variable(5, 3, 9), Affine)
