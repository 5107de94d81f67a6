"""Constructs instructions from operands, for passes and for front ends other than PTX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial

from ptxwcet.ir.instruction_set import find_opcode
from ptxwcet.ir.kernel import CARRY, Guard, Instruction, InstructionForm, Origin, Template
from ptxwcet.ir.op_classes import ControlEffect, Space
from ptxwcet.ir.opcodes import Opcode
from ptxwcet.ir.operands import (
    Address,
    Bracket,
    Element,
    Immediate,
    Operand,
    Register,
    SpecialRegister,
    SymbolRef,
    leaves,
    mapped,
)

Decoded = tuple[Opcode, int]
"""The row of an opcode, its modifiers in one word, and the number of leading operands it writes."""


def instruction_of(
    mnemonic: str,
    operands: Sequence[Operand],
    place: tuple[Origin, int, int],
    *,
    guard: Guard | None = None,
    targets: tuple[str, ...] = (),
    decoded: Decoded | None = None,
) -> Instruction:
    """Returns an instruction with these operands, at a place of a text: its origin, start and end.

    The row of the opcode determines which operands are written; ``decoded`` is the row that the
    table of another language has for the mnemonic. The callee of a direct call is not an operand.
    Cost: linear in the operands.
    """
    names = [] if guard is None else [guard.register]
    values: list[Immediate] = []

    def slot(leaf: Operand) -> Operand:
        """Fills the next slot with a leaf; returns a leaf of its kind with the slot's number."""
        if isinstance(leaf, Immediate):
            values.append(leaf)
            return Immediate(len(values) - 1, "")
        assert isinstance(leaf, Register | SpecialRegister | SymbolRef), leaf
        names.append(leaf.name)
        return replace(leaf, name=str(len(names) - 1))

    patterns = tuple([mapped(operand, slot) for operand in operands])
    form = _form(mnemonic, patterns, None if guard is None else guard.negated, decoded)
    origin, start, end = place
    return Instruction(form, tuple(names), tuple(values), start, end, origin, targets)


def _filled(pattern: Operand, names: tuple[str, ...], values: tuple[Immediate, ...]) -> Operand:
    def content(leaf: Operand) -> Operand:
        if isinstance(leaf, Immediate):
            return values[int(leaf.value)]
        assert isinstance(leaf, Register | SpecialRegister | SymbolRef)
        return replace(leaf, name=names[int(leaf.name)])

    return mapped(pattern, content)


@lru_cache(maxsize=4096)
def _form(
    mnemonic: str, patterns: tuple[Operand, ...], negated: bool | None, decoded: Decoded | None
) -> InstructionForm:
    words = mnemonic.split(".")
    opcode, count = find_opcode(words) if decoded is None else (decoded[0], 1)
    written = decoded[1] if decoded else 0 if opcode is None else opcode.counts[1]
    reads, writes = [] if negated is None else [0], list[int]()
    for number, pattern in enumerate(patterns):
        slots = [int(leaf.name) for leaf in leaves(pattern) if isinstance(leaf, Register)]
        is_place = isinstance(pattern, Address | Element | Bracket)
        written = min(written, number) if is_place else written
        writes += slots if number < written else []
        reads += [] if number < written and not (opcode and opcode.accumulates) else slots
    templates = tuple([partial(_filled, pattern) for pattern in patterns])
    return form_of(mnemonic, (opcode, tuple(words[count:])), negated, templates, (reads, writes))


def form_of(
    mnemonic: str,
    decoded: tuple[Opcode | None, tuple[str, ...]],
    negated: bool | None,
    templates: tuple[Template, ...],
    roles: tuple[Sequence[int], Sequence[int]],
    callee_slot: int = -1,
) -> InstructionForm:
    """Returns a form with the effects of its opcode and modifiers, the ``decoded`` mnemonic.

    ``negated`` describes its guard, None without one. ``roles``: the slots read and written.
    """
    opcode, modifiers = decoded
    return InstructionForm(
        opcode=opcode,
        modifiers=modifiers,
        mnemonic=mnemonic,
        op_class=None if opcode is None else opcode.op_class(modifiers),
        control=ControlEffect.NONE if opcode is None else opcode.control,
        space=Space.NONE if opcode is None else opcode.space(modifiers),
        guard_slot=-1 if negated is None else 0,
        guard_negated=bool(negated),
        templates=templates,
        read_slots=tuple(roles[0]),
        write_slots=tuple(roles[1]),
        callee_slot=callee_slot,
        implicit_reads=(CARRY,) if opcode is not None and opcode.reads_carry else (),
        implicit_writes=(CARRY,) if "cc" in modifiers else (),
    )
