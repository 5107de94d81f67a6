"""Rounds bounds up: a printed number is never below the computed one.

So a bound that is printed as a time is a budget that it keeps.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

_EXACT = Context(prec=400, rounding=ROUND_CEILING)
"""More digits than a float has on either side of its point, down to its smallest."""


def microseconds_of(cycles: int, clock_mhz: int) -> float:
    """Returns the time of this many cycles in microseconds, rounded up to whole nanoseconds.

    >>> microseconds_of(702, 930)
    0.755
    """
    return float_above(Fraction(-(-1000 * cycles // clock_mhz), 1000))


def seconds_of(cycles: int, clock_mhz: int) -> float:
    """Returns the time of this many cycles in seconds, as the next float above it."""
    return float_above(Fraction(cycles, clock_mhz * 10**6))


def percent_of(part: int, whole: int, digits: int = 2) -> float:
    """Returns ``part`` in per cent of ``whole``, rounded up to this many digits.

    >>> percent_of(1, 3)
    33.34
    """
    scale = 10**digits
    return float_above(Fraction(-(-100 * scale * part // whole), scale))


def float_above(exact: Fraction) -> float:
    """Returns the least float that, as it is printed, is not below a number.

    Raises OverflowError above all floats.
    """
    value = float(exact)
    while Fraction(repr(value)) < exact:
        value = math.nextafter(value, math.inf)
    return value


def time_text(microseconds: float) -> str:
    """Returns a time in the unit that suits it, rounded up."""
    if microseconds < 1_000:
        return f"{microseconds:,} us"
    whole = math.ceil(Fraction(repr(microseconds)))  # above 2^53 a float has no thousandths
    return f"{whole // 1000:,}.{whole % 1000:03} ms"


def text_above(value: float, digits: int, factor: int = 1) -> str:
    """Returns ``factor`` times a number as text, with this many decimals, rounded up.

    >>> text_above(1234.00001, 3)
    '1,234.001'
    """
    exact = Decimal(repr(value)) * factor
    return f"{exact.quantize(Decimal(1).scaleb(-digits), context=_EXACT):,}"
