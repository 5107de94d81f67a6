"""Floating point of machine code, for execution alone: rounded once in any direction, by lanes.

Sums and products of single precision are computed in double precision with the sign of what is
lost, then rounded to odd, so that a second rounding is that of the exact number. In double
precision fractions do it. Functions of the special unit are those of double precision, rounded:
code that corrects an approximation leaves the same with any good one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Doubles = NDArray[np.float64]
Singles = NDArray[np.float32]
_NAN = np.uint64(0x7FFFFFFF)
_LEAST = np.float32(2.0**-126)
_HIGH = np.uint64(32)

ORDERS: dict[str, Callable[[Any, Any], Any]] = {
    "F": lambda a, b: np.zeros(np.shape(a), bool),
    "T": lambda a, b: np.ones(np.shape(a), bool),
    "EQ": lambda a, b: a == b,
    "NE": lambda a, b: (a < b) | (a > b),
    "LT": lambda a, b: a < b,
    "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b,
    "GE": lambda a, b: a >= b,
    "NEU": lambda a, b: ~(a == b),
    "EQU": lambda a, b: ~((a < b) | (a > b)),
    "LTU": lambda a, b: ~(a >= b),
    "LEU": lambda a, b: ~(a > b),
    "GTU": lambda a, b: ~(a <= b),
    "GEU": lambda a, b: ~(a < b),
    "NUM": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "NAN": lambda a, b: np.isnan(a) | np.isnan(b),
}
JOINS = {"AND": np.logical_and, "OR": np.logical_or, "XOR": np.logical_xor}
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "RCP": lambda x: 1 / x,
    "RSQ": lambda x: 1 / np.sqrt(x),
    "SQRT": np.sqrt,
    "EX2": np.exp2,
    "LG2": np.log2,
    "SIN": lambda x: np.sin(x * (2 * np.pi)),
    "COS": lambda x: np.cos(x * (2 * np.pi)),
    "TANH": np.tanh,
}
"""What the special unit computes; sines are of turns."""
HIGH_HALVES: dict[str, Callable[[Any], Any]] = {
    "RCP64H": FUNCTIONS["RCP"],
    "RSQ64H": FUNCTIONS["RSQ"],
}


def singles(value: Words) -> Singles:
    """Numbers of these bits."""
    return value.astype(np.uint32).view(np.float32)


def bits(value: Any) -> Words:
    """The bits of numbers of single precision; there is one that is none."""
    number = np.asarray(value, np.float32)
    return np.where(np.isnan(number), _NAN, number.view(np.uint32).astype(np.uint64))


def bits_of_doubles(value: Any) -> Words:
    return np.asarray(value, np.float64).view(np.uint64)


def flushed(value: Singles) -> Singles:
    """With zeros of the same sign in the place of subnormal numbers."""
    return np.where(np.abs(value) < _LEAST, np.copysign(np.float32(0), value), value)


def total(a: Any, b: Any) -> tuple[Doubles, Doubles]:
    """A sum in double precision, and a number with the sign of what it lacks."""
    found = np.asarray(a + b, np.float64)
    back = found - a
    rest = (a - (found - back)) + (b - back)
    return found, np.where(np.isfinite(found), rest, 0.0)


def to_singles(found: Doubles, rest: Doubles, words: frozenset[str], zero: Any = None) -> Words:
    """The bits of ``found + rest`` in single precision; ``zero``: where a zero is -0 downwards."""
    even = (found.view(np.int64) & 1) == 0
    away = (rest > 0) == (found > 0)
    step = np.where((rest != 0) & even & np.isfinite(found), np.where(away, 1, -1), 0)
    odd = (found.view(np.int64) + step).view(np.float64)
    near = odd.astype(np.float32)
    wide = near.astype(np.float64)
    if "RZ" in words:
        near = np.where(np.abs(wide) > np.abs(odd), np.nextafter(near, np.float32(0)), near)
    elif "RM" in words:
        near = np.where(wide > odd, np.nextafter(near, np.float32(-np.inf)), near)
        if zero is not None:
            near = np.where((odd == 0) & zero, np.float32(-0.0), near)
    elif "RP" in words:
        near = np.where(wide < odd, np.nextafter(near, np.float32(np.inf)), near)
    if "FTZ" in words:
        near = flushed(near)
    if "SAT" in words:
        near = np.where(near > 0, np.minimum(near, np.float32(1)), np.float32(0))
    return bits(near)


def rounded(number: Fraction, words: frozenset[str], kind: type = np.float64) -> Any:
    """A number of a type, rounded once; of halves the one with an even last bit."""
    as_bits: type = np.uint64 if kind is np.float64 else np.uint32
    try:
        found = kind(number.numerator / number.denominator)
    except OverflowError:
        found = kind(math.inf if number > 0 else -math.inf)

    def exact(one: Any) -> Fraction | float:
        return float(one) if np.isinf(one) else Fraction(float(one))

    below, above = (np.nextafter(found, kind(side)) for side in (-math.inf, math.inf))
    if "RZ" in words or "RM" in words or "RP" in words:
        is_down = "RM" in words or ("RZ" in words and number >= 0)
        if is_down:
            return next(one for one in (above, found, below) if exact(one) <= number)
        return next(one for one in (below, found, above) if exact(one) >= number)
    if kind is np.float64 or np.isinf(found):
        return found
    near = (below, found, above)
    return min(
        near, key=lambda one: (abs(Fraction(float(one)) - number), int(one.view(as_bits)) & 1)
    )


def fused_doubles(a: Doubles, b: Doubles, c: Doubles, words: frozenset[str]) -> Doubles:
    """Products and sums, rounded once."""
    found = np.where(np.isfinite(a) & np.isfinite(b) & np.isinf(c), c, a * b + c)
    for lane in np.flatnonzero(np.isfinite(a) & np.isfinite(b) & np.isfinite(c)):
        one, two, three = (Fraction(float(x[lane])) for x in (a, b, c))
        number = one * two + three
        if number:
            found[lane] = rounded(number, words)
        elif "RM" in words and (np.signbit(a[lane] * b[lane]) != np.signbit(c[lane])):
            found[lane] = -0.0
    return found


def extreme(a: Any, b: Any, least: Any, words: frozenset[str]) -> Any:
    """The least or the largest; -0 is less than 0, and what is no number is left out."""
    if "XORSIGN" in words:
        signs = np.signbit(a) ^ np.signbit(b)
        a, b = np.abs(a), np.abs(b)
    low = np.where(np.signbit(a), a, b)
    high = np.where(np.signbit(a), b, a)
    found = np.where(least, np.fmin(a, b), np.fmax(a, b))
    found = np.where(a == b, np.where(least, low, high), found)
    if "NAN" in words:
        found = np.where(np.isnan(a) | np.isnan(b), np.float32(np.nan), found)
    if "XORSIGN" in words:
        found = np.where(signs, -np.abs(found), np.abs(found))
    return found


def to_integers(value: Doubles, words: frozenset[str], *, is_wide: bool) -> list[int]:
    """Whole numbers in the range of a type; ``is_wide``: from double precision."""
    rounding = {"TRUNC": np.trunc, "FLOOR": np.floor, "CEIL": np.ceil}
    how = next((one for one in rounding if one in words), "")
    whole = rounding.get(how, np.rint)(value)
    kind = next((one for one in words if one[0] in "US" and one[1:].isdigit()), "S32")
    size = int(kind[1:])
    low, high = (0, (1 << size) - 1) if kind[0] == "U" else (-(1 << size - 1), (1 << size - 1) - 1)
    none = 1 << size - 1 if is_wide or size == 64 else 0
    width = (1 << max(size, 32)) - 1
    return [
        none
        if np.isnan(one)
        else (min(max(int(one), low), high) if np.isfinite(one) else high if one > 0 else low)
        & width
        for one in whole
    ]
