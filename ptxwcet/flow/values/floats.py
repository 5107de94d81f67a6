"""Floating-point numbers that are known, or lie between two that are: IEEE 754 as PTX has it.

:func:`result_of` gives what an operation makes of :class:`Floats`; it is exact for numbers and the
least range around the results for ranges, whose ends are taken together: correctly rounded
operations are monotone in each operand, signs of zeros included, but for sums that round down.
Operations that PTX does not determine to the last bit (``.approx``, ``.full``) have no rule. Sums
without a rounding mode may be fused with a product before them: all results of that are in the
range. Infinite operands, and whatever may give NaN, are not followed but through ``min`` and
``max``, which take the other operand.

Source: the PTX ISA manual, sections on floating-point instructions and cvt.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import product

from ptxwcet.flow.values.intervals import Interval, around
from ptxwcet.ir.operation import NumberKind, NumberType, Operation
from ptxwcet.support.records import dataclass


@dataclass(frozen=True, slots=True)
class Format:
    """A binary format: bits, digits of the significand, exponent of the least normal number."""

    bits: int
    digits: int
    least: int
    packed: str

    @property
    def largest(self) -> Fraction:
        """The largest number."""
        return (2 - Fraction(2) ** (1 - self.digits)) * Fraction(2) ** (1 - self.least)

    def pattern(self, number: float) -> int:
        """The bits of a number of the format."""
        return int.from_bytes(struct.pack("<" + self.packed, number), "little")

    def number(self, pattern: int) -> float:
        """The number of a pattern."""
        data = pattern.to_bytes(self.bits // 8, "little")
        found: float = struct.unpack("<" + self.packed, data)[0]
        return found


_FORMATS = {32: Format(32, 24, -126, "f"), 64: Format(64, 53, -1022, "d")}


def format_of(kind: NumberType) -> Format | None:
    """The format of ``f32`` and ``f64``; None of other types."""
    single = kind.kind is NumberKind.FLOAT and kind.count == 1
    return _FORMATS.get(kind.bits) if single else None


@dataclass(frozen=True, slots=True)
class Floats:
    """The numbers from ``low`` to ``high``, of which -0 is less than +0; and NaN, if ``nan``."""

    low: float
    high: float
    nan: bool = False

    @property
    def is_number(self) -> bool:
        """Whether it is one number."""
        return not self.nan and _key(self.low) == _key(self.high)

    @property
    def ends(self) -> tuple[float, ...]:
        """Its least and its greatest number, once if they are one."""
        return (self.low,) if _key(self.low) == _key(self.high) else (self.low, self.high)


Operands = Sequence["Floats | Interval"]
Result = Floats | Interval | None


def _key(number: float) -> tuple[float, float]:
    return number, math.copysign(1, number)


def from_patterns(unsigned: Interval, signed: Interval, form: Format) -> Floats:
    """The numbers of bits of which two readings are known."""
    half, infinite = 1 << form.bits - 1, form.pattern(math.inf)
    if unsigned.high < half:
        nan = unsigned.high > infinite
        ends = min(unsigned.low, infinite), min(unsigned.high, infinite)
        return Floats(form.number(ends[0]), form.number(ends[1]), nan)
    if unsigned.low >= half:
        nan = unsigned.high - half > infinite
        ends = min(unsigned.high - half, infinite), min(unsigned.low - half, infinite)
        return Floats(-form.number(ends[0]), -form.number(ends[1]), nan)
    high = form.number(min(max(signed.high, 0), infinite))
    return Floats(-math.inf, high, nan=True)


def patterns(found: Floats, form: Format) -> Interval | None:
    """An interval of bits, read with or without sign, around those of numbers; None for all."""
    low, high = form.pattern(found.low), form.pattern(found.high)
    half = 1 << form.bits - 1
    if found.nan:
        return None
    if low < half:
        return Interval(low, high)
    if high >= half:
        return Interval(high, low)
    return None if high == form.pattern(math.inf) else Interval(-half, high)


def rounded(value: Fraction, form: Format, mode: str) -> float:
    """The number that a fraction other than 0 becomes, infinite where it is beyond the format."""
    size, sign = abs(value), 1 if value > 0 else -1
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, form.least) - form.digits + 1)
    whole = _integer(value / unit, mode) * unit
    if abs(whole) > form.largest:
        inwards = mode == "rz" or mode == ("rm" if value > 0 else "rp")
        return sign * (float(form.largest) if inwards else math.inf)
    return sign * abs(float(whole))


def _integer(value: Fraction, mode: str) -> int:
    """Rounded to an integer, to the nearest even one of two."""
    match mode[:2]:
        case "rz":
            return math.trunc(value)
        case "rm":
            return math.floor(value)
        case "rp":
            return math.ceil(value)
    return round(value)


def _flushed(number: float, form: Format) -> float:
    """A subnormal number of ``.ftz``: a zero of its sign."""
    small = abs(number) < float(Fraction(2) ** form.least)
    return math.copysign(0.0, number) if small else number


def _saturated(number: float) -> float:
    """``.sat``: held within +0 and 1."""
    return min(number, 1.0) if number > 0 else 0.0


# --- arithmetic: of finite numbers, exactly, then rounded -----------------------------------------


@dataclass(frozen=True, slots=True)
class _How:
    """What the modifiers of an operation say."""

    form: Format
    mode: str
    ftz: bool
    sat: bool

    def ends(self, value: Fraction, zero: float) -> float | None:
        """The result for an exact value; ``zero``: the one that 0 gives.

        None of a value that is subnormal before it is rounded alone, with ``.ftz``: the manual does
        not say when it is flushed. ptxas does if it is subnormal in 24 digits of any exponent.
        """
        number = rounded(value, self.form, self.mode) if value else zero
        if self.ftz:
            number = _flushed(number, self.form)
            if number and abs(value) < Fraction(2) ** self.form.least:
                return None
        return _saturated(number) if self.sat else number

    def taken(self, numbers: Floats) -> Floats:
        """An operand, subnormal ends flushed."""
        if not self.ftz:
            return numbers
        low, high = (_flushed(end, self.form) for end in (numbers.low, numbers.high))
        return Floats(low, high, numbers.nan)

    def beside(self, number: float, up: bool) -> float:
        """The next number of the format above or below."""
        step = Fraction(2) ** (self.form.least - (0 if self.ftz else self.form.digits - 1))
        size = abs(Fraction(number))
        if size >= Fraction(2) ** self.form.least:
            exponent = math.frexp(number)[1] - 1
            step = Fraction(2) ** (exponent - self.form.digits + 1)
        moved = Fraction(number) + (step if up else -step)
        return rounded(moved, self.form, "rn") if moved else 0.0 if up else -0.0


def _sign(*numbers: float) -> float:
    return math.prod(math.copysign(1, number) for number in numbers)


def _product(how: _How, a: float, b: float) -> float | None:
    return how.ends(Fraction(a) * Fraction(b), math.copysign(0.0, _sign(a, b)))


def _fused(how: _How, a: float, b: float, c: float) -> float | None:
    exact = Fraction(a) * Fraction(b)
    zero = -0.0 if how.mode == "rm" else 0.0
    if not exact and not c and _sign(a, b) == _sign(c):
        zero = c
    return how.ends(exact + Fraction(c), zero)


def _quotient(how: _How, a: float, b: float) -> float | None:
    if not b:
        return None
    return how.ends(Fraction(a) / Fraction(b), math.copysign(0.0, _sign(a, b)))


def _root(how: _How, a: float) -> float | None:
    """By the integer root of a number that is scaled to more than twice the digits."""
    if a < 0:
        return None
    if not a:
        return a
    exact = Fraction(a)
    half = how.form.digits + 2 - math.frexp(a)[1] // 2
    scaled = exact * Fraction(4) ** half
    whole = math.isqrt(scaled.numerator // scaled.denominator)
    below = whole * whole != scaled  # a half is enough: the result has fewer digits than `whole`
    return how.ends(Fraction(2 * whole + below, 2) / Fraction(2) ** half, 0.0)


_EXACT: Mapping[str, Callable[..., float | None]] = {
    "add": lambda how, a, b: _fused(how, a, 1.0, b),
    "sub": lambda how, a, b: _fused(how, a, 1.0, -b),
    "mul": _product,
    "fma": _fused,
    "mad": _fused,
    "div": _quotient,
    "rcp": lambda how, a: _quotient(how, 1.0, a),
    "sqrt": _root,
}
_MODES = frozenset(("rn", "rz", "rm", "rp"))


def _arithmetic(operation: Operation, form: Format, operands: Sequence[Floats]) -> Result:
    words = set(operation.words)
    mode = "".join(words & _MODES)
    how = _How(form, mode or "rn", "ftz" in words, "sat" in words)
    taken = [how.taken(one) for one in operands]
    if any(one.nan or math.isinf(one.low) or math.isinf(one.high) for one in taken):
        return None
    if not mode and operation.name in ("add", "sub"):
        taken = [Floats(how.beside(x.low, False), how.beside(x.high, True)) for x in taken]
        if any(math.isinf(end) for one in taken for end in (one.low, one.high)):
            return None
    if how.mode == "rm" and not all(one.is_number for one in taken):
        return None
    divisors = taken[-1:] if operation.name in ("div", "rcp") else []
    if any(one.low <= 0 <= one.high for one in divisors):
        return None
    rule = _EXACT[operation.name]
    return _around([rule(how, *corner) for corner in product(*(one.ends for one in taken))])


def _around(ends: Sequence[float | None]) -> Floats | None:
    """The least range around results that are all known."""
    known = [end for end in ends if end is not None]
    if len(known) < len(ends):
        return None
    return Floats(min(known, key=_key), max(known, key=_key))


# --- what needs no rounding -----------------------------------------------------------------------


def _opposite(one: Floats) -> Floats:
    return Floats(-one.high, -one.low, one.nan)


def _magnitude(one: Floats) -> Floats:
    if math.copysign(1, one.low) > 0:
        return one
    if math.copysign(1, one.high) < 0:
        return _opposite(one)
    return Floats(0.0, max(-one.low, one.high), one.nan)


def _least(a: Floats, b: Floats) -> Floats:
    """The other one of NaN."""
    high = min(a.high, b.high, key=_key)
    if a.nan:
        high = max(high, b.high, key=_key)
    if b.nan:
        high = max(high, a.high, key=_key)
    return Floats(min(a.low, b.low, key=_key), high, a.nan and b.nan)


def _greatest(a: Floats, b: Floats) -> Floats:
    return _opposite(_least(_opposite(a), _opposite(b)))


_PLAIN: Mapping[str, Callable[..., Floats]] = {
    "neg": _opposite,
    "abs": _magnitude,
    "min": _least,
    "max": _greatest,
}


# --- conversions ----------------------------------------------------------------------------------


def _clamped(number: float, mode: str, target: NumberType) -> int:
    low = -(1 << target.bits - 1) if target.is_signed else 0
    high = low + (1 << target.bits) - 1
    if math.isinf(number):
        return high if number > 0 else low
    return min(max(_integer(Fraction(number), mode), low), high)


def _converted(operation: Operation, operand: Floats | Interval) -> Result:
    target, origin = operation.types
    words = set(operation.words)
    to, mode = format_of(target), "".join(words & (_MODES | _TO_INTEGERS))
    if isinstance(operand, Interval):
        assert to is not None
        how = _How(to, mode, "ftz" in words, "sat" in words)
        return _around([how.ends(Fraction(end), 0.0) for end in (operand.low, operand.high)])
    form = format_of(origin)
    assert form is not None
    if "ftz" in words and origin.bits == 32:
        low, high = (_flushed(end, form) for end in (operand.low, operand.high))
        operand = Floats(low, high, operand.nan)
    if to is None:
        ends = [_clamped(end, mode, target) for end in (operand.low, operand.high)]
        if operand.nan:
            small = target.bits < 64 and origin.bits < 64
            indefinite = 0 if small else 1 << target.bits - 1
            ends.append(-indefinite if target.is_signed else indefinite)
        return around(ends)
    if operand.nan and "sat" not in words:
        return None
    how = _How(to, mode or "rn", "ftz" in words and target.bits == 32, "sat" in words)
    found = [_as_float(end, mode, how) for end in (operand.low, operand.high)]
    return _around(found + [0.0] * operand.nan)


def _as_float(number: float, mode: str, how: _How) -> float | None:
    if math.isinf(number):
        return _saturated(number) if how.sat else number
    exact = Fraction(number)
    if mode in _TO_INTEGERS:
        exact = Fraction(_integer(exact, mode))
    return how.ends(exact, math.copysign(0.0, number))


_TO_INTEGERS = frozenset(("rni", "rzi", "rmi", "rpi"))


# --- operations -----------------------------------------------------------------------------------

_ROUNDED = frozenset(("div", "rcp", "sqrt", "fma", "mad"))


def is_determined(operation: Operation) -> bool:
    """Whether :func:`result_of` has a rule for an operation."""
    words, types = set(operation.words), operation.types
    if operation.name == "cvt":
        if len(types) != 2 or not words <= _MODES | _TO_INTEGERS | {"ftz", "sat"}:
            return False
        known = [format_of(one) is not None for one in types]
        whole = [one.is_integer for one in types]
        if not any(known) or not all(a or b for a, b in zip(known, whole, strict=True)):
            return False
        return all(known) or bool(words & (_MODES if known[0] else _TO_INTEGERS))
    if len(types) != 1 or format_of(types[0]) is None:
        return False
    if operation.name in _PLAIN:
        return words <= {"ftz"}
    if operation.name not in _EXACT or not words <= _MODES | {"ftz", "sat"}:
        return False
    return bool(words & _MODES) or operation.name not in _ROUNDED


def result_of(operation: Operation, operands: Operands) -> Result:
    """What an operation that is determined makes of operands: an interval of integers where its
    type is one. None where that may be any number, or NaN. Cost: constant.
    """
    if operation.name == "cvt":
        return _converted(operation, operands[0])
    form = format_of(operation.types[0])
    assert form is not None
    numbers = [one for one in operands if isinstance(one, Floats)]
    plain = _PLAIN.get(operation.name)
    if plain in (_least, _greatest) and len(numbers) != 2:
        return None  # the forms of three numbers
    if plain is None:
        return _arithmetic(operation, form, numbers)
    if "ftz" in operation.words:
        numbers = [
            Floats(_flushed(one.low, form), _flushed(one.high, form), one.nan) for one in numbers
        ]
    return plain(*numbers)
