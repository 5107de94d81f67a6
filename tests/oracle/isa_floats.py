"""Floating point of the PTX ISA on raw bits, exactly rounded by fractions where it is simple.

What is approximate in the ISA (``ex2.approx``) has no definition to follow; see ``isa_operations``.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
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
    above, below = abs(value.numerator), value.denominator
    exponent = above.bit_length() - below.bit_length()
    if (below << exponent if exponent >= 0 else below) > (above << max(-exponent, 0)):
        exponent -= 1
    unit = max(exponent, least) - digits + 1
    units, rest = divmod(above << max(-unit, 0), below << max(unit, 0))
    sign = 1 if value > 0 else -1
    if mode in ("rn", "rni"):
        doubled = 2 * rest - (below << max(unit, 0))
        units += doubled > 0 or (doubled == 0 and units % 2)
    elif rest and mode in (("rp", "rpi") if value > 0 else ("rm", "rmi")):
        units += 1
    if units.bit_length() + unit > most + 1:
        to_zero = mode in ("rz", "rzi") or mode == ("rm" if value > 0 else "rp")
        largest = math.ldexp((1 << digits) - 1, most - digits + 1)
        return to_bits(sign * (largest if to_zero else math.inf), of)
    return to_bits(sign * math.ldexp(units, unit), of)


def least(a: float, b: float) -> float:
    """``min``: of a number and NaN the number, of zeros the negative one."""
    if math.isnan(a) or math.isnan(b):
        return b if math.isnan(a) else a
    if a == b == 0:
        return a if math.copysign(1, a) < 0 else b
    return min(a, b)


def largest(a: float, b: float) -> float:
    """``max``, likewise."""
    return -least(-a, -b)


def flushed(value: float, of: Type) -> float:
    """What ``.ftz`` makes of a number: zero of its sign if it is subnormal."""
    small = of == Type("f", 32) and abs(value) < 2.0**-126
    return math.copysign(0.0, value) if small else value


@dataclass(frozen=True)
class How:
    """The modifiers of an operation on a type."""

    of: Type
    mode: str = "rn"
    ftz: bool = False
    sat: bool = False

    @staticmethod
    def said(words: tuple[str, ...], of: Type) -> How:
        mode = next((word for word in words if word in MODES), "rn")
        return How(of, mode, "ftz" in words, "sat" in words)

    def read(self, raw: int, of: Type | None = None) -> float:
        """An operand, flushed."""
        value = to_float(raw, of or self.of)
        return flushed(value, of or self.of) if self.ftz else value

    def ends(self, exact: Fraction | float) -> int:
        """Raw bits of a result: a fraction other than 0 is rounded, a float is what it is.

        ``.ftz`` is of what is subnormal when rounded to the digits of f32 with any exponent.
        """
        raw = (
            round_fraction(exact, self.of, self.mode)
            if isinstance(exact, Fraction)
            else to_bits(exact, self.of)
        )
        value = to_float(raw, self.of)
        if self.ftz and isinstance(exact, Fraction) and self.of == Type("f", 32):
            digits = to_float(round_fraction(exact * 2**64, self.of, self.mode), self.of)
            value = math.copysign(0.0, value) if abs(digits) < 2.0**-62 else value
        elif self.ftz:
            value = flushed(value, self.of)
        if self.sat:
            value = 0.0 if math.isnan(value) or value <= 0 else min(value, 1.0)
        return to_bits(value, self.of)


def _sign(value: float) -> float:
    return math.copysign(1, value)


def fused(a: float, b: float, c: float, how: How) -> int:
    """``a * b + c`` rounded once."""
    if not all(map(math.isfinite, (a, b, c))):
        # a product of numbers may be beyond those of Python and is not infinite
        product = 1.0 if math.isfinite(a) and math.isfinite(b) else a * b
        return how.ends(product + c)
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact:
        return how.ends(exact)
    if a * b == 0 == c and _sign(a) * _sign(b) == _sign(c):
        return how.ends(c)
    return how.ends(-0.0 if how.mode == "rm" else 0.0)


def times(a: float, b: float, how: How) -> int:
    """``a * b``."""
    if math.isfinite(a) and math.isfinite(b) and a and b:
        return how.ends(Fraction(a) * Fraction(b))
    return how.ends(a * b)


def divided(a: float, b: float, how: How) -> int:
    """``a / b``."""
    sign = _sign(a) * _sign(b)
    if math.isnan(a) or math.isnan(b) or (not a and not b) or (math.isinf(a) and math.isinf(b)):
        return how.ends(math.nan)
    if math.isinf(a) or not b:
        return how.ends(sign * math.inf)
    if math.isinf(b) or not a:
        return how.ends(sign * 0.0)
    return how.ends(Fraction(a) / Fraction(b))


def root(a: float, how: How) -> int:
    """The square root: the number nearest to it, or that on the side asked for."""
    if not a or math.isnan(a) or math.isinf(a) or a < 0:
        return how.ends(math.nan if a < 0 else a)
    raw = to_bits(math.sqrt(a), how.of)
    if how.mode != "rn":
        while Fraction(to_float(raw, how.of)) ** 2 > Fraction(a):
            raw -= 1
        while Fraction(to_float(raw + 1, how.of)) ** 2 <= Fraction(a):
            raw += 1
        if how.mode == "rp" and Fraction(to_float(raw, how.of)) ** 2 != Fraction(a):
            raw += 1
    return how.ends(to_float(raw, how.of))


ARITHMETIC: dict[str, Callable[..., int]] = {
    "add": lambda a, b, how: fused(a, 1.0, b, how),
    "sub": lambda a, b, how: fused(a, 1.0, -b, how),
    "mul": times,
    "div": divided,
    "rcp": lambda a, how: divided(1.0, a, how),
    "sqrt": root,
    "fma": fused,
    "mad": fused,
    "min": lambda a, b, how: how.ends(least(a, b)),
    "max": lambda a, b, how: how.ends(largest(a, b)),
}
"""By name what an operation makes of numbers and of how it is to be rounded."""


def converted(raw: int, source: Type, how: How) -> int:
    """``cvt`` from a floating-point type to one."""
    value = how.read(raw, source)
    if not math.isfinite(value) or not value:
        return how.ends(value)
    if how.mode.endswith("i"):
        whole = round_integer(Fraction(value), how.mode)
        return how.ends(Fraction(whole) if whole else math.copysign(0.0, value))
    return how.ends(Fraction(value))


def to_integer(raw: int, source: Type, target: Type, mode: str) -> int:
    """``cvt`` from floating point to an integer: rounded, clamped, NaN as the ISA says."""
    value = to_float(raw, source)
    if math.isnan(value):
        return 0 if target.bits < 64 and source.bits < 64 else 1 << (target.bits - 1)
    if math.isinf(value):
        return clamp((1 << 100) if value > 0 else -(1 << 100), target)
    return clamp(round_integer(Fraction(value), mode), target)
