"""Floating point of the PTX ISA on raw bits, exactly rounded by fractions where it is simple.

What is approximate in the ISA (``ex2.approx``) has no definition to follow; see ``isa_operations``.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction

from isa_types import Type, clamp

_FORMATS = {("f", 16): "e", ("f", 32): "f", ("f", 64): "d"}
_INTEGER = {16: "H", 32: "I", 64: "Q"}
_DIGITS = {("f", 16): (11, -14, 15), ("f", 32): (24, -126, 127), ("f", 64): (53, -1022, 1023)}
MODES = ("rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi")


def is_known(of: Type) -> bool:
    """Whether values of the type are defined here (binary16, binary32 and binary64)."""
    return (of.kind, of.bits) in _FORMATS and of.parts == 1


def to_float(raw: int, of: Type) -> float:
    """The number that raw bits stand for."""
    found: float = struct.unpack(
        "<" + _FORMATS[of.kind, of.bits], struct.pack("<" + _INTEGER[of.bits], raw)
    )[0]
    return found


def to_bits(value: float, of: Type) -> int:
    """Raw bits of the nearest number of the type, infinity beyond its range."""
    try:
        packed = struct.pack("<" + _FORMATS[of.kind, of.bits], value)
    except OverflowError:
        packed = struct.pack("<" + _FORMATS[of.kind, of.bits], math.copysign(math.inf, value))
    raw: int = struct.unpack("<" + _INTEGER[of.bits], packed)[0]
    return raw


def round_integer(value: Fraction, mode: str) -> int:
    """A fraction as an integer: to the nearest (ties to even), to zero, down or up."""
    if mode in ("rz", "rzi"):
        return math.trunc(value)
    if mode in ("rm", "rmi"):
        return math.floor(value)
    if mode in ("rp", "rpi"):
        return math.ceil(value)
    return round(value)


def round_fraction(value: Fraction, of: Type, mode: str = "rn") -> int:
    """Raw bits of a fraction rounded to a type, IEEE 754."""
    digits, least, most = _DIGITS[of.kind, of.bits]
    if value == 0:
        return 0
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, least) - digits + 1)
    rounded = round_integer(value / unit, mode) * unit
    if abs(rounded) >= Fraction(2) ** (most + 1):
        to_zero = mode in ("rz", "rzi") or mode == ("rm" if value > 0 else "rp")
        largest = (Fraction(2) - Fraction(2) ** (1 - digits)) * Fraction(2) ** most
        rounded = largest if value > 0 else -largest
        infinite = math.inf if value > 0 else -math.inf
        return to_bits(float(rounded) if to_zero else infinite, of)
    return to_bits(float(rounded), of)


def _divide(a: float, b: float) -> float:
    if b == 0:
        if a == 0 or math.isnan(a):
            return math.nan
        return math.copysign(math.inf, a) * math.copysign(1, b)
    return a / b


def _add(a: float, b: float) -> float:
    return a + b


def _subtract(a: float, b: float) -> float:
    return a - b


def _multiply(a: float, b: float) -> float:
    return a * b


def _least(a: float, b: float) -> float:
    if math.isnan(a) or math.isnan(b):
        return b if math.isnan(a) else a
    if a == b == 0:
        return a if math.copysign(1, a) < 0 else b
    return min(a, b)


def _largest(a: float, b: float) -> float:
    return -_least(-a, -b)


BINARY: dict[str, Callable[[float, float], float]] = {
    "add": _add,
    "sub": _subtract,
    "mul": _multiply,
    "div": _divide,
    "min": _least,
    "max": _largest,
}


def fused(a: float, b: float, c: float, of: Type) -> int:
    """``a * b + c`` rounded once."""
    if all(math.isfinite(x) for x in (a, b, c)):
        exact = Fraction(a) * Fraction(b) + Fraction(c)
        if exact:
            return round_fraction(exact, of)
    try:
        return to_bits(a * b + c, of)
    except OverflowError:
        return to_bits(math.nan, of)


def root(a: float) -> float:
    """The square root, NaN below zero."""
    return math.sqrt(a) if a >= 0 else math.nan


def to_integer(raw: int, source: Type, target: Type, mode: str) -> int:
    """``cvt`` from floating point to an integer: rounded, clamped, NaN as the ISA says."""
    value = to_float(raw, source)
    if math.isnan(value):
        return 0 if target.bits < 64 and source.bits < 64 else 1 << (target.bits - 1)
    if math.isinf(value):
        return clamp((1 << 100) if value > 0 else -(1 << 100), target)
    return clamp(round_integer(Fraction(value), mode), target)
