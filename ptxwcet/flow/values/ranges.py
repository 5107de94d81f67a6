"""Intervals: what is known of a result whose operands are not, or of one that is not affine.

The low bits of a loaded word, a byte, the remainder by 10: their values are unknown but bounded.
Such a result is a number plus a multiple of a fixed symbol
(:class:`~ptxwcet.flow.values.regions.Symbol`) that each lane has a value of its own for: ``low +
step * s`` with ``0 <= s <= (high - low) / step``. How two such values of one register hang together
is not known.

Rules are monotone functions on intervals of true integers; a result that may wrap around has no
interval. Tested against all values of small types (tests/property/test_transfer_bruteforce.py).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from ptxwcet.flow.values.integers import IntegerType, as_exact, interval_in
from ptxwcet.flow.values.intervals import Interval, around
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


Rule = Callable[[IntegerType, list[Interval]], Interval | None]
"""From the intervals of the sources to that of the result, None if nothing is known."""


def _and(kind: IntegerType, v: list[Interval]) -> Interval | None:
    a, b = v
    if b.low < 0 or (0 <= a.high < b.high and a.low >= 0):
        a, b = b, a
    if b.low < 0:
        return None
    high = min(a.high, b.high) if a.low >= 0 else b.high
    step = b.low & -b.low if b.low == b.high and b.low else 1
    return Interval(0, high // step * step, step)


def _or(kind: IntegerType, v: list[Interval]) -> Interval | None:
    a, b = v
    if a.low < 0 or b.low < 0:
        return None
    return Interval(max(a.low, b.low), (1 << max(a.high, b.high).bit_length()) - 1)


def _xor(kind: IntegerType, v: list[Interval]) -> Interval | None:
    both = _or(kind, v)
    return None if both is None else Interval(0, both.high)


def _shift_right(kind: IntegerType, v: list[Interval]) -> Interval | None:
    value, amount = v
    if amount.low < 0:
        return None
    return around(x >> min(n, 64) for x in _ends(value) for n in _ends(amount))


def _shift_left(kind: IntegerType, v: list[Interval]) -> Interval | None:
    value, amount = v
    if amount.low != amount.high or not 0 <= amount.low < kind.bits:
        return None
    step = 1 << amount.low
    return _in_type(kind, Interval(value.low * step, value.high * step, step))


def _product(kind: IntegerType, v: list[Interval]) -> Interval | None:
    a, b = v
    return _in_type(kind, around(x * y for x in _ends(a) for y in _ends(b)))


def _divide(kind: IntegerType, v: list[Interval]) -> Interval | None:
    value, divisor = v
    if divisor.low <= 0:
        return None
    return around(_truncated(x, d) for x in _ends(value) for d in _ends(divisor))


def _remainder(kind: IntegerType, v: list[Interval]) -> Interval | None:
    value, divisor = v
    if divisor.low <= 0:
        return None
    most = divisor.high - 1
    low = 0 if value.low >= 0 else max(value.low, -most)
    return Interval(low, 0 if value.high <= 0 else min(value.high, most))


def _truncated(x: int, d: int) -> int:
    return x // d if x >= 0 else -(-x // d)


def _minimum(kind: IntegerType, v: list[Interval]) -> Interval | None:
    a, b = v
    return Interval(min(a.low, b.low), min(a.high, b.high))


def _maximum(kind: IntegerType, v: list[Interval]) -> Interval | None:
    a, b = v
    return Interval(max(a.low, b.low), max(a.high, b.high))


def _absolute(kind: IntegerType, v: list[Interval]) -> Interval | None:
    (a,) = v
    if a.low <= kind.low:
        return None  # its opposite is not in the type
    low = 0 if a.low <= 0 <= a.high else min(abs(a.low), abs(a.high))
    return Interval(low, max(abs(a.low), abs(a.high)))


def _either(kind: IntegerType, v: list[Interval]) -> Interval | None:
    return v[0].hull(v[1])


def _bit_count(kind: IntegerType, v: list[Interval]) -> Interval | None:
    return Interval(0, kind.bits)


def _extract(kind: IntegerType, v: list[Interval]) -> Interval | None:
    length = v[2]
    if kind.signed or length.low != length.high or not 0 <= length.low < kind.bits:
        return None
    return Interval(0, (1 << length.low) - 1)


def _ends(interval: Interval) -> tuple[int, int]:
    return interval.low, interval.high


def _in_type(kind: IntegerType, found: Interval) -> Interval | None:
    return found if kind.interval.covers(found) else None


RULES: dict[str, Rule] = {
    "and": _and,
    "or": _or,
    "xor": _xor,
    "shr": _shift_right,
    "shl": _shift_left,
    "mul": _product,
    "div": _divide,
    "rem": _remainder,
    "min": _minimum,
    "max": _maximum,
    "abs": _absolute,
    "selp": _either,
    "popc": _bit_count,
    "clz": _bit_count,
    "bfe": _extract,
}
"""By opcode; ``mul`` is its low half or, with the type of twice the width, ``mul.wide``."""


def is_narrower(found: Interval, kind: IntegerType) -> bool:
    """Whether an interval says more than its type does."""
    return found.low > kind.low or found.high < kind.high
