"""Conversion of vectors between numbers, with PTX's rounding, saturation and NaN (``cvt``)."""

from __future__ import annotations

import numpy as np

from ptxwcet.emulator.conversion_formats import (
    FORMATS,
    Format,
    exact_floats,
    exact_integers,
    round_to,
)
from ptxwcet.emulator.launch import Array

INTEGRAL = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
"""Roundings to an integral value."""

_NATIVE: dict[str, np.dtype[np.generic]] = {
    "f16": np.dtype("f2"), "f32": np.dtype("f4"), "f64": np.dtype("f8")
}  # fmt: skip


def as_float(bits: Array, name: str) -> Array:
    """Patterns of f16, bf16, f32 or f64 as a numpy format that holds their values."""
    if name == "bf16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return bits.view(_NATIVE[name])


def to_float(a: Array, name: str, rounding: str, words: frozenset[str]) -> Array:
    """Numbers as patterns of a format, rounded once.

    ``words``: ``satfinite`` (overflow gives the largest number), ``relu`` (negative gives +0),
    ``sat`` (held within 0 and 1, NaN gives +0), ``ftz`` (a subnormal f32 result becomes zero). NaN
    results have the one pattern of the format, but for f64, which keeps the payload of an f32.
    """
    target = FORMATS[name]
    if rounding == "rn" and name in _NATIVE and "satfinite" not in words:
        bits = _native(a, name)
    elif a.dtype == np.float32 and name in ("bf16", "tf32") and rounding in ("rn", "rna", "rz"):
        bits = _shortened(a, target, rounding, "satfinite" in words)
    else:
        value = exact_floats(a) if a.dtype.kind == "f" else exact_integers(a)
        wide = round_to(value, target, rounding, "satfinite" in words)
        bits = wide.astype(f"u{max(8, target.width) // 8}")
    if "ftz" in words and name == "f32":
        bits = np.where(_is_subnormal(a, rounding), bits & np.uint32(1 << 31), bits)
    sign = np.array(1 << target.bits - 1, dtype=bits.dtype)
    if "relu" in words:
        bits = np.where(bits & sign != 0, np.zeros_like(bits), bits)
    if "sat" in words:
        one = np.array(target.one, dtype=bits.dtype)
        none = (bits & sign != 0) | (a != a)
        bits = np.where(none, np.zeros_like(bits), np.minimum(bits, one))
    return bits


def _is_subnormal(a: Array, rounding: str) -> Array:
    """What ``.ftz`` makes zeros of: below the least normal f32 once rounded to the digits of f32,
    had it exponents without end. So does ptxas fold constants.
    """
    near = np.abs(a) < 2.0**-125
    scaled = np.where(near, a, 1).astype(np.float64) * 2.0**64
    digits = to_float(scaled, "f32", rounding, frozenset()).view(np.float32)
    return near & (np.abs(digits) < 2.0**-62)


def _native(a: Array, name: str) -> Array:
    """Rounded to nearest by numpy, whose conversions between these formats round once."""
    dtype = _NATIVE[name]
    with np.errstate(all="ignore"):
        result = a.astype(dtype)
    bits = result.view(f"u{dtype.itemsize}")
    if name == "f64" or a.dtype.kind != "f":
        return bits
    nan = np.array(FORMATS[name].nan, dtype=bits.dtype)
    return np.where(np.isnan(a), nan, bits)


def _shortened(a: Array, target: Format, rounding: str, finite: bool) -> Array:
    """f32 rounded to a format with its exponents and a shorter fraction, within the pattern."""
    bits, drop = a.view(np.uint32), np.uint32(23 - target.fraction)
    half = np.uint32(1 << 22 - target.fraction)
    if rounding == "rna":
        bits = bits + half
    elif rounding == "rn":
        bits = bits + (half - np.uint32(1)) + (bits >> drop & np.uint32(1))
    bits = bits >> drop
    if finite:
        sign = np.uint32(1 << 31 - int(drop))
        bits = np.minimum(bits & ~sign, np.uint32(target.largest)) | bits & sign
    nan = np.uint32(target.nan or 0)
    result = np.where(np.isnan(a), nan, bits << np.uint32(target.low_zeros))
    return result.astype(f"u{target.bits // 8}")


def to_integral(a: Array, rounding: str) -> Array:
    """Floats rounded to integral values, in their format."""
    with np.errstate(all="ignore"):
        result: Array = INTEGRAL[rounding](a)
    return result


def to_integer(a: Array, to: np.dtype[np.generic], rounding: str) -> Array:
    """Floats as integers, clamped to the type.

    NaN gives 0, but 2^(width-1) where the source is f64 or the result has 64 bits (PTX ISA, cvt).
    """
    limits = np.iinfo(to.str)
    with np.errstate(all="ignore"):
        wide = INTEGRAL[rounding](a).astype(np.float64)
        nan = np.isnan(wide)
        # float(max) is 2^64 or 2^63 for 64 bits: what reaches it does not fit
        low, high = wide <= float(limits.min), wide >= float(limits.max)
        inside = np.where(low | high | nan, 0.0, wide).astype(to)
    clamped = np.where(low, np.array(limits.min, to), inside)
    clamped = np.where(high, np.array(limits.max, to), clamped)
    if a.dtype == np.float64 or to.itemsize == 8:
        indefinite = np.array(1 << 8 * to.itemsize - 1, f"u{to.itemsize}").view(to)
    else:
        indefinite = np.array(0, to)
    return np.where(nan, indefinite, clamped)


def between_integers(a: Array, to: np.dtype[np.generic], clamp: bool) -> Array:
    """Integers at another type: the low bits, or with ``clamp`` the nearest number that fits."""
    if not clamp:
        return a.astype(to)
    limits, own = np.iinfo(to.str), np.iinfo(a.dtype.str)
    low, high = max(limits.min, own.min), min(limits.max, own.max)
    return np.clip(a, np.array(low, a.dtype), np.array(high, a.dtype)).astype(to)
