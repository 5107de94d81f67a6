"""Intervals of results that are not known otherwise (:mod:`ptxwcet.flow.values.ranges`)."""

from __future__ import annotations

from collections.abc import Callable

from ptxwcet.flow.values import integers, ranges
from ptxwcet.flow.values.integers import IntegerType
from ptxwcet.flow.values.operands import PREDICATE, LaneState, integer_of
from ptxwcet.flow.values.value import Cause, Known, Unknown, Value
from ptxwcet.ir.operation import Operation

Fallback = Callable[[LaneState, list[Value], frozenset[Cause]], Value]


def ranged(operation: Operation, kind: IntegerType) -> Fallback:
    """The interval of a result that is not known otherwise; Unknown if its type says as much.

    The operation is one that has a row in :data:`ptxwcet.flow.values.rules.VALUE_RULES`.
    """
    name, words = operation.name, operation.words
    rule = ranges.RULES.get(name)
    target = kind
    if words == ("wide",):
        target = IntegerType(2 * kind.bits, kind.signed)
    if name == "cvt":
        return _ranged_conversion(operation)
    if rule is None or kind is PREDICATE or words == ("hi",):
        return lambda state, values, causes: Unknown(causes)
    amount = IntegerType(32, signed=False)

    def fallback(state: LaneState, values: list[Value], causes: frozenset[Cause]) -> Value:
        kinds = [amount if _has_amount(name, place) else kind for place in range(len(values))]
        if name == "selp":
            values, kinds = values[:2], kinds[:2]
        intervals = [
            ranges.interval_of(value, one, state.active)
            for value, one in zip(values, kinds, strict=True)
        ]
        found = rule(target, intervals)
        if found is None or not ranges.is_narrower(found, target):
            return Unknown(causes)
        known = [value for value in values if isinstance(value, Known)]
        origins = causes.union(*(integers.causes_of(value.terms) for value in known))
        return ranges.bounded(found, target.bits, origins)

    return fallback


def _ranged_conversion(operation: Operation) -> Fallback:
    """A widened value keeps its interval, at worst that of the narrower type."""
    target, source = map(integer_of, operation.types)
    if target.bits <= source.bits:
        return lambda state, values, causes: Unknown(causes)

    def fallback(state: LaneState, values: list[Value], causes: frozenset[Cause]) -> Value:
        found = ranges.interval_of(values[0], source, state.active)
        return ranges.bounded(found, target.bits, causes)

    return fallback


def _has_amount(name: str, place: int) -> bool:
    """Whether a source is a number of bits, of type u32 whatever the instruction's type."""
    return place > 0 and name in ("shl", "shr", "bfe")
