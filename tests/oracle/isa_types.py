"""Types of PTX instructions as the ISA manual writes them, and values of lanes as raw bits.

A value is a Python integer. Registers hold raw bits, 0 to 2^width - 1; predicates hold 0 or 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

_SPELLING = re.compile(r"(s|u|b|f|bf|tf)(\d+)(?:x(\d+))?\Z")


class Type(NamedTuple):
    """``kind`` is s, u, b, f (IEEE), bf, tf or p (predicate); ``parts`` is 2 for ``u16x2``."""

    kind: str
    bits: int
    parts: int = 1

    @property
    def width(self) -> int:
        return self.bits * self.parts


PREDICATE = Type("p", 1)
U8, U16, U32, U64 = Type("u", 8), Type("u", 16), Type("u", 32), Type("u", 64)
S32 = Type("s", 32)


def find_type(word: str) -> Type | None:
    """The type that a word of a mnemonic or declaration names, None if it names none."""
    word = word.removeprefix(".")
    if word == "pred":
        return PREDICATE
    found = _SPELLING.match(word)
    if found is None:
        return None
    return Type(found.group(1), int(found.group(2)), int(found.group(3) or 1))


def types_of(words: tuple[str, ...]) -> list[Type]:
    """The types among the words of a mnemonic, in order."""
    return [found for word in words if (found := find_type(word)) is not None]


def ones(bits: int) -> int:
    """The largest unsigned number of so many bits."""
    return (1 << bits) - 1


def signed(raw: int, bits: int) -> int:
    """The number that the low ``bits`` bits are in two's complement."""
    raw &= (1 << bits) - 1
    return raw - (1 << bits) if raw >> (bits - 1) else raw


def number(raw: int, of: Type) -> int:
    """What raw bits are as an operand of a type: signed for ``s``, else the bits themselves."""
    if of.kind == "s" and of.parts == 1:
        return signed(raw, of.bits)
    return raw & ones(of.width)


def clamp(value: int, of: Type) -> int:
    """The nearest number that an integer type has (``.sat``)."""
    if of.kind == "s":
        return max(-(1 << (of.bits - 1)), min((1 << (of.bits - 1)) - 1, value))
    return max(0, min(ones(of.bits), value))


def split(raw: int, of: Type) -> list[int]:
    """The parts of a packed value, lowest first, each a number of the part's type."""
    part = Type(of.kind, of.bits)
    return [number(raw >> (of.bits * i), part) for i in range(of.parts)]


def join(parts: list[int], bits: int) -> int:
    """Packs numbers, the lowest part first."""
    return sum((part & ones(bits)) << (bits * i) for i, part in enumerate(parts))


Function = Callable[..., object]


class Operation(NamedTuple):
    """What an instruction computes from the numbers of its sources.

    ``sources`` are the types in which it reads them and ``results`` those in which it writes.
    ``function`` gives one number, or a tuple for several results. ``carries``: it is given the
    carry flag as a last number; ``sets_carry``: its last result is the carry flag.
    """

    sources: tuple[Type, ...]
    results: tuple[Type, ...]
    function: Function
    carries: bool = False
    sets_carry: bool = False
