"""Instruction forms: what all instructions of one shape share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ptxwcet.ir.op_classes import ControlEffect, OpClass, Space
from ptxwcet.ir.opcodes import Opcode
from ptxwcet.ir.operands import Immediate, Operand

Template = Callable[[tuple[str, ...], tuple[Immediate, ...]], Operand]
"""Builds an operand from the names and literals that fill an instruction's slots."""


@dataclass(frozen=True, slots=True, eq=False)
class InstructionForm:
    """Opcode, modifiers, operand kinds and roles; one object per distinct statement shape.

    Slots are indices into :attr:`Instruction.names`. ``guard_slot`` and ``callee_slot`` are -1
    where there is none. ``read_slots`` and ``write_slots`` name register slots only. Without a row
    (``opcode`` None) ``op_class`` is None, and the registers of the first operand that has any
    count as read and written.
    """

    opcode: Opcode | None
    modifiers: tuple[str, ...]
    mnemonic: str
    op_class: OpClass | None
    control: ControlEffect
    space: Space
    guard_slot: int
    guard_negated: bool
    templates: tuple[Template, ...]
    read_slots: tuple[int, ...]
    write_slots: tuple[int, ...]
    callee_slot: int = -1
    implicit_reads: tuple[str, ...] = ()
    implicit_writes: tuple[str, ...] = ()

    def fill(
        self, names: tuple[str, ...], immediates: tuple[Immediate, ...]
    ) -> tuple[Operand, ...]:
        """The operands of an instruction of this form. Cost: linear in their number."""
        return tuple([template(names, immediates) for template in self.templates])
