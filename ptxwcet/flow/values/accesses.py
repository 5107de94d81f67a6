"""Loads and stores as the value analysis sees them: where, of which type, which operands."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ptxwcet.flow.values.integers import IntegerType, integer_type
from ptxwcet.ir.kernel import (
    Address,
    Instruction,
    Operand,
    Register,
    Sink,
    Space,
    SymbolRef,
    Vector,
    WholeVector,
)
from ptxwcet.support.records import dataclass

_TYPE = re.compile(r"[busf](8|16|32|64|128)")


@dataclass(frozen=True, slots=True)
class Access:
    """``ld`` or ``st`` of elements of ``bits`` bits each, one behind the other from ``offset`` on.

    ``base`` is the variable or the register that the address starts from. ``elements`` are the
    targets of a load or the sources of a store; ``kind`` is None for floats and 128 bits.
    """

    space: Space
    base: SymbolRef | Register
    offset: int
    bits: int
    kind: IntegerType | None
    elements: tuple[Operand, ...]

    @property
    def span(self) -> tuple[int, int]:
        """First byte, and the first one behind, relative to ``base``."""
        return self.offset, self.offset + len(self.elements) * self.bits // 8

    def places(self) -> Iterator[tuple[int, Operand]]:
        """Each element with its offset in bytes from ``base``."""
        for place, element in enumerate(self.elements):
            yield self.offset + place * self.bits // 8, element


def access_of(instruction: Instruction) -> Access | None:
    """The access of a plain load or store; None for anything else. Cost: constant.

    None too for a load of several elements into one register: nothing says which of them stays.
    """
    name = instruction.opcode.name if instruction.opcode is not None else ""
    operands = instruction.operands
    if name not in ("ld", "st") or len(operands) < 2:
        return None
    data, address = (operands[0], operands[1]) if name == "ld" else (operands[1], operands[0])
    words = [word for word in instruction.modifiers if _TYPE.fullmatch(word)]
    if not words or not isinstance(address, Address):
        return None
    base, offset = address.base, address.offset
    if isinstance(base, SymbolRef):
        base, offset = SymbolRef(base.name), offset + base.offset
    elif not isinstance(base, Register):
        return None
    elements = _elements(data)
    targets = [one.name for one in elements if isinstance(one, Register)]
    if name == "ld" and len(set(targets)) < len(targets):
        return None
    kind = integer_type(words[-1])
    return Access(instruction.space, base, offset, int(words[-1][1:]), kind, elements)


def _elements(data: Operand) -> tuple[Operand, ...]:
    if isinstance(data, Vector):
        return data.elements
    if isinstance(data, WholeVector):
        return tuple(Register(name) for name in data.members)
    return (data,)


def variable_moves(instruction: Instruction) -> dict[str, Operand]:
    """What a load from or store to a variable of one thread moves: register written -> source.

    The parts of the variable are registers here (:mod:`ptxwcet.flow.paths.call_variables`).
    """
    access = access_of(instruction)
    assert access is not None, "only plain loads and stores have such registers"
    moves: dict[str, Operand] = {}
    for offset, element in access.places():
        slot = slot_name(access.base.name, offset, access.bits)
        if not instruction.form.write_slots:
            moves[slot] = element
        elif isinstance(element, Register):
            moves[element.name] = Register(slot)
    return moves


def targets_of(access: Access) -> Iterator[tuple[int, str]]:
    """The registers that a load writes, each with the offset of its element."""
    for offset, element in access.places():
        if not isinstance(element, Sink):
            assert isinstance(element, Register), "a load writes registers"
            yield offset, element.name


def slot_name(variable: str, offset: int, bits: int) -> str:
    """The register that stands for a part of a variable of one thread: ``param0+4:32``."""
    return f"{variable}+{offset}:{bits}"
