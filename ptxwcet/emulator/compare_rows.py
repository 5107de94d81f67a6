"""Semantics of comparisons and selections (PTX ISA: set, setp, selp, slct, testp)."""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np

from ptxwcet.emulator.conversion import FORMATS, as_float
from ptxwcet.emulator.convert_rows import joined
from ptxwcet.emulator.floating import flush
from ptxwcet.emulator.launch import Array
from ptxwcet.emulator.registers import (
    Context,
    Frame,
    Read,
    Step,
    Unsupported,
    dtype_of,
    reader,
    writer,
)
from ptxwcet.emulator.rows import FLOATS, Operation, Rows, apply, restricted, types_of
from ptxwcet.ir.kernel import Instruction, Operand, Pair
from ptxwcet.support.records import dataclass

_EQUAL: dict[str, Operation] = {"eq": operator.eq, "ne": operator.ne}
_SIGNED: dict[str, Operation] = _EQUAL | {
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip
_UNSIGNED: dict[str, Operation] = _SIGNED | {
    "lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge,
}  # fmt: skip
_FLOAT: dict[str, Operation] = _SIGNED | {
    "ne": lambda a, b: (a < b) | (a > b),  # false if one is NaN
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
_FLUSHED = frozenset({"f32", "f16", "f16x2"})


@dataclass(frozen=True, slots=True)
class _Comparison:
    """A compiled ``set`` or ``setp``: reads of the numbers (lower half first), both operations."""

    first: tuple[Read, ...]
    second: tuple[Read, ...]
    compare: Operation
    combine: Callable[[Frame, Array], Array]

    def results(self, frame: Frame) -> list[Array]:
        """The comparison of each part, not yet combined with the predicate operand."""
        parts = zip(self.first, self.second, strict=True)
        return [self.compare(a(frame), b(frame)) for a, b in parts]


def _operations(name: str) -> dict[str, Operation]:
    if name in FLOATS:
        return _FLOAT
    return {"b": _EQUAL, "s": _SIGNED, "u": _UNSIGNED}[name[0]]


def _numbers(context: Context, operand: Operand, name: str, ftz: bool) -> tuple[Read, ...]:
    """Reads of an operand's numbers: one, or the lower and the upper half of a packed one."""
    if name in ("f32", "f16") and ftz:
        value = reader(context, operand, name)
        return (lambda frame: flush(value(frame)),)
    if name not in ("bf16", "bf16x2", "f16x2"):
        return (reader(context, operand, name),)
    half = name.removesuffix("x2")
    bits = reader(context, operand, "b16" if half == name else "b32")

    def part(shift: int) -> Read:
        def read(frame: Frame) -> Array:
            value = bits(frame)
            pattern = (value >> np.array(shift, value.dtype)).astype(np.uint16)
            number = as_float(pattern, half)
            return flush(number) if ftz else number

        return read

    return (part(0),) if half == name else (part(0), part(16))


def _comparison(context: Context, instruction: Instruction, name: str) -> _Comparison:
    words = restricted(instruction, frozenset(_UNSIGNED | _FLOAT | _COMBINE) | {"ftz"})
    ftz = "ftz" in words
    named = [word for word in words if word in _operations(name)]
    if len(named) != 1 or (ftz and name not in _FLUSHED):
        raise Unsupported(f"this comparison of .{name}")
    combining = [word for word in words if word in _COMBINE]
    _, a, b, *c = instruction.operands
    if len(c) != len(combining) or len(words) != 1 + len(combining) + ftz:
        raise Unsupported("this form of comparison")
    return _Comparison(
        _numbers(context, a, name, ftz),
        _numbers(context, b, name, ftz),
        _operations(name)[named[0]],
        _combination(context, _COMBINE[combining[0]], c[0]) if combining else _alone,
    )


def _alone(frame: Frame, result: Array) -> Array:
    return result


def _combination(
    context: Context, combine: Operation, operand: Operand
) -> Callable[[Frame, Array], Array]:
    other = reader(context, operand, "pred")
    return lambda frame, result: combine(result, other(frame))


def _set_predicate(context: Context, instruction: Instruction) -> Step:
    """``setp``: ``p|q`` are the result and its inverse, of packed types the two halves' results."""
    name = types_of(instruction)[-1]
    comparison = _comparison(context, instruction, name)
    destination = instruction.operands[0]
    if not isinstance(destination, Pair):
        target = writer(context, destination)
        return lambda frame: target(frame, comparison.combine(frame, comparison.results(frame)[0]))
    if name in ("f16", "bf16"):
        raise Unsupported("two predicates of one half")
    first, second = writer(context, destination.first), writer(context, destination.second)

    def step(frame: Frame) -> None:
        results = comparison.results(frame)
        other = comparison.combine(frame, results[1] if len(results) > 1 else ~results[0])
        first(frame, comparison.combine(frame, results[0]))
        second(frame, other)

    return step


def _set_number(context: Context, instruction: Instruction) -> Step:
    """``set``: all ones or 0 for an integer type, else 1.0 or 0; in each half of packed types."""
    to, source = types_of(instruction)
    comparison = _comparison(context, instruction, source)
    target = writer(context, instruction.operands[0])
    half = to.removesuffix("x2")
    packed = source.endswith("x2")
    if (to == half) == packed and not (packed and to in ("u32", "s32")):
        raise Unsupported(f"set.{to}.{source}")
    if half in FORMATS:
        width, true = FORMATS[half].bits, FORMATS[half].one
    else:
        width = 16 if packed else 8 * dtype_of(to).itemsize
        true = (1 << width) - 1
    yes, no = (np.array(value, dtype=f"u{width // 8}") for value in (true, 0))
    result = dtype_of(to) if half not in FORMATS else np.dtype(f"u{yes.itemsize * (1 + packed)}")

    def step(frame: Frame) -> None:
        parts = [
            np.where(comparison.combine(frame, part), yes, no) for part in comparison.results(frame)
        ]
        value = joined(parts[1], parts[0], width) if packed else parts[0]
        target(frame, value.view(result))

    return step


def _select(context: Context, instruction: Instruction) -> Step:
    restricted(instruction, frozenset())
    name = types_of(instruction)[-1]

    def choose(a: Array, b: Array, p: Array) -> Array:
        chosen: Array = np.where(p, a, b)
        return chosen

    return apply(context, instruction, choose, (name, name, "pred"))


def _select_by_sign(context: Context, instruction: Instruction) -> Step:
    """``slct``: a if c >= 0 (-0 as well), b if it is negative or NaN."""
    words = restricted(instruction, frozenset({"ftz"}))
    name, sign = types_of(instruction)
    if sign not in ("s32", "f32") or (words and sign != "f32"):
        raise Unsupported(f"slct by .{sign}")

    def choose(a: Array, b: Array, c: Array) -> Array:
        chosen: Array = np.where((flush(c) if words else c) >= 0, a, b)
        return chosen

    return apply(context, instruction, choose, (name, name, sign))


def _is_subnormal(a: Array) -> Array:
    small: Array = (a != 0) & (np.abs(a) < np.finfo(a.dtype.str).tiny)
    return small


_PROPERTIES: dict[str, Operation] = {
    "finite": np.isfinite,
    "infinite": np.isinf,
    "number": lambda a: ~np.isnan(a),
    "notanumber": np.isnan,
    "normal": lambda a: np.isfinite(a) & ~_is_subnormal(a),  # zeros are normal here
    "subnormal": _is_subnormal,
}


def _test_property(context: Context, instruction: Instruction) -> Step:
    words = restricted(instruction, frozenset(_PROPERTIES))
    name = types_of(instruction)[-1]
    if len(words) != 1 or name not in ("f32", "f64"):
        raise Unsupported(f"this form for .{name}")
    return apply(context, instruction, _PROPERTIES[min(words)], (name,))


COMPARE_ROWS: Rows = {
    "set": _set_number,
    "setp": _set_predicate,
    "selp": _select,
    "slct": _select_by_sign,
    "testp": _test_property,
}
"""Rows for comparisons of all types."""
