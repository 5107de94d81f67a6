"""Transfer functions: what an instruction does to the values of control-relevant registers.

:func:`compile_transfer` turns an instruction into a function from a :class:`LaneState` (how to read
registers, special registers and parameters in the active lanes) to the values it writes. Integer
and predicate instructions are evaluated exactly (:mod:`ptxwcet.flow.integers`); everything else,
above all what comes from memory and floating point, is Unknown with its cause. Never a guess: an
operation without a rule here yields Unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np

from ptxwcet.flow import integers, loads, ranges, scalar
from ptxwcet.flow.integers import IntegerType, integer_type
from ptxwcet.flow.regions import Wavers
from ptxwcet.flow.values import (
    Cause,
    CauseKind,
    Known,
    Mask,
    Number,
    Unknown,
    Value,
    combine,
    per_lane,
    scale_by,
    wrap,
)
from ptxwcet.ir.kernel import (
    Immediate,
    Instruction,
    Negated,
    Operand,
    Pair,
    Register,
    Sink,
    Space,
    SpecialRegister,
    SymbolRef,
)


class LaneState(Protocol):
    """What a transfer function may read, in the lanes that are active."""

    @property
    def active(self) -> Mask:
        """The lanes that execute the instruction."""
        ...

    def register(self, name: str) -> Value:
        """The register's value; Unknown unless known in all active lanes."""
        ...

    def special(self, name: str) -> Value:
        """A special register's value."""
        ...

    def parameter(self, name: str, offset: int, kind: IntegerType) -> Value | None:
        """A kernel parameter, or part of one, as ``kind``; None if there is none of the name."""
        ...

    def address(self, name: str) -> Known | None:
        """The address of a variable whose bytes are known."""
        ...

    def load(self, space: Space, address: Known, kind: IntegerType) -> Known | None:
        """What lies at an address in memory that cannot change; None if that is not known."""
        ...


Transfer = Callable[[LaneState], tuple[Value, ...]]
Rule = Callable[[LaneState, list[Known]], Value]

_MEMORY = ("ld", "st")
_FLOAT_TYPES = frozenset({"f16", "f16x2", "bf16", "bf16x2", "tf32", "f32", "f32x2", "f64"})


def compile_transfer(
    instruction: Instruction, index: int, registers: Mapping[str, str]
) -> Transfer:
    """The transfer function of an instruction; values come in the order of ``instruction.writes``.

    ``index`` is the instruction's index, for the causes; ``registers`` the types of the kernel's
    registers: loads and conversions extend to the width of their target. Cost: constant.
    """
    count = len(instruction.writes)
    name = instruction.opcode.name if instruction.opcode is not None else ""
    rule: Transfer | None
    if name in _MEMORY:
        widths = {one: register_width(registers[one]) for one in instruction.writes}
        rule = loads.memory_transfer(instruction, _opaque_cause(instruction, index), widths)
    else:
        rule = _value_rule(instruction, index)
    kind = next((t for t in map(integer_type, instruction.modifiers) if t is not None), None)
    width = register_width(registers[instruction.writes[0]]) if count else 0
    if rule is None or count == 0:
        unknown = Unknown(frozenset({_opaque_cause(instruction, index)}))
        if name == "ld" and count == 1 and kind is not None and kind.bits < width:
            loaded = kind
            return lambda state: (loads.of_type(loaded, width, unknown.causes),)
        return lambda state: (unknown,) * count
    if name == "cvt" and kind is not None and width > kind.bits:
        return _extending(rule, kind, width)
    return rule


def register_width(kind: str) -> int:
    """Bits of a register of a declared type: 1 for ``pred``, 32 for ``f16x2``, else its number."""
    if kind == "pred":
        return 1
    bits, _, count = kind.lstrip("abfsu").partition("x")
    return int(bits) * int(count or 1)


