"""Floating-point arithmetic over vectors of doubles, singles and the narrower formats.

An :class:`Arithmetic` knows an operation three times: on numpy's own type rounded to nearest, as a
double rounded to odd from which every narrower format follows, and as exact fractions for doubles
rounded in a direction. Approximations (``.approx``) are computed in double precision and rounded
once; a GPU may give other bits within the errors that the ISA states.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ptxwcet.emulator import exact
from ptxwcet.emulator.launch import Array

Operation = Callable[..., Array]


def flush(value: Array) -> Array:
    """Subnormal numbers become zeros of their sign."""
    tiny = np.finfo(value.dtype.str).tiny
    return np.where(np.abs(value) < tiny, np.copysign(np.zeros_like(value), value), value)


def canonical(value: Array) -> Array:
    """NaN results get the one bit pattern that PTX gives for f32; f64 keeps its own."""
    if value.dtype != np.float32:
        return value
    wrong = np.isnan(value)
    if not wrong.any():
        return value
    return np.where(wrong, np.uint32(0x7FFFFFFF), value.view(np.uint32)).view(np.float32)


def saturate(a: Array) -> Array:
    """``.sat``: held within 0 and 1, NaN becomes +0."""
    return np.where(np.isnan(a) | (a <= 0), np.zeros_like(a), np.where(a > 1, np.ones_like(a), a))


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """An operation: to nearest, as an odd double (with its rounding), as an exact fraction.

    ``fraction`` is None for square roots; see :func:`ptxwcet.emulator.exact.directed_root`.
    """

    nearest: Operation
    odd: Callable[[str, list[Array]], Array]
    fraction: Callable[..., Fraction] | None


def directed(operation: Arithmetic, values: list[Array], rounding: str) -> Array:
    """Doubles rounded in a direction: exact arithmetic lane by lane."""
    default = operation.nearest(*values)
    if operation.fraction is None:
        return exact.directed_root(values[0], rounding)
    finite = np.logical_and.reduce([np.isfinite(v) for v in values])
    if operation in (DIVIDE, RECIPROCAL):
        finite &= values[-1] != 0
    lanes = zip(*(v.tolist() for v in values), strict=True)
    fractions: list[Fraction | None] = []
    for number, (is_finite, lane) in enumerate(zip(finite.tolist(), lanes, strict=True)):
        value = operation.fraction(*map(Fraction, lane)) if is_finite else None
        if value == 0:  # its sign follows from those of the operands
            value = None
            if default[number] != 0:
                default[number] = 0.0
            if rounding == "rm" and operation in (ADD, SUBTRACT, FUSED):
                default[number] = _zero_below(operation, lane)
        fractions.append(value)
    return exact.rounded_fractions(fractions, default, rounding)


def _zero_below(operation: Arithmetic, row: tuple[float, ...]) -> float:
    """The zero of an exact sum of 0 rounded towards minus infinity: +0 only from two +0."""
    *factors, last = row
    first = float(np.prod([np.copysign(1.0, factor) for factor in factors]))
    second = float(np.copysign(1.0, last)) * (-1.0 if operation is SUBTRACT else 1.0)
    zeros = last == 0 and any(factor == 0 for factor in factors)
    return 0.0 if zeros and first > 0 and second > 0 else -0.0


def fused(a: Array, b: Array, c: Array) -> Array:
    """a * b + c, rounded once to nearest even."""
    with np.errstate(all="ignore"):
        if a.dtype == np.float64:
            return _fused_double(a, b, c)
        product = a.astype(np.float64) * b
        return exact.sum_to_odd(product, c.astype(np.float64)).astype(a.dtype)


def _fused_double(a: Array, b: Array, c: Array) -> Array:
    """By error-free transformations where nothing overflows or underflows, else by fractions."""
    high, low = exact.two_product(a, b)
    small_high, small_low = exact.two_sum(c, low)
    total, rest = exact.two_sum(high, small_high)
    result = np.asarray(total + exact.sum_to_odd(small_low, rest))
    sizes = np.abs(np.stack([high, a, b, c]))
    inside = (sizes < 1e290) & (sizes > 1e-270)
    safe = inside[:3].all(axis=0) & (inside[3] | (c == 0))
    for lane in np.flatnonzero(~safe):
        result[lane] = _fused_fraction(float(a[lane]), float(b[lane]), float(c[lane]))
    return result


def _fused_fraction(a: float, b: float, c: float) -> float:
    if np.isfinite([a, b]).all() and not np.isfinite(c):
        return c  # where the product of doubles overflows, their sum could be NaN
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
    return exact.sum_to_odd(v[0] * v[1], v[2], down=rounding == "rm")


ADD = Arithmetic(
    np.add, lambda r, v: exact.sum_to_odd(v[0], v[1], down=r == "rm"), lambda a, b: a + b
)
SUBTRACT = Arithmetic(
    np.subtract, lambda r, v: exact.sum_to_odd(v[0], -v[1], down=r == "rm"), lambda a, b: a - b
)
MULTIPLY = Arithmetic(np.multiply, lambda r, v: v[0] * v[1], lambda a, b: a * b)
DIVIDE = Arithmetic(np.divide, lambda r, v: exact.quotient_to_odd(v[0], v[1]), lambda a, b: a / b)
FUSED = Arithmetic(fused, _odd_fused, lambda a, b, c: a * b + c)
ROOT = Arithmetic(np.sqrt, lambda r, v: exact.root_to_odd(v[0]), None)


def reciprocal(a: Array) -> Array:
    """1 / a, rounded to nearest."""
    with np.errstate(all="ignore"):
        return np.ones_like(a) / a


RECIPROCAL = Arithmetic(
    reciprocal, lambda r, v: exact.quotient_to_odd(np.ones_like(v[0]), v[0]), lambda a: 1 / a
)


def minimum(a: Array, b: Array) -> Array:
    """The number if one is NaN; -0 is less than +0."""
    low = np.where((a < b) | ((a == b) & np.signbit(a)), a, b)
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, low))


def maximum(a: Array, b: Array) -> Array:
    """The number if one is NaN; +0 is greater than -0."""
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
    """1 / sqrt(a) in double precision."""
    with np.errstate(all="ignore"):
        result: Array = 1.0 / np.sqrt(a.astype(np.float64))
        return result


def fast_quotient(a: Array, b: Array) -> Array:
    """``div.approx.f32``: 0 for divisors above 2**126, NaN if a is infinite there (ISA, div)."""
    with np.errstate(all="ignore"):
        quotient = a / b
        large = (np.abs(b) > 2.0**126) & np.isfinite(b)
        lost = np.where(np.isfinite(a), np.copysign(0.0, quotient), np.nan)
        result: Array = np.where(large, lost, quotient).astype(a.dtype)
        return result
