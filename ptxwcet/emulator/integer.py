"""Computes integer, logic, shift and bit-field arithmetic over vectors.

Each function takes the operands at the instruction's type and returns the result; numpy integers
wrap around as PTX integers do.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptxwcet.emulator.launch import Array

Operation = Callable[..., Array]

_WIDER = {"u1": "u2", "u2": "u4", "u4": "u8", "i1": "i2", "i2": "i4", "i4": "i8"}


def widened(value: Array) -> Array:
    """Returns the value at twice its width (at most 64 bits)."""
    return value.astype(_WIDER[value.dtype.str[1:]])


def multiply_high(a: Array, b: Array) -> Array:
    """Returns the upper half of the product."""
    if a.dtype.itemsize < 8:
        return (widened(a) * widened(b) >> (8 * a.dtype.itemsize)).astype(a.dtype)
    x, y = a.view(np.uint64), b.view(np.uint64)
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    low_x, high_x, low_y, high_y = x & mask, x >> half, y & mask, y >> half
    middle = high_x * low_y + (low_x * low_y >> half)
    other = low_x * high_y + (middle & mask)
    high = high_x * high_y + (middle >> half) + (other >> half)
    if a.dtype.kind == "i":
        high -= np.where(a < 0, y, np.uint64(0)) + np.where(b < 0, x, np.uint64(0))
    bits: Array = high.view(a.dtype)
    return bits


def multiply_wide(a: Array, b: Array) -> Array:
    """Returns the whole product, at twice the width."""
    return widened(a) * widened(b)


def divide(a: Array, b: Array) -> Array:
    """Returns the quotient truncated to zero; all ones where b is zero (PTX: unspecified)."""
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
    """Returns |a| as an unsigned number, exact for the least number as well."""
    bits = a.view(f"u{a.dtype.itemsize}")
    return np.where(a < 0, ~bits + np.ones_like(bits), bits)


def remainder(a: Array, b: Array) -> Array:
    """Returns a - divide(a, b) * b; all ones where b is zero (PTX: unspecified)."""
    return np.where(b == 0, ~np.zeros_like(a), a - divide(a, b) * b)


def shift_left(a: Array, b: Array) -> Array:
    """Shifts left by a 32-bit amount, clamped at the width."""
    width = 8 * a.dtype.itemsize
    amount = np.minimum(b, width - 1).astype(a.dtype)
    return np.where(b >= width, np.zeros_like(a), a << amount)


def shift_right(a: Array, b: Array) -> Array:
    """Shifts right by a 32-bit amount, clamped at the width; arithmetic for signed types."""
    width = 8 * a.dtype.itemsize
    amount = np.minimum(b, width - 1).astype(a.dtype)
    fill = (a >> np.array(width - 1, dtype=a.dtype)) if a.dtype.kind == "i" else np.zeros_like(a)
    return np.where(b >= width, fill, a >> amount)


def population(a: Array) -> Array:
    """Returns the number of ones."""
    bytes_ = np.ascontiguousarray(a).view(np.uint8).reshape(a.size, -1)
    ones: Array = np.unpackbits(bytes_, axis=1).sum(axis=1).astype(np.uint32)
    return ones


def leading_zeros(a: Array) -> Array:
    """Returns the number of zeros above the highest one, the width for 0."""
    bytes_ = np.ascontiguousarray(a).view(np.uint8).reshape(a.size, -1)[:, ::-1]
    bits = np.unpackbits(bytes_, axis=1)
    zeros: Array = np.where(a == 0, bits.shape[1], bits.argmax(axis=1)).astype(np.uint32)
    return zeros


def reversed_bits(a: Array) -> Array:
    """Returns the bits in the opposite order."""
    bytes_ = np.ascontiguousarray(a).view(np.uint8).reshape(a.size, -1)
    bits = np.unpackbits(bytes_, axis=1, bitorder="little")
    backwards = np.ascontiguousarray(np.packbits(bits, axis=1)[:, ::-1])
    return backwards.reshape(-1).view(a.dtype)


def saturated_add(a: Array, b: Array) -> Array:
    """Computes ``add.sat.s32``: the sum clamped to the type."""
    limits = np.iinfo(a.dtype.str)
    held: Array = np.clip(widened(a) + widened(b), limits.min, limits.max).astype(a.dtype)
    return held


def saturated_subtract(a: Array, b: Array) -> Array:
    """Computes ``sub.sat.s32``: the difference clamped to the type."""
    limits = np.iinfo(a.dtype.str)
    held: Array = np.clip(widened(a) - widened(b), limits.min, limits.max).astype(a.dtype)
    return held


def negate(a: Array) -> Array:
    """Returns 0 - a, wrapping."""
    return np.zeros_like(a) - a


def absolute(a: Array) -> Array:
    """Returns |a|; the least number is unchanged."""
    return np.where(a < 0, negate(a), a)


def logic3(a: Array, b: Array, c: Array, table: int) -> Array:
    """Computes ``lop3``: for each bit the entry of the 8-row truth table."""
    result = np.zeros_like(a)
    for index in range(8):
        if table >> index & 1:
            result |= (a if index & 4 else ~a) & (b if index & 2 else ~b) & (c if index & 1 else ~c)
    return result


def field_extract(a: Array, b: Array, c: Array) -> Array:
    """Computes ``bfe``: c bits of a from bit b, extended by the field's top bit if signed."""
    kind = np.dtype(f"u{a.dtype.itemsize}")
    start, length = _of_field(b, kind), _of_field(c, kind)
    ones = low_ones(length, kind)
    field = shift_right(a, start).view(kind) & ones
    if a.dtype.kind == "u":
        return field
    negative = shift_right(field, length - np.uint32(1)) != 0  # False for no bits at all
    return np.where(negative, field | ~ones, field).view(a.dtype)