def _extending(rule: Transfer, kind: IntegerType, width: int) -> Transfer:
    """A target wider than the type receives the value with its sign or zeros in front."""

    def transfer(state: LaneState) -> tuple[Value, ...]:
        (value,) = rule(state)
        return (loads.extended(value, kind, width, state.active),)

    return transfer


def reads_matter(instruction: Instruction) -> bool:
    """Whether the written value depends on the registers read, as far as this analysis knows.

    False for most loads and other opaque operations: their operands need not be tracked.
    """
    return loads.is_followed(instruction) or _value_rule(instruction, 0) is not None


def _opaque_cause(instruction: Instruction, index: int) -> Cause:
    name = instruction.mnemonic
    if instruction.space is not Space.NONE:
        return Cause(CauseKind.MEMORY, name, index)
    if any(modifier in _FLOAT_TYPES for modifier in instruction.modifiers):
        return Cause(CauseKind.FLOAT, name, index)
    return Cause(CauseKind.OPERATION, name, index)


def _value_rule(instruction: Instruction, index: int) -> Transfer | None:
    name = instruction.opcode.name if instruction.opcode is not None else ""
    if name in _MEMORY:
        return None
    if name == "setp":
        return _setp(instruction, index)
    if any(modifier in _FLOAT_TYPES for modifier in instruction.modifiers):
        return None
    if len(instruction.writes) != 1 or not isinstance(instruction.operands[0], Register):
        return None
    builder = _RULES.get(name)
    kind = _instruction_type(instruction)
    if kind is _PREDICATE and name in _DECISIVE:
        return _junction(instruction, index, name)
    if builder is None or kind is None:
        return None
    rule = builder(instruction, kind)
    if rule is None:
        return None
    cause = Unknown(frozenset({Cause(CauseKind.NOT_AFFINE, instruction.mnemonic, index)}))
    sources = [
        (operand, _operand_bits(name, instruction, kind, position))
        for position, operand in enumerate(instruction.operands[1:])
    ]

    fallback = _ranged(instruction, name, kind)

    def transfer(state: LaneState) -> tuple[Value, ...]:
        values = [read_operand(state, operand, bits, index) for operand, bits in sources]
        unknown = [value for value in values if isinstance(value, Unknown)]
        result = _join_unknown(unknown) if unknown else cause
        if not unknown:
            try:
                found = rule(state, [value for value in values if isinstance(value, Known)])
            except Wavers:
                found = _NOT_AFFINE
            if isinstance(found, Known):
                return (found,)
        return (fallback(state, values, result.causes),)

    return transfer


_Fallback = Callable[[LaneState, list[Value], frozenset[Cause]], Value]


def _ranged(instruction: Instruction, name: str, kind: IntegerType) -> _Fallback:
    """The interval of a result that is not known otherwise; Unknown if its type says as much."""
    rule = ranges.RULES.get(name)
    words = instruction.modifiers
    target = kind
    if name == "mul" and "wide" in words:
        target = IntegerType(2 * kind.bits, kind.signed)
    if name == "cvt":
        return _ranged_conversion(instruction)
    if rule is None or kind is _PREDICATE or {"hi", "sat", "relu"} & set(words):
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


def _ranged_conversion(instruction: Instruction) -> _Fallback:
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


_DECISIVE = {"and": 0, "or": 1}


def _junction(instruction: Instruction, index: int, name: str) -> Transfer:
    """``and``, ``or`` of predicates: one operand may decide where the other is not known."""

    def transfer(state: LaneState) -> tuple[Value, ...]:
        a, b = (read_operand(state, operand, 1, index) for operand in instruction.operands[1:])
        return (_joined(a, b, name, state.active),)

    return transfer


