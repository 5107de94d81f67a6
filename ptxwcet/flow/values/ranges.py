"""Intervals: what is known of a result whose operands are not, or of one that is not affine.

The low bits of a loaded word, a byte, the remainder by 10: their values are unknown but bounded.
Such a result is a number plus a multiple of a fixed symbol
(:class:`~ptxwcet.flow.values.regions.Symbol`) that each lane has a value of its own for: ``low +
step * s`` with ``0 <= s <= (high - low) / step``. How two such values of one register hang together
is not known.
"""

from __future__ import annotations

from itertools import count

from ptxwcet.flow.values.integers import IntegerType, as_exact, interval_in
from ptxwcet.flow.values.intervals import Interval
from ptxwcet.flow.values.regions import Symbol, Wavers
from ptxwcet.flow.values.value import Cause, Known, Mask, Unknown, Value, wrap

_numbers = count(1)
_OUTERMOST = -1_000_000


def bounded(interval: Interval, bits: int, causes: frozenset[Cause]) -> Known:
    """A value somewhere in an interval, in each lane another one."""
    low, high, step = interval.low, interval.high, interval.step
    if interval.is_number:
        return Known(wrap(low, bits))
    number = next(_numbers)
    last = (high - low) // step
    symbol = Symbol(
        f"e{number}", _OUTERMOST - number, last + 1, fixed=True, is_own=True, origin=causes
    )
    return Known(wrap(low, bits), {symbol: wrap(step, bits)})


def interval_of(value: Value, kind: IntegerType, active: Mask) -> Interval:
    """The values that a register may have in the active lanes, read as a type."""
    whole = kind.interval
    if isinstance(value, Unknown) or not active.any():
        return whole
    if any(symbol.in_loops for symbol in value.terms):
        return whole
    try:
        exact = as_exact(value, kind, active)
    except Wavers:
        return whole
    return interval_in(exact, active)


def is_narrower(found: Interval, kind: IntegerType) -> bool:
    """Whether an interval says more than its type does."""
    return found.low > kind.low or found.high < kind.high
