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

from ptxwcet.flow.intervals import Interval

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
    terms = dict(a.terms)
    for name, c in b.terms:
        terms[name] = terms.get(name, 0) + scale * c
    kept = tuple(sorted((name, c) for name, c in terms.items() if c))
    return Form(a.constant + scale * b.constant, kept)


def times(a: Form, factor: int) -> Form:
    """``a * factor``."""
    return plus(Form(0), a, factor)


def shifted(a: Form, offset: int) -> Form:
    """``a + offset``."""
    return Form(a.constant + offset, a.terms)


def replaced(a: Form, name: str, by: Form) -> Form:
    """``a`` with ``by`` in the place of a variable."""
    coefficient = dict(a.terms).get(name)
    if coefficient is None:
        return a
    return plus(a, plus(by, variable(name), -1), coefficient)


def maximum(form: Form, ranges: Ranges, facts: tuple[Form, ...] = ()) -> int:
    """At most this. Cost: exponential in the few facts added, linear otherwise."""
    return _maximum(form, ranges, facts, _MOST_FACTS_ADDED)


def minimum(form: Form, ranges: Ranges, facts: tuple[Form, ...] = ()) -> int:
    """At least this; see :func:`maximum`."""
    return -maximum(times(form, -1), ranges, facts)


def _maximum(form: Form, ranges: Ranges, facts: tuple[Form, ...], more: int) -> int:
    best = form.constant
    for name, c in form.terms:
        interval = ranges[name]
        best += c * (interval.high if c > 0 else interval.low)
    if more == 0 or not facts:
        return best
    coefficients = dict(form.terms)
    for place, fact in enumerate(facts):
        rest = facts[:place] + facts[place + 1 :]
        for scale, factor in {
            _cancelling(coefficients[name], c)
            for name, c in fact.terms
            if coefficients.get(name, 0) * c < 0
        }:
            # scale * form <= scale * form + factor * fact, because the fact is at least 0
            together = plus(times(form, scale), fact, factor)
            best = min(best, _maximum(together, ranges, rest, more - 1) // scale)
    return best


def _cancelling(one: int, two: int) -> tuple[int, int]:
    """Positive numbers s, f with ``s * one + f * two == 0``; the two have opposite signs."""
    common = gcd(one, two)
    return abs(two) // common, abs(one) // common
