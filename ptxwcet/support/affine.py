"""Provides whole numbers that are affine in one unknown, for code written for whole numbers.

An :class:`Affine` represents ``base + slope * u`` with ``0 <= u < count``, all values at once. It
adds, multiplies by constants and compares; a result without a slope is an ``int`` again. An
operation without a single answer for all u raises

* :class:`CutRange`, where a comparison changes its outcome: evaluate below and above separately;
* :class:`CutResidues`, where a division needs the remainder of u: evaluate each separately;
* :class:`NotAffine`, where the result is no affine number (a product of two).

So a function that ends on an Affine has taken the same path, and given an affine result, for every
u of the range: the result is that of the function on each single number, by construction.

>>> x = variable(0, 1, 1000)
>>> (3 * x + 5) - x - x
Affine(5 + 1 u, u < 1000)
>>> x < 10
Traceback (most recent call last):
ptxwcet.support.affine.CutRange: 10
"""

from __future__ import annotations

from math import gcd
from typing import cast

# Ranges this short are cut in two before an operation on them is given up: every operation is
# possible on single numbers.
_SHORT = 64


class CutRange(Exception):
    """Below ``at`` and from ``at`` on the outcome differs (``0 < at < count``)."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


class CutResidues(Exception):
    """The outcome depends on ``u`` modulo ``modulus``."""

    def __init__(self, modulus: int) -> None:
        super().__init__(modulus)
        self.modulus = modulus


class NotAffine(Exception):
    """A result would not be an affine number; ``operation`` names the operation."""

    def __init__(self, operation: str) -> None:
        super().__init__(operation)
        self.operation = operation


class Affine:
    """A number ``base + slope * u`` for ``0 <= u < count``; ``slope`` is not 0, ``count`` > 1.

    Operands of an operation must have the same unknown. Made by :func:`variable` and arithmetic.
    """

    __slots__ = ("base", "count", "slope")

    def __init__(self, base: int, slope: int, count: int) -> None:
        self.base = base
        self.slope = slope
        self.count = count

    def __repr__(self) -> str:
        return f"Affine({self.base} + {self.slope} u, u < {self.count})"

    def __hash__(self) -> int:
        return hash((self.base, self.slope))

    # --- arithmetic -------------------------------------------------------------------------------

    def __add__(self, other: int | Affine) -> int | Affine:
        if isinstance(other, Affine):
            return self._like(self.base + other.base, self.slope + other.slope)
        return Affine(self.base + other, self.slope, self.count)

    __radd__ = __add__

    def __neg__(self) -> Affine:
        return Affine(-self.base, -self.slope, self.count)

    def __sub__(self, other: int | Affine) -> int | Affine:
        return self + -other

    def __rsub__(self, other: int) -> int | Affine:
        return -self + other

    def __mul__(self, other: int | Affine) -> int | Affine:
        if isinstance(other, Affine):
            raise self._give_up("a product of two numbers that depend on it")
        return self._like(self.base * other, self.slope * other)

    __rmul__ = __mul__

    def __floordiv__(self, divisor: int) -> int | Affine:
        self._require_divides(divisor)
        return Affine(self.base // divisor, self.slope // divisor, self.count)

    def __mod__(self, divisor: int) -> int:
        self._require_divides(divisor)
        return self.base % divisor

    def __divmod__(self, divisor: int) -> tuple[int | Affine, int]:
        return self // divisor, self % divisor

    def __index__(self) -> int:
        raise self._give_up("a number of steps that depends on it")

    __int__ = __index__

    def __rfloordiv__(self, other: int) -> int:
        raise self._give_up("a division by a number that depends on it")

    __rmod__ = __rdivmod__ = __rfloordiv__

    def _like(self, base: int, slope: int) -> int | Affine:
        return Affine(base, slope, self.count) if slope else base

    def _require_divides(self, divisor: int | Affine) -> None:
        """Raises CutResidues or NotAffine unless all values have the same remainder."""
        if isinstance(divisor, Affine):
            raise self._give_up("a division by a number that depends on it")
        if self.slope % divisor:
            raise CutResidues(abs(divisor) // gcd(divisor, self.slope))

    def _give_up(self, operation: str) -> Exception:
        return CutRange(self.count // 2) if self.count <= _SHORT else NotAffine(operation)

    # --- comparisons ------------------------------------------------------------------------------

    def __lt__(self, other: int | Affine) -> bool:
        return _is_negative(self - other)

    def __ge__(self, other: int | Affine) -> bool:
        return not _is_negative(self - other)

    def __gt__(self, other: int | Affine) -> bool:
        return _is_negative(other - self)

    def __le__(self, other: int | Affine) -> bool:
        return not _is_negative(other - self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (int, Affine)):
            return NotImplemented
        difference = self - other
        if not isinstance(difference, Affine):
            return difference == 0
        zero, remainder = divmod(-difference.base, difference.slope)
        if remainder or not 0 <= zero < self.count:
            return False
        raise CutRange(zero or 1)

    def __bool__(self) -> bool:
        return self != 0


def _is_negative(number: int | Affine) -> bool:
    """Returns whether all values are below 0; raises CutRange if only some are."""
    if not isinstance(number, Affine):
        return number < 0
    first = number.base < 0
    last = number.base + number.slope * (number.count - 1) < 0
    if first == last:
        return first
    # the first u whose value is on the other side of 0
    if number.slope > 0:
        raise CutRange(-(number.base // number.slope))
    raise CutRange(number.base // -number.slope + 1)


def variable(first: int, step: int, count: int) -> int:
    """Returns the numbers ``first + step * u`` for ``0 <= u < count``, all at once.

    It is typed as ``int``: code for whole numbers computes with it unchanged, and any use without
    an answer for an Affine raises.
    """
    return cast(int, Affine(first, step, count)) if step and count > 1 else first


def parts(number: int) -> tuple[int, int]:
    """Returns base and slope of a number that may be Affine."""
    value = cast("int | Affine", number)
    return (value.base, value.slope) if isinstance(value, Affine) else (value, 0)
