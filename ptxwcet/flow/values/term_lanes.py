"""Terms in lanes: exact and affine in symbols, where they can be.

Each operator of :mod:`ptxwcet.ir.terms` takes what is known of its arguments in the active lanes
(:mod:`ptxwcet.flow.values.value`) to what is known of its result: numbers lane by lane, affine in
symbols where the operator keeps that, for which the region may shrink, or nothing
(:data:`NOT_AFFINE`). More than 64 bits are followed only without symbols. Predicates may be known
in some lanes, and say something of a symbol where they are open
(:mod:`ptxwcet.flow.values.comparison`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ptxwcet.flow.values import comparison, integer_operations, integers
from ptxwcet.flow.values.integers import IntegerType
from ptxwcet.flow.values.operands import NOT_AFFINE
from ptxwcet.flow.values.predicates import joined
from ptxwcet.flow.values.regions import Wavers
from ptxwcet.flow.values.value import (
    Known,
    Lanes,
    Mask,
    Number,
    Value,
    combine,
    scale_by,
    wrap,
)
from ptxwcet.ir.terms import Op, Term, apply

_WIDEST = 64

Rule = Callable[[Term, list[Known], Mask], Value | None]
"""From the known arguments of a term, none wider than 64 bits; None if the result is not affine."""


def in_lanes(term: Term, values: list[Value], active: Mask) -> Value:
    """What is known of a term from what is known of its arguments.

    Unknown with the causes of an open comparison, else without causes. Cost: linear in the lanes.
    """
    if term.op is Op.ITE:
        return _chosen(values, active)
    if term.width == 1 and term.op in _PREDICATES:
        return _PREDICATES[term.op](values, active)
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
    return integer_operations.select(yes, no, condition.base.astype(bool))


_PREDICATES: Mapping[Op, Callable[[list[Value], Mask], Value]] = {
    Op.AND: lambda v, active: joined(v[0], v[1], "and", active),
    Op.OR: lambda v, active: joined(v[0], v[1], "or", active),
    Op.XOR: lambda v, active: joined(v[0], v[1], "xor", active),
    Op.NOT: lambda v, active: comparison.opposite(v[0]),
}
"""Where one operand may decide although the other is not known."""


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


def _complement(term: Term, v: list[Known], active: Mask) -> Value | None:
    return combine(Known(-1), v[0], -1, term.width)


def _bitwise(name: str) -> Rule:
    return lambda t, v, active: integer_operations.bitwise(v[0], v[1], name, t.width)


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
        return integer_operations.shift_right(v[0], amount, kind, active)

    return rule


def _ordered(signed: bool) -> Rule:
    return lambda t, v, active: comparison.compare(
        v[0], v[1], "lt", _kind(t, signed=signed), active
    )


def _equal(term: Term, v: list[Known], active: Mask) -> Value | None:
    return comparison.compare(v[0], v[1], "eq", _kind(term, signed=True), active)


def _divided(signed: bool, remainder: bool) -> Rule:
    def rule(term: Term, v: list[Known], active: Mask) -> Value | None:
        quotient = integer_operations.divide(v[0], v[1], _kind(term, signed=signed), active)
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
    if not all(integer_operations.divisible(c, by) for c in value.terms.values()):
        return None
    steps = {s: wrap(c >> term.value, _WIDEST) for s, c in value.terms.items()}
    return scale_by(Known(value.base >> term.value, steps), 1, term.width)


_RULES: Mapping[Op, Rule] = {
    Op.ADD: _sum(1),
    Op.SUB: _sum(-1),
    Op.MUL: _product,
    Op.NOT: _complement,
    Op.AND: _bitwise("and"),
    Op.OR: _bitwise("or"),
    Op.XOR: _bitwise("xor"),
    Op.SHL: _shift_left,
    Op.LSHR: _shift_right(False),
    Op.ASHR: _shift_right(True),
    Op.ULT: _ordered(False),
    Op.SLT: _ordered(True),
    Op.EQ: _equal,
    Op.UDIV: _divided(False, False),
    Op.UREM: _divided(False, True),
    Op.SDIV: _divided(True, False),
    Op.SREM: _divided(True, True),
    Op.ZEXT: _extended(False),
    Op.SEXT: _extended(True),
    Op.EXTRACT: _part,
}
"""By operator; what is not here is computed lane by lane where no symbol takes part."""
