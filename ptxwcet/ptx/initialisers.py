"""What a variable of a module holds when a launch begins: its initialiser as bytes."""

from __future__ import annotations

import math
import re
import struct
from functools import lru_cache

from lark import UnexpectedInput

from ptxwcet.ir.kernel import Variable
from ptxwcet.ir.operands import Immediate
from ptxwcet.ir.operation import number_type, type_bytes
from ptxwcet.ptx.grammar import parse_rule, tokens
from ptxwcet.ptx.literals import (
    LITERAL,
    LiteralError,
    evaluate,
    fixed_immediate,
    immediate,
    integer_value,
    literal_of,
    negated,
)
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError

_DIMENSIONS = re.compile(r"(?:\[\w*\])+\Z", re.ASCII)


def initial_bytes(variable: Variable) -> bytes:
    """The bytes of a variable that has an initialiser.

    Raises PtxwcetError (PW413) for initialisers with names, and for rows that are not full before
    others: ptxas goes on behind what they have, C would fill them up. Cost: linear.
    """
    declared, _, text = variable.declaration.partition("=")
    try:
        data = _filled(variable, _row_sizes(variable, declared.rstrip()), text.rstrip("; \n"))
    except LiteralError as problem:
        message = f"the initialiser of {variable.name}: {problem}"
        help_text = f"give the bytes of {variable.name} in the launch file"
        raise PtxwcetError(Diagnostic("PW413", message, help=help_text)) from None
    return data.ljust(variable.size_bytes, b"\0")


def _row_sizes(variable: Variable, declared: str) -> list[int]:
    """Bytes of what stands between the braces, from the outermost pair to the innermost."""
    if (known := number_type(variable.type)) is None or known.count > 1:
        raise LiteralError(f"type .{variable.type}")
    unit = type_bytes(variable.type)
    sizes = [unit * int(width) for width in re.findall(r"\.v([248])\b", declared)]
    found = _DIMENSIONS.search(declared)
    for size in [] if found is None else found.group()[1:-1].split("][")[::-1]:
        inner = sizes[-1] if sizes else unit
        sizes.append(inner * integer_value(size) if size else variable.size_bytes)
    return sizes[::-1]


def _filled(variable: Variable, sizes: list[int], text: str) -> bytes:
    data, starts = bytearray(), list[int]()
    is_short = False
    for piece in re.findall(r"[{}]|[^{},]+", text):
        if piece == "{":
            starts.append(len(data))
            if len(starts) > len(sizes):
                raise LiteralError("more braces than dimensions")
        elif piece == "}":
            is_short |= len(data) < starts[-1] + sizes[len(starts) - 1]
            starts.pop()
        elif piece.strip():
            if is_short:
                raise LiteralError("rows before others are not full")
            if len(starts) != len(sizes):
                raise LiteralError("a value where a row is expected")
            data += _value_bytes(_constant(piece), variable.type)
    if len(data) > variable.size_bytes:
        raise LiteralError("more values than elements")
    return bytes(data)


def _value_bytes(value: Immediate, kind: str) -> bytes:
    """A value as a variable of a type holds it. Raises LiteralError where ptxas takes none."""
    number, size = value.value, type_bytes(kind)
    if isinstance(number, int) and kind[0] != "f":
        return (number & (1 << 8 * size) - 1).to_bytes(size, "little")
    is_single = value.text.lstrip("-")[:2].lower() == "0f"
    fits = kind in ("f32", "b32") or (kind in ("f64", "b64") and not is_single)
    if isinstance(number, int) or not fits:
        raise LiteralError(f"{value.text} is no value of .{kind}")
    return _float_bytes(number, value.text, size)


def _float_bytes(number: float, text: str, size: int) -> bytes:
    """A number in the format of so many bytes; ``0f`` and ``0d`` keep their bits, a NaN's too."""
    spelled = text.lstrip("-").lower()
    given = {"0f": 4, "0d": 8}.get(spelled[:2])
    if given is not None:
        bits = int(spelled[2:], 16) ^ (text[0] == "-") << 8 * given - 1
        data = bits.to_bytes(given, "little")
        if given == size:
            return data
        (number,) = struct.unpack("<d", data)
    try:
        return struct.pack("<f" if size == 4 else "<d", number)
    except OverflowError:
        return struct.pack("<f", math.copysign(math.inf, number))


@lru_cache(maxsize=4096)
def _constant(text: str) -> Immediate:
    """The value of a constant expression. Raises LiteralError where it has none, names included.

    Cost: a microsecond for a literal, one run of Lark otherwise.
    """
    found = LITERAL.fullmatch(text.strip())
    if found is not None and found.lastgroup is not None:
        return immediate(found.lastgroup, found.group())
    try:
        (node,) = parse_rule(text, "operands").children
    except (UnexpectedInput, ValueError):
        raise LiteralError(f"{text.strip()[:40]} is no number") from None
    if any(token.type in ("NAME", "SINK") for token in tokens(node)):
        raise LiteralError(f"{text.strip()[:40]} is an address, which a GPU decides")
    token, negative = literal_of(node)
    if token is None:
        return fixed_immediate(evaluate(node))
    value = immediate(token.type, token)
    return negated(value) if negative else value
