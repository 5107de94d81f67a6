"""Integer, logic, shift and bit-field arithmetic over vectors.

Each row takes the operands at the instruction's type and gives the result; numpy integers wrap
around as PTX integers do.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptxwcet.emulator.launch import Array

Operation = Callable[..., Array]

_WIDER = {"u1": "u2", "u2": "u4", "u4": "u8", "i1": "i2", "i2": "i4", "i4": "i8"}


def widened(value: Array) -> Array:
    """The value at twice its width (at most 64 bits)."""
    return value.astype(_WIDER[value.dtype.str[1:]])


def multiply_high(a: Array, b: Array) -> Array:
    """The upper half of the product."""
    if a.dtype.itemsize < 8:
        return (widened(a) * widened(b) >> (8 * a.dtype.itemsize)).astype(a.dtype)
    product = a.astype(object) * b.astype(object)
    bits = np.array([int(p) >> 64 & (2**64 - 1) for p in product], dtype=np.uint64)
    return bits.view(a.dtype)


def multiply_wide(a: Array, b: Array) -> Array:
    """The whole product, at twice the width."""
    return widened(a) * widened(b)


def divide(a: Array, b: Array) -> Array:
    """The quotient cut towards zero; all ones where b is zero (PTX leaves it unspecified)."""
    if a.dtype.kind == "u":
        with np.errstate(all="ignore"):
            return np.where(b == 0, ~np.zeros_like(a), a // np.where(b == 0, 1, b).astype(a.dtype))
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    quotient = divide(magnitude(a), magnitude(b))
    negative = (a < 0) != (b < 0)
    with np.errstate(all="ignore"):
        signed = np.where(negative, (0 - quotient).astype(unsigned), quotient)
    return np.where(b == 0, ~np.zeros_like(a), signed.view(a.dtype))


def magnitude(a: Array) -> Array:
    """|a| as an unsigned number, exact for the least number as well."""
    bits = a.view(f"u{a.dtype.itemsize}")
    return np.where(a < 0, ~bits + np.ones_like(bits), bits)


def remainder(a: Array, b: Array) -> Array:
    """a - divide(a, b) * b; a where b is zero."""
    return np.where(b == 0, a, a - divide(a, b) * b)


def shift_left(a: Array, b: Array) -> Array:
    """Shift by a 32-bit amount, clamped at the width."""
    width = 8 * a.dtype.itemsize
    amount = np.minimum(b, width - 1).astype(a.dtype)
    return np.where(b >= width, np.zeros_like(a), a << amount)


def shift_right(a: Array, b: Array) -> Array:
    """Shift by a 32-bit amount, clamped at the width; arithmetic for signed types."""
    width = 8 * a.dtype.itemsize
    amount = np.minimum(b, width - 1).astype(a.dtype)
    fill = (a >> np.array(width - 1, dtype=a.dtype)) if a.dtype.kind == "i" else np.zeros_like(a)
    return np.where(b >= width, fill, a >> amount)


def population(a: Array) -> Array:
    """The number of ones."""
    bytes_ = np.ascontiguousarray(a).view(np.uint8).reshape(a.size, -1)
    ones: Array = np.unpackbits(bytes_, axis=1).sum(axis=1).astype(np.uint32)
    return ones


def leading_zeros(a: Array) -> Array:
    """The number of zeros above the highest one, the width for 0."""
    bytes_ = np.ascontiguousarray(a).view(np.uint8).reshape(a.size, -1)[:, ::-1]
    bits = np.unpackbits(bytes_, axis=1)
    zeros: Array = np.where(a == 0, bits.shape[1], bits.argmax(axis=1)).astype(np.uint32)
    return zeros


def reversed_bits(a: Array) -> Array:
    """The bits in the opposite order."""
    bytes_ = np.ascontiguousarray(a).view(np.uint8).reshape(a.size, -1)
    bits = np.unpackbits(bytes_, axis=1, bitorder="little")
    return np.packbits(bits, axis=1).reshape(-1).view(a.dtype)


def saturated_add(a: Array, b: Array) -> Array:
    """``add.sat.s32``: the sum held within the type."""
    limits = np.iinfo(a.dtype.str)
    held: Array = np.clip(widened(a) + widened(b), limits.min, limits.max).astype(a.dtype)
    return held


def saturated_subtract(a: Array, b: Array) -> Array:
    """``sub.sat.s32``."""
    limits = np.iinfo(a.dtype.str)
    held: Array = np.clip(widened(a) - widened(b), limits.min, limits.max).astype(a.dtype)
    return held


def negate(a: Array) -> Array:
    """0 - a, wrapping."""
    return np.zeros_like(a) - a


def absolute(a: Array) -> Array:
    """|a|; the least number stays."""
    return np.where(a < 0, negate(a), a)


def logic3(a: Array, b: Array, c: Array, table: int) -> Array:
    """``lop3``: bit by bit the entry of the 8-row truth table."""
    result = np.zeros_like(a)
    for row in range(8):
        if table >> row & 1:
            result |= (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
    return result


def field_extract(a: Array, b: Array, c: Array) -> Array:
    """``bfe``: c bits of a from bit b, extended by the field's top bit if signed."""
    width = 8 * a.dtype.itemsize
    out = []
    for value, start, length in zip(
        a.tolist(), (b & 255).tolist(), (c & 255).tolist(), strict=True
    ):
        bits = value & ((1 << width) - 1)
        top = min(start + length - 1, width - 1)
        sign = a.dtype.kind == "i" and length > 0 and bits >> top & 1
        field = bits >> start & ((1 << length) - 1)
        kept = max(0, min(length, width - start))
        if sign:
            field |= -1 << kept
        out.append(field & ((1 << width) - 1))
    return np.array(out, dtype=f"u{a.dtype.itemsize}").view(a.dtype)


def field_insert(a: Array, b: Array, c: Array, d: Array) -> Array:
    """``bfi``: the low d bits of a put into b at bit c."""
    width = 8 * a.dtype.itemsize
    rows = zip(a.tolist(), b.tolist(), (c & 255).tolist(), (d & 255).tolist(), strict=True)
    whole = (1 << width) - 1
    out = []
    for value, base, start, length in rows:
        field = ((1 << length) - 1) << start & whole
        out.append(base & ~field | (value << start) & field)
    return np.array(out, dtype=a.dtype)


def funnel(a: Array, b: Array, c: Array, left: bool, wrap: bool) -> Array:
    """``shf``: 32 bits of the pair b:a, shifted by c modulo 32 or clamped at 32."""
    amount = (c & 31 if wrap else np.minimum(c, 32)).astype(np.uint64)
    pair = b.astype(np.uint64) << np.uint64(32) | a.astype(np.uint64)
    if left:
        return (pair << amount >> np.uint64(32)).astype(np.uint32)
    return (pair >> amount).astype(np.uint32)
