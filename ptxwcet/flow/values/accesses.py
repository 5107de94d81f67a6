"""Loads and stores as the value analysis sees them: where, of which type, which operands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from ptxwcet.flow.values.integers import IntegerType, integer_type
from ptxwcet.ir.kernel import (
    Address,
    Instruction,
    Kernel,
    Operand,
    Parameter,
    Register,
    Sink,
    Space,
    SymbolRef,
    Vector,
    WholeVector,
)
from ptxwcet.support.records import dataclass

_TYPE = re.compile(r"[busf](8|16|32|64|128)")
_MOST_BITS = 64
OF_CONSTANT = -1
"""In the place of a parameter's index, for a word of a variable."""


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


def field_name(aggregate: str, offset: int) -> str:
    """The name of a word in an aggregate parameter: no name of PTX has a plus in it."""
    return f"{aggregate}+{offset}"


@lru_cache(maxsize=16)
def fields_of(kernel: Kernel) -> Mapping[str, Parameter]:
    """The words of aggregate parameters and of ``.const`` variables of the module that a kernel
    loads by their offset, as parameters.

    By name. The type is that of the first load; a load of another width is of another word, of
    which none has a name. Cost: linear in the kernel.
    """
    indices = {one.name: one.index if one.is_array else None for one in kernel.parameters}
    indices |= dict.fromkeys((one.name for one in kernel.variables), None)
    fields: dict[str, Parameter] = {}
    for instruction in kernel.instructions:
        is_fixed = instruction.space in (Space.PARAM, Space.CONST)
        access = access_of(instruction) if is_fixed else None
        if access is None or not isinstance(access.base, SymbolRef):
            continue
        whole = access.base.name
        index = indices.get(whole, OF_CONSTANT if access.space is Space.CONST else None)
        if index is None or not instruction.form.write_slots or access.bits > _MOST_BITS:
            continue
        kind = [word for word in instruction.modifiers if _TYPE.fullmatch(word)][-1]
        for offset, _ in access.places():
            name, size = field_name(whole, offset), access.bits // 8
            fields.setdefault(name, Parameter(name, kind, size, size, index))
    return fields


def parameters_of(kernel: Kernel) -> tuple[Parameter, ...]:
    """The parameters of a kernel, and the words of aggregates and constants: see fields_of."""
    return *kernel.parameters, *fields_of(kernel).values()


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
