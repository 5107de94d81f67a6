"""Integer types of PTX, and lanes as true integers where no value of the region wraps around.

Values are modulo the width of a type (:mod:`ptxwcet.flow.values.value`); ring operations stay
affine in symbols (:mod:`ptxwcet.flow.values.regions`) by themselves. What depends on the numbers
themselves, such as an order or a quotient, needs them exact: symbols are limited to where that is
so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import repeat
from typing import Any

import numpy as np

from ptxwcet.flow.values.intervals import Interval, around
from ptxwcet.flow.values.regions import Symbol, require_negative, require_nonnegative
from ptxwcet.flow.values.value import Cause, Known, Mask, Number, clean_terms, wrap
from ptxwcet.support.records import dataclass

Rows = Iterator[tuple[int, dict[Symbol, int]]]


@dataclass(frozen=True, slots=True)
class IntegerType:
    """An integer type of PTX: ``u``, ``s`` or ``b`` (treated as unsigned) and its width in bits."""

    bits: int
    signed: bool

    @property
    def low(self) -> int:
        """Smallest value."""
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def high(self) -> int:
        """Largest value."""
        return (1 << (self.bits - 1)) - 1 if self.signed else (1 << self.bits) - 1

    @property
    def interval(self) -> Interval:
        """The interval of all values of the type."""
        return Interval(self.low, self.high)


_TYPES = {
    f"{kind}{bits}": IntegerType(bits, kind == "s") for kind in "usb" for bits in (8, 16, 32, 64)
}


def integer_type(modifier: str) -> IntegerType | None:
    """The integer type that a modifier names (``s32``), or None."""
    return _TYPES.get(modifier)


@dataclass(frozen=True, slots=True, eq=False)
class Exact:
    """Lanes as true integers, modulo nothing: base is an int or an array (int64 or object)."""

    base: Any
    terms: Mapping[Symbol, Number]


def rows(exact: Exact, active: Mask, *, largest: bool) -> Rows:
    """The distinct (base, terms) of the active lanes; with uniform coefficients only the extreme.

    Cost: O(lanes) with uniform coefficients, O(lanes log lanes) otherwise.
    """
    base, terms = exact.base, exact.terms
    if all(isinstance(c, int) for c in terms.values()):
        uniform = {s: c for s, c in terms.items() if isinstance(c, int)}
        if isinstance(base, int):
            yield base, uniform
        else:
            lanes = base[active]
            yield int(lanes.max() if largest else lanes.min()), uniform
        return
    for lane in _distinct(exact, active):
        yield lane[0], dict(zip(terms, lane[1:], strict=True))


def require_lanes_negative(exact: Exact, active: Mask) -> None:
    """Shrink the region until the form is negative in all active lanes (it is at the origin)."""
    for base, terms in rows(exact, active, largest=True):
        require_negative(base, terms)


def require_lanes_nonnegative(exact: Exact, active: Mask) -> None:
    """Shrink the region until the form is at least 0 in all active lanes (it is at the origin)."""
    for base, terms in rows(exact, active, largest=False):
        require_nonnegative(base, terms)


def as_exact(value: Known, kind: IntegerType, active: Mask) -> Exact:
    """The lanes as integers of a type; with symbols, the region is shrunk to where none wraps."""
    base: Any = wrap(value.base, kind.bits)
    if not kind.signed:
        base = _unsigned(base, kind.bits)
    if not value.terms:
        return Exact(base, {})
    terms = clean_terms({s: wrap(c, kind.bits) for s, c in value.terms.items()})
    if kind.bits == 64 and not isinstance(base, int):
        base = base.astype(object)  # the distances below do not fit 64 bits
    exact = Exact(base, terms)
    if not _is_inside(exact, kind, active):
        require_lanes_negative(Exact(base - (kind.high + 1), terms), active)
        require_lanes_nonnegative(Exact(base - kind.low, terms), active)
    return exact


def _is_inside(exact: Exact, kind: IntegerType, active: Mask) -> bool:
    """Whether no lane leaves a type whatever the symbols are, so that nothing need shrink; False
    where lanes have coefficients of their own or a range depends on others.
    """
    if isinstance(exact.base, int):
        low = high = exact.base
    else:
        lanes = exact.base[active]
        if not len(lanes):
            return False
        low, high = int(lanes.min()), int(lanes.max())
    for symbol, c in exact.terms.items():
        if symbol.count is None or symbol.slopes or not isinstance(c, int):
            return False
        end = c * (symbol.count - 1)
        low, high = (low + end, high) if end < 0 else (low, high + end)
    return kind.low <= low and high <= kind.high


def _unsigned(base: Any, bits: int) -> Any:
    if isinstance(base, int):
        return base & ((1 << bits) - 1)
    if bits < 64:
        return base & ((1 << bits) - 1)
    if (base >= 0).all():
        return base
    return base.astype(object) & ((1 << 64) - 1)


def from_exact(exact: Exact, bits: int) -> Known:
    """Integers back to lanes modulo ``2**bits``."""
    terms = {s: wrap(_as_lanes(c), bits) for s, c in exact.terms.items()}
    return Known(wrap(_as_lanes(exact.base), bits), clean_terms(terms))


def _as_lanes(numbers: Any) -> Number:
    if isinstance(numbers, int) or numbers.dtype != object:
        lanes: Number = numbers
        return lanes
    return np.array([wrap(int(lane), 64) for lane in numbers], dtype=np.int64)


def difference(a: Exact, b: Exact) -> Exact:
    """``a - b`` as true integers."""
    terms: dict[Symbol, Number] = dict(a.terms)
    for symbol, c in b.terms.items():
        minuend, subtrahend = _widest(terms.get(symbol, 0), c)
        terms[symbol] = minuend - subtrahend
    left, right = _widest(a.base, b.base)
    return Exact(left - right, clean_terms(terms))


def shifted(exact: Exact, offset: int) -> Exact:
    """``exact + offset``."""
    return Exact(_sum(exact.base, offset), exact.terms)


def _sum(a: Any, b: Any) -> Any:
    """``a + b`` as true integers."""
    left, right = _widest(a, b)
    return left + right


def _is_small(base: Any) -> bool:
    limit = 1 << 61
    if isinstance(base, int):
        return -limit < base < limit
    return base.dtype != object and bool(((base > -limit) & (base < limit)).all())


def _widest(a: Any, b: Any) -> tuple[Any, Any]:
    """Keeps int64 where a sum or difference cannot overflow, Python ints elsewhere."""
    if isinstance(a, int) and isinstance(b, int):
        return a, b
    if _is_small(a) and _is_small(b):
        return a, b
    return _as_objects(a), _as_objects(b)


def _as_objects(base: Any) -> Any:
    return base if isinstance(base, int) else base.astype(object)


def extremes(exact: Exact) -> tuple[Any, Any]:
    """The smallest and the largest value over the fixed symbols, where all others are 0.

    True integers: an int or an array, of Python ints where 64 bits might not hold them.
    """
    low = high = exact.base
    for symbol, c in exact.terms.items():
        if not symbol.fixed:
            continue
        if isinstance(c, int):
            low = _sum(low, min(c * symbol.last, 0))
            high = _sum(high, max(c * symbol.last, 0))
        else:
            reach = c.astype(object) * symbol.last
            low, high = _sum(low, np.minimum(reach, 0)), _sum(high, np.maximum(reach, 0))
    return low, high


def interval_in(exact: Exact, active: Mask) -> Interval:
    """The least interval around the values of the active lanes, of which there is one at least.

    All symbols take all their values: none may count iterations. Cost: linear in the lanes; in the
    different ones by a Python loop where lanes have coefficients of their own.
    """
    if all(isinstance(c, int) for c in exact.terms.values()):
        low, high = _ends(exact.base, active)
        for symbol, c in exact.terms.items():
            assert isinstance(c, int)
            end = c * symbol.last
            low, high = (low + end, high) if end < 0 else (low, high + end)
        return Interval(low, high)
    ends = []
    for base, *coefficients in _distinct(exact, active):
        reach = [int(c) * s.last for s, c in zip(exact.terms, coefficients, strict=True)]
        ends += [base + sum(min(r, 0) for r in reach), base + sum(max(r, 0) for r in reach)]
    return around(int(end) for end in ends)


def _ends(number: Any, active: Mask) -> tuple[int, int]:
    """The smallest and the largest number of the active lanes."""
    if isinstance(number, int):
        return number, number
    lanes = number[active]
    return int(lanes.min()), int(lanes.max())


def _distinct(exact: Exact, active: Mask) -> set[tuple[int, ...]]:
    """Base and coefficients of the active lanes, as Python ints; what is alike once."""
    count = int(np.count_nonzero(active))
    columns = [
        repeat(number, count) if isinstance(number, int) else number[active].tolist()
        for number in (exact.base, *exact.terms.values())
    ]
    return set(zip(*columns, strict=True))


def per_lane_exact(function: Callable[..., int], *numbers: Any) -> Any:
    """``function`` on Python ints, lane by lane: an int, or an array of them. Cost: a call each."""
    if all(isinstance(number, int) for number in numbers):
        return function(*numbers)
    arrays = np.broadcast_arrays(*[np.asarray(number, dtype=object) for number in numbers])
    result = np.empty(arrays[0].shape, dtype=object)
    result[:] = [function(*lane) for lane in zip(*arrays, strict=True)]
    return result


def causes_of(terms: Mapping[Symbol, Number]) -> frozenset[Cause]:
    """Why the fixed symbols of a form are not known."""
    found: frozenset[Cause] = frozenset()
    for symbol in terms:
        if isinstance(symbol.origin, frozenset):
            found |= symbol.origin
    return found