def _joined(a: Value, b: Value, name: str, active: Mask) -> Value:
    """``and``, ``or`` or ``xor`` of two predicates, lane by lane as far as they are known."""
    both_known = isinstance(a, Known) and isinstance(b, Known)
    if isinstance(a, Known) and isinstance(b, Known) and a.valid is None and b.valid is None:
        return _combine(a.base, name, [b])
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
    result = np.broadcast_to(_as_array(_combine(bases[0], name, [Known(bases[1])])), active.shape)
    if name in _DECISIVE:
        decisive = _DECISIVE[name]
        for known, base in zip(sure, bases, strict=True):
            decided = known & (np.broadcast_to(np.asarray(base), active.shape) == decisive)
            result = np.where(decided, decisive, result)
            valid = valid | decided
    if not (active & valid).any():
        return Unknown(causes)
    if (active & ~valid).any():
        return Known(result.astype(np.int64), valid=valid, otherwise=causes)
    return Known(result.astype(np.int64))


def _as_array(value: Value) -> np.ndarray:
    assert isinstance(value, Known)
    return np.asarray(value.base)


def _operand_bits(name: str, instruction: Instruction, kind: IntegerType, position: int) -> int:
    """The width of a source operand, where it is not the instruction type's."""
    if position > 0 and name in ("shl", "shr", "bfe"):
        return 32
    if position == 2 and name == "mad" and "wide" in instruction.modifiers:
        return 2 * kind.bits
    return kind.bits


_NOT_AFFINE = Unknown(frozenset())
_PREDICATE = IntegerType(1, signed=False)


def _instruction_type(instruction: Instruction) -> IntegerType | None:
    for modifier in reversed(instruction.modifiers):
        if modifier == "pred":
            return _PREDICATE
        kind = integer_type(modifier)
        if kind is not None:
            return kind
    return None


def _join_unknown(values: list[Unknown]) -> Unknown:
    causes: frozenset[Cause] = frozenset()
    for value in values:
        causes |= value.causes
    return Unknown(causes)


def read_operand(state: LaneState, operand: Operand, bits: int, index: int) -> Value:
    """The value of a source operand, reduced to ``bits`` (predicates: 0 or 1)."""
    match operand:
        case Register(name):
            return state.register(name)
        case Immediate(value) if isinstance(value, int):
            return Known(int(value != 0) if bits == 1 else wrap(value, bits))
        case SpecialRegister(name):
            return state.special(name)
        case Negated(inner):
            return integers.opposite(read_operand(state, inner, bits, index))
        case SymbolRef(name, offset):
            start = state.address(name)
            if start is not None:
                return combine(start, Known(offset), 1, bits)
            return Unknown(frozenset({Cause(CauseKind.LAUNCH, f"address of {name}", index)}))
        case _:
            return Unknown(frozenset({Cause(CauseKind.OPERATION, "operand", index)}))


# --- setp ---------------------------------------------------------------------------------------


def _setp(instruction: Instruction, index: int) -> Transfer | None:
    kind = _instruction_type(instruction)
    if kind is None:
        return None
    operator = instruction.modifiers[0]
    joined = next((m for m in instruction.modifiers[1:] if m in ("and", "or", "xor")), None)
    target, *sources = instruction.operands
    outputs = _setp_outputs(target)
    if outputs is None:
        return None

    def transfer(state: LaneState) -> tuple[Value, ...]:
        values = [
            read_operand(state, operand, 1 if position == 2 else kind.bits, index)
            for position, operand in enumerate(sources)
        ]
        outcome = _compared(state, values[0], values[1], operator, kind)
        if joined is None:
            return tuple(outputs(outcome))
        return tuple(_joined(value, values[2], joined, state.active) for value in outputs(outcome))

    return transfer


def _compared(state: LaneState, a: Value, b: Value, operator: str, kind: IntegerType) -> Value:
    """A comparison; where an operand is not known, of what its interval leaves."""
    if isinstance(a, Unknown) or isinstance(b, Unknown):
        return _join_unknown([value for value in (a, b) if isinstance(value, Unknown)])
    try:
        outcome = integers.compare(a, b, operator, kind, state.active)
    except Wavers:
        outcome = None
    causes = integers.causes_of(a.terms) | integers.causes_of(b.terms)
    return Unknown(causes) if outcome is None else outcome


