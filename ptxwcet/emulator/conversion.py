"""Converts vectors between numbers, with PTX's rounding, saturation and NaN (``cvt``).

A value to round to a binary format is (-1)^sign * significand * 2^exponent with a significand of 64
bits, which holds every integer and every float that PTX converts; so a result is rounded once.
"""

from __future__ import annotations

import numpy as np

from ptxwcet.emulator.launch import Array
from ptxwcet.support.records import dataclass


@dataclass(frozen=True, slots=True)
class Format:
    """A binary format: total bits, fraction bits, bias, and the patterns at the top of its range.

    ``largest`` is the pattern of the largest number; ``infinity`` and ``nan`` (the pattern that PTX
    gives) are None where the format lacks them. ``low_zeros`` are unused bits below the fraction;
    ``largest`` and ``infinity`` are without them.
    """

    bits: int
    fraction: int
    bias: int
    largest: int
    infinity: int | None
    nan: int | None
    low_zeros: int = 0
    is_signed: bool = True

    @property
    def width(self) -> int:
        """The bits of an element in a pair: six-bit formats have two zero bits above."""
        return 8 if self.bits == 6 else self.bits

    @property
    def one(self) -> int:
        """The pattern of 1.0."""
        return self.bias << self.fraction


FORMATS = {
    "f16": Format(16, 10, 15, 0x7BFF, 0x7C00, 0x7FFF),
    "bf16": Format(16, 7, 127, 0x7F7F, 0x7F80, 0x7FFF),
    "f32": Format(32, 23, 127, 0x7F7FFFFF, 0x7F800000, 0x7FFFFFFF),
    "f64": Format(64, 52, 1023, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000, 0x7FFFFFFFFFFFFFFF),
    "tf32": Format(32, 10, 127, 0x3FBFF, 0x3FC00, 0x7FFFE000, low_zeros=13),
    "e4m3": Format(8, 3, 7, 0x7E, None, 0x7F),
    "e5m2": Format(8, 2, 15, 0x7B, 0x7C, 0x7F),
    "e2m3": Format(6, 3, 1, 0x1F, None, None),
    "e3m2": Format(6, 2, 3, 0x1F, None, None),
    "e2m1": Format(4, 1, 1, 0x7, None, None),
    "ue8m0": Format(8, 0, 127, 0xFE, None, 0xFF, is_signed=False),
}
"""The formats by name (PTX ISA, "Alternate Floating-Point Data Formats")."""


@dataclass(frozen=True, slots=True)
class Exact:
    """Exact values: (-1)^negative * significand * 2^exponent, or infinite, or NaN."""

    negative: Array
    significand: Array
    exponent: Array
    infinite: Array
    nan: Array


def exact_integers(a: Array) -> Exact:
    """Returns the exact values of integers."""
    negative = a < 0
    bits = a.astype(np.int64).view(np.uint64) if a.dtype.kind == "i" else a.astype(np.uint64)
    size = np.where(negative, ~bits + np.uint64(1), bits)
    no = np.zeros(a.shape, dtype=bool)
    return Exact(negative, size, np.zeros(a.shape, dtype=np.int64), no, no)


def exact_floats(a: Array) -> Exact:
    """Returns the exact values of floats of any numpy format; f64 holds all of them."""
    with np.errstate(all="ignore"):
        bits = a.astype(np.float64).view(np.uint64)
    field = (bits >> np.uint64(52) & np.uint64(0x7FF)).astype(np.int64)
    fraction = bits & np.uint64((1 << 52) - 1)
    hidden = np.where(field > 0, np.uint64(1 << 52), np.uint64(0))
    special = field == 0x7FF
    return Exact(
        bits >> np.uint64(63) == 1,
        fraction | hidden,
        np.maximum(field, 1) - 1075,
        special & (fraction == 0),
        special & (fraction != 0),
    )


def round_to(value: Exact, target: Format, rounding: str, finite: bool = False) -> Array:
    """Returns the bits (uint64) of values rounded once to a format.

    ``rounding`` is rn (ties to even), rna (ties away from zero), rz, rm or rp; overflow gives
    infinity or the largest number as in IEEE 754, NaN in formats without infinity, and with
    ``finite`` (``.satfinite``) the largest number.
    """
    bits = _rounded_size(value, target, rounding)
    away = _is_away(value.negative if target.is_signed else False & value.negative, rounding)
    top = target.infinity if target.infinity is not None else target.nan
    largest = np.int64(target.largest)
    over = np.where(away, largest if finite or top is None else np.int64(top), largest)
    bits = np.where(bits > largest, over, bits)
    infinite = largest if finite or top is None else np.int64(top)
    bits = np.where(value.infinite, infinite, bits)
    if target.is_signed:
        sign = value.negative.astype(np.int64) << (target.bits - target.low_zeros - 1)
        bits = bits | sign
    nan = np.int64(target.largest if target.nan is None else target.nan)
    result: Array = np.where(value.nan, nan, bits << target.low_zeros).view(np.uint64)
    return result


