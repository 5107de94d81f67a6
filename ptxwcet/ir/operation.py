"""What an instruction is asked to compute: its types and its other modifiers, told apart once.

PTX writes types and modifiers in one row of words, in almost any order, and some words of the one
look like the other: ``bf16`` is no bit string, ``u16x2`` no integer of 32 bits. Whoever needs to
know reads :class:`Operation`, not the words. A word that is no known type stays among the words, so
a rule that accepts the words it knows refuses what this module does not know.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import cache

from ptxwcet.ir.kernel import InstructionForm
from ptxwcet.support.records import dataclass


class NumberKind(Enum):
    """How the bits of a number are read."""

    UNSIGNED = "u"
    SIGNED = "s"
    BITS = "b"
    FLOAT = "f"
    PREDICATE = "pred"


@dataclass(frozen=True, slots=True)
class NumberType:
    """A type: ``count`` numbers of ``bits`` bits each, side by side in one register."""

    kind: NumberKind
    bits: int
    count: int = 1

    @property
    def width(self) -> int:
        """Bits in all."""
        return self.bits * self.count

    @property
    def is_integer(self) -> bool:
        """Whether it is a single integer or bit string."""
        plain = self.kind not in (NumberKind.FLOAT, NumberKind.PREDICATE)
        return plain and self.count == 1

    @property
    def is_signed(self) -> bool:
        """Whether it is read in two's complement."""
        return self.kind is NumberKind.SIGNED


_TYPES: dict[str, NumberType] = {
    **{
        f"{kind.value}{bits}": NumberType(kind, bits)
        for kind in (NumberKind.UNSIGNED, NumberKind.SIGNED, NumberKind.BITS)
        for bits in (8, 16, 32, 64)
    },
    "u16x2": NumberType(NumberKind.UNSIGNED, 16, 2),
    "s16x2": NumberType(NumberKind.SIGNED, 16, 2),
    "f16": NumberType(NumberKind.FLOAT, 16),
    "f16x2": NumberType(NumberKind.FLOAT, 16, 2),
    "bf16": NumberType(NumberKind.FLOAT, 16),
    "bf16x2": NumberType(NumberKind.FLOAT, 16, 2),
    "tf32": NumberType(NumberKind.FLOAT, 32),
    "f32": NumberType(NumberKind.FLOAT, 32),
    "f32x2": NumberType(NumberKind.FLOAT, 32, 2),
    "f64": NumberType(NumberKind.FLOAT, 64),
    "pred": NumberType(NumberKind.PREDICATE, 1),
}


def number_type(word: str) -> NumberType | None:
    """The type that a modifier names, None if it names none that is known here."""
    return _TYPES.get(word)


_BITS = re.compile(r"(?:[subf]|bf)([0-9]+)(x2)?\Z")
_HANDLE_BYTES = 8  # texref, samplerref, surfref: a 64-bit handle


def type_bytes(word: str) -> int:
    """Size of a type such as ``u32`` in memory; 1 for ``pred``."""
    found = _BITS.match(word)
    if found is None:
        return 1 if word == "pred" else _HANDLE_BYTES
    return int(found[1]) // 8 * (2 if found[2] else 1)


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """The row's name of an opcode (empty without a row), its types and its words, in order.

    What is alike is one object, which :func:`operation_of` gives: it is looked up by identity.
    """

    name: str
    types: tuple[NumberType, ...]
    words: tuple[str, ...]

    @property
    def integer(self) -> NumberType | None:
        """The type of an operation on single integers of one type, else None."""
        if len(self.types) == 1 and self.types[0].is_integer:
            return self.types[0]
        return None

    @property
    def has_floats(self) -> bool:
        """Whether it names a floating-point type."""
        return any(one.kind is NumberKind.FLOAT for one in self.types)


def operation_of(form: InstructionForm) -> Operation:
    """Name, types and words of an instruction's form. Cost: constant, once for each mnemonic."""
    return _decoded("" if form.opcode is None else form.opcode.name, form.modifiers)


@cache
def _decoded(name: str, modifiers: tuple[str, ...]) -> Operation:
    types = tuple(kind for kind in map(number_type, modifiers) if kind is not None)
    words = tuple(word for word in modifiers if number_type(word) is None)
    return Operation(name, types, words)
