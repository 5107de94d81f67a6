"""Abstract values of control-relevant registers: known lanes, affine in symbols, or unknown.

A value describes one register for all lanes of a group of warps that have followed the same path so
far. ``Known``: lane ``i`` holds ``base[i] + sum(terms[s][i] * s)`` modulo ``2**width``, exactly,
for every value of the symbols in the current region (:mod:`ptxwcet.flow.values.regions`); base and
coefficients are Python ints when all lanes agree and int64 arrays otherwise, in the canonical
signed representation of their width. ``Unknown``: anything; it remembers why.

A value written under a partial mask is known only in those lanes: ``valid`` says which, and
``otherwise`` why the other lanes are not.

All fields of a value are what is claimed of the register: :func:`merge` and :func:`meet` keep of a
condition what is true of every lane that it goes on to speak of, and :func:`implies` compares all
fields (tests/property/test_value_laws.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxwcet.flow.values.regions import Symbol
from ptxwcet.support.records import dataclass

Lanes = NDArray[np.int64]
Mask = NDArray[np.bool_]
Number = int | Lanes
Terms = Mapping[Symbol, Number]

_NO_TERMS: Terms = MappingProxyType({})


class CauseKind(Enum):
    """Why a value is not known."""

    PARAMETER = "parameter"  # a kernel parameter without a value
    LAUNCH = "launch"  # a special register that the launch does not fix
    MEMORY = "memory"  # loaded or returned by an instruction that is not evaluated
    FLOAT = "float"  # floating-point arithmetic
    NOT_AFFINE = "not-affine"  # known in one iteration, but not as a closed form over all
    UNDEFINED = "undefined"  # read before any write
    LOOP = "loop"  # changed by a loop whose iterations are not known one by one
    OPERATION = "operation"  # an operation without a transfer function


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason for an unknown value: ``name`` is a parameter, register or mnemonic.

    ``instruction`` is the index of the instruction where knowledge was lost (-1: none).
    """

    kind: CauseKind
    name: str
    instruction: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """What an open predicate says about a fixed symbol: its interval ``when`` it holds.

    ``otherwise``: the interval where it does not hold. None where the values are not an interval.
    It is said of all lanes or of ``lanes``.
    """

    symbol: Symbol
    when: tuple[int, int] | None
    otherwise: tuple[int, int] | None
    lanes: Mask | None = None

    def negated(self) -> Condition:
        """What is known where the opposite predicate holds."""
        return Condition(self.symbol, self.otherwise, self.when, self.lanes)

    def within(self, mask: Mask) -> Condition | None:
        """What is said of the lanes of ``mask`` alone; None if nothing is said of any."""
        lanes = mask.copy() if self.lanes is None else self.lanes & mask
        return Condition(self.symbol, self.when, self.otherwise, lanes) if lanes.any() else None

    def holds_in(self, mask: Mask) -> bool:
        """Whether it is said of all these lanes."""
        return self.lanes is None or not bool((mask & ~self.lanes).any())

    def implies(self, other: Condition, lanes: Mask) -> bool:
        """Whether ``other`` is true in ``lanes`` wherever this condition is."""
        spoken = lanes if other.lanes is None else lanes & other.lanes
        return (
            self.symbol is other.symbol
            and self.holds_in(spoken)
            and _is_inside(self.when, other.when)
            and _is_inside(self.otherwise, other.otherwise)
        )

    def or_else(self, other: Condition) -> Condition | None:
        """What is true wherever one of the two is; None if that is nothing."""
        if self.symbol is not other.symbol:
            return None
        when = _hull(self.when, other.when)
        otherwise = _hull(self.otherwise, other.otherwise)
        if when is None and otherwise is None:
            return None
        both = Condition(self.symbol, when, otherwise, self.lanes)
        return both if other.lanes is None else both.within(other.lanes)


def _is_inside(one: tuple[int, int] | None, other: tuple[int, int] | None) -> bool:
    """Whether an interval lies in another one; None is any number."""
    return other is None or (one is not None and other[0] <= one[0] and one[1] <= other[1])


