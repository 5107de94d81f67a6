"""Semantics of comparisons and selections."""

from __future__ import annotations

import operator

import numpy as np

from ptxwcet.emulator import floating
from ptxwcet.emulator.launch import Array
from ptxwcet.emulator.registers import Context, Frame, Step, Unsupported, reader, writer
from ptxwcet.emulator.rows import Operation, Rows, apply, restricted, types_of
from ptxwcet.ir.kernel import Instruction, Pair

_COMPARE: dict[str, Operation] = {
    "eq": operator.eq, "ne": lambda a, b: (a < b) | (a > b) if a.dtype.kind == "f" else a != b,
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge,
    "equ": lambda a, b: ~((a < b) | (a > b)), "neu": operator.ne,
    "ltu": lambda a, b: ~(a >= b), "leu": lambda a, b: ~(a > b),
    "gtu": lambda a, b: ~(a <= b), "geu": lambda a, b: ~(a < b),
    "num": lambda a, b: (a == a) & (b == b), "nan": lambda a, b: (a != a) | (b != b),
}  # fmt: skip
_COMBINE: dict[str, Operation] = {
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
}


def _set_predicate(context: Context, instruction: Instruction) -> Step:
    name = types_of(instruction)[-1]
    words = restricted(instruction, frozenset(_COMPARE) | frozenset(_COMBINE) | {"ftz"})
    destination, *sources = instruction.operands
    pair = isinstance(destination, Pair)
    first = writer(context, destination.first if isinstance(destination, Pair) else destination)
    second = writer(context, destination.second) if isinstance(destination, Pair) else None
    if name == "f16":
        raise Unsupported("type .f16")
    compare = _COMPARE[next(w for w in instruction.modifiers if w in _COMPARE)]
    combine = next((_COMBINE[w] for w in words if w in _COMBINE), None)
    a, b = reader(context, sources[0], name), reader(context, sources[1], name)
    c = reader(context, sources[2], "pred") if len(sources) > 2 else None
    ftz = "ftz" in words and name == "f32"

    def step(frame: Frame) -> None:
        x, y = a(frame), b(frame)
        result = compare(floating.flush(x), floating.flush(y)) if ftz else compare(x, y)
        other = c(frame) if c is not None else None
        inverse = ~result if pair else None
        first(frame, combine(result, other) if combine else result)
        if second is not None and inverse is not None:
            second(frame, combine(inverse, other) if combine else inverse)

    return step


def _select(context: Context, instruction: Instruction) -> Step:
    name = types_of(instruction)[-1]

    def choose(a: Array, b: Array, p: Array) -> Array:
        chosen: Array = np.where(p, a, b)
        return chosen

    return apply(context, instruction, choose, (name, name, "pred"))


COMPARE_ROWS: Rows = {
    "setp": _set_predicate,
    "selp": _select,
}
"""Rows for comparisons of all types."""
