"""Parses operands of machine code to operands of the IR, with all registers that they hold.

``R4`` of 64 bits is the pair ``{R4, R5}``. ``RZ``, ``URZ`` and ``PT`` are not registers: they read
as 0, 0 and true, and discard writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ptxwcet.ir.operands import (
    Address,
    Arguments,
    Bracket,
    Decorated,
    Element,
    Immediate,
    Negated,
    Operand,
    Register,
    Sink,
    SpecialRegister,
    SymbolRef,
    Vector,
)

_PREDICATE = re.compile(r"(!?)(U?P)([0-6T])")
_REGISTER = re.compile(r"([-~]{0,2}\|?)(U?R)(\d{1,3}|Z)(\|?)((?:\.\w+)*)")
_CONSTANT = re.compile(r"([-~]?\|?)c\[(0x[0-9a-f]+)\] ?\[([^]]+)\](\|?)((?:\.\w+)*)")
_MEMORY = re.compile(r"(?:desc\[(UR\d+)\])?\[([^][]+)\]")
_SPECIAL = re.compile(r"SR_[\w.]+|SRZ")
_INTEGER = re.compile(r"-?0x[0-9a-f]{1,16}")
_FLOAT = re.compile(r"[-+]?(?:\d+(?:\.\d+)?(?:e[-+]?\d+)?|INF|[QS]NAN)")
_LABEL = re.compile(r"`\(([\w.$@]+)\)")
# half an address that the loader knows: of code of the same section, or of a symbol
_HALF_ADDRESS = re.compile(r"(?:lo|hi)@(?:0x[0-9a-f]{1,16}|\([\w.$@]*\))")
_BARRIER = re.compile(r"B\d{1,2}|SB\d")
_SET = re.compile(r"\{\d(?:,\d)*\}")
_MOST = {"R": 255, "UR": 63}


class UnknownOperandError(ValueError):
    """The error of an operand of an unknown kind."""


def split_operands(text: str) -> list[str]:
    """Splits operands like ``R2, [R4.64+0x10], {5,4}`` at their outer commas."""
    return [part.strip() for part in re.split(r",\s+|,(?![^{]*\})", text)] if text.strip() else []


def is_predicate(text: str) -> bool:
    """Returns whether an operand is a predicate."""
    return _PREDICATE.fullmatch(text) is not None or text == "PR"


def operand_of(
    text: str, count: int, *, written: bool, wide_addresses: bool = False, masked: int = 0x7F
) -> Operand:
    """Returns the operand, of ``count`` registers if it is one; ``written`` for zero registers.

    ``wide_addresses``: registers in brackets hold addresses of 64 bits unless stated otherwise.
    ``masked``: the predicates of ``PR``. Raises UnknownOperandError.
    """
    if match := _PREDICATE.fullmatch(text):
        return _predicate(match, written=written)
    if match := _REGISTER.fullmatch(text):
        return _register(match, count, written=written)
    if match := _CONSTANT.fullmatch(text):
        return _decorated(_constant(match[2], match[3]), match[1], match[4], match[5])
    if match := _MEMORY.fullmatch(text):
        return Bracket(tuple(_address(match[1], match[2], wide_addresses)))
    if _SPECIAL.fullmatch(text):
        return SpecialRegister(text)
    if _INTEGER.fullmatch(text):
        return Immediate(int(text, 0), text)
    if _FLOAT.fullmatch(text):
        return Immediate(float(text.replace("QNAN", "NAN").replace("SNAN", "NAN")), text)
    if match := _LABEL.fullmatch(text):
        return SymbolRef(match[1])
    if _HALF_ADDRESS.fullmatch(text):
        return SymbolRef(text)
    if _BARRIER.fullmatch(text):
        return Register(text)
    if _SET.fullmatch(text):
        return Arguments(tuple(Immediate(int(number), number) for number in text[1:-1].split(",")))
    if text == "PR":
        return Vector(tuple(Register(f"P{number}") for number in range(7) if masked >> number & 1))
    raise UnknownOperandError(text)


def registers(bank: str, first: int, count: int) -> Operand:
    """Returns consecutive registers from a first one on."""
    if first + count > _MOST[bank]:
        raise UnknownOperandError(f"{bank}{first}")
    group = tuple(Register(f"{bank}{number}") for number in range(first, first + count))
    return group[0] if count == 1 else Vector(group)


def _predicate(match: re.Match[str], *, written: bool) -> Operand:
    if match[3] == "T":
        return Sink() if written else Immediate(int(not match[1]), match[0])
    register = Register(match[2] + match[3])
    return Negated(register) if match[1] else register


def _register(match: re.Match[str], count: int, *, written: bool) -> Operand:
    if match[3] == "Z":
        inner: Operand = Sink() if written else Immediate(0, match[2] + "Z")
    else:
        inner = registers(match[2], int(match[3]), count)
    return inner if written else _decorated(inner, match[1], match[4], match[5])


def _decorated(inner: Operand, before: str, behind: str, after: str) -> Operand:
    after = behind + after.replace(".reuse", "")
    return Decorated(inner, before, after) if before or after else inner


def _constant(bank: str, place: str) -> Operand:
    """Returns ``c[0x3][R4+0x10]``: a bank, and a place in it that a register may shift."""
    base, offset = None, 0
    for part in place.split("+"):
        if match := _REGISTER.fullmatch(part):
            zero = match[3] == "Z"
            base = Immediate(0, part) if zero else Register(match[2] + match[3])
        elif _INTEGER.fullmatch(part):
            offset += int(part, 0)
        else:
            raise UnknownOperandError(f"c[{bank}][{place}]")
    if base is None:
        return Element(SymbolRef(f"c[{bank}]"), Address(Immediate(offset, place)))
    return Element(SymbolRef(f"c[{bank}]"), Address(base, offset))


def _address(descriptor: str | None, text: str, wide: bool) -> Iterator[Operand]:
    """Yields the parts of an address: a descriptor, registers with their scales, an offset."""
    if descriptor:
        yield Decorated(registers("UR", int(descriptor[2:]), 2), "desc")
    for part in text.split("+"):
        if match := _REGISTER.fullmatch(part):
            kind = match[5].replace(".reuse", "")
            is_wide = kind == ".64" or (wide and kind == "")
            if match[1] or match[4] or kind not in ("", ".64", ".U32", ".X4", ".X8", ".X16"):
                raise UnknownOperandError(part)
            yield _register(match, 1 + is_wide, written=False)
        elif _INTEGER.fullmatch(part):
            yield Immediate(int(part, 0), part)
        else:
            raise UnknownOperandError(text)