def _hull(one: tuple[int, int] | None, other: tuple[int, int] | None) -> tuple[int, int] | None:
    if one is None or other is None:
        return None
    return min(one[0], other[0]), max(one[1], other[1])


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value about which nothing is known, or a predicate of which only its ``condition`` is."""

    causes: frozenset[Cause]
    condition: Condition | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """A value known in every lane (or in the ``valid`` ones); see the module docstring."""

    base: Number
    terms: Terms = field(default_factory=lambda: _NO_TERMS)
    valid: Mask | None = None
    otherwise: frozenset[Cause] = frozenset()

    @property
    def is_uniform_constant(self) -> bool:
        """Whether all lanes hold one and the same number, free of symbols."""
        return isinstance(self.base, int) and not self.terms and self.valid is None


Value = Known | Unknown


def wrap(number: Number, width: int) -> Number:
    """The canonical signed representative modulo ``2**width`` (int64 arrays: width <= 64)."""
    if isinstance(number, int):
        half = 1 << (width - 1)
        return ((number + half) & ((1 << width) - 1)) - half
    if width >= 64:
        return number
    half = 1 << (width - 1)
    wrapped: Lanes = ((number + half) & ((1 << width) - 1)) - half
    return wrapped


def add(a: Number, b: Number, width: int) -> Number:
    """Sum modulo ``2**width``."""
    with np.errstate(over="ignore"):
        return wrap(a + b, width)


def multiply(a: Number, b: Number, width: int) -> Number:
    """Product modulo ``2**width``. Arrays wrap modulo 2**64 first, which divides out exactly."""
    if isinstance(a, int) and isinstance(b, int):
        return wrap(a * b, width)
    with np.errstate(over="ignore"):
        product: Lanes = np.multiply(_as_int64(a), _as_int64(b))
    return wrap(product, width)


def _as_int64(number: Number) -> Any:
    return np.int64(wrap(number, 64)) if isinstance(number, int) else number


def is_zero(number: Number) -> bool:
    """Whether all lanes are 0."""
    return number == 0 if isinstance(number, int) else not np.count_nonzero(number)


def clean_terms(terms: Mapping[Symbol, Number]) -> Terms:
    """Terms without zero coefficients."""
    if not terms:
        return _NO_TERMS
    kept = {symbol: c for symbol, c in terms.items() if not is_zero(c)}
    return kept or _NO_TERMS


def combine(a: Known, b: Known, scale: int, width: int) -> Known:
    """``a + scale * b`` modulo ``2**width``."""
    base = add(a.base, multiply(b.base, scale, width), width)
    if not a.terms and not b.terms:
        return Known(base)
    terms = dict(a.terms)
    for symbol, c in b.terms.items():
        terms[symbol] = add(terms.get(symbol, 0), multiply(c, scale, width), width)
    return Known(base, clean_terms(terms))


def scale_by(a: Known, factor: Number, width: int) -> Known:
    """``a * factor`` modulo ``2**width``."""
    base = multiply(a.base, factor, width)
    if not a.terms:
        return Known(base)
    return Known(base, clean_terms({s: multiply(c, factor, width) for s, c in a.terms.items()}))


def substitute(value: Known, symbol: Symbol, base: int, terms: Terms, width: int) -> Known:
    """``value`` with ``symbol`` replaced by ``base + sum(terms)``, modulo ``2**width``."""
    coefficient = value.terms.get(symbol)
    if coefficient is None:
        return value
    new = {s: c for s, c in value.terms.items() if s is not symbol}
    for other, slope in terms.items():
        new[other] = add(new.get(other, 0), multiply(coefficient, slope, width), width)
    return Known(
        add(value.base, multiply(coefficient, base, width), width),
        clean_terms(new),
        value.valid,
        value.otherwise,
    )


def implies(premise: Value, conclusion: Value, lanes: Mask) -> bool:
    """The order of values: whether ``conclusion`` is true of ``lanes`` wherever ``premise`` is.

    Reflexive and transitive. A value says nothing of lanes in which it is not known; causes are no
    part of it. If two values are different functions of the symbols the answer is no, also where
    these happen to be equal. Cost: linear in the lanes for each symbol.
    """
    if isinstance(conclusion, Unknown):
        if conclusion.condition is None:
            return True
        condition = premise.condition if isinstance(premise, Unknown) else None
        return condition is not None and condition.implies(conclusion.condition, lanes)
    if conclusion.valid is not None:
        lanes = lanes & conclusion.valid
    if isinstance(premise, Unknown):
        return not lanes.any()
    if premise.valid is not None and bool((lanes & ~premise.valid).any()):
        return False
    symbols = premise.terms.keys() | conclusion.terms.keys()
    return equal_in(premise.base, conclusion.base, lanes) and all(
        equal_in(premise.terms.get(s, 0), conclusion.terms.get(s, 0), lanes) for s in symbols
    )


def equal_in(a: Number, b: Number, lanes: Mask) -> bool:
    """Whether two numbers are the same in all these lanes."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b or not lanes.any()
    return not np.count_nonzero(lanes & (np.asarray(a) != np.asarray(b)))


