"""Terms in lanes: exact and affine in symbols, where they can be.

Each operator of :mod:`ptxwcet.ir.terms` takes what is known of its arguments in the active lanes
(:mod:`ptxwcet.flow.values.value`) to what is known of its result: numbers lane by lane, affine in
symbols where the operator keeps that, for which the region may shrink, or nothing
(:data:`NOT_AFFINE`). More than 64 bits are followed only without symbols. Predicates may be known
in some lanes, and say something of a symbol where they are open
(:mod:`ptxwcet.flow.values.comparison`).

All functions compute exactly what PTX defines, modulo the width of the type, for operands without
symbols. With symbols they are affine only where no operand wraps around, which they require of the
region, or return None ("not affine").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import and_, or_, xor
from typing import Any

import numpy as np

from ptxwcet.flow.values import comparison, integers
from ptxwcet.flow.values.integers import (
    Exact,
    IntegerType,
    as_exact,
    from_exact,
    require_lanes_nonnegative,
)
from ptxwcet.flow.values.operands import NOT_AFFINE
from ptxwcet.flow.values.regions import Wavers, require_multiples
from ptxwcet.flow.values.value import (
    Cause,
    Known,
    Lanes,
    Mask,
    Number,
    Unknown,
    Value,
    combine,
    merge,
    scale_by,
    wrap,
)
from ptxwcet.ir.terms import Op, Term, apply

_BITWISE: Mapping[Op, Callable[[Any, Any], Any]] = {Op.AND: and_, Op.OR: or_, Op.XOR: xor}


def bitwise(op: Op, a: Known, b: Known, bits: int) -> Known | None:
    """``and``, ``or``, ``xor``. With symbols only where the symbol part stays out of the way.

    ``x & low_mask`` is free of a symbol whose coefficient is a multiple of the mask's size;
    ``x | y`` and ``x ^ y`` are sums when their set bits cannot meet.
    """
    if not a.terms and not b.terms:
        return Known(_BITWISE[op](a.base, b.base))
    if b.terms:
        a, b = b, a
    if b.terms or not isinstance(b.base, int):
        return None
    number = b.base & ((1 << bits) - 1)
    if op is Op.AND and number & (number + 1) == 0 and number < 1 << (bits - 1):
        require_multiples(a.terms, number + 1)
    free = _free_low_bits(a)
    if op is Op.AND and number < (1 << free):
        return Known(a.base & number)
    if op is not Op.AND and number < (1 << free):
        low = a.base & ((1 << free) - 1)
        mixed = _BITWISE[op](low, number)
        return Known(wrap(a.base - low + mixed, bits), a.terms)
    return None


def _free_low_bits(value: Known) -> int:
    """How many low bits no symbol can change: all coefficients are multiples of ``2**n``."""
    joined = 0
    for c in value.terms.values():
        joined |= c if isinstance(c, int) else int(np.bitwise_or.reduce(c))
    return (joined & -joined).bit_length() - 1 if joined else 64


def _quotient(a: Known, b: Known, kind: IntegerType, active: Mask) -> Known | None:
    """Returns ``a / b`` where ``a`` stays at least 0 and ``b`` divides its coefficients."""
    if b.terms or not isinstance(b.base, int):
        return None
    divisor = as_exact(b, kind, active).base
    if divisor <= 0:
        return None
    exact = as_exact(a, kind, active)
    if any(not divisible(c, divisor) for c in exact.terms.values()):
        require_multiples(exact.terms, divisor)
        return None
    if not bool((np.broadcast_to(np.asarray(exact.base), active.shape)[active] >= 0).all()):
        return None
    require_lanes_nonnegative(exact, active)
    terms = {s: c // divisor for s, c in exact.terms.items()}
    return from_exact(Exact(exact.base // divisor, terms), kind.bits)


def divisible(c: Number, divisor: int) -> bool:
    """Whether a number divides those of all lanes."""
    if isinstance(c, int):
        return c % divisor == 0
    return divisor < 1 << 63 and not (c % divisor).any()


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


_DECISIVE = {Op.AND: 0, Op.OR: 1}
"""The operand that decides the outcome whatever the other is."""


def joined(op: Op, a: Value, b: Value, active: Mask) -> Value:
    """``and``, ``or`` or ``xor`` of two predicates, lane by lane as far as they are known."""
    both_known = isinstance(a, Known) and isinstance(b, Known)
    if isinstance(a, Known) and isinstance(b, Known) and a.valid is None and b.valid is None:
        return Known(_BITWISE[op](a.base, b.base))
    everywhere = np.ones_like(active)
    causes: frozenset[Cause] = frozenset()
    sure = [np.zeros_like(active), np.zeros_like(active)]
    bases: list[Number] = [0, 0]
    for place, value in enumerate((a, b)):
        if isinstance(value, Known):
            sure[place] = everywhere if value.valid is None else value.valid
            bases[place] = value.base
            causes |= value.otherwise
        else:
            causes |= value.causes
    valid = sure[0] & sure[1] if both_known else np.zeros_like(active)
    result = np.broadcast_to(np.asarray(_BITWISE[op](*bases)), active.shape)
    if op in _DECISIVE:
        decisive = _DECISIVE[op]
        for sure_lanes, base in zip(sure, bases, strict=True):
            decided = sure_lanes & (np.broadcast_to(np.asarray(base), active.shape) == decisive)
            result = np.where(decided, decisive, result)
            valid = valid | decided
    if not (active & valid).any():
        return Unknown(causes)
    if (active & ~valid).any():
        return Known(result.astype(np.int64), valid=valid, otherwise=causes)
    return Known(result.astype(np.int64))


_WIDEST = 64

Rule = Callable[[Term, list[Known], Mask], Value | None]
"""From the known arguments of a term, none wider than 64 bits; None if the result is not affine."""


def in_lanes(term: Term, values: list[Value], active: Mask) -> Value:
    """What is known of a term from what is known of its arguments.

    Unknown with the causes of an open comparison, else without causes. Cost: linear in the lanes.
    """
    if term.op is Op.ITE:
        return _chosen(values, active)
    if term.width == 1 and term.op in _BITWISE:  # one may decide although the other is not known
        return joined(term.op, values[0], values[1], active)
    if term.width == 1 and term.op is Op.NOT:
        return comparison.opposite(values[0])
    arguments = [value for value in values if isinstance(value, Known) and value.valid is None]
    if len(arguments) < len(values):
        return NOT_AFFINE
    result: Value | None
    try:
        if term.width > _WIDEST or any(one.width > _WIDEST for one in term.args):
            result = _pointwise(term, arguments, active)
        else:
            result = _RULES.get(term.op, _pointwise)(term, arguments, active)
    except Wavers:
        return NOT_AFFINE
    if term.width == 1 and isinstance(result, Known):
        base = canonical(result.base, 1)
        result = None if result.terms else Known(base, result.terms, result.valid, result.otherwise)
    return NOT_AFFINE if result is None else result


def canonical(number: int | Lanes, width: int) -> Number:
    """The signed representative modulo ``2**width``: an int, or an array of lanes; of Python ints
    where 64 bits do not hold them. Predicates are 0 or 1.
    """
    if width == 1:
        return number & 1
    if isinstance(number, int) or number.dtype != object:
        return wrap(number, width)
    half = 1 << width - 1
    lanes: Lanes = ((number + half) & ((1 << width) - 1)) - half
    return lanes if width > _WIDEST else lanes.astype(np.int64)


def _pointwise(term: Term, values: list[Known], active: Mask) -> Known | None:
    """The operator on numbers, lane by lane; None for operands with symbols."""
    if any(value.terms for value in values):
        return None
    masks = [(1 << one.width) - 1 for one in term.args]

    def compute(*lane: int) -> int:
        bits = [int(number) & mask for number, mask in zip(lane, masks, strict=True)]
        return apply(term.op, term.width, term.args, term.value, bits)

    results = integers.per_lane_exact(compute, *[value.base for value in values])
    return Known(canonical(results, term.width))


def _chosen(values: list[Value], active: Mask) -> Value:
    condition, yes, no = values
    if not isinstance(condition, Known) or condition.valid is not None:
        return NOT_AFFINE
    if isinstance(condition.base, int):
        return yes if condition.base else no
    if not (isinstance(yes, Known) and isinstance(no, Known)):
        chosen = condition.base[active] != 0
        if chosen.all() or not chosen.any():
            return yes if chosen.all() else no
        return NOT_AFFINE
    if yes.valid is not None or no.valid is not None:
        return NOT_AFFINE
    return merge(no, yes, condition.base.astype(bool))


def _kind(term: Term, *, signed: bool) -> IntegerType:
    """The type that the arguments are read as."""
    return IntegerType(term.args[0].width, signed)


def _sum(sign: int) -> Rule:
    return lambda t, v, active: combine(v[0], v[1], sign, t.width)


def _product(term: Term, v: list[Known], active: Mask) -> Value | None:
    """Affine when one factor is free of symbols."""
    a, b = v
    if a.terms and b.terms:
        return None
    return scale_by(b, a.base, term.width) if b.terms else scale_by(a, b.base, term.width)


def _amount(term: Term, value: Known, active: Mask) -> Any:
    """The number of bits by which a shift moves: an int, or an array of lanes."""
    return integers.as_exact(value, IntegerType(term.width, signed=False), active).base


def _shift_left(term: Term, v: list[Known], active: Mask) -> Value | None:
    if v[1].terms:
        return None
    amount = _amount(term, v[1], active)
    if isinstance(amount, int):
        return scale_by(v[0], 0 if amount >= term.width else 1 << amount, term.width)
    factors = integers.per_lane_exact(lambda n: 1 << n if n < term.width else 0, amount)
    return scale_by(v[0], canonical(factors, _WIDEST), term.width)


def _shift_right(signed: bool) -> Rule:
    def rule(term: Term, v: list[Known], active: Mask) -> Value | None:
        if v[1].terms:
            return None
        amount = _amount(term, v[1], active)
        if not isinstance(amount, int):
            return _pointwise(term, v, active)
        kind = _kind(term, signed=signed)
        return shift_right(v[0], amount, kind, active)

    return rule


def _ordered(signed: bool) -> Rule:
    return lambda t, v, active: comparison.less(v[0], v[1], _kind(t, signed=signed), active)


def _divided(signed: bool, remainder: bool) -> Rule:
    def rule(term: Term, v: list[Known], active: Mask) -> Value | None:
        if not any(value.terms for value in v):
            return _pointwise(term, v, active)
        quotient = _quotient(v[0], v[1], _kind(term, signed=signed), active)
        if quotient is None or not remainder:
            return quotient
        return combine(v[0], scale_by(quotient, v[1].base, term.width), -1, term.width)

    return rule


def _extended(signed: bool) -> Rule:
    def rule(term: Term, v: list[Known], active: Mask) -> Value | None:
        exact = integers.as_exact(v[0], _kind(term, signed=signed), active)
        return integers.from_exact(exact, term.width)

    return rule


def _part(term: Term, v: list[Known], active: Mask) -> Value | None:
    """Low bits are a ring of their own; others of what symbols change in higher bits alone."""
    (value,) = v
    by = 1 << term.value
    if not all(divisible(c, by) for c in value.terms.values()):
        return None
    steps = {s: wrap(c >> term.value, _WIDEST) for s, c in value.terms.items()}
    return scale_by(Known(value.base >> term.value, steps), 1, term.width)


_RULES: Mapping[Op, Rule] = {
    Op.ADD: _sum(1),
    Op.SUB: _sum(-1),
    Op.MUL: _product,
    Op.NOT: lambda t, v, active: combine(Known(-1), v[0], -1, t.width),
    **dict.fromkeys(_BITWISE, lambda t, v, active: bitwise(t.op, v[0], v[1], t.width)),
    Op.SHL: _shift_left,
    Op.LSHR: _shift_right(False),
    Op.ASHR: _shift_right(True),
    Op.ULT: _ordered(False),
    Op.SLT: _ordered(True),
    Op.EQ: lambda t, v, active: comparison.equal(v[0], v[1], t.args[0].width, active),
    Op.UDIV: _divided(False, False),
    Op.UREM: _divided(False, True),
    Op.SDIV: _divided(True, False),
    Op.SREM: _divided(True, True),
    Op.ZEXT: _extended(False),
    Op.SEXT: _extended(True),
    Op.EXTRACT: _part,
}
"""By operator; what is not here is computed lane by lane where no symbol takes part."""
