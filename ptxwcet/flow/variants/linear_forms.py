"""Linear forms over integer variables, and what is known of the variables on one way.

A :class:`Form` is a true integer: a constant plus multiples of variables. An interval bounds a
variable, a *fact* is a form that is at least 0. What a form may be at most follows from both:
:func:`maximum` takes the intervals, and adds multiples of facts where they cancel a variable. All
answers are safe: a maximum is never too small.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd
from typing import NamedTuple

from ptxwcet.flow.effort import Effort
from ptxwcet.flow.values.intervals import Interval

Ranges = Mapping[str, Interval]

# Facts that are added to a form, one after the other, to bound it.
_MOST_FACTS_ADDED = 3


class Form(NamedTuple):
    """``constant + sum(coefficient * variable)``; terms are sorted by variable, none is 0."""

    constant: int
    terms: tuple[tuple[str, int], ...] = ()


def variable(name: str) -> Form:
    """The form that is a variable."""
    return Form(0, ((name, 1),))


def plus(a: Form, b: Form, scale: int = 1) -> Form:
    """``a + scale * b``."""
    if not b.terms:
        return Form(a.constant + scale * b.constant, a.terms)
    terms = dict(a.terms)
    for name, c in b.terms:
        terms[name] = terms.get(name, 0) + scale * c
    kept = tuple(sorted((name, c) for name, c in terms.items() if c))
    return Form(a.constant + scale * b.constant, kept)


def times(a: Form, factor: int) -> Form:
    """``a * factor``."""
    if not factor:
        return Form(0)
    return Form(a.constant * factor, tuple((name, c * factor) for name, c in a.terms))


def shifted(a: Form, offset: int) -> Form:
    """``a + offset``."""
    return Form(a.constant + offset, a.terms)


def replaced(a: Form, name: str, by: Form) -> Form:
    """``a`` with ``by`` in the place of a variable."""
    coefficient = dict(a.terms).get(name)
    if coefficient is None:
        return a
    return plus(a, plus(by, variable(name), -1), coefficient)


def plain_interval(form: Form, ranges: Ranges) -> Interval:
    """An interval in which the form lies, by the ranges of its variables alone."""
    low = high = form.constant
    for name, c in form.terms:
        interval = ranges[name]
        low += c * (interval.low if c > 0 else interval.high)
        high += c * (interval.high if c > 0 else interval.low)
    return Interval(low, high)


def maximum(
    form: Form, ranges: Ranges, facts: tuple[Form, ...] = (), effort: Effort | None = None
) -> int:
    """An upper bound of the form. Cost: exponential in the few facts added, linear otherwise.

    Each look at a fact is a step of ``effort``. Raises TooMuchEffort.
    """
    return _maximum(form, ranges, facts, (_MOST_FACTS_ADDED, effort))


def minimum(
    form: Form, ranges: Ranges, facts: tuple[Form, ...] = (), effort: Effort | None = None
) -> int:
    """A lower bound of the form; see :func:`maximum`."""
    return -maximum(times(form, -1), ranges, facts, effort)


def _maximum(
    form: Form, ranges: Ranges, facts: tuple[Form, ...], more: tuple[int, Effort | None]
) -> int:
    best = form.constant
    for name, c in form.terms:
        interval = ranges[name]
        best += c * (interval.high if c > 0 else interval.low)
    added, effort = more
    if effort is not None:
        effort.spend(1 + len(facts))
    if added == 0 or not facts or not form.terms:
        return best
    coefficients = dict(form.terms)
    for place, fact in enumerate(facts):
        tried: set[tuple[int, int]] = set()
        for name, c in fact.terms:
            if coefficients.get(name, 0) * c >= 0:
                continue
            scale, factor = _cancelling(coefficients[name], c)
            if (scale, factor) in tried:
                continue
            tried.add((scale, factor))
            # scale * form <= scale * form + factor * fact, because the fact is at least 0
            together = plus(times(form, scale), fact, factor)
            rest = facts[:place] + facts[place + 1 :]
            best = min(best, _maximum(together, ranges, rest, (added - 1, effort)) // scale)
    return best


def _cancelling(one: int, two: int) -> tuple[int, int]:
    """Positive numbers s, f with ``s * one + f * two == 0``; the two have opposite signs."""
    common = gcd(one, two)
    return abs(two) // common, abs(one) // common
