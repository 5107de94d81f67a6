"""Intervals of results that are not known otherwise (:mod:`ptxwcet.flow.ranges`)."""

from __future__ import annotations

from collections.abc import Callable

from ptxwcet.flow import integers, ranges
from ptxwcet.flow.integers import IntegerType, integer_type
from ptxwcet.flow.operands import PREDICATE, LaneState
from ptxwcet.flow.values import Cause, Known, Unknown, Value
from ptxwcet.ir.kernel import Instruction

Fallback = Callable[[LaneState, list[Value], frozenset[Cause]], Value]


def ranged(instruction: Instruction, name: str, kind: IntegerType) -> Fallback:
    """The interval of a result that is not known otherwise; Unknown if its type says as much."""
    rule = ranges.RULES.get(name)
    words = instruction.modifiers
    target = kind
    if name == "mul" and "wide" in words:
        target = IntegerType(2 * kind.bits, kind.signed)
    if name == "cvt":
        return _ranged_conversion(instruction)
    if rule is None or kind is PREDICATE or {"hi", "sat", "relu"} & set(words):
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


def _ranged_conversion(instruction: Instruction) -> Fallback:
    """A widened value keeps its interval, at worst that of the narrower type."""
    types = [t for t in map(integer_type, instruction.modifiers) if t is not None]
    if len(types) != 2 or types[0].bits <= types[1].bits or "sat" in instruction.modifiers:
        return lambda state, values, causes: Unknown(causes)
    target, source = types

    def fallback(state: LaneState, values: list[Value], causes: frozenset[Cause]) -> Value:
        found = ranges.interval_of(values[0], source, state.active)
        return ranges.bounded(found, target.bits, causes)

    return fallback


def _has_amount(name: str, place: int) -> bool:
    """Whether a source is a number of bits, of type u32 whatever the instruction's type."""
    return place > 0 and name in ("shl", "shr", "bfe")
