"""Intervals: what is known of a result whose operands are not, or of one that is not affine.

The low bits of a loaded word, a byte, the remainder by 10: their values are unknown but bounded.
Such a result is a number plus a multiple of a fixed symbol
(:class:`~ptxwcet.flow.values.regions.Symbol`) that each lane has a value of its own for: ``low +
step * s`` with ``0 <= s <= (high - low) / step``. How two such values of one register hang together
is not known.
"""

from __future__ import annotations

from itertools import count
from math import gcd

from ptxwcet.flow.values.integers import IntegerType, as_exact, causes_of, interval_in
from ptxwcet.flow.values.intervals import Interval
from ptxwcet.flow.values.regions import Symbol, Wavers
from ptxwcet.flow.values.value import Cause, Known, Mask, Unknown, Value, add, wrap

_numbers = count(1)
_MOST_OWN = 16
"""Symbols of its own that a value keeps: each iteration that is walked may add one to a sum, and
what is done with a value is linear in them."""
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


def symbols_of(value: Value) -> int:
    """The number of symbols in a value."""
    return len(value.terms) if isinstance(value, Known) else 0


def with_few_symbols(value: Value, bits: int) -> Value:
    """A value in which one symbol replaces many of which each lane has a value of its own.

    The sum of their multiples is known as an interval then; how it hangs together with other values
    is forgotten. Of a sum that may be any number nothing is known. Cost: linear in the symbols.
    """
    if not isinstance(value, Known) or len(value.terms) <= _MOST_OWN:
        return value
    own = {s: c for s, c in value.terms.items() if s.is_own and isinstance(c, int)}
    if len(own) <= _MOST_OWN:
        return value
    ends = [c * symbol.last for symbol, c in own.items() if isinstance(c, int)]
    low, high = sum(min(end, 0) for end in ends), sum(max(end, 0) for end in ends)
    causes = causes_of(own)
    if high - low >= (1 << bits) - 1:
        return Unknown(causes | value.otherwise)
    joined = bounded(Interval(low, high, gcd(*own.values())), bits, causes)
    terms = {s: c for s, c in value.terms.items() if s not in own} | dict(joined.terms)
    return Known(add(value.base, joined.base, bits), terms, value.valid, value.otherwise)
