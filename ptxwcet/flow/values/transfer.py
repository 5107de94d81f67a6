"""Transfer functions: what an instruction does to the values of control-relevant registers.

:func:`compile_transfer` turns an instruction into a function from a :class:`LaneState` (how to read
registers, special registers and parameters in the active lanes) to the values it writes. What has a
term (:mod:`ptxwcet.ir.semantics`) is evaluated by the domains of terms
(:mod:`ptxwcet.flow.values.term_transfer`), floating point that PTX determines by
:mod:`ptxwcet.flow.values.float_transfer`; everything else, above all what comes from memory, is
Unknown with its cause. Never a guess.
"""

from __future__ import annotations

from collections.abc import Mapping

from ptxwcet.flow.values import loads
from ptxwcet.flow.values.float_transfer import float_transfer
from ptxwcet.flow.values.operands import Transfer, integer_of
from ptxwcet.flow.values.operands import register_width as register_width
from ptxwcet.flow.values.reductions import is_reduction
from ptxwcet.flow.values.term_transfer import term_transfer
from ptxwcet.flow.values.value import Cause, CauseKind, Unknown
from ptxwcet.ir.kernel import Instruction, Space
from ptxwcet.ir.operation import operation_of
from ptxwcet.ir.semantics import meaning_of

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
    meaning = meaning_of(instruction, registers)
    if meaning is not None and count:
        cause = Cause(CauseKind.NOT_AFFINE, instruction.mnemonic, index)
        return term_transfer(meaning, cause)
    if name in _MEMORY and count:
        widths = {one: register_width(registers[one]) for one in instruction.writes}
        rule = loads.memory_transfer(instruction, _opaque_cause(instruction, index), widths)
        if rule is not None:
            return rule
    unknown = Unknown(frozenset({_opaque_cause(instruction, index)}))
    types = operation_of(instruction.form).types
    kind = integer_of(types[0]) if types and types[0].is_integer else None
    width = register_width(registers[instruction.writes[0]]) if count else 0
    floating = float_transfer(instruction, index, width)
    if floating is not None:
        return floating
    if name == "ld" and count == 1 and kind is not None and kind.bits < width:
        loaded = kind
        return lambda state: (loads.of_type(loaded, width, unknown.causes),)
    return lambda state: (unknown,) * count


def reads_matter(instruction: Instruction, registers: Mapping[str, str]) -> bool:
    """Whether the written value depends on the registers read, as far as this analysis knows.

    False for most loads and other opaque operations: their operands need not be tracked.
    ``registers`` are the types of the kernel's registers.
    """
    if loads.is_followed(instruction) or is_reduction(instruction):
        return True
    return meaning_of(instruction, registers) is not None


def _opaque_cause(instruction: Instruction, index: int) -> Cause:
    name = instruction.mnemonic
    if instruction.space is not Space.NONE:
        return Cause(CauseKind.MEMORY, name, index)
    if operation_of(instruction.form).has_floats:
        return Cause(CauseKind.FLOAT, name, index)
    return Cause(CauseKind.OPERATION, name, index)
