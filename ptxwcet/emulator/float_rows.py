"""Semantics of floating-point arithmetic, with ``.ftz``, ``.sat`` and rounding."""

from __future__ import annotations

import operator

import numpy as np

from ptxwcet.emulator import floating
from ptxwcet.emulator.launch import Array
from ptxwcet.emulator.registers import Context, Step, Unsupported
from ptxwcet.emulator.rows import Builder, Operation, Rows, apply, restricted, types_of
from ptxwcet.ir.kernel import Instruction


def _same_type(operation: Operation, arity: int) -> Builder:
    """A row whose sources all have the instruction's type, with its ``.ftz`` and ``.sat``."""

    def build(context: Context, instruction: Instruction) -> Step:
        name = types_of(instruction)[-1]
        words = restricted(instruction, frozenset({"rn", "ftz", "sat", "approx", "full"}))
        if name not in ("f32", "f64"):
            raise Unsupported(f"type .{name}")
        return apply(context, instruction, _modes(operation, words, name), (name,) * arity)

    return build


def _modes(operation: Operation, words: frozenset[str], name: str) -> Operation:
    ftz, sat = "ftz" in words and name == "f32", "sat" in words

    def run(*values: Array) -> Array:
        with np.errstate(all="ignore"):
            given = [floating.flush(v) for v in values] if ftz else values
            result = operation(*given)
            if ftz:
                result = floating.flush(result)
            if sat:
                result = floating.saturate(result)
            return floating.canonical(result)

    return run


FLOAT_ROWS: Rows = {
    "add": _same_type(operator.add, 2),
    "sub": _same_type(operator.sub, 2),
    "mul": _same_type(operator.mul, 2),
    "mad": _same_type(floating.fused, 3),
    "fma": _same_type(floating.fused, 3),
    "div": _same_type(operator.truediv, 2),
    "min": _same_type(floating.minimum, 2),
    "max": _same_type(floating.maximum, 2),
    "neg": _same_type(operator.neg, 1),
    "abs": _same_type(np.abs, 1),
    "rcp": _same_type(floating.reciprocal, 1),
    "sqrt": _same_type(np.sqrt, 1),
    "rsqrt": _same_type(floating.reciprocal_root, 1),
    "sin": _same_type(floating.sine, 1),
    "cos": _same_type(floating.cosine, 1),
    "ex2": _same_type(floating.power_of_two, 1),
    "lg2": _same_type(floating.logarithm, 1),
    "tanh": _same_type(floating.tangent, 1),
}
"""Rows for the types of floating-point arithmetic (:data:`ptxwcet.emulator.rows.FLOATS`)."""
