"""Elements of matrices as numbers: out of registers, into registers, and sums of their products.

Floats: each product is exact, and products are added to C one after the other, in the order of k,
in double precision; the sum is rounded once to the type of D, to nearest even. For f64 each step is
a fused multiply-add, rounded as the modifier says. Subnormal numbers are kept, a sum beyond the
largest number is infinite, NaN has PTX's canonical pattern (in f64 any), and the inputs of tf32
lose their low 13 bits. The ISA leaves order and precision open, so a GPU may give other bits.
Integers wrap, or are clamped with ``.satfinite``.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from ptxwcet.emulator import floating
from ptxwcet.emulator.conversion import as_float, to_float
from ptxwcet.emulator.conversion_formats import VALUES
from ptxwcet.emulator.launch import Array
from ptxwcet.emulator.matrix_forms import BITS, ROUNDINGS


def unpacked(registers: list[Array], name: str) -> Array:
    """Elements of the lanes' registers as numbers: (warps, 32, elements)."""
    bits = BITS[name]
    words = np.stack([np.ascontiguousarray(r) for r in registers], axis=1)
    if bits >= 8:
        return _numbers(words.view(f"u{bits // 8}"), name).reshape(
            -1, 32, words.nbytes * 8 // bits // len(words)
        )
    shifts = np.arange(0, 32, bits, dtype=np.uint32)
    parts = (words[:, :, None] >> shifts & np.uint32((1 << bits) - 1)).astype(np.int64)
    if name == "s4":
        parts = np.where(parts > 7, parts - 16, parts)
    return parts.reshape(-1, 32, len(registers) * shifts.size)


def _numbers(bits: Array, name: str) -> Array:
    """Patterns as doubles or 64-bit integers."""
    if name in VALUES:
        return VALUES[name][bits].astype(np.float64)
    if name == "tf32":
        bits, name = bits & np.uint32(0xFFFFE000), "f32"
    if name in ("f16", "bf16", "f32", "f64"):
        with np.errstate(invalid="ignore"):  # a signalling NaN
            return as_float(bits, name).astype(np.float64)
    kind = f"i{bits.dtype.itemsize}" if name[0] == "s" else f"u{bits.dtype.itemsize}"
    return bits.view(kind).astype(np.int64)


def packed(values: Array, name: str, count: int) -> list[Array]:
    """Elements (warps, 32, n) as ``count`` registers of the lanes."""
    flat = np.ascontiguousarray(values).reshape(values.shape[0] * 32, -1)
    if name == "s32":
        words = flat.astype(np.uint64).astype(np.uint32)
    else:
        words = to_float(flat, name, "rn", frozenset())
    size = words.shape[1] * words.itemsize // count
    registers = np.ascontiguousarray(words).view(f"u{size}")
    return [np.ascontiguousarray(registers[:, i]) for i in range(count)]


def multiplied(matrices: list[Array], name: str, words: frozenset[str]) -> Array:
    """A * B + C of matrices of numbers, for D of a type, with the modifiers of the product."""
    if name == "f64":
        rounding = next((word for word in ROUNDINGS if word in words), "rn")
        return _fused_sum(matrices, rounding)
    if name != "s32":
        return _sum(matrices)
    a, b, c = matrices
    if "popc" in words:
        a_bits, b_bits = a[:, :, :, None], b[:, None, :, :]
        joined = a_bits & b_bits if "and" in words else a_bits ^ b_bits
        total: Array = c + joined.sum(axis=2)
    else:
        total = c + np.matmul(a, b)
    return np.clip(total, -(2**31), 2**31 - 1) if "satfinite" in words else total


def _sum(matrices: list[Array]) -> Array:
    """C + A * B in doubles: C comes first, so that the sum of zeros of one sign has that sign."""
    a, b, total = matrices
    with np.errstate(all="ignore"):
        for k in range(a.shape[2]):
            total = total + a[:, :, k, None] * b[:, k, None, :]
    return total


def _fused_sum(matrices: list[Array], rounding: str) -> Array:
    """Sums of products by fused multiply-adds in double precision, each rounded in a direction."""
    a, b, c = matrices
    total = c.reshape(-1)
    fused = floating.fused
    if rounding != "rn":
        fused = partial(_directed, rounding)
    for k in range(a.shape[2]):
        left = np.broadcast_to(a[:, :, k, None], c.shape).reshape(-1)
        right = np.broadcast_to(b[:, k, None, :], c.shape).reshape(-1)
        total = fused(left, right, total)
    return total.reshape(c.shape)


def _directed(rounding: str, a: Array, b: Array, c: Array) -> Array:
    with np.errstate(all="ignore"):
        return floating.directed(floating.FUSED, [a, b, c], rounding)
