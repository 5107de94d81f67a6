"""What instructions compute: one row an opcode, each a term over the instruction's sources.

:func:`meaning_of` gives a term for each register that an instruction writes, over the operands that
it reads. An opcode without a row, a modifier that its row does not name, a type that is not an
integer, an operand that is neither register, special register nor literal: None, and nobody knows
more of the result than that it depends on what was read.

Source: the PTX ISA manual, chapter 9 (the sections on integer, comparison, logic and shift, and
data movement instructions). Every row is compared with execution on all its forms
(``tests/oracle/test_terms.py``).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache

from ptxwcet.ir.instruction_set import ROWS
from ptxwcet.ir.kernel import CARRY, Instruction
from ptxwcet.ir.meanings import Place, Sources
from ptxwcet.ir.opcodes import WholeMeaning
from ptxwcet.ir.operands import (
    Immediate,
    Negated,
    Operand,
    Pair,
    Register,
    Sink,
    SpecialRegister,
    SymbolRef,
    Vector,
    WholeVector,
)
from ptxwcet.ir.operation import Operation, operation_of
from ptxwcet.ir.terms import Meaning as Meaning
from ptxwcet.ir.terms import Term

_CARRY = Register(CARRY)


def meaning_of(instruction: Instruction, registers: Mapping[str, str]) -> Meaning | None:
    """The terms of an instruction; None if the table has none for it.

    ``registers``: the types of the kernel's registers. Cost: constant, once for each combination of
    mnemonic, operand kinds and literals.
    """
    opcode = instruction.opcode
    if opcode is not None and opcode.meaning is not None:
        return _whole(instruction, opcode.meaning)
    operation = operation_of(instruction.form)
    table_row = ROWS.get(operation.name)
    operands = instruction.operands
    if table_row is None or not operands:
        return None
    sources = [leaf for one in operands[1:] for leaf in _parts(one)]
    if CARRY in instruction.reads:
        sources.append(_CARRY)
    first = operation.types[0].width if operation.types else 0
    places = [_place(one, registers, first) for one in sources]
    located = tuple(one for one in places if one is not None)
    targets = _parts(operands[0])
    if not _names(instruction, sources).issuperset(instruction.reads):
        return None
    if len(located) < len(places) or not all(isinstance(one, (Register, Sink)) for one in targets):
        return None
    results = _results(operation, located, len(targets), CARRY in instruction.writes)
    if results is None:
        return None
    written = [one.name for one in targets if isinstance(one, Register)]
    kept = [one for one, at in zip(results, targets, strict=False) if isinstance(at, Register)]
    if CARRY in instruction.writes:
        written.append(CARRY)
        kept.append(results[-1])
    if tuple(written) != tuple(instruction.writes):
        return None
    is_signed = operation.types[0].is_signed if operation.types else False
    widths = [_width(registers.get(name, "pred")) for name in written]
    if any(width == 0 for width in widths):
        return None
    whole = tuple(
        part.resized(width, signed=is_signed) for part, width in zip(kept, widths, strict=True)
    )
    plain = tuple(one.operand if isinstance(one, Negated) else one for one in sources)
    return Meaning(whole, plain)


def _whole(instruction: Instruction, meaning: WholeMeaning) -> Meaning | None:
    """What another table says, if that is of all that is read and written."""
    found = meaning(instruction.modifiers, instruction.operands)
    if found is None or len(found.results) != len(instruction.writes):
        return None
    is_whole = _names(instruction, found.sources).issuperset(instruction.reads)
    return found if is_whole else None


def _names(instruction: Instruction, sources: Sequence[Operand]) -> set[str]:
    """The registers that its sources and its guard name; what else it reads has no term."""
    leaves = [one.operand if isinstance(one, Negated) else one for one in sources]
    names = {one.name for one in leaves if isinstance(one, Register)}
    if instruction.guard is not None:
        names.add(instruction.guard.register)
    return names


def _parts(operand: Operand) -> tuple[Operand, ...]:
    match operand:
        case Pair(first, second):
            return first, second
        case Vector(elements):
            return elements
        case WholeVector(_, members):
            return tuple(map(Register, members))
    return (operand,)


def _place(operand: Operand, registers: Mapping[str, str], bits: int) -> Place | None:
    """How an operand is read; ``bits``: of the first type, that of literals of floating point."""
    match operand:
        case Register(name):
            width = _width(registers.get(name, "pred" if name == CARRY else ""))
            return Place(None, width) if width else None
        case Negated(Register() as inner):
            place = _place(inner, registers, bits)
            return place if place is None else Place(None, place.width, negated=True)
        case SpecialRegister():
            return Place(None, operand.bits)
        case SymbolRef():
            return Place(None, 64)
        case Immediate(value) if isinstance(value, int):
            return Place(value, 0)
        case Immediate(value):
            number = _pattern(value, bits)
            return None if number is None else Place(number, 0)
    return None


def _pattern(number: float, bits: int) -> int | None:
    """The bits of a literal of floating point; None of NaN and of what a type cannot hold."""
    form = {32: "<f", 64: "<d"}.get(bits)
    if form is None or math.isnan(number):
        return None
    try:
        return int.from_bytes(struct.pack(form, number), "little")
    except OverflowError:
        return None


def _width(kind: str) -> int:
    """Bits of a register of a type; 0 if that is no single number."""
    if kind == "pred":
        return 1
    digits = kind.lstrip("usbf")
    return int(digits) if digits.isdigit() else 0


@lru_cache(maxsize=4096)
def _results(
    operation: Operation, places: tuple[Place, ...], targets: int, carries: bool
) -> tuple[Term, ...] | None:
    """The results of a row for all targets, and the carry flag if it is written."""
    row = ROWS[operation.name]
    if not set(operation.words) <= row.words or not all(map(row.takes, operation.types)):
        return None
    found = row.build(Sources(operation, places, targets))
    if found is None or len(found) < targets + carries:
        return None
    return (*found[:targets], found[-1]) if carries else found[:targets]
