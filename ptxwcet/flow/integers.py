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

from ptxwcet.flow.regions import (
    Symbol,
    Wavers,
    require_multiples,
    require_negative,
    require_nonnegative,
    require_zero,
)
from ptxwcet.flow.values import (
    Cause,
    Condition,
    Known,
    Mask,
    Number,
    Unknown,
    Value,
    clean_terms,
    wrap,
)

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


def compare(a: Known, b: Known, operator: str, kind: IntegerType, active: Mask) -> Value | None:
    """0 or 1 a lane; the same for all symbol values of the (shrunk) region.

    Lanes in which it depends on fixed symbols are not known (not valid). None: no such operator.
    Raises Wavers if an operand may wrap around.
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
    if not form.terms:
        return Known(_as_number(form.base < 0))
    low, high = extremes(form)
    holds, fails = _lanes(high < 0, active), _lanes(low >= 0, active)
    holds = _settled(holds, require_lanes_negative, form)
    fails = _settled(fails, require_lanes_nonnegative, form)
    unsettled = active & ~(holds | fails)
    if unsettled.any():  # it must stay possible both ways
        _require_possible(form, unsettled, -1)
    return _open_outcome(holds, unsettled, active, form, (None, -1))


def extremes(exact: Exact) -> tuple[Any, Any]:
    """The smallest and the largest value over the fixed symbols, where all others are 0."""
    low = high = exact.base
    for symbol, c in exact.terms.items():
        if not symbol.fixed:
            continue
        if isinstance(c, int):
            low, high = low + min(c * symbol.last, 0), high + max(c * symbol.last, 0)
        else:
            reach = c.astype(object) * symbol.last
            low, high = low + np.minimum(reach, 0), high + np.maximum(reach, 0)
    return low, high


def _lanes(outcome: Any, active: Mask) -> Mask:
    lanes: Mask = active & np.broadcast_to(np.asarray(outcome, dtype=bool), active.shape)
    return lanes


def _settled(lanes: Mask, require: Callable[[Exact, Mask], None], form: Exact) -> Mask:
    """The lanes, if what is required of them can be made to hold on the whole region; else none."""
    if lanes.any():
        try:
            require(form, lanes)
        except Wavers:
            return np.zeros_like(lanes)
    return lanes


def _require_possible(form: Exact, lanes: Mask, bound: int) -> None:
    """Shrink the region to where the form may still be at most ``bound``, and may be above it."""
    low, high = extremes(form)
    rest = {symbol: c for symbol, c in form.terms.items() if not symbol.fixed}
    if rest:
        may, may_not = lanes & _lanes(low <= bound, lanes), lanes & _lanes(high > bound, lanes)
        if may.any():
            require_lanes_negative(Exact(low - bound - 1, rest), may)
        if may_not.any():
            require_lanes_nonnegative(Exact(high - bound - 1, rest), may_not)


def _open_outcome(
    holds: Mask,
    unsettled: Mask,
    active: Mask,
    form: Exact,
    between: tuple[int | None, int],
) -> Value:
    """The outcome where some lanes are unsettled; it holds if the form is in ``between``."""
    if not unsettled.any():
        return Known(_uniform_or_lanes(holds, active))
    causes = causes_of(form.terms)
    if (active & ~unsettled).any():
        return Known(_as_number(holds), valid=~unsettled, otherwise=causes)
    return Unknown(causes, _condition(form, between, active))


def _uniform_or_lanes(holds: Mask, active: Mask) -> Number:
    """1 or 0 if all active lanes agree, else a number for each."""
    if not holds.any():
        return 0
    return 1 if not (active & ~holds).any() else _as_number(holds)


def causes_of(terms: Mapping[Symbol, Number]) -> frozenset[Cause]:
    """Why the fixed symbols of a form are not known."""
    found: frozenset[Cause] = frozenset()
    for symbol in terms:
        if isinstance(symbol.origin, frozenset):
            found |= symbol.origin
    return found


def _condition(form: Exact, between: tuple[int | None, int], active: Mask) -> Condition | None:
    """What the outcome says about a form's only symbol: ``low <= base + c * symbol <= high``."""
    numbers = {symbol: _common(c, active) for symbol, c in form.terms.items()}
    base = _common(form.base, active)
    terms = [(symbol, c) for symbol, c in numbers.items() if c != 0]
    if len(terms) != 1 or base is None:
        return None
    ((symbol, c),) = terms
    if not symbol.fixed or c is None:
        return None
    low, high = between
    last = symbol.last
    inside = _solutions(base, c, low, high, last)
    if inside is None:
        return None
    first, final = inside
    if first == 0:
        rest = (final + 1, last)
    elif final == last:
        rest = (0, first - 1)
    else:
        return Condition(symbol, (first, final), None)
    return Condition(symbol, (first, final), rest if rest[0] <= rest[1] else None)


def _common(number: Any, active: Mask) -> int | None:
    """The number that all active lanes have, None if they differ."""
    if isinstance(number, int):
        return number
    lanes = number[active]
    return int(lanes[0]) if (lanes == lanes[0]).all() else None


def _solutions(base: int, c: int, low: int | None, high: int, last: int) -> tuple[int, int] | None:
    """The ``0 <= s <= last`` with ``low <= base + c * s <= high``, first and last; None if none."""
    if c > 0:
        first = 0 if low is None else max(0, -((base - low) // c))
        final = min(last, (high - base) // c)
    else:
        first = max(0, -((high - base) // -c))
        final = last if low is None else min(last, (base - low) // -c)
    return (first, final) if first <= final else None


def _compare_equal(a: Known, b: Known, equal: bool, kind: IntegerType, active: Mask) -> Value:
    bits = kind.bits
    signed = IntegerType(bits, signed=True)
    raw = difference(Exact(wrap(a.base, bits), a.terms), Exact(wrap(b.base, bits), b.terms))
    form = from_exact(raw, bits)  # equality only matters modulo 2**bits
    if not form.terms:
        zero = form.base == 0
        return Known(_as_number(zero if equal else np.logical_not(zero)))
    exact = as_exact(form, signed, active)
    low, high = extremes(exact)
    fixed_zero = _lanes((low == 0) & (high == 0), active)
    above, below = _lanes(low > 0, active), _lanes(high < 0, active)
    if fixed_zero.any():
        for _, terms in rows(exact, fixed_zero, largest=True):
            require_zero(terms)
    above = _settled(above, require_lanes_nonnegative, shifted(exact, -1))
    below = _settled(below, require_lanes_negative, exact)
    unsettled = active & ~(fixed_zero | above | below)
    if unsettled.any():
        _require_possible(exact, unsettled, 0)
        _require_possible(shifted(exact, 1), unsettled, 0)
    found = _open_outcome(fixed_zero, unsettled, active, exact, (0, 0))
    return found if equal else opposite(found)


def opposite(predicate: Value) -> Value:
    """``not`` of a predicate."""
    if isinstance(predicate, Unknown):
        condition = predicate.condition
        return Unknown(predicate.causes, None if condition is None else condition.negated())
    return Known(1 - predicate.base, predicate.terms, predicate.valid, predicate.otherwise)


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
    if operator == "and" and other & (other + 1) == 0 and other < 1 << (bits - 1):
        require_multiples(a.terms, other + 1)
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
        require_multiples(exact.terms, divisor)
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
        if amount < kind.bits - 1:
            require_multiples(exact.terms, 1 << amount)
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
    if not isinstance(less, Known) or less.valid is not None:
        return None
    take_a = np.asarray(less.base, dtype=bool) != largest
    return select(a, b, take_a if isinstance(less.base, np.ndarray) else bool(take_a))


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
