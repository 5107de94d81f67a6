"""Integer operations of PTX that are not ring operations, and where they stay affine.

All functions compute exactly what PTX defines, modulo the width of the type, for operands without
symbols. With symbols they are affine only where no operand wraps around, which they require of the
region, or return None ("not affine").
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxwcet.flow.values.integers import (
    Exact,
    IntegerType,
    as_exact,
    from_exact,
    per_lane_exact,
    require_lanes_nonnegative,
)
from ptxwcet.flow.values.regions import require_multiples
from ptxwcet.flow.values.value import Known, Lanes, Mask, Number, clean_terms, wrap


def bitwise(a: Known, b: Known, operator: str, bits: int) -> Known | None:
    """``and``, ``or``, ``xor``. With symbols only where the symbol part stays out of the way.

    ``x & low_mask`` is free of a symbol whose coefficient is a multiple of the mask's size;
    ``x | y`` and ``x ^ y`` are sums when their set bits cannot meet.
    """
    if not a.terms and not b.terms:
        left: Any = a.base
        right: Any = b.base
        if operator == "and":
            return Known(left & right)
        return Known(left | right if operator == "or" else left ^ right)
    if b.terms:
        a, b = b, a
    if b.terms or not isinstance(b.base, int):
        return None
    number = b.base & ((1 << bits) - 1)
    if operator == "and" and number & (number + 1) == 0 and number < 1 << (bits - 1):
        require_multiples(a.terms, number + 1)
    free = _free_low_bits(a)
    if operator == "and" and number < (1 << free):
        return Known(a.base & number)
    if operator != "and" and number < (1 << free):
        low = a.base & ((1 << free) - 1)
        mixed = low | number if operator == "or" else low ^ number
        return Known(wrap(a.base - low + mixed, bits), a.terms)
    return None


def _free_low_bits(value: Known) -> int:
    """How many low bits no symbol can change: all coefficients are multiples of ``2**n``."""
    joined = 0
    for c in value.terms.values():
        joined |= c if isinstance(c, int) else int(np.bitwise_or.reduce(c))
    return (joined & -joined).bit_length() - 1 if joined else 64


def divide(a: Known, b: Known, kind: IntegerType, active: Mask) -> Known | None:
    """``a / b`` truncated, as PTX; with symbols, ``a`` must stay >= 0 and ``b`` divide their
    coefficients.
    """
    quotient = _quotient(a, b, kind, active)
    return None if quotient is None else from_exact(quotient, kind.bits)


def _quotient(a: Known, b: Known, kind: IntegerType, active: Mask) -> Exact | None:
    if b.terms:
        return None
    divisor = as_exact(b, kind, active).base
    if not a.terms:
        if bool((np.broadcast_to(np.asarray(divisor), active.shape)[active] == 0).any()):
            return None  # PTX leaves the quotient open
        dividend = as_exact(a, kind, active).base
        lanes = per_lane_exact(lambda x, y: _truncated(x, y) if y else 0, dividend, divisor)
        return Exact(lanes, {})
    if not isinstance(divisor, int) or divisor <= 0:
        return None
    exact = as_exact(a, kind, active)
    if any(not divisible(c, divisor) for c in exact.terms.values()):
        require_multiples(exact.terms, divisor)
        return None
    if not bool((np.broadcast_to(np.asarray(exact.base), active.shape)[active] >= 0).all()):
        return None
    require_lanes_nonnegative(exact, active)
    return Exact(exact.base // divisor, {s: c // divisor for s, c in exact.terms.items()})


def divisible(c: Number, divisor: int) -> bool:
    """Whether a number divides those of all lanes."""
    if isinstance(c, int):
        return c % divisor == 0
    return divisor < 1 << 63 and not (c % divisor).any()


def _truncated(x: int, y: int) -> int:
    quotient = abs(x) // abs(y)
    return quotient if (x < 0) == (y < 0) else -quotient


def shift_right(a: Known, amount: int, kind: IntegerType, active: Mask) -> Known | None:
    """``a >> amount`` (arithmetic for signed types); amounts of at least the width clamp."""
    amount = min(amount, kind.bits)
    exact = as_exact(a, kind, active)
    if exact.terms and any(not divisible(c, 1 << amount) for c in exact.terms.values()):
        if amount < kind.bits - 1:
            require_multiples(exact.terms, 1 << amount)
        return None
    return from_exact(
        Exact(exact.base >> amount, {s: c >> amount for s, c in exact.terms.items()}), kind.bits
    )


def select(a: Known, b: Known, take_a: Any) -> Known:
    """Lane by lane ``a`` where ``take_a`` holds, else ``b``."""
    if isinstance(take_a, (bool, int)):
        return a if take_a else b
    symbols = a.terms.keys() | b.terms.keys()

    def pick(x: Number, y: Number) -> Number:
        chosen: Lanes = np.where(take_a, _as_array(x), _as_array(y))
        return chosen

    return Known(
        pick(a.base, b.base),
        clean_terms({s: pick(a.terms.get(s, 0), b.terms.get(s, 0)) for s in symbols}),
    )


def _as_array(number: Number) -> Lanes:
    """A number as an array: of Python ints where 64 bits do not hold it."""
    fits = not isinstance(number, int) or -(1 << 63) <= number < 1 << 63
    array: Lanes = np.asarray(number, dtype=None if fits else object)
    return array
