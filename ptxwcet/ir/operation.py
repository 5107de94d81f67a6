"""Separates the types of an instruction from its other modifiers, once.

PTX writes types and modifiers in one list of words, in almost any order, and some words of either
kind look alike: ``bf16`` is not a bit string, ``u16x2`` not an integer of 32 bits. A consumer reads
:class:`Operation`, not the words. A word that is not a known type stays among the words, so a rule
that accepts only listed words refuses all that this module does not know.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import cache

from ptxwcet.ir.kernel import InstructionForm
from ptxwcet.support.records import dataclass


class NumberKind(Enum):
    """The interpretation of the bits of a number."""

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
        """The width of all numbers in bits."""
        return self.bits * self.count

    @property
    def is_integer(self) -> bool:
        """True for a single integer or bit string."""
        plain = self.kind not in (NumberKind.FLOAT, NumberKind.PREDICATE)
        return plain and self.count == 1

    @property
    def is_signed(self) -> bool:
        """True if it is read in two's complement."""
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
    """Returns the type that a modifier names, or None if it names no known type."""
    return _TYPES.get(word)


_BITS = re.compile(r"(?:[subf]|bf)([0-9]+)(x2)?\Z")
_HANDLE_BYTES = 8  # texref, samplerref, surfref are 64-bit handles


def type_bytes(word: str) -> int:
    """Returns the size of a type such as ``u32`` in memory, in bytes; 1 for ``pred``."""
    match = _BITS.match(word)
    if match is None:
        return 1 if word == "pred" else _HANDLE_BYTES
    return int(match[1]) // 8 * (2 if match[2] else 1)


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """The name of an opcode's row (empty without a row), its types and its words, in order.

    Equal operations are the same object, which :func:`operation_of` returns: lookup is by identity.
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
        """True if it names a floating-point type."""
        return any(number.kind is NumberKind.FLOAT for number in self.types)


def operation_of(form: InstructionForm) -> Operation:
    """Returns name, types and words of a form. Cost: constant, once for each mnemonic."""
    return _decoded("" if form.opcode is None else form.opcode.name, form.modifiers)


@cache
def _decoded(name: str, modifiers: tuple[str, ...]) -> Operation:
    types = tuple(kind for kind in map(number_type, modifiers) if kind is not None)
    words = tuple(word for word in modifiers if number_type(word) is None)
    return Operation(name, types, words)