def _is_away(negative: Array, rounding: str) -> Array:
    """Returns whether an overflowing value is rounded away from zero."""
    if rounding == "rz":
        return np.zeros_like(negative)
    return {"rm": negative, "rp": ~negative}.get(rounding, np.ones_like(negative))


def _rounded_size(value: Exact, target: Format, rounding: str) -> Array:
    """Returns the bits (int64) of the magnitudes with an unlimited exponent, 0 on underflow."""
    size, top = _normalised(value.significand)
    exponent = value.exponent + top
    lowest = 1 - target.bias - (0 if target.is_signed else 1)
    quantum = np.maximum(exponent, lowest) - target.fraction
    drop = quantum - (exponent - 63)
    lost = drop > 64  # Less than half of the smallest number: only that it is not zero counts.
    size = np.where(lost, (size != 0).astype(np.uint64), size)
    drop = np.minimum(drop, 64).astype(np.uint64)
    unit = np.uint64(1)
    kept = np.where(drop == 64, np.uint64(0), size >> np.minimum(drop, np.uint64(63)))
    rest = size - np.where(drop == 64, np.uint64(0), kept << np.minimum(drop, np.uint64(63)))
    half = unit << (drop - unit)
    odd = kept & unit == 1
    negative = value.negative & target.is_signed
    up = {
        "rn": (rest > half) | ((rest == half) & odd),
        "rna": rest >= half,
        "rz": np.zeros_like(odd),
        "rm": negative & (rest != 0),
        "rp": ~negative & (rest != 0),
    }[rounding]
    steps = kept.astype(np.int64) + up
    field = quantum + (target.fraction + target.bias - 1)
    bits: Array = np.maximum((field << target.fraction) + steps, 0) * (value.significand != 0)
    return bits


def _normalised(significand: Array) -> tuple[Array, Array]:
    """Shifts so that bit 63 is set; also returns the former place of this bit (0 for zero)."""
    size, top = significand, np.full(significand.shape, 63, dtype=np.int64)
    for step in (32, 16, 8, 4, 2, 1):
        short = size < np.uint64(1) << np.uint64(64 - step)
        size = np.where(short, size << np.uint64(step), size)
        top = top - np.where(short, step, 0)
    return size, np.where(significand == 0, 0, top)


def _values(source: Format) -> Array:
    """Returns the values of all patterns of a format of at most 8 bits, as f32."""
    values = []
    for pattern in range(1 << source.bits):
        size = pattern & ((1 << source.bits - 1) - 1) if source.is_signed else pattern
        field, fraction = size >> source.fraction, size & ((1 << source.fraction) - 1)
        if not source.is_signed:
            number = 2.0 ** (field - source.bias)
        elif field == 0:
            number = fraction * 2.0 ** (1 - source.bias - source.fraction)
        else:
            scale = 2.0 ** (field - source.bias - source.fraction)
            number = (fraction + (1 << source.fraction)) * scale
        if size > source.largest and (source.nan is not None):
            number = np.inf if size == source.infinity else np.nan
        values.append(-number if size != pattern else number)
    return np.array(values, dtype=np.float32)


VALUES = {name: _values(form) for name, form in FORMATS.items() if form.bits <= 8}
"""The values (f32) of the narrow formats by pattern."""


INTEGRAL = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
"""The roundings to an integral value."""

_NATIVE: dict[str, np.dtype[np.generic]] = {
    "f16": np.dtype("f2"), "f32": np.dtype("f4"), "f64": np.dtype("f8")
}  # fmt: skip


def as_float(bits: Array, name: str) -> Array:
    """Returns patterns of f16, bf16, f32 or f64 in a numpy format that holds their values."""
    if name == "bf16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return bits.view(_NATIVE[name])