def _setp_outputs(target: Operand) -> Callable[[Value], list[Value]] | None:
    match target:
        case Register():
            return lambda outcome: [outcome]
        case Pair(Register(), Register()):
            return lambda outcome: [outcome, integers.opposite(outcome)]
        case Pair(Register(), Sink()):
            return lambda outcome: [outcome]
        case Pair(Sink(), Register()):
            return lambda outcome: [integers.opposite(outcome)]
        case _:
            return None


def _combine(outcome: Number, operator: str | None, others: list[Known]) -> Value:
    if operator is None or not others:
        return Known(outcome)
    other = others[0].base
    if operator == "and":
        return Known(outcome & other)
    return Known(outcome | other if operator == "or" else outcome ^ other)


# --- rules by opcode ----------------------------------------------------------------------------

_Builder = Callable[[Instruction, IntegerType], Rule | None]


def _ring(sign: int) -> _Builder:
    def build(instruction: Instruction, kind: IntegerType) -> Rule | None:
        if "sat" in instruction.modifiers or "cc" in instruction.modifiers:
            return None
        return lambda state, v: combine(v[0], v[1], sign, kind.bits)

    return build


def _copy(instruction: Instruction, kind: IntegerType) -> Rule | None:
    if kind is _PREDICATE:
        return lambda state, v: v[0]
    return lambda state, v: _resize(v[0], kind.bits)


def _convert_address(instruction: Instruction, kind: IntegerType) -> Rule | None:
    """``cvta``: the addresses of most windows are moved, those of global memory are not."""
    words = instruction.modifiers
    return None if "const" in words or "param" in words else _copy(instruction, kind)


def _resize(value: Known, bits: int) -> Known:
    return scale_by(value, 1, bits)


def _cvt(instruction: Instruction, kind: IntegerType) -> Rule | None:
    types = [t for t in map(integer_type, instruction.modifiers) if t is not None]
    if len(types) != 2 or "sat" in instruction.modifiers:
        return None
    target, source = types

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


def _multiply(instruction: Instruction, kind: IntegerType) -> Rule | None:
    mode = next((m for m in instruction.modifiers if m in ("lo", "hi", "wide")), None)
    if mode is None:
        return None
    return lambda state, v: _product(state, v[0], v[1], kind, mode) or _NOT_AFFINE


def _multiply_add(instruction: Instruction, kind: IntegerType) -> Rule | None:
    mode = next((m for m in instruction.modifiers if m in ("lo", "hi", "wide")), None)
    if mode is None or "sat" in instruction.modifiers or "cc" in instruction.modifiers:
        return None
    bits = 2 * kind.bits if mode == "wide" else kind.bits

    def rule(state: LaneState, v: list[Known]) -> Value:
        product = _product(state, v[0], v[1], kind, mode)
        return _NOT_AFFINE if product is None else combine(product, v[2], 1, bits)

    return rule


def _shift_left(instruction: Instruction, kind: IntegerType) -> Rule | None:
    def rule(state: LaneState, v: list[Known]) -> Value:
        if v[1].terms:
            return _NOT_AFFINE
        amount = integers.as_exact(v[1], IntegerType(32, signed=False), state.active).base
        factor: Number
        if isinstance(amount, int):
            factor = 0 if amount >= kind.bits else 1 << amount
        else:
            factor = per_lane(lambda n: wrap_int(0 if n >= kind.bits else 1 << n), amount)
        return scale_by(v[0], factor, kind.bits)

    return rule


def wrap_int(number: int) -> int:
    """A Python int as the canonical int64 that stands for it."""
    wrapped = wrap(number, 64)
    assert isinstance(wrapped, int)
    return wrapped


