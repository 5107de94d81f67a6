"""Computes the semantics of instructions: a term over the sources for each result.

:func:`meaning_of` gives a term for each register that an instruction writes, over the operands that
it reads. It gives None for an opcode without a row, a modifier that its row does not name, a type
that is not an integer, and an operand that is neither register, special register nor literal; then
the result depends on the operands in an unknown manner.

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
    """Returns the terms of an instruction, or None if the table has none for it.

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
    sources = [leaf for operand in operands[1:] for leaf in _parts(operand)]
    if CARRY in instruction.reads:
        sources.append(_CARRY)
    first = operation.types[0].width if operation.types else 0
    places = [_place(source, registers, first) for source in sources]
    located = tuple(place for place in places if place is not None)
    targets = _parts(operands[0])
    if not _names(instruction, sources).issuperset(instruction.reads):
        return None
    if len(located) < len(places) or not all(isinstance(to, (Register, Sink)) for to in targets):
        return None
    results = _results(operation, located, len(targets), CARRY in instruction.writes)
    if results is None:
        return None
    written = [target.name for target in targets if isinstance(target, Register)]
    kept = [term for term, to in zip(results, targets, strict=False) if isinstance(to, Register)]
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
    plain = tuple(source.operand if isinstance(source, Negated) else source for source in sources)
    return Meaning(whole, plain)


def _whole(instruction: Instruction, meaning: WholeMeaning) -> Meaning | None:
    """Returns the semantics by another table, if they cover all that is read and written."""
    semantics = meaning(instruction.modifiers, instruction.operands)
    if semantics is None or len(semantics.results) != len(instruction.writes):
        return None
    is_whole = _names(instruction, semantics.sources).issuperset(instruction.reads)
    return semantics if is_whole else None


def _names(instruction: Instruction, sources: Sequence[Operand]) -> set[str]:
    """Returns the registers that sources and guard name; other registers read have no term."""
    leaves = [source.operand if isinstance(source, Negated) else source for source in sources]
    names = {leaf.name for leaf in leaves if isinstance(leaf, Register)}
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
    """Returns the reading of an operand; ``bits`` is the width of floating-point literals."""
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
    """Returns the bits of a float literal; None for NaN and for numbers out of range."""
    form = {32: "<f", 64: "<d"}.get(bits)
    if form is None or math.isnan(number):
        return None
    try:
        return int.from_bytes(struct.pack(form, number), "little")
    except OverflowError:
        return None


def _width(kind: str) -> int:
    """Returns the bits of a register of a type; 0 if that is not a single number."""
    if kind == "pred":
        return 1
    digits = kind.lstrip("usbf")
    return int(digits) if digits.isdigit() else 0


@lru_cache(maxsize=4096)
def _results(
    operation: Operation, places: tuple[Place, ...], targets: int, carries: bool
) -> tuple[Term, ...] | None:
    """Returns the results of a row for all targets, and the carry flag if it is written."""
    entry = ROWS[operation.name]
    if not set(operation.words) <= entry.words or not all(map(entry.takes, operation.types)):
        return None
    results = entry.build(Sources(operation, places, targets))
    if results is None or len(results) < targets + carries:
        return None
    return (*results[:targets], results[-1]) if carries else results[:targets]