def field_insert(a: Array, b: Array, c: Array, d: Array) -> Array:
    """Computes ``bfi``: the low d bits of a inserted into b at bit c."""
    start = _of_field(c, a.dtype)
    field = shift_left(low_ones(_of_field(d, a.dtype), a.dtype), start)
    return b & ~field | shift_left(a, start) & field


def _of_field(number: Array, kind: np.dtype[np.generic]) -> Array:
    """Returns a place or length: eight bits, or all bits for 64-bit fields, as ptxas does."""
    return number if kind.itemsize == 8 else number & 255


def low_ones(count: Array, kind: np.dtype[np.generic]) -> Array:
    """Returns numbers with ``count`` (u32) ones at the bottom, all ones from the width on."""
    ones: Array = ~shift_left(np.full(count.shape, -1, dtype=f"i{kind.itemsize}").view(kind), count)
    return ones


def highest_bit(a: Array, *, as_shift: bool) -> Array:
    """Computes ``bfind``: the place of the highest non-sign bit, all ones if absent.

    With ``as_shift`` the result is the shift that moves it to the top.
    """
    width = 8 * a.dtype.itemsize
    bits = np.where(a < 0, ~a, a) if a.dtype.kind == "i" else a
    zeros = leading_zeros(np.ascontiguousarray(bits).view(f"u{a.dtype.itemsize}"))
    place = zeros if as_shift else np.uint32(width - 1) - zeros
    return np.where(zeros == width, np.uint32(0xFFFFFFFF), place)


def chosen_bytes(a: Array, b: Array, c: Array) -> Array:
    """Computes ``prmt``: bytes of b:a by the nibbles of c; bit 3 of a nibble spreads the sign."""
    pair = b.astype(np.uint64) << np.uint64(32) | a.astype(np.uint64)
    result = np.zeros_like(a)
    for place in range(4):
        nibble = c >> np.uint32(4 * place)
        byte = (pair >> (nibble & 7).astype(np.uint64) * np.uint64(8)).astype(np.uint32) & 0xFF
        sign = np.where(byte & 0x80 != 0, np.uint32(0xFF), np.uint32(0))
        result |= np.where(nibble & 8 != 0, sign, byte) << np.uint32(8 * place)
    return result


def dot_product(a: Array, b: Array, c: Array, steps: tuple[tuple[int, int], ...]) -> Array:
    """Computes ``dp4a``, ``dp2a``: c plus products of parts of a and b, wrapping.

    ``a`` and ``b`` are vectors of parts, a row for each lane; ``steps`` the pairs multiplied.
    """
    total = c.astype(np.int64)
    for left, right in steps:
        total = total + a[:, left].astype(np.int64) * b[:, right].astype(np.int64)
    bits: Array = total.astype(np.uint64).astype(np.uint32).view(c.dtype)
    return bits


def difference_added(a: Array, b: Array, c: Array) -> Array:
    """Computes ``sad``: c + |a - b|, wrapping."""
    total: Array = c + np.where(a < b, b - a, a - b).astype(a.dtype)
    return total


def nth_set(mask: Array, base: Array, offset: Array) -> Array:
    """Computes ``fns``: the place of the ``offset``-th set bit from ``base`` on, else all ones.

    A negative offset counts downwards; 0 tests whether bit ``base`` itself is set. A base above 31,
    which the ISA leaves undefined, gives all ones, as in its pseudo-code. The least offset, which
    has no magnitude, gives 0, as it does on GPUs.
    """
    answer = np.full(mask.shape, 0xFFFFFFFF, dtype=np.uint32)
    operands = zip(mask.tolist(), base.tolist(), offset.tolist(), strict=True)
    for lane, (word, start, wanted) in enumerate(operands):
        step = -1 if wanted < 0 else 1
        left = max(abs(wanted), 1)
        if wanted == -(1 << 31):
            answer[lane] = 0
            continue
        if start > 31:
            continue
        places = [start] if wanted == 0 else range(start, 32 if step > 0 else -1, step)
        for place in places:
            left -= word >> place & 1
            if left == 0:
                answer[lane] = place
                break
    return answer


def funnel(a: Array, b: Array, c: Array, left: bool, wrap: bool) -> Array:
    """Computes ``shf``: 32 bits of b:a, shifted by c modulo 32 or clamped at 32."""
    amount = (c & 31 if wrap else np.minimum(c, 32)).astype(np.uint64)
    pair = b.astype(np.uint64) << np.uint64(32) | a.astype(np.uint64)
    if left:
        return (pair << amount >> np.uint64(32)).astype(np.uint32)
    return (pair >> amount).astype(np.uint32)