def merge(old: Value, new: Value, mask: Mask) -> Value:
    """``new`` in the lanes of ``mask``, ``old`` in the others."""
    if isinstance(new, Known) and new.valid is not None:
        unknown = Unknown(new.otherwise)
        old = merge(old, unknown, mask & ~new.valid)
        return merge(old, Known(new.base, new.terms), mask & new.valid)
    if isinstance(new, Unknown):
        if isinstance(old, Unknown):
            condition = _either(old.condition, ~mask, new.condition, mask)
            return Unknown(old.causes | new.causes, condition)
        valid = ~mask if old.valid is None else old.valid & ~mask
        return Known(old.base, old.terms, valid, old.otherwise | new.causes)
    if isinstance(old, Unknown):
        return Known(new.base, new.terms, mask.copy(), old.causes)
    valid_or_none = None if old.valid is None else old.valid | mask
    symbols = old.terms.keys() | new.terms.keys()
    terms = {s: _select(mask, new.terms.get(s, 0), old.terms.get(s, 0)) for s in symbols}
    return Known(
        _select(mask, new.base, old.base), clean_terms(terms), valid_or_none, old.otherwise
    )


def _either(
    one: Condition | None, ones: Mask, two: Condition | None, twos: Mask
) -> Condition | None:
    """The condition of a predicate that has been written twice, alone in lanes ``ones``, ``twos``.

    A value has one condition: what both say of all lanes, else what one says of its own.
    """
    if one is not None and two is not None and (both := one.or_else(two)) is not None:
        return both
    alone = None if two is None else two.within(twos)
    return one.within(ones) if alone is None and one is not None else alone


def join(first: Value, second: Value, masks: tuple[Mask, Mask], causes: frozenset[Cause]) -> Value:
    """A register after two sides of a branch, each walked from the same state.

    A lane of both masks may have come from either side: it is known where both agree. A lane of one
    mask came from that side, any other lane from none, so that both hold what was there before.
    ``causes`` say why lanes are not known.
    """
    if first is second:
        return first
    either = masks[0] & masks[1]
    if isinstance(first, Unknown) and isinstance(second, Unknown):
        alone = ~masks[1], masks[1] & ~masks[0]
        condition = _either(first.condition, alone[0], second.condition, alone[1])
        return Unknown(first.causes | second.causes, condition)
    merged = merge(first, second, masks[1])
    assert isinstance(merged, Known)
    differs = either & ~_agreement(first, second, either)
    if not np.count_nonzero(differs):
        return merged
    valid = ~differs if merged.valid is None else merged.valid & ~differs
    return Known(merged.base, merged.terms, valid, merged.otherwise | causes)


def _agreement(one: Value, two: Value, lanes: Mask) -> Mask:
    """The lanes in which both values are known and equal."""
    if isinstance(one, Unknown) or isinstance(two, Unknown):
        return np.zeros_like(lanes)
    equal: Mask = lanes & (np.asarray(one.base) == np.asarray(two.base))
    for symbol in one.terms.keys() | two.terms.keys():
        equal &= np.asarray(one.terms.get(symbol, 0)) == np.asarray(two.terms.get(symbol, 0))
    for value in (one, two):
        if value.valid is not None:
            equal &= value.valid
    return equal


def _select(mask: Mask, new: Number, old: Number) -> Number:
    if isinstance(new, int) and isinstance(old, int) and new == old:
        return new
    chosen: Lanes = np.where(mask, _array_of(new), _array_of(old))
    return chosen


def _array_of(number: Number) -> Lanes:
    """Returns a number as an array: of Python ints where 64 bits do not hold it."""
    fits = not isinstance(number, int) or -(1 << 63) <= number < 1 << 63
    array: Lanes = np.asarray(number, dtype=None if fits else object)
    return array
