"""Defines the semantics of ``cvt``."""

from __future__ import annotations

import numpy as np

from ptxwcet.emulator import conversion
from ptxwcet.emulator.conversion import FORMATS, VALUES
from ptxwcet.emulator.floating import canonical, flush
from ptxwcet.emulator.launch import Array
from ptxwcet.emulator.registers import Context, Frame, Step, Unsupported, dtype_of, reader, writer
from ptxwcet.emulator.rows import Operation, Rows, apply
from ptxwcet.ir.kernel import Instruction
from ptxwcet.ir.words import is_type
from ptxwcet.support.records import dataclass

_ROUNDINGS = frozenset({"rn", "rna", "rz", "rm", "rp"})
_WORDS = frozenset({"sat", "ftz", "relu", "satfinite"})
_INTEGERS = frozenset(kind + width for kind in "su" for width in ("8", "16", "32", "64"))
_SCALARS = frozenset({"f16", "bf16", "f32", "f64"})
_PAIRS = frozenset({"f16", "bf16"} | set(VALUES))
_EXACT = {
    ("f16", "f32"), ("f16", "f64"), ("bf16", "f32"), ("bf16", "f64"), ("f32", "f64"),
    ("f16", "f16"), ("bf16", "bf16"), ("f32", "f32"), ("f64", "f64"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Conversion:
    """A decoded ``cvt``: types, rounding ("" if none is written), other modifiers."""

    to: str
    source: str
    rounding: str
    words: frozenset[str]


def _is_type(word: str) -> bool:
    return is_type(word) or (word.endswith(("x2", "x4")) and word[:-2] in FORMATS)


def _taken_apart(instruction: Instruction) -> _Conversion:
    modifiers = instruction.modifiers
    names = [word for word in modifiers if _is_type(word)]
    roundings = [word for word in modifiers if word in _ROUNDINGS or word in conversion.INTEGRAL]
    words = frozenset(modifiers) - set(names) - set(roundings)
    if words - _WORDS:
        raise Unsupported("modifier ." + ", .".join(sorted(words - _WORDS)))
    if len(names) != 2 or len(roundings) > 1:
        raise Unsupported("these modifiers together")
    return _Conversion(names[0], names[1], roundings[0] if roundings else "", words)


def _convert(context: Context, instruction: Instruction) -> Step:
    parts = _taken_apart(instruction)
    if parts.to.endswith("x2") or parts.source.endswith("x2"):
        return _convert_pair(context, instruction, parts)
    if parts.source in _INTEGERS:
        operation = _from_integer(parts)
        return apply(context, instruction, operation, (parts.source,))
    if parts.source not in _SCALARS:
        raise Unsupported(f"type .{parts.source}")
    operation = _from_float(parts)
    name = "b16" if parts.source == "bf16" else parts.source
    return apply(context, instruction, operation, (name,))


def _from_integer(parts: _Conversion) -> Operation:
    to, words = parts.to, parts.words
    if to in _INTEGERS:
        if parts.rounding or words - {"sat"}:
            raise Unsupported("these modifiers between integers")
        dtype, clamp = dtype_of(to), "sat" in words
        return lambda a: conversion.between_integers(a, dtype, clamp)
    if to not in _SCALARS or parts.rounding not in _ROUNDINGS or words - {"sat", "ftz"}:
        raise Unsupported("this form")
    return lambda a: conversion.to_float(a, to, parts.rounding, words)


def _from_float(parts: _Conversion) -> Operation:
    source, to, rounding, words = parts.source, parts.to, parts.rounding, parts.words
    ftz = "ftz" in words and source == "f32" and to != "f16"  # as GPUs flush the source

    def read(bits: Array) -> Array:
        a = conversion.as_float(bits, source)
        return flush(canonical(a)) if ftz else a

    if to in _INTEGERS:
        if rounding not in conversion.INTEGRAL or words - {"sat", "ftz"}:
            raise Unsupported("float to integer without a rounding to integral")
        dtype = dtype_of(to)
        return lambda bits: conversion.to_integer(read(bits), dtype, rounding)
    if to not in FORMATS or to in VALUES:
        raise Unsupported(f"type .{to}")
    if rounding in conversion.INTEGRAL:
        if to != source:
            raise Unsupported("a rounding to integral between float types")
        return lambda bits: conversion.to_float(
            conversion.to_integral(read(bits), rounding), to, "rn", words
        )
    if not rounding and (source, to) not in _EXACT:
        raise Unsupported("a narrower float without a rounding")
    if (source, to) == ("bf16", "f32") and not words:
        return lambda bits: bits.astype(np.uint32) << np.uint32(16)
    keeps_nan = source != to and "f64" in (source, to) and not ftz and "sat" not in words

    def convert(bits: Array) -> Array:
        a = read(bits)
        kept = conversion.to_float(a, to, rounding or "rn", words)
        return (
            np.where(np.isnan(a), conversion.quiet(bits, source, to), kept) if keeps_nan else kept
        )

    return convert


def _convert_pair(context: Context, instruction: Instruction, parts: _Conversion) -> Step:
    """Builds two results in one register: from two f32 (the first is the upper half) or a pair."""
    to, source = parts.to.removesuffix("x2"), parts.source.removesuffix("x2")
    rounding, words = parts.rounding, parts.words
    if to not in _PAIRS or rounding not in _ROUNDINGS or words - {"relu", "satfinite"}:
        raise Unsupported("this form of packed conversion")
    if source in FORMATS and parts.source.endswith("x2"):
        return _from_pair(context, instruction, parts)
    if source != "f32":
        raise Unsupported(f"type .{parts.source}")

    def operation(upper: Array, lower: Array) -> Array:
        high = conversion.to_float(upper, to, rounding, words)
        return joined(high, conversion.to_float(lower, to, rounding, words), FORMATS[to].width)

    return apply(context, instruction, operation, ("f32", "f32"))


def _from_pair(context: Context, instruction: Instruction, parts: _Conversion) -> Step:
    to, source = parts.to.removesuffix("x2"), parts.source.removesuffix("x2")
    width = FORMATS[source].width
    mask = (1 << FORMATS[source].bits) - 1

    def half(bits: Array, shift: int) -> Array:
        pattern = bits >> np.array(shift, bits.dtype) & np.array(mask, bits.dtype)
        if source in VALUES:
            values: Array = VALUES[source][pattern]
            return values
        return conversion.as_float(pattern.astype(np.uint16), source)

    def operation(bits: Array) -> Array:
        high = conversion.to_float(half(bits, width), to, parts.rounding, parts.words)
        low = conversion.to_float(half(bits, 0), to, parts.rounding, parts.words)
        return joined(high, low, FORMATS[to].width)

    return apply(context, instruction, operation, (f"b{2 * width}",))


def joined(high: Array, low: Array, width: int) -> Array:
    """Joins two patterns of ``width`` bits to one of twice the width."""
    dtype = np.dtype(f"u{width // 4}")
    both: Array = high.astype(dtype) << np.array(width, dtype) | low.astype(dtype)
    return both


def _pack(context: Context, instruction: Instruction) -> Step:
    """Compiles ``cvt.pack.sat``: two s32 clamped to a narrow type, and an operand's low bits."""
    names = [word for word in instruction.modifiers if word != "sat"]
    narrow = names[0]
    width = int(narrow[1:])
    wide = width == 16
    if narrow[0] not in "us" or width not in (2, 4, 8, 16):
        raise Unsupported(f"type .{narrow}")
    if names[1:] != ["s32"] + ["b32"] * (not wide) or "sat" not in instruction.modifiers:
        raise Unsupported("this form of cvt.pack")
    least = -(1 << width - 1) if narrow[0] == "s" else 0
    most = least + (1 << width) - 1
    target = writer(context, instruction.operands[0])
    types = ("s32", "s32") if wide else ("s32", "s32", "b32")
    reads = [
        reader(context, operand, name)
        for operand, name in zip(instruction.operands[1:], types, strict=True)
    ]

    def step(frame: Frame) -> None:
        high, low, *rest = [read(frame) for read in reads]
        result = rest[0] << np.uint32(2 * width) if rest else np.zeros(frame.lanes, np.uint32)
        for value, place in ((high, width), (low, 0)):
            field = np.clip(value, least, most).view(np.uint32) & np.uint32((1 << width) - 1)
            result = result | field << np.uint32(place)
        target(frame, result)

    return step


CONVERT_ROWS: Rows = {"cvt": _convert, "cvt.pack": _pack}
"""The rows for conversions between types."""
