"""Integer operations of PTX on known lanes, and the conditions under which they stay affine.

All functions here compute exactly what PTX defines, modulo the width of the type, for operands
without symbols. With symbols (see :mod:`ptxwcet.flow.regions`) ring operations stay affine by
themselves; the others are affine only where no operand wraps around, which they require of the
region, or return None ("not affine").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptxwcet.flow.regions import Symbol, require_negative, require_nonnegative, require_zero
from ptxwcet.flow.values import Known, Mask, Number, clean_terms, wrap

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
    count = len(active)
    columns = [
        np.broadcast_to(np.asarray(x, dtype=object), (count,))[active]
        for x in (base, *terms.values())
    ]
    for row in set(zip(*(column.tolist() for column in columns), strict=True)):
        yield row[0], dict(zip(terms, row[1:], strict=True))


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
    require_lanes_negative(Exact(base - (kind.high + 1), terms), active)
    require_lanes_nonnegative(Exact(base - kind.low, terms), active)
    return exact


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
    return Exact(exact.base + offset, exact.terms)


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


# --- comparison ---------------------------------------------------------------------------------

_ORDER: dict[str, tuple[bool, int]] = {
    # comparison -> (swap operands, offset): a < b  <=>  a - b + offset < 0
    "lt": (False, 0),
    "lo": (False, 0),
    "le": (False, -1),
    "ls": (False, -1),
    "gt": (True, 0),
    "hi": (True, 0),
    "ge": (True, -1),
    "hs": (True, -1),
}


def compare(a: Known, b: Known, operator: str, kind: IntegerType, active: Mask) -> Number | None:
    """0 or 1 a lane; the same for all symbol values of the (shrunk) region. None: no such
    operator.
    """
    if operator in ("lo", "ls", "hi", "hs"):
        kind = IntegerType(kind.bits, signed=False)
    if operator in ("eq", "ne"):
        return _compare_equal(a, b, operator == "eq", kind, active)
    order = _ORDER.get(operator)
    if order is None:
        return None
    swap, offset = order
    left, right = as_exact(a, kind, active), as_exact(b, kind, active)
    if swap:
        left, right = right, left
    form = shifted(difference(left, right), offset)
    outcome = form.base < 0
    if form.terms:
        _settle(form, outcome, active)
    return _as_number(outcome)


def _settle(form: Exact, outcome: Any, active: Mask) -> None:
    yes = active & outcome
    no = active & ~np.broadcast_to(np.asarray(outcome, dtype=bool), active.shape)
    if yes.any():
        require_lanes_negative(form, yes)
    if no.any():
        require_lanes_nonnegative(form, no)


def _compare_equal(a: Known, b: Known, equal: bool, kind: IntegerType, active: Mask) -> Number:
    bits = kind.bits
    signed = IntegerType(bits, signed=True)
    raw = difference(Exact(wrap(a.base, bits), a.terms), Exact(wrap(b.base, bits), b.terms))
    form = from_exact(raw, bits)  # equality only matters modulo 2**bits
    zero = form.base == 0
    if form.terms:
        exact = as_exact(form, signed, active)
        _settle_equality(exact, np.broadcast_to(np.asarray(zero), active.shape), active)
    return _as_number(zero if equal else np.logical_not(zero))


def _settle_equality(form: Exact, zero: Any, active: Mask) -> None:
    base = np.broadcast_to(np.asarray(form.base), active.shape)
    if (active & zero).any():
        for _, terms in rows(form, active & zero, largest=True):
            require_zero(terms)
    if (active & (base > 0)).any():
        require_lanes_nonnegative(shifted(form, -1), active & (base > 0))
    if (active & (base < 0)).any():
        require_lanes_negative(form, active & (base < 0))


def _as_number(outcome: Any) -> Number:
    if isinstance(outcome, (bool, np.bool_)):
        return int(outcome)
    array = np.asarray(outcome)
    if array.ndim == 0:
        return int(array)
    return array.astype(np.int64)


# --- operations that are not ring operations -----------------------------------------------------


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
    other = b.base & ((1 << bits) - 1)
    free = _free_low_bits(a)
    if operator == "and" and other < (1 << free):
        return Known(a.base & other)
    if operator != "and" and other < (1 << free):
        low = a.base & ((1 << free) - 1)
        mixed = low | other if operator == "or" else low ^ other
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
    if any(not _divisible(c, divisor) for c in exact.terms.values()):
        return None
    if not bool((np.broadcast_to(np.asarray(exact.base), active.shape)[active] >= 0).all()):
        return None
    require_lanes_nonnegative(exact, active)
    return Exact(exact.base // divisor, {s: c // divisor for s, c in exact.terms.items()})


def _divisible(c: Number, divisor: int) -> bool:
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
    if exact.terms and any(not _divisible(c, 1 << amount) for c in exact.terms.values()):
        return None
    return from_exact(
        Exact(exact.base >> amount, {s: c >> amount for s, c in exact.terms.items()}), kind.bits
    )


def per_lane_exact(function: Callable[..., int], *numbers: Any) -> Any:
    """Like per_lane, on true integers (object arrays allowed); returns int or object array."""
    if all(isinstance(number, int) for number in numbers):
        return function(*numbers)
    arrays = np.broadcast_arrays(*[np.asarray(number, dtype=object) for number in numbers])
    result = np.empty(arrays[0].shape, dtype=object)
    result[:] = [function(*lane) for lane in zip(*arrays, strict=True)]
    return result


def extremum(a: Known, b: Known, kind: IntegerType, active: Mask, *, largest: bool) -> Known | None:
    """``min`` or ``max``: the operand that wins, in each lane the same over the region."""
    less = compare(a, b, "lt", kind, active)
    if less is None:
        return None
    take_a = np.asarray(less, dtype=bool) != largest
    return select(a, b, take_a if isinstance(less, np.ndarray) else bool(take_a))


def select(a: Known, b: Known, take_a: Any) -> Known:
    """Lane by lane ``a`` where ``take_a`` holds, else ``b``."""
    if isinstance(take_a, (bool, int)):
        return a if take_a else b
    symbols = a.terms.keys() | b.terms.keys()

    def pick(x: Number, y: Number) -> Number:
        chosen: Any = np.where(take_a, x, y)
        return chosen  # type: ignore[no-any-return]

    return Known(
        pick(a.base, b.base),
        clean_terms({s: pick(a.terms.get(s, 0), b.terms.get(s, 0)) for s in symbols}),
    )
