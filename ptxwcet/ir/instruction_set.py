"""Collects the table of instructions: one row per base opcode of PTX (ISA 9.x).

The longest row that a mnemonic begins with counts. A new instruction is a row in the file of its
family; the grammar knows no opcodes. Source: the PTX ISA manual, chapter "Instruction Set"; a
second opinion for each row is ptxas. An opcode without a row in ``ROWS`` is unknown everywhere.
"""

from __future__ import annotations

import copyreg
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from types import MappingProxyType
from typing import Any

from ptxwcet.ir import (
    arithmetic,
    asynchronous,
    bits,
    control,
    matrix,
    memory,
    moves,
    texture,
)
from ptxwcet.ir.kernel import Instruction
from ptxwcet.ir.meanings import SemanticsRow
from ptxwcet.ir.opcodes import Opcode
from ptxwcet.ir.permitted import Form, matching
from ptxwcet.ir.permitted_operands import refusal

_FAMILIES = (arithmetic, bits, moves, memory, asynchronous, control, matrix, texture)


def _tables() -> tuple[Mapping[str, Opcode], Mapping[str, SemanticsRow]]:
    opcodes: dict[str, Opcode] = {}
    forms: dict[str, list[Form]] = {}
    meanings: dict[str, SemanticsRow] = {}
    name = ""
    for entry in chain.from_iterable(family.rows() for family in _FAMILIES):
        match entry:
            case Opcode():
                name = entry.name
                assert name not in opcodes, f"two rows of {name}"
                opcodes[name], forms[name] = entry, []
            case Form():
                forms[name].append(entry)
            case SemanticsRow():
                meanings[name] = entry
    complete = {name: replace(row, forms=tuple(forms[name])) for name, row in opcodes.items()}
    return MappingProxyType(complete), MappingProxyType(meanings)


OPCODES, ROWS = _tables()
"""The opcodes by name, and the semantics of those whose values can decide branches."""


def _pickled(opcode: Opcode) -> tuple[Any, ...]:
    """Returns the reduced form for pickling: a row of the table is pickled by its name."""
    is_of_table = OPCODES.get(opcode.name) is opcode
    return (_row, (opcode.name,)) if is_of_table else opcode.__reduce_ex__(4)  # type: ignore[return-value]


def _row(name: str) -> Opcode:
    return OPCODES[name]


copyreg.pickle(Opcode, _pickled)

_LONGEST = max(name.count(".") + 1 for name in OPCODES)


def find_opcode(words: Sequence[str]) -> tuple[Opcode | None, int]:
    """Finds the row with the longest name that ``words`` begins with, and the length of that name.

    ``words`` is the mnemonic split at its dots. Returns (None, 1) for an opcode without a row.
    """
    for count in range(min(len(words), _LONGEST), 0, -1):
        opcode = OPCODES.get(".".join(words[:count]))
        if opcode is not None:
            return opcode, count
    return None, 1


def misfit(instruction: Instruction, types: Mapping[str, str]) -> str:
    """Returns why the operands of a judged instruction fit none of its forms; empty if they fit.

    ``types`` are the types of its registers.
    """
    assert instruction.opcode is not None
    forms, _ = matching(instruction.opcode.forms, instruction.modifiers)
    objection = refusal(forms, instruction, types, {})
    return "" if objection is None else objection.message
