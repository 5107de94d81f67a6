"""``redux.sync``: one value from those of all lanes that take part."""

from __future__ import annotations

import numpy as np

from ptxwcet.emulator.launch import Array
from ptxwcet.emulator.registers import Context, Frame, Step, Unsupported, reader, writer
from ptxwcet.emulator.rows import restricted, types_of
from ptxwcet.emulator.warp_masks import FULL, members, together
from ptxwcet.ir.kernel import Instruction

_NAN = np.uint32(0x7FFFFFFF)
_SIGN = np.uint32(0x80000000)
_OPERATIONS: dict[str, np.ufunc] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
_BY_TYPE = {
    "s32": ("add", "min", "max"),
    "u32": ("add", "min", "max"),
    "b32": ("and", "or", "xor"),
    "f32": ("min", "max"),
}


def reduce_warp(context: Context, instruction: Instruction) -> Step:
    """``redux.sync``; of f32 ``min`` and ``max``, with ``.abs`` and ``.NaN``."""
    words = restricted(instruction, frozenset(_OPERATIONS) | {"sync", "abs", "NaN"})
    name = types_of(instruction)[-1]
    kinds = [word for word in words if word in _BY_TYPE.get(name, ())]
    options = words & {"abs", "NaN"}
    if len(kinds) != 1 or len(words) != 2 + len(options) or (options and name != "f32"):
        raise Unsupported("this form")
    destination, source, mask = instruction.operands
    target = writer(context, destination)
    value = reader(context, source, name)
    group = together(context, instruction, mask)
    operation = _OPERATIONS[kinds[0]]

    def step(frame: Frame) -> None:
        words, values = group(frame), value(frame)
        if name == "f32":
            bits = values.view(np.uint32)
            target(frame, _extreme(bits, members(words), kinds[0], options))
        elif (words == FULL).all():
            by_warp = values.reshape(-1, 32)
            target(frame, np.repeat(operation.reduce(by_warp, axis=1, dtype=values.dtype), 32))
        else:
            target(frame, _reduced(values, members(words), kinds[0]))

    return step


def _reduced(values: Array, chosen: Array, kind: str) -> Array:
    """The reduction for each row of ``chosen``, the flags of its warp's lanes."""
    limits = np.iinfo(values.dtype.str)
    neutral = {"min": limits.max, "max": limits.min, "and": limits.max}.get(kind, 0)
    rows = np.repeat(values.reshape(-1, 32), 32, axis=0)
    taken = np.where(chosen, rows, np.array(neutral, values.dtype))
    result: Array = _OPERATIONS[kind].reduce(taken, axis=1, dtype=values.dtype)
    return result


def _extreme(bits: Array, chosen: Array, kind: str, options: frozenset[str]) -> Array:
    """Least or greatest number, -0 below +0; NaN where all are NaN, with ``.NaN`` where one is."""
    if "abs" in options:
        bits = bits & ~_SIGN
    nan = np.repeat((bits & ~_SIGN > 0x7F800000).reshape(-1, 32), 32, axis=0)
    order = np.where(bits & _SIGN != 0, ~bits, bits | _SIGN)
    best = _reduced(order, chosen & ~nan, kind)
    number = np.where(best & _SIGN != 0, best & ~_SIGN, ~best)
    among = chosen & nan
    wrong = among.any(axis=1) if "NaN" in options else (among == chosen).all(axis=1)
    return np.where(wrong, _NAN, number)
