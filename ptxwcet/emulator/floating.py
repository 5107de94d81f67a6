"""Computes floating-point arithmetic over vectors of doubles, singles and narrower formats.

An :class:`Arithmetic` has three versions of an operation: on numpy's own type rounded to nearest,
as a double rounded to odd from which every narrower format follows, and as exact fractions for
doubles rounded in a direction. Approximations (``.approx``) are computed in double precision and
rounded once; a GPU may give other bits within the errors that the ISA states.

A double rounded to odd has its last bit set if the result is not exact. One more rounding of any
kind then gives every narrower format, as if from the exact value, if it has at least two bits less
(Boldo, Melquiond, "Emulation of FMA and correctly rounded sums", 2008). Operands are numbers of
formats of at most 24 bits, so that products are exact and nothing overflows or underflows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from ptxwcet.emulator.launch import Array
from ptxwcet.support.records import dataclass

_SPLITTER = float(2**27 + 1)


def to_odd(rounded: Array, error: Array) -> Array:
    """Rounds to odd, from the nearest double and the sign of (exact - rounded)."""
    bits = np.ascontiguousarray(rounded).view(np.int64)
    step = np.where((error > 0) == (rounded > 0), 1, -1)
    wrong = (error != 0) & ((bits & 1) == 0) & np.isfinite(rounded)
    odd: Array = np.where(wrong, bits + step, bits).view(np.float64)
    return odd


def two_sum(x: Array, y: Array) -> tuple[Array, Array]:
    """Returns x + y rounded, and its error (Knuth)."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def two_product(x: Array, y: Array) -> tuple[Array, Array]:
    """Returns x * y rounded, and its error (Dekker); exact between 2**-900 and 2**900."""
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
    """Returns x + y rounded to odd; with ``down``, exact zeros have the sign of rounding down."""
    total, error = two_sum(x, y)
    odd = to_odd(total, error)
    if not down:
        return odd
    positive = ~np.signbit(x) & ~np.signbit(y) & (x == 0) & (y == 0)
    return np.where((total == 0) & ~positive, -0.0, odd)


def quotient_to_odd(x: Array, y: Array) -> Array:
    """Returns x / y rounded to odd."""
    quotient = x / y
    product, error = two_product(quotient, y)
    rest = (x - product) - error
    rest = np.where(np.isfinite(quotient) & np.isfinite(y), rest, 0.0)
    return to_odd(quotient, np.where(np.signbit(y), -rest, rest))


def root_to_odd(x: Array) -> Array:
    """Returns the square root rounded to odd."""
    root = np.sqrt(x)
    square, error = two_product(root, root)
    rest = np.where(np.isfinite(x) & (x > 0), (x - square) - error, 0.0)
    return to_odd(root, rest)


# --- doubles rounded in any direction, lane by lane -----------------------------------------------


def rounded_fractions(values: list[Fraction | None], default: Array, rounding: str) -> Array:
    """Rounds exact values to doubles; None leaves ``default``. Cost: Python work for each lane."""
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
    """Returns square roots of doubles, rounded in a direction."""
    result: Array = np.sqrt(x)
    for lane in np.flatnonzero(np.isfinite(x) & (x > 0)):
        root = float(result[lane])
        square, exact = Fraction(root) ** 2, Fraction(float(x[lane]))
        if square > exact and rounding in ("rm", "rz"):
            result[lane] = math.nextafter(root, 0.0)
        elif square < exact and rounding == "rp":
            result[lane] = math.nextafter(root, math.inf)
    return result


Operation = Callable[..., Array]


def quiet(values: list[Array], result: Array) -> Array:
    """Returns double results with the NaN payload that GPUs choose.

    It is the first NaN among the second, third and first operand, in this order, made quiet.
    """
    for value in (values[0], *values[:1:-1], *values[1:2]):
        kept = (value.view(np.uint64) | np.uint64(1 << 51)).view(np.float64)
        result = np.where(np.isnan(value), kept, result)
    return result


def flush(value: Array) -> Array:
    """Replaces subnormal numbers by zeros of their sign."""
    tiny = np.finfo(value.dtype.str).tiny
    return np.where(np.abs(value) < tiny, np.copysign(np.zeros_like(value), value), value)


def canonical(value: Array) -> Array:
    """Replaces NaN results of f32 by the only bit pattern that PTX gives; f64 keeps its own."""
    if value.dtype != np.float32:
        return value
    wrong = np.isnan(value)
    if not wrong.any():
        return value
    return np.where(wrong, np.uint32(0x7FFFFFFF), value.view(np.uint32)).view(np.float32)


def saturate(a: Array) -> Array:
    """Clamps to 0 and 1 (``.sat``); NaN becomes +0."""
    return np.where(np.isnan(a) | (a <= 0), np.zeros_like(a), np.where(a > 1, np.ones_like(a), a))


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """An operation: to nearest, as an odd double (with its rounding), as an exact fraction.

    ``fraction`` is None for square roots; see :func:`ptxwcet.emulator.floating.directed_root`.
    """

    nearest: Operation
    odd: Callable[[str, list[Array]], Array]
    fraction: Callable[..., Fraction] | None


