"""Defines the semantics of float arithmetic: formats, pairs, rounding, ``.ftz``, ``.sat``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptxwcet.emulator import floating
from ptxwcet.emulator.conversion import as_float, is_subnormal, to_float
from ptxwcet.emulator.floating import Arithmetic, Operation
from ptxwcet.emulator.launch import Array
from ptxwcet.emulator.registers import Context, Step, Unsupported
from ptxwcet.emulator.rows import Builder, Rows, apply, restricted, types_of
from ptxwcet.ir.kernel import Instruction

_ROUNDINGS = ("rn", "rz", "rm", "rp")
_WORDS = frozenset({*_ROUNDINGS, "ftz", "sat", "relu", "approx", "full", "noftz"})
Bits = Callable[..., Array]  # from bit patterns of operands to the result's


def _apply_to(context: Context, instruction: Instruction, name: str, run: Bits, arity: int) -> Step:
    """Builds a step for scalars or, with ``x2``, for both elements of a register."""
    element = name.removesuffix("x2")
    size = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8}[element]
    if element == name:
        return apply(context, instruction, run, (f"b{8 * size}",) * arity)

    def both(*values: Array) -> Array:
        parts = [np.ascontiguousarray(value).view(f"u{size}") for value in values]
        return np.ascontiguousarray(run(*parts)).view(f"u{2 * size}")

    return apply(context, instruction, both, (f"b{16 * size}",) * arity)


def _name_of(instruction: Instruction) -> str:
    names = types_of(instruction)
    if len(names) != 1 or names[0].removesuffix("x2") not in ("f16", "bf16", "f32", "f64"):
        raise Unsupported("type ." + ".".join(names))
    return names[0]


def _arithmetic(operation: Arithmetic, arity: int) -> Builder:
    def build(context: Context, instruction: Instruction) -> Step:
        name, words = _name_of(instruction), restricted(instruction, _WORDS)
        element = name.removesuffix("x2")
        rounding = next((word for word in _ROUNDINGS if word in words), "rn")
        run = _rounded(operation, element, rounding, words)
        return _apply_to(context, instruction, name, run, arity)

    return build


def _rounded(operation: Arithmetic, name: str, rounding: str, words: frozenset[str]) -> Bits:
    is_plain = rounding == "rn" and "ftz" not in words  # `to_float` flushes all others
    if name == "f64" or (name == "f32" and is_plain):
        chosen: Operation = operation.nearest
        if rounding != "rn":
            chosen = lambda *values: floating.directed(operation, list(values), rounding)  # noqa: E731
        if name == "f64" and operation in _ONE_STEP:
            return _native(lambda *v: floating.quiet(list(v), chosen(*v)), name, words)
        return _native(chosen, name, words)
    return _from_double(lambda values: operation.odd(rounding, values), name, rounding, words)


_ONE_STEP = (floating.ADD, floating.SUBTRACT, floating.MULTIPLY, floating.FUSED)
"""The operations that GPUs execute by one instruction in double precision."""


def _native(operation: Operation, name: str, words: frozenset[str]) -> Bits:
    """Returns an operation of numpy, rounded to nearest, on f32 or f64."""
    kind = "f4" if name == "f32" else "f8"
    ftz, sat = "ftz" in words and name == "f32", "sat" in words

    def run(*bits: Array) -> Array:
        with np.errstate(all="ignore"):
            values = [b.view(kind) for b in bits]
            result = operation(*[floating.flush(v) for v in values] if ftz else values)
            if result.dtype != kind:
                result = result.astype(kind)
            if ftz:
                result = floating.flush(result)
            if sat:
                result = floating.saturate(result)
            return floating.canonical(result).view(f"u{kind[1]}")

    return run


def _from_double(
    operation: Callable[[list[Array]], Array], name: str, rounding: str, words: frozenset[str]
) -> Bits:
    """Returns an operation whose result is a double that allows any later rounding."""

    def run(*bits: Array) -> Array:
        with np.errstate(all="ignore"):
            values = [as_float(b, name) for b in bits]
            if "ftz" in words:
                values = [flushed(v, name) for v in values]
            result = operation([v.astype(np.float64) for v in values])
            patterns = to_float(result, name, rounding, words)
            if "ftz" in words and name == "f16":
                small = is_subnormal(result, name, rounding)
                patterns = np.where(small, patterns & np.uint16(0x8000), patterns)
            return patterns

    return run


_TINY = {"f16": 2.0**-14, "bf16": 2.0**-126, "f32": 2.0**-126}


def flushed(value: Array, name: str) -> Array:
    """Replaces subnormals of a format by zeros of their sign."""
    small = np.abs(value) < _TINY[name]
    return np.where(small, np.copysign(np.zeros_like(value), value), value)


def _approximation(operation: Operation) -> Builder:
    """Builds an approximation: computed in double precision and rounded once to nearest."""

    def build(context: Context, instruction: Instruction) -> Step:
        name, words = _name_of(instruction), restricted(instruction, _WORDS)
        element = name.removesuffix("x2")
        if element in ("f32", "f64"):
            run = _native(operation, element, words)
        else:
            run = _from_double(lambda values: operation(values[0]), element, "rn", words)
        return _apply_to(context, instruction, name, run, 1)

    return build


def _by_upper_half(operation: Operation, otherwise: Builder) -> Builder:
    """Compiles ``.approx.ftz.f64``, on upper halves of doubles; other forms use ``otherwise``."""

    def run(bits: Array) -> Array:
        upper = np.uint64(0xFFFFFFFF << 32)
        with np.errstate(all="ignore"):
            result = floating.flush(operation(floating.flush((bits & upper).view(np.float64))))
        patterns = np.where(np.isnan(result), np.uint64(2**63 - 1), result.view(np.uint64))
        return patterns & upper

    def build(context: Context, instruction: Instruction) -> Step:
        if {"approx", "ftz", "f64"} - set(instruction.modifiers):
            return otherwise(context, instruction)
        return _apply_to(context, instruction, "f64", run, 1)

    return build


def _rounded_or_fast(precise: Builder, fast: Builder) -> Builder:
    """Compiles ``.approx`` forms by one builder, and forms with a rounding by another."""

    def build(context: Context, instruction: Instruction) -> Step:
        builder = fast if "approx" in instruction.modifiers else precise
        return builder(context, instruction)

    return build


def _fast_division(context: Context, instruction: Instruction) -> Step:
    words = restricted(instruction, _WORDS)
    run = _native(floating.fast_quotient, "f32", words)
    return _apply_to(context, instruction, _name_of(instruction), run, 2)


def _extremum(operation: Operation) -> Builder:
    """Compiles ``min`` or ``max``; ``.NaN`` propagates NaN, ``.xorsign.abs`` combines signs."""

    def build(context: Context, instruction: Instruction) -> Step:
        allowed = frozenset({"ftz", "NaN", "xorsign", "abs"})
        name, words = _name_of(instruction), restricted(instruction, allowed)
        element = name.removesuffix("x2")
        width = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}[element]
        sign = np.array(1 << width - 1, dtype=f"u{width // 8}")
        nan = np.array(
            {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "f64": 0x7FF8 << 48}[element],
            dtype=sign.dtype,
        )

        def run(*bits: Array) -> Array:
            given = [b & ~sign for b in bits] if "xorsign" in words else list(bits)
            values = [as_float(b, element) for b in given]
            if "ftz" in words and element != "f64":
                values = [flushed(v, element) for v in values]
            with np.errstate(all="ignore"):
                result = values[0]
                for value in values[1:]:
                    result = operation(result, value)
                if "NaN" in words:
                    wrong = np.logical_or.reduce([np.isnan(v) for v in values])
                    result = np.where(wrong, result.dtype.type(np.nan), result)
            patterns = _narrowed(result, element)
            no_number = nan
            if element == "f64":
                no_number = floating.quiet(values, result).view(np.uint64)
            patterns = np.where(np.isnan(result), no_number, patterns)
            if "xorsign" in words:
                signs: Array = np.bitwise_xor.reduce([b & sign for b in bits])
                patterns = np.where(np.isnan(result), patterns, patterns & ~sign | signs)
            return patterns

        return _apply_to(context, instruction, name, run, len(instruction.operands) - 1)

    return build


def _narrowed(value: Array, name: str) -> Array:
    """Returns numbers that a format holds, as its patterns."""
    if name == "bf16":
        return (np.ascontiguousarray(value).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return np.ascontiguousarray(value).view(f"u{value.dtype.itemsize}")


def _sign_bits(change: Callable[[Array, Array], Array]) -> Builder:
    """Compiles ``neg``, ``abs``: only the sign bit changes, except for NaN; ``.ftz`` flushes."""

    def build(context: Context, instruction: Instruction) -> Step:
        name, words = _name_of(instruction), restricted(instruction, frozenset({"ftz"}))
        element = name.removesuffix("x2")

        def run(a: Array) -> Array:
            sign = np.array(1 << 8 * a.dtype.itemsize - 1, dtype=a.dtype)
            if "ftz" in words:
                a = _narrowed(flushed(as_float(a, element), element), element)
            nan = np.isnan(as_float(a, element))
            kept = a | sign >> a.dtype.type(12) if element == "f64" else sign - a.dtype.type(1)
            return np.where(nan, kept, change(a, sign))

        return _apply_to(context, instruction, name, run, 1)

    return build


def _copy_sign(context: Context, instruction: Instruction) -> Step:
    restricted(instruction, frozenset())

    def run(a: Array, b: Array) -> Array:
        sign = np.array(1 << 8 * a.dtype.itemsize - 1, dtype=a.dtype)
        chosen: Array = b & ~sign | a & sign
        return chosen

    return _apply_to(context, instruction, _name_of(instruction), run, 2)


FLOAT_ROWS: Rows = {
    "add": _arithmetic(floating.ADD, 2),
    "sub": _arithmetic(floating.SUBTRACT, 2),
    "mul": _arithmetic(floating.MULTIPLY, 2),
    "mad": _arithmetic(floating.FUSED, 3),
    "fma": _arithmetic(floating.FUSED, 3),
    "div": _rounded_or_fast(_arithmetic(floating.DIVIDE, 2), _fast_division),
    "min": _extremum(floating.minimum),
    "max": _extremum(floating.maximum),
    "neg": _sign_bits(lambda a, sign: a ^ sign),
    "abs": _sign_bits(lambda a, sign: a & ~sign),
    "copysign": _copy_sign,
    "rcp": _by_upper_half(floating.reciprocal, _arithmetic(floating.RECIPROCAL, 1)),
    "sqrt": _arithmetic(floating.ROOT, 1),
    "rsqrt": _by_upper_half(floating.reciprocal_root, _approximation(floating.reciprocal_root)),
    "sin": _approximation(floating.sine),
    "cos": _approximation(floating.cosine),
    "ex2": _approximation(floating.power_of_two),
    "lg2": _approximation(floating.logarithm),
    "tanh": _approximation(floating.tangent),
}
"""The rows for floating-point types (:data:`ptxwcet.emulator.rows.FLOATS`)."""
