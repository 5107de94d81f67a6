"""What integer instructions compute from known operands, by opcode: exactly, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ptxwcet.flow.values import comparison, integer_operations, integers, scalar
from ptxwcet.flow.values.integers import IntegerType
from ptxwcet.flow.values.operands import NOT_AFFINE, PREDICATE, LaneState, integer_of
from ptxwcet.flow.values.value import Known, Number, Value, combine, per_lane, scale_by, wrap
from ptxwcet.ir.operation import Operation

Rule = Callable[[LaneState, list[Known]], Value]
_Builder = Callable[[Operation, IntegerType], Rule | None]


@dataclass(frozen=True, slots=True)
class ValueRow:
    """What builds a rule, and the combinations of modifiers (types left out) that it is for.

    The operation is one on single integers or predicates; the type given is its last.
    """

    build: _Builder
    words: frozenset[tuple[str, ...]]


def _ring(sign: int) -> _Builder:
    def build(operation: Operation, kind: IntegerType) -> Rule | None:
        return lambda state, v: combine(v[0], v[1], sign, kind.bits)

    return build


def _copy(operation: Operation, kind: IntegerType) -> Rule | None:
    if kind is PREDICATE:
        return lambda state, v: v[0]
    return lambda state, v: _resize(v[0], kind.bits)


def _resize(value: Known, bits: int) -> Known:
    return scale_by(value, 1, bits)


def _cvt(operation: Operation, kind: IntegerType) -> Rule | None:
    target, source = map(integer_of, operation.types)

    def rule(state: LaneState, v: list[Known]) -> Value:
        if target.bits <= source.bits:
            return _resize(v[0], target.bits)
        return integers.from_exact(integers.as_exact(v[0], source, state.active), target.bits)

    return rule


def _product(state: LaneState, a: Known, b: Known, kind: IntegerType, mode: str) -> Known | None:
    """``mul`` in mode lo, hi or wide; affine when one factor is free of symbols."""
    if a.terms and b.terms:
        return None
    if b.terms:
        a, b = b, a
    if mode == "lo":
        return scale_by(a, b.base, kind.bits)
    if mode == "wide":
        wide = 2 * kind.bits
        left = integers.from_exact(integers.as_exact(a, kind, state.active), wide)
        right = integers.from_exact(integers.as_exact(b, kind, state.active), wide)
        return scale_by(left, right.base, wide)
    if a.terms:
        return None
    left_exact = integers.as_exact(a, kind, state.active).base
    right_exact = integers.as_exact(b, kind, state.active).base
    high = integers.per_lane_exact(lambda x, y: (x * y) >> kind.bits, left_exact, right_exact)
    return integers.from_exact(integers.Exact(high, {}), kind.bits)


def _multiply(operation: Operation, kind: IntegerType) -> Rule | None:
    (mode,) = operation.words
    return lambda state, v: _product(state, v[0], v[1], kind, mode) or NOT_AFFINE


def _multiply_add(operation: Operation, kind: IntegerType) -> Rule | None:
    (mode,) = operation.words
    bits = 2 * kind.bits if mode == "wide" else kind.bits

    def rule(state: LaneState, v: list[Known]) -> Value:
        product = _product(state, v[0], v[1], kind, mode)
        return NOT_AFFINE if product is None else combine(product, v[2], 1, bits)

    return rule


def _shift_left(operation: Operation, kind: IntegerType) -> Rule | None:
    def rule(state: LaneState, v: list[Known]) -> Value:
        if v[1].terms:
            return NOT_AFFINE
        amount = integers.as_exact(v[1], IntegerType(32, signed=False), state.active).base
        factor: Number
        if isinstance(amount, int):
            factor = 0 if amount >= kind.bits else 1 << amount
        else:
            factor = per_lane(lambda n: _wrap_int(0 if n >= kind.bits else 1 << n), amount)
        return scale_by(v[0], factor, kind.bits)

    return rule


def _wrap_int(number: int) -> int:
    """A Python int as the canonical int64 that stands for it."""
    wrapped = wrap(number, 64)
    assert isinstance(wrapped, int)
    return wrapped


def _shift_right(operation: Operation, kind: IntegerType) -> Rule | None:
    def rule(state: LaneState, v: list[Known]) -> Value:
        if v[1].terms:
            return NOT_AFFINE
        amount = integers.as_exact(v[1], IntegerType(32, signed=False), state.active).base
        if isinstance(amount, int):
            return integer_operations.shift_right(v[0], amount, kind, state.active) or NOT_AFFINE
        if v[0].terms:
            return NOT_AFFINE
        exact = integers.as_exact(v[0], kind, state.active).base
        lanes = integers.per_lane_exact(lambda x, n: x >> min(n, kind.bits), exact, amount)
        return integers.from_exact(integers.Exact(lanes, {}), kind.bits)

    return rule


def _bitwise(operator: str) -> _Builder:
    def build(operation: Operation, kind: IntegerType) -> Rule | None:
        return lambda state, v: (
            integer_operations.bitwise(v[0], v[1], operator, kind.bits) or NOT_AFFINE
        )

    return build


def _not(operation: Operation, kind: IntegerType) -> Rule | None:
    if kind is PREDICATE:
        return lambda state, v: Known(1 - v[0].base)
    return lambda state, v: combine(Known(-1), v[0], -1, kind.bits)


def _negate(operation: Operation, kind: IntegerType) -> Rule | None:
    return lambda state, v: combine(Known(0), v[0], -1, kind.bits)


def _extremum(largest: bool) -> _Builder:
    def build(operation: Operation, kind: IntegerType) -> Rule | None:
        return lambda state, v: (
            integer_operations.extremum(v[0], v[1], kind, state.active, largest=largest)
            or NOT_AFFINE
        )

    return build


def _absolute(operation: Operation, kind: IntegerType) -> Rule | None:
    def rule(state: LaneState, v: list[Known]) -> Value:
        negative = comparison.compare(v[0], Known(0), "lt", kind, state.active)
        if not isinstance(negative, Known) or negative.valid is not None:
            return NOT_AFFINE
        flipped = combine(Known(0), v[0], -1, kind.bits)
        if isinstance(negative.base, int):
            return flipped if negative.base else v[0]
        return integer_operations.select(flipped, v[0], negative.base.astype(bool))

    return rule


def _divide(remainder: bool) -> _Builder:
    def build(operation: Operation, kind: IntegerType) -> Rule | None:
        def rule(state: LaneState, v: list[Known]) -> Value:
            quotient = integer_operations.divide(v[0], v[1], kind, state.active)
            if quotient is None:
                return NOT_AFFINE
            if not remainder:
                return quotient
            product = scale_by(quotient, v[1].base, kind.bits)
            return combine(v[0], product, -1, kind.bits)

        return rule

    return build


def _select(operation: Operation, kind: IntegerType) -> Rule | None:
    def rule(state: LaneState, v: list[Known]) -> Value:
        taken = v[2].base
        if isinstance(taken, int):
            return v[0] if taken else v[1]
        return integer_operations.select(v[0], v[1], taken.astype(bool))

    return rule


def _pointwise(function: scalar.ScalarOperation) -> _Builder:
    def build(operation: Operation, kind: IntegerType) -> Rule | None:
        if kind.bits < 32:
            return None

        def rule(state: LaneState, v: list[Known]) -> Value:
            if any(value.terms for value in v):
                return NOT_AFFINE
            bits = [wrap(value.base, 64) for value in v]
            return Known(wrap(per_lane(lambda *xs: _wrap_int(function(kind, *xs)), *bits), 64))

        return rule

    return build


def _words(*choices: str) -> frozenset[tuple[str, ...]]:
    return frozenset(tuple(choice.split()) for choice in choices)


_PLAIN: Mapping[str, _Builder] = {
    "mov": _copy,
    "cvt": _cvt,
    "add": _ring(1),
    "sub": _ring(-1),
    "shl": _shift_left,
    "shr": _shift_right,
    "and": _bitwise("and"),
    "or": _bitwise("or"),
    "xor": _bitwise("xor"),
    "not": _not,
    "neg": _negate,
    "abs": _absolute,
    "min": _extremum(False),
    "max": _extremum(True),
    "div": _divide(False),
    "rem": _divide(True),
    "selp": _select,
    "bfe": _pointwise(scalar.bit_field_extract),
    "popc": _pointwise(scalar.population_count),
    "clz": _pointwise(scalar.leading_zeros),
    "brev": _pointwise(scalar.reverse_bits),
    "lop3": _pointwise(scalar.three_input_logic),
}
_HALVES = _words("lo", "hi", "wide")

VALUE_RULES: Mapping[str, ValueRow] = {
    **{name: ValueRow(builder, _words("")) for name, builder in _PLAIN.items()},
    "mul": ValueRow(_multiply, _HALVES),
    "mad": ValueRow(_multiply_add, _HALVES),
    # the addresses of other windows than that of global memory are moved
    "cvta": ValueRow(_copy, _words("global", "to global")),
}
"""By opcode; tested against execution on all forms (tests/oracle/test_value_rules.py)."""
