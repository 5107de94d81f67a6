"""Linear questions about terms, against all numbers of few bits."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from ptxwcet.flow.certificates.linear import is_impossible
from ptxwcet.flow.effort import Effort, TooMuchEffort
from ptxwcet.ir.terms import Op, Term, const, evaluate, source, term

WIDTH = 4
WIDE = 7
NUMBERS = (source(0, WIDTH), source(1, WIDTH), source(2, WIDTH))
BIT = source(3, 1)
STATES = [*product(range(1 << WIDTH), range(1 << WIDTH), range(1 << WIDTH), (0, 1))]


def found_impossible(truths: list[Term]) -> bool:
    """What the code under test says; effort that is used up is no answer."""
    try:
        return is_impossible(truths, Effort(15_000))
    except TooMuchEffort:
        return False


def is_possible(truths: list[Term]) -> bool:
    """Whether some numbers make all true."""
    return any(all(evaluate(one, state) for one in truths) for state in STATES)


def number(random: Random, depth: int) -> Term:
    """Some term of few bits."""
    if depth == 0 or random.random() < 0.2:
        return random.choice([*NUMBERS, *NUMBERS, const(random.randrange(1 << WIDTH), WIDTH)])
    one = number(random, depth - 1)
    match random.randrange(9):
        case 0 | 1:
            return one + number(random, depth - 1)
        case 2 | 3:
            return one - number(random, depth - 1)
        case 4:
            return one * random.choice((2, 3, -1, -3))
        case 5 | 6:
            return one.divided_by(const(random.choice((2, 3, 5, 9)), WIDTH), signed=False)
        case 7:
            return BIT.choose(one, number(random, depth - 1))
    wide = one.extended(WIDE, signed=random.random() < 0.5) * random.choice((1, 3))
    return (wide + random.randrange(4)).part(0, WIDTH)


def truth(random: Random) -> Term:
    """Some comparison of such terms, in as many bits or in more."""
    one, two = number(random, 2), number(random, 2)
    if random.random() < 0.5:
        signed = random.random() < 0.5
        one = one.extended(WIDE, signed=signed) * random.choice((1, 2))
        two = two.extended(WIDE, signed=signed) * random.choice((1, 3))
    if random.random() < 0.2:
        return one.equals(two)
    found = one.less_than(two, signed=random.random() < 0.5)
    return ~found if random.random() < 0.5 else found


def question(random: Random) -> list[Term]:
    """Ranges of numbers, which keep sums from wrapping around now and then, and comparisons."""
    truths = [
        one.less_than(random.choice((3, 5, 7)), signed=random.random() < 0.3)
        for one in NUMBERS
        if random.random() < 0.7
    ]
    truths += [truth(random) for _ in range(random.randrange(1, 4))]
    if random.random() < 0.5:
        both = term(random.choice((Op.AND, Op.OR)), 1, (truths.pop(), truth(random)))
        truths.append(~both if random.random() < 0.5 else both)
    return truths


@pytest.mark.parametrize("seed", [0, 1, 5])
def test_what_is_found_impossible_is(seed: int) -> None:
    random, found = Random(seed), 0
    for _ in range(100):
        truths = question(random)
        if found_impossible(truths):
            found += 1
            assert not is_possible(truths), truths
    assert found >= 3


@pytest.mark.parametrize("most", range(3, 1 << WIDTH - 1))
def test_a_third_of_a_difference(most: int) -> None:
    """``high - (high - low) / 3`` is not below ``low``, and no difference is above two thirds."""
    low, high, _ = NUMBERS
    third = (high - low).divided_by(const(3, WIDTH), signed=False)
    left = BIT.choose(high, high - third) - BIT.choose(low + third, low)
    given = [~low.less_than(0, signed=True), low.less_than(high, signed=True)]
    given.append(~const(most, WIDTH).less_than(high, signed=True))
    before, after = ((one).extended(WIDE, signed=True) for one in (high - low, left))
    for constant in (2, 1):
        claim = ~(before * 2 + constant).less_than(after * 3, signed=True)
        doubts = [*given, ~claim]
        assert found_impossible(doubts) == (not is_possible(doubts))


def test_a_sum_that_wraps_around_is_possible() -> None:
    one, two, _ = NUMBERS
    truths = [(one + two).less_than(one, signed=True), const(0, WIDTH).less_than(two, signed=True)]
    assert not found_impossible(truths)
    below = [one.less_than(4, signed=True), two.less_than(4, signed=True)]
    assert found_impossible([*truths, *below, ~one.less_than(-4, signed=True)])


@pytest.mark.parametrize("signed", [True, False])
def test_sums_wrap_around_from_the_first_that_does_not_fit(signed: bool) -> None:
    one, two, _ = NUMBERS
    for most in range(1, 1 << WIDTH - signed):
        given = [~const(most, WIDTH).less_than(one, signed=signed), two.equals(1)]
        given.append(~one.less_than(0, signed=signed))
        doubts = [*given, ~one.less_than(one + two, signed=signed)]
        assert found_impossible(doubts) == (not is_possible(doubts)), most


@pytest.mark.parametrize(("numbers", "most"), [(3, 2_500), (6, 24_000)])
def test_ranges_say_that_a_difference_does_not_wrap_around(numbers: int, most: int) -> None:
    """With little effort: variables are eliminated for the question, not for each difference."""
    first, *others = (source(n, 32) for n in range(numbers))
    truths, difference = list[Term](), first
    for one in (first, *others):
        truths += [~one.less_than(0, signed=True), one.less_than(1000, signed=True)]
    for one in others:
        difference = difference - one
    below = difference.less_than(-999 * len(others), signed=True)
    assert is_impossible([*truths, below], Effort(most))
    exactly = difference.equals(-999 * len(others))
    assert not is_impossible([*truths, exactly], Effort(10 * most))
