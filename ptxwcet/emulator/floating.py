"""Floating-point arithmetic over vectors: round to nearest even, fma rounded once.

Approximations (``.approx``) are computed in double precision and rounded once, which lies within
the errors that the ISA states for them; a GPU may give other bits. ``.ftz`` flushes subnormal
inputs and results of f32 to zeros of their sign.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from ptxwcet.emulator.launch import Array


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


def fused(a: Array, b: Array, c: Array) -> Array:
    """a * b + c, rounded once to nearest even.

    f32: the product is exact in double precision; the sum is rounded to odd there, after which
    rounding to single precision is right (Boldo, Melquiond, "Emulation of FMA and correctly
    rounded sums", 2008). f64: exact rational arithmetic lane by lane.
    """
    with np.errstate(all="ignore"):
        if a.dtype == np.float64:
            return _fused_double(a, b, c)
        product = a.astype(np.float64) * b
        return _odd_sum(product, c.astype(np.float64)).astype(a.dtype)


def _odd_sum(x: Array, y: Array) -> Array:
    total = x + y
    part = total - x
    error = (x - (total - part)) + (y - part)
    bits = total.view(np.int64)
    even = (error != 0) & ((bits & 1) == 0) & np.isfinite(total)
    step = np.where((error > 0) == (total > 0), 1, -1)
    return np.where(even, bits + step, bits).view(np.float64)


def _fused_double(a: Array, b: Array, c: Array) -> Array:
    result = a * b + c
    exact = np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
    for lane in np.flatnonzero(exact):
        x, y, z = float(a[lane]), float(b[lane]), float(c[lane])
        total = Fraction(x) * Fraction(y) + Fraction(z)
        if total == 0:
            result[lane] = x * y + z if x * y == 0 else 0.0
            continue
        try:
            result[lane] = total.numerator / total.denominator
        except OverflowError:
            result[lane] = np.inf if total > 0 else -np.inf
    return result


def minimum(a: Array, b: Array) -> Array:
    """The number if one is NaN; -0 is less than +0."""
    low = np.where((a < b) | ((a == b) & np.signbit(a)), a, b)
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, low))


def maximum(a: Array, b: Array) -> Array:
    """The number if one is NaN; +0 is greater than -0."""
    high = np.where((a > b) | ((a == b) & ~np.signbit(a)), a, b)
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, high))


def saturate(a: Array) -> Array:
    """``.sat``: held within 0 and 1, NaN becomes +0."""
    return np.where(np.isnan(a) | (a <= 0), np.zeros_like(a), np.where(a > 1, np.ones_like(a), a))


def _in_double(function: np.ufunc) -> Callable[[Array], Array]:
    def operation(a: Array) -> Array:
        with np.errstate(all="ignore"):
            result: Array = function(a.astype(np.float64)).astype(a.dtype)
            return result

    return operation


sine = _in_double(np.sin)
cosine = _in_double(np.cos)
power_of_two = _in_double(np.exp2)
logarithm = _in_double(np.log2)
tangent = _in_double(np.tanh)


def reciprocal(a: Array) -> Array:
    """1 / a, rounded to nearest."""
    with np.errstate(all="ignore"):
        return np.ones_like(a) / a


def reciprocal_root(a: Array) -> Array:
    """1 / sqrt(a) by way of double precision."""
    with np.errstate(all="ignore"):
        return (1.0 / np.sqrt(a.astype(np.float64))).astype(a.dtype)