def to_float(a: Array, name: str, rounding: str, words: frozenset[str]) -> Array:
    """Returns numbers as patterns of a format, rounded once.

    ``words``: ``satfinite`` (overflow gives the largest number), ``relu`` (negative gives +0),
    ``sat`` (clamped to 0 and 1, NaN gives +0), ``ftz`` (a subnormal f32 result becomes zero). NaN
    results have the format's canonical pattern, except for f64, which keeps the payload of an f32.
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
    sign = np.array(1 << target.bits - 1, dtype=bits.dtype)
    if "ftz" in words and name == "f32":
        bits = np.where(is_subnormal(a, name, rounding), bits & sign, bits)
    if "relu" in words:
        bits = np.where(bits & sign != 0, np.zeros_like(bits), bits)
    if "sat" in words:
        limit = np.array(target.one, dtype=bits.dtype)
        none = (bits & sign != 0) | (a != a)
        bits = np.where(none, np.zeros_like(bits), np.minimum(bits, limit))
    return bits


def is_subnormal(a: Array, name: str, rounding: str) -> Array:
    """Returns which values ``.ftz`` flushes: those below the least normal number of f32 or f16 once
    rounded to the format's digits, without exponent limits, as GPUs do and ptxas folds constants.
    """
    least = 2.0 ** (1 - FORMATS[name].bias)
    near = np.abs(a) < 2 * least
    scaled = np.where(near, a, least).astype(np.float64) / (4 * least)
    digits = as_float(to_float(scaled, name, rounding, frozenset()), name)
    return near & (np.abs(digits) < 0.25)


def _native(a: Array, name: str) -> Array:
    """Rounds to nearest by numpy, whose conversions between these formats round once."""
    dtype = _NATIVE[name]
    with np.errstate(all="ignore"):
        result = a.astype(dtype)
    bits = result.view(f"u{dtype.itemsize}")
    if name == "f64" or a.dtype.kind != "f":
        return bits
    nan = np.array(FORMATS[name].nan, dtype=bits.dtype)
    return np.where(np.isnan(a), nan, bits)


def _shortened(a: Array, target: Format, rounding: str, finite: bool) -> Array:
    """Rounds f32 to a format with its exponent range and a shorter fraction, in the pattern."""
    bits, drop = a.view(np.uint32), np.uint32(23 - target.fraction)
    half = np.uint32(1 << 22 - target.fraction)
    if rounding == "rna":
        return _shortened_away(bits, int(half), finite)
    if rounding == "rn":
        bits = bits + (half - np.uint32(1)) + (bits >> drop & np.uint32(1))
    bits = bits >> drop
    if finite:
        sign = np.uint32(1 << 31 - int(drop))
        bits = np.minimum(bits & ~sign, np.uint32(target.largest)) | bits & sign
    nan = np.uint32(target.nan or 0)
    result = np.where(np.isnan(a), nan, bits << np.uint32(target.low_zeros))
    return result.astype(f"u{target.bits // 8}")


def _shortened_away(bits: Array, half: int, finite: bool) -> Array:
    """Rounds ``rna`` to tf32 on the digits, whatever the pattern means: NaN may become infinite."""
    exponents = np.uint32(0x7F800000)
    bits = np.where(bits & exponents == exponents, bits, bits + np.uint32(half))
    bits = bits & np.uint32(2**32 - 2 * half)
    wrong = finite & (bits & exponents == exponents)
    result: Array = np.where(wrong, bits - np.uint32(2 * half), bits)
    return result


def quiet(bits: Array, source: str, name: str) -> Array:
    """Converts NaN between formats: it keeps sign and leading digits, the quiet digit is set."""
    origin, target = FORMATS[source], FORMATS[name]
    wide = bits.view(f"u{bits.itemsize}").astype(np.uint64)
    sign = wide >> np.uint64(origin.bits - 1) << np.uint64(target.bits - 1)
    digits = wide << np.uint64(64 - origin.fraction) >> np.uint64(64 - target.fraction)
    always = np.uint64((target.infinity or 0) | 1 << target.fraction - 1)
    result: Array = (sign | digits | always).astype(f"u{target.bits // 8}")
    return result


def to_integral(a: Array, rounding: str) -> Array:
    """Rounds floats to integral values, in their format."""
    with np.errstate(all="ignore"):
        result: Array = INTEGRAL[rounding](a)
    return result


def to_integer(a: Array, to: np.dtype[np.generic], rounding: str) -> Array:
    """Converts floats to integers, clamped to the type.

    NaN gives 0, or 2^(width-1) if the source is f64 or the result has 64 bits (PTX ISA, cvt).
    """
    limits = np.iinfo(to.str)
    with np.errstate(all="ignore"):
        wide = INTEGRAL[rounding](a).astype(np.float64)
        nan = np.isnan(wide)
        # For 64 bits, float(max) is 2^64 or 2^63, so a value that equals it does not fit.
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
    """Converts integers to another type: the low bits, or with ``clamp`` the nearest that fits."""
    if not clamp:
        return a.astype(to)
    limits, own = np.iinfo(to.str), np.iinfo(a.dtype.str)
    low, high = max(limits.min, own.min), min(limits.max, own.max)
    return np.clip(a, np.array(low, a.dtype), np.array(high, a.dtype)).astype(to)