def _shift_right(instruction: Instruction, kind: IntegerType) -> Rule | None:
    def rule(state: LaneState, v: list[Known]) -> Value:
        if v[1].terms:
            return _NOT_AFFINE
        amount = integers.as_exact(v[1], IntegerType(32, signed=False), state.active).base
        if isinstance(amount, int):
            return integers.shift_right(v[0], amount, kind, state.active) or _NOT_AFFINE
        if v[0].terms:
            return _NOT_AFFINE
        exact = integers.as_exact(v[0], kind, state.active).base
        lanes = integers.per_lane_exact(lambda x, n: x >> min(n, kind.bits), exact, amount)
        return integers.from_exact(integers.Exact(lanes, {}), kind.bits)

    return rule


def _bitwise(operator: str) -> _Builder:
    def build(instruction: Instruction, kind: IntegerType) -> Rule | None:
        return lambda state, v: integers.bitwise(v[0], v[1], operator, kind.bits) or _NOT_AFFINE

    return build


def _not(instruction: Instruction, kind: IntegerType) -> Rule | None:
    if kind is _PREDICATE:
        return lambda state, v: Known(1 - v[0].base)
    return lambda state, v: combine(Known(-1), v[0], -1, kind.bits)


def _negate(instruction: Instruction, kind: IntegerType) -> Rule | None:
    return lambda state, v: combine(Known(0), v[0], -1, kind.bits)


def _extremum(largest: bool) -> _Builder:
    def build(instruction: Instruction, kind: IntegerType) -> Rule | None:
        if len(instruction.operands) != 3 or "relu" in instruction.modifiers:
            return None
        return lambda state, v: (
            integers.extremum(v[0], v[1], kind, state.active, largest=largest) or _NOT_AFFINE
        )

    return build


def _absolute(instruction: Instruction, kind: IntegerType) -> Rule | None:
    def rule(state: LaneState, v: list[Known]) -> Value:
        negative = integers.compare(v[0], Known(0), "lt", kind, state.active)
        if not isinstance(negative, Known) or negative.valid is not None:
            return _NOT_AFFINE
        flipped = combine(Known(0), v[0], -1, kind.bits)
        if isinstance(negative.base, int):
            return flipped if negative.base else v[0]
        return integers.select(flipped, v[0], negative.base.astype(bool))

    return rule


def _divide(remainder: bool) -> _Builder:
    def build(instruction: Instruction, kind: IntegerType) -> Rule | None:
        def rule(state: LaneState, v: list[Known]) -> Value:
            quotient = integers.divide(v[0], v[1], kind, state.active)
            if quotient is None:
                return _NOT_AFFINE
            if not remainder:
                return quotient
            product = scale_by(quotient, v[1].base, kind.bits)
            return combine(v[0], product, -1, kind.bits)

        return rule

    return build


def _select(instruction: Instruction, kind: IntegerType) -> Rule | None:
    def rule(state: LaneState, v: list[Known]) -> Value:
        taken = v[2].base
        if isinstance(taken, int):
            return v[0] if taken else v[1]
        return integers.select(v[0], v[1], taken.astype(bool))

    return rule


def _pointwise(function: scalar.ScalarOperation) -> _Builder:
    def build(instruction: Instruction, kind: IntegerType) -> Rule | None:
        if instruction.modifiers[-1] not in _POINTWISE_TYPES:
            return None

        def rule(state: LaneState, v: list[Known]) -> Value:
            if any(value.terms for value in v):
                return _NOT_AFFINE
            bits = [wrap(value.base, 64) for value in v]
            return Known(wrap(per_lane(lambda *xs: wrap_int(function(kind, *xs)), *bits), 64))

        return rule

    return build


_POINTWISE_TYPES = frozenset({"u32", "s32", "b32", "u64", "s64", "b64"})

_RULES: dict[str, _Builder] = {
    "mov": _copy,
    "cvta": _convert_address,
    "cvt": _cvt,
    "add": _ring(1),
    "sub": _ring(-1),
    "mul": _multiply,
    "mad": _multiply_add,
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
