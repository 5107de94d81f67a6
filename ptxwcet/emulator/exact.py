"""Exact sums, products, quotients and roots of doubles, rounded to odd.

A result that is not exact has its last bit set. From such a double every narrower format is reached
by one more rounding, of any kind, as if from the exact value, as long as it has at least two bits
less (Boldo, Melquiond, "Emulation of FMA and correctly rounded sums", 2008). Operands are numbers
of formats of at most 24 bits, so that products are exact and nothing overflows or underflows.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from ptxwcet.emulator.launch import Array

_SPLITTER = float(2**27 + 1)


def to_odd(rounded: Array, error: Array) -> Array:
    """The nearest double and the sign of (exact - rounded) as the double rounded to odd."""
    bits = np.ascontiguousarray(rounded).view(np.int64)
    step = np.where((error > 0) == (rounded > 0), 1, -1)
    wrong = (error != 0) & ((bits & 1) == 0) & np.isfinite(rounded)
    odd: Array = np.where(wrong, bits + step, bits).view(np.float64)
    return odd


def two_sum(x: Array, y: Array) -> tuple[Array, Array]:
    """x + y rounded, and its error (Knuth)."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def two_product(x: Array, y: Array) -> tuple[Array, Array]:
    """x * y rounded, and its error (Dekker); exact between 2**-900 and 2**900."""
    product = x * y
    x_high, x_low = _split(x)
    y_high, y_low = _split(y)
    error = x_high * y_high - product + x_high * y_low + x_low * y_high + x_low * y_low
    return product, error


def _split(x: Array) -> tuple[Array, Array]:
    large = _SPLITTER * x
    high = large - (large - x)
    return high, x - high


def sum_to_odd(x: Array, y: Array, *, down: bool = False) -> Array:
    """x + y; ``down``: exact zeros get the sign that rounding towards minus infinity gives."""
    total, error = two_sum(x, y)
    odd = to_odd(total, error)
    if not down:
        return odd
    positive = ~np.signbit(x) & ~np.signbit(y) & (x == 0) & (y == 0)
    return np.where((total == 0) & ~positive, -0.0, odd)


def quotient_to_odd(x: Array, y: Array) -> Array:
    """x / y, rounded to odd."""
    quotient = x / y
    product, error = two_product(quotient, y)
    rest = (x - product) - error
    rest = np.where(np.isfinite(quotient) & np.isfinite(y), rest, 0.0)
    return to_odd(quotient, np.where(np.signbit(y), -rest, rest))


def root_to_odd(x: Array) -> Array:
    """The square root, rounded to odd."""
    root = np.sqrt(x)
    square, error = two_product(root, root)
    rest = np.where(np.isfinite(x) & (x > 0), (x - square) - error, 0.0)
    return to_odd(root, rest)


# --- doubles rounded in any direction, lane by lane -----------------------------------------------


def rounded_fractions(values: list[Fraction | None], default: Array, rounding: str) -> Array:
    """Exact values as doubles; None leaves ``default``. Cost: Python arithmetic for each lane."""
    result = default.copy()
    for lane, value in enumerate(values):
        if value is not None:
            result[lane] = _rounded(value, rounding)
    return result


def _rounded(value: Fraction, rounding: str) -> float:
    try:
        near = value.numerator / value.denominator
    except OverflowError:
        near = math.inf if value > 0 else -math.inf
    above = near == math.inf or (near != -math.inf and Fraction(near) > value)
    below = near == -math.inf or (near != math.inf and Fraction(near) < value)
    down = rounding == "rm" or (rounding == "rz" and value > 0)
    up = rounding == "rp" or (rounding == "rz" and value < 0)
    if above and down:
        near = math.nextafter(near, -math.inf)
    elif below and up:
        near = math.nextafter(near, math.inf)
    if near == 0.0:
        return math.copysign(0.0, value)
    return near


def directed_root(x: Array, rounding: str) -> Array:
    """Square roots of doubles, rounded in a direction."""
    result: Array = np.sqrt(x)
    for lane in np.flatnonzero(np.isfinite(x) & (x > 0)):
        root = float(result[lane])
        square, exact = Fraction(root) ** 2, Fraction(float(x[lane]))
        if square > exact and rounding in ("rm", "rz"):
            result[lane] = math.nextafter(root, 0.0)
        elif square < exact and rounding == "rp":
            result[lane] = math.nextafter(root, math.inf)
    return result
