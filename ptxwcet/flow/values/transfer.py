"""Transfer functions: what an instruction does to the values of control-relevant registers.

:func:`compile_transfer` turns an instruction into a function from a :class:`LaneState` (how to read
registers, special registers and parameters in the active lanes) to the values it writes. Integer
and predicate instructions are evaluated exactly (:mod:`ptxwcet.flow.values.rules`,
:mod:`ptxwcet.flow.values.predicate_rules`); everything else, above all what comes from memory and
floating point, is Unknown with its cause. Never a guess: an operation without a rule yields
Unknown.
"""

from __future__ import annotations

from collections.abc import Mapping

from ptxwcet.flow.values import loads
from ptxwcet.flow.values.integers import IntegerType
from ptxwcet.flow.values.operands import (
    NOT_AFFINE,
    PREDICATE,
    LaneState,
    Transfer,
    computes_integers,
    integer_of,
    join_unknown,
    read_operand,
)
from ptxwcet.flow.values.operands import register_width as register_width
from ptxwcet.flow.values.predicate_rules import DECISIVE, junction, setp_transfer
from ptxwcet.flow.values.ranged_results import Fallback, ranged
from ptxwcet.flow.values.regions import Wavers
from ptxwcet.flow.values.rules import VALUE_RULES, Rule
from ptxwcet.flow.values.value import Cause, CauseKind, Known, Unknown, Value
from ptxwcet.ir.kernel import Instruction, Operand, Register, Space
from ptxwcet.ir.operation import operation_of

_MEMORY = ("ld", "st")


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
        rule = _value_rule(instruction, index, registers)
    types = operation_of(instruction.form).types
    kind = integer_of(types[0]) if types and types[0].is_integer else None
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


def _extending(rule: Transfer, kind: IntegerType, width: int) -> Transfer:
    """A target wider than the type receives the value with its sign or zeros in front."""

    def transfer(state: LaneState) -> tuple[Value, ...]:
        (value,) = rule(state)
        return (loads.extended(value, kind, width, state.active),)

    return transfer


def reads_matter(instruction: Instruction, registers: Mapping[str, str]) -> bool:
    """Whether the written value depends on the registers read, as far as this analysis knows.

    False for most loads and other opaque operations: their operands need not be tracked.
    ``registers`` are the types of the kernel's registers.
    """
    return loads.is_followed(instruction) or _value_rule(instruction, 0, registers) is not None


def _opaque_cause(instruction: Instruction, index: int) -> Cause:
    name = instruction.mnemonic
    if instruction.space is not Space.NONE:
        return Cause(CauseKind.MEMORY, name, index)
    if operation_of(instruction.form).has_floats:
        return Cause(CauseKind.FLOAT, name, index)
    return Cause(CauseKind.OPERATION, name, index)


def _value_rule(
    instruction: Instruction, index: int, registers: Mapping[str, str]
) -> Transfer | None:
    """The transfer function of an instruction whose result may be known; None if it has none."""
    operation = operation_of(instruction.form)
    if operation.name in _MEMORY or not computes_integers(instruction, operation, registers):
        return None
    if operation.name == "setp":
        return setp_transfer(instruction, index)
    row = VALUE_RULES.get(operation.name)
    if row is None or operation.words not in row.words:
        return None
    if not isinstance(instruction.operands[0], Register):
        return None
    kind = integer_of(operation.types[-1])
    if kind is PREDICATE and operation.name in DECISIVE:
        return junction(instruction, index, operation.name)
    rule = row.build(operation, kind)
    if rule is None:
        return None
    sources = [
        (operand, operation.source_bits(place))
        for place, operand in enumerate(instruction.operands[1:])
    ]
    cause = Cause(CauseKind.NOT_AFFINE, instruction.mnemonic, index)
    return _evaluation(rule, sources, ranged(operation, kind), cause)


def _evaluation(
    rule: Rule, sources: list[tuple[Operand, int]], fallback: Fallback, cause: Cause
) -> Transfer:
    """Applies a rule where all operands are known; else says what is known of the result.

    ``sources`` are operands and their widths; ``cause`` names the instruction.
    """

    def transfer(state: LaneState) -> tuple[Value, ...]:
        values = [
            read_operand(state, operand, bits, cause.instruction) for operand, bits in sources
        ]
        unknown = [value for value in values if isinstance(value, Unknown)]
        if unknown:
            return (fallback(state, values, join_unknown(unknown).causes),)
        try:
            found = rule(state, [value for value in values if isinstance(value, Known)])
        except Wavers:
            found = NOT_AFFINE
        if isinstance(found, Known):
            return (found,)
        return (fallback(state, values, frozenset({cause})),)

    return transfer
