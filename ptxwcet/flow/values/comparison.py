"""Comparisons of integers in lanes, and the outcomes of predicates.

An outcome is the same on the whole region, which shrinks for that, or open where it depends on
symbols that cannot be limited; then it may say in which interval such a symbol is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptxwcet.flow.values.integers import (
    Exact,
    IntegerType,
    as_exact,
    causes_of,
    difference,
    extremes,
    from_exact,
    require_lanes_negative,
    require_lanes_nonnegative,
    rows,
    shifted,
)
from ptxwcet.flow.values.regions import Wavers, require_zero
from ptxwcet.flow.values.value import Condition, Known, Mask, Number, Unknown, Value, wrap


def less(a: Known, b: Known, kind: IntegerType, active: Mask) -> Value:
    """Whether ``a < b``: 0 or 1 a lane, the same for all symbol values of the (shrunk) region.

    Lanes in which it depends on fixed symbols are not known (not valid). Raises Wavers if an
    operand may wrap around.
    """
    form = difference(as_exact(a, kind, active), as_exact(b, kind, active))
    if not form.terms:
        return Known(_as_number(form.base < 0))
    low, high = extremes(form)
    holds, fails = _lanes(high < 0, active), _lanes(low >= 0, active)
    holds = _settled(holds, require_lanes_negative, form)
    fails = _settled(fails, require_lanes_nonnegative, form)
    unsettled = active & ~(holds | fails)
    if unsettled.any():  # it must stay possible both ways
        _require_possible(form, unsettled, -1)
    return _open_outcome(holds, unsettled, active, form, (None, -1))


def equal(a: Known, b: Known, bits: int, active: Mask) -> Value:
    """Whether ``a == b``, as :func:`less` says it."""
    raw = difference(Exact(wrap(a.base, bits), a.terms), Exact(wrap(b.base, bits), b.terms))
    form = from_exact(raw, bits)  # equality only matters modulo 2**bits
    if not form.terms:
        return Known(_as_number(form.base == 0))
    exact = as_exact(form, IntegerType(bits, signed=True), active)
    low, high = extremes(exact)
    fixed_zero = _lanes((low == 0) & (high == 0), active)
    above, below = _lanes(low > 0, active), _lanes(high < 0, active)
    if fixed_zero.any():
        for _, terms in rows(exact, fixed_zero, largest=True):
            require_zero(terms)
    above = _settled(above, require_lanes_nonnegative, shifted(exact, -1))
    below = _settled(below, require_lanes_negative, exact)
    unsettled = active & ~(fixed_zero | above | below)
    if unsettled.any():
        _require_possible(exact, unsettled, 0)
        _require_possible(shifted(exact, 1), unsettled, 0)
    return _open_outcome(fixed_zero, unsettled, active, exact, (0, 0))


def _lanes(outcome: Any, active: Mask) -> Mask:
    lanes: Mask = active & np.broadcast_to(np.asarray(outcome, dtype=bool), active.shape)
    return lanes


def _settled(lanes: Mask, require: Callable[[Exact, Mask], None], form: Exact) -> Mask:
    """The lanes, if what is required of them can be made to hold on the whole region; else none."""
    if lanes.any():
        try:
            require(form, lanes)
        except Wavers:
            return np.zeros_like(lanes)
    return lanes


def _require_possible(form: Exact, lanes: Mask, bound: int) -> None:
    """Shrink the region to where the form may still be at most ``bound``, and may be above it."""
    low, high = extremes(form)
    rest = {symbol: c for symbol, c in form.terms.items() if not symbol.fixed}
    if rest:
        may, may_not = lanes & _lanes(low <= bound, lanes), lanes & _lanes(high > bound, lanes)
        if may.any():
            require_lanes_negative(Exact(low - bound - 1, rest), may)
        if may_not.any():
            require_lanes_nonnegative(Exact(high - bound - 1, rest), may_not)


def _open_outcome(
    holds: Mask, unsettled: Mask, active: Mask, form: Exact, between: tuple[int | None, int]
) -> Value:
    """The outcome where some lanes are unsettled; it holds if the form is in ``between``."""
    if not unsettled.any():
        return Known(_uniform_or_lanes(holds, active))
    causes = causes_of(form.terms)
    if (active & ~unsettled).any():
        return Known(_as_number(holds), valid=~unsettled, otherwise=causes)
    return Unknown(causes, _condition(form, between, active))


def _uniform_or_lanes(holds: Mask, active: Mask) -> Number:
    """1 or 0 if all active lanes agree, else a number for each."""
    if not holds.any():
        return 0
    return 1 if not (active & ~holds).any() else _as_number(holds)


def _condition(form: Exact, between: tuple[int | None, int], active: Mask) -> Condition | None:
    """What the outcome says about a form's only symbol: ``low <= base + c * symbol <= high``."""
    numbers = {symbol: _common(c, active) for symbol, c in form.terms.items()}
    base = _common(form.base, active)
    terms = [(symbol, c) for symbol, c in numbers.items() if c != 0]
    if len(terms) != 1 or base is None:
        return None
    ((symbol, c),) = terms
    if not symbol.fixed or c is None:
        return None
    low, high = between
    last = symbol.last
    inside = _solutions(base, c, low, high, last)
    if inside is None:
        return None
    first, final = inside
    if first == 0:
        rest = (final + 1, last)
    elif final == last:
        rest = (0, first - 1)
    else:
        return Condition(symbol, (first, final), None)
    return Condition(symbol, (first, final), rest if rest[0] <= rest[1] else None)


def _common(number: Any, active: Mask) -> int | None:
    """The number that all active lanes have, None if they differ."""
    if isinstance(number, int):
        return number
    lanes = number[active]
    return int(lanes[0]) if (lanes == lanes[0]).all() else None


def _solutions(base: int, c: int, low: int | None, high: int, last: int) -> tuple[int, int] | None:
    """The ``0 <= s <= last`` with ``low <= base + c * s <= high``, first and last; None if none."""
    if c > 0:
        first = 0 if low is None else max(0, -((base - low) // c))
        final = min(last, (high - base) // c)
    else:
        first = max(0, -((high - base) // -c))
        final = last if low is None else min(last, (base - low) // -c)
    return (first, final) if first <= final else None


def opposite(predicate: Value) -> Value:
    """``not`` of a predicate."""
    if isinstance(predicate, Unknown):
        condition = predicate.condition
        return Unknown(predicate.causes, None if condition is None else condition.negated())
    return Known(1 - predicate.base, predicate.terms, predicate.valid, predicate.otherwise)


def _as_number(outcome: Any) -> Number:
    if isinstance(outcome, (bool, np.bool_)):
        return int(outcome)
    array = np.asarray(outcome)
    if array.ndim == 0:
        return int(array)
    return array.astype(np.int64)