def directed(operation: Arithmetic, values: list[Array], rounding: str) -> Array:
    """Rounds doubles in a direction, by exact arithmetic lane by lane."""
    default = operation.nearest(*values)
    if operation.fraction is None:
        return directed_root(values[0], rounding)
    finite = np.logical_and.reduce([np.isfinite(v) for v in values])
    if operation in (DIVIDE, RECIPROCAL):
        finite &= values[-1] != 0
    lanes = zip(*(v.tolist() for v in values), strict=True)
    fractions: list[Fraction | None] = []
    for number, (is_finite, lane) in enumerate(zip(finite.tolist(), lanes, strict=True)):
        value = operation.fraction(*map(Fraction, lane)) if is_finite else None
        if value == 0:  # the sign follows from the operands
            value = None
            if default[number] != 0:
                default[number] = 0.0
            if rounding == "rm" and operation in (ADD, SUBTRACT, FUSED):
                default[number] = _zero_below(operation, lane)
        fractions.append(value)
    return rounded_fractions(fractions, default, rounding)


def _zero_below(operation: Arithmetic, operands: tuple[float, ...]) -> float:
    """Returns the zero of an exact sum of 0 rounded down: +0 only from two +0."""
    *factors, last = operands
    first = float(np.prod([np.copysign(1.0, factor) for factor in factors]))
    second = float(np.copysign(1.0, last)) * (-1.0 if operation is SUBTRACT else 1.0)
    zeros = last == 0 and any(factor == 0 for factor in factors)
    return 0.0 if zeros and first > 0 and second > 0 else -0.0


def fused(a: Array, b: Array, c: Array) -> Array:
    """Returns a * b + c, rounded once to nearest even."""
    with np.errstate(all="ignore"):
        if a.dtype == np.float64:
            return _fused_double(a, b, c)
        product = a.astype(np.float64) * b
        return sum_to_odd(product, c.astype(np.float64)).astype(a.dtype)


def _fused_double(a: Array, b: Array, c: Array) -> Array:
    """Uses error-free transformations unless a value overflows or underflows, else fractions."""
    high, low = two_product(a, b)
    small_high, small_low = two_sum(c, low)
    total, rest = two_sum(high, small_high)
    result = np.asarray(total + sum_to_odd(small_low, rest))
    sizes = np.abs(np.stack([high, a, b, c]))
    inside = (sizes < 1e290) & (sizes > 1e-270)
    safe = inside[:3].all(axis=0) & (inside[3] | (c == 0))
    for lane in np.flatnonzero(~safe):
        result[lane] = _fused_fraction(float(a[lane]), float(b[lane]), float(c[lane]))
    return result


def _fused_fraction(a: float, b: float, c: float) -> float:
    if np.isfinite([a, b]).all() and not np.isfinite(c):
        return c  # If the product of doubles overflows, their sum could be NaN.
    if not np.isfinite([a, b]).all():
        return float(np.float64(a) * np.float64(b) + np.float64(c))
    total = Fraction(a) * Fraction(b) + Fraction(c)
    if total == 0:
        product = np.float64(a) * np.float64(b)
        return float(product + c) if a == 0 or b == 0 else 0.0
    try:
        return total.numerator / total.denominator
    except OverflowError:
        return float(np.inf if total > 0 else -np.inf)


def _odd_fused(rounding: str, v: list[Array]) -> Array:
    return sum_to_odd(v[0] * v[1], v[2], down=rounding == "rm")


ADD = Arithmetic(np.add, lambda r, v: sum_to_odd(v[0], v[1], down=r == "rm"), lambda a, b: a + b)
SUBTRACT = Arithmetic(
    np.subtract, lambda r, v: sum_to_odd(v[0], -v[1], down=r == "rm"), lambda a, b: a - b
)
MULTIPLY = Arithmetic(np.multiply, lambda r, v: v[0] * v[1], lambda a, b: a * b)
DIVIDE = Arithmetic(np.divide, lambda r, v: quotient_to_odd(v[0], v[1]), lambda a, b: a / b)
FUSED = Arithmetic(fused, _odd_fused, lambda a, b, c: a * b + c)
ROOT = Arithmetic(np.sqrt, lambda r, v: root_to_odd(v[0]), None)


def reciprocal(a: Array) -> Array:
    """Returns 1 / a, rounded to nearest."""
    with np.errstate(all="ignore"):
        return np.ones_like(a) / a


RECIPROCAL = Arithmetic(
    reciprocal, lambda r, v: quotient_to_odd(np.ones_like(v[0]), v[0]), lambda a: 1 / a
)


def minimum(a: Array, b: Array) -> Array:
    """Returns the minimum, or the number if one is NaN; -0 is less than +0."""
    low = np.where((a < b) | ((a == b) & np.signbit(a)), a, b)
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, low))


def maximum(a: Array, b: Array) -> Array:
    """Returns the maximum, or the number if one is NaN; +0 is greater than -0."""
    high = np.where((a > b) | ((a == b) & ~np.signbit(a)), a, b)
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, high))


def _in_double(function: np.ufunc) -> Callable[[Array], Array]:
    def operation(a: Array) -> Array:
        with np.errstate(all="ignore"):
            result: Array = function(a.astype(np.float64))
            return result

    return operation


sine = _in_double(np.sin)
cosine = _in_double(np.cos)
power_of_two = _in_double(np.exp2)
logarithm = _in_double(np.log2)
tangent = _in_double(np.tanh)


def reciprocal_root(a: Array) -> Array:
    """Returns 1 / sqrt(a) in double precision."""
    with np.errstate(all="ignore"):
        result: Array = 1.0 / np.sqrt(a.astype(np.float64))
        return result


def fast_quotient(a: Array, b: Array) -> Array:
    """Computes ``div.approx.f32``: 0 for divisors above 2**126, NaN if a is infinite there."""
    with np.errstate(all="ignore"):
        quotient = a / b
        large = (np.abs(b) > 2.0**126) & np.isfinite(b)
        lost = np.where(np.isfinite(a), np.copysign(0.0, quotient), np.nan)
        result: Array = np.where(large, lost, quotient).astype(a.dtype)
        return result
