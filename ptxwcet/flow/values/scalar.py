"""Integer bit operations of PTX on one lane, on Python ints.

Each takes the instruction's type and its source operands as canonical signed 64-bit integers and
returns the result as an integer modulo the width of the type.
"""

from __future__ import annotations

from collections.abc import Callable

from ptxwcet.flow.values.integers import IntegerType

ScalarOperation = Callable[..., int]


def _unsigned(value: int, bits: int) -> int:
    return value & ((1 << bits) - 1)


def _signed(value: int, bits: int) -> int:
    value = _unsigned(value, bits)
    return value - (1 << bits) if value >> (bits - 1) else value


def bit_field_extract(kind: IntegerType, a: int, position: int, length: int) -> int:
    """``bfe``: ``length`` bits of ``a`` from ``position`` on, sign-extended for signed types.

    Bits beyond the operand repeat its sign bit (signed) or are 0 (unsigned); PTX ISA, bfe.
    """
    position, length = position & 0xFF, length & 0xFF
    source = _signed(a, kind.bits) if kind.signed else _unsigned(a, kind.bits)
    if length == 0:
        return 0
    field = (source >> position) & ((1 << length) - 1)
    if kind.signed:
        sign_position = min(position + length - 1, kind.bits - 1)
        if (source >> sign_position) & 1:
            field |= -1 << length
    return _signed(field, kind.bits)


def population_count(kind: IntegerType, a: int) -> int:
    """``popc``: number of set bits."""
    return _unsigned(a, kind.bits).bit_count()


def leading_zeros(kind: IntegerType, a: int) -> int:
    """``clz``: number of zero bits above the highest set one."""
    return kind.bits - _unsigned(a, kind.bits).bit_length()


def reverse_bits(kind: IntegerType, a: int) -> int:
    """``brev``: the bits in reverse order."""
    return _signed(int(format(_unsigned(a, kind.bits), f"0{kind.bits}b")[::-1], 2), kind.bits)


def three_input_logic(kind: IntegerType, a: int, b: int, c: int, table: int) -> int:
    """``lop3``: bit ``a*4 + b*2 + c`` of the table, bit by bit."""
    result = 0
    for index in range(8):
        if (table >> index) & 1:
            term = -1
            for operand, weight in ((a, 4), (b, 2), (c, 1)):
                term &= operand if index & weight else ~operand
            result |= term
    return _signed(result, kind.bits)
