"""Defines semantics of moves, packing, addresses (PTX: mov, cvta, isspacep, mapa, getctarank)."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

import numpy as np

from ptxwcet.emulator.conversion import FORMATS, as_float
from ptxwcet.emulator.convert_rows import joined
from ptxwcet.emulator.floating import flush
from ptxwcet.emulator.launch import Array
from ptxwcet.emulator.memory import BASE
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
from ptxwcet.emulator.rows import FLOATS, Operation, Rows, apply, elements_of, restricted, types_of
from ptxwcet.ir.kernel import Immediate, Instruction, Operand, Pair
from ptxwcet.support.records import dataclass

_VECTORS = frozenset({"v2", "v4", "v8"})
_BITS = {"f16": "b16", "bf16": "b16", "f16x2": "b32", "bf16x2": "b32"}
_SPACES = {
    "shared::cta": "shared", "shared::cluster": "shared", "param::entry": "param",
    **{name: name for name in ("global", "shared", "local", "const", "param")},
}  # fmt: skip


def _move(context: Context, instruction: Instruction) -> Step:
    words = restricted(instruction, _VECTORS)
    name = types_of(instruction)[-1]
    destination, source = instruction.operands
    if name in _BITS:
        if isinstance(source, Immediate):
            raise Unsupported(f"a literal of type .{name}")
        name = _BITS[name]
    targets, parts = elements_of(destination), elements_of(source)
    if words:
        if targets is None or parts is None or len(targets) != len(parts):
            raise Unsupported("this form")
        return _move_each(context, targets, parts, name)
    if parts is not None and targets is None:
        return _pack(context, destination, parts, name)
    if targets is not None and parts is None:
        return _unpack(context, targets, source, name)
    if targets is not None:
        raise Unsupported("this form")
    return apply(context, instruction, lambda a: a, (name,))


def _move_each(
    context: Context, targets: tuple[Operand, ...], parts: tuple[Operand, ...], name: str
) -> Step:
    reads = [reader(context, part, name) for part in parts]
    writes = [writer(context, target) for target in targets]

    def step(frame: Frame) -> None:
        values = [read(frame) for read in reads]
        for write, value in zip(writes, values, strict=True):
            write(frame, value)

    return step


def _part_width(name: str, count: int) -> int:
    """Returns the bits of each of ``count`` parts of a type. Raises Unsupported."""
    width = 8 * dtype_of(name).itemsize
    if name[0] != "b" or width % count or width // count not in (8, 16, 32):
        raise Unsupported(f"{count} parts of .{name}")
    return width // count


def _pack(context: Context, destination: Operand, parts: tuple[Operand, ...], name: str) -> Step:
    """Compiles ``mov`` of a vector into one register, the first part lowest."""
    width = _part_width(name, len(parts))
    target = writer(context, destination)
    reads = [_part_reader(context, part, width) for part in parts]
    whole = dtype_of(name)

    def step(frame: Frame) -> None:
        words = np.stack([read(frame) for read in reads], axis=1)
        target(frame, np.ascontiguousarray(words).view(whole).reshape(-1))

    return step


def _part_reader(context: Context, part: Operand, width: int) -> Read:
    if isinstance(part, Immediate) and isinstance(part.value, float):
        if width != 32:
            raise Unsupported(f"a floating-point literal of {width} bits")
        value = reader(context, part, "f32")
        return lambda frame: value(frame).view(np.uint32)
    return reader(context, part, f"b{width}")


def _unpack(context: Context, targets: tuple[Operand, ...], source: Operand, name: str) -> Step:
    width = _part_width(name, len(targets))
    writes = [writer(context, target) for target in targets]
    value = reader(context, source, name)
    count = len(targets)

    def step(frame: Frame) -> None:
        words = np.ascontiguousarray(value(frame)).view(f"u{width // 8}")
        for place, write in enumerate(writes):
            write(frame, np.ascontiguousarray(words[place::count]))

    return step


def _space(instruction: Instruction, words: frozenset[str]) -> str:
    if len(words) != 1:
        raise Unsupported("no state space")
    return _SPACES[min(words)]


def _convert_address(context: Context, instruction: Instruction) -> Step:
    """Compiles ``cvta``: a generic address from one of a space, with ``.to`` the reverse."""
    words = restricted(instruction, frozenset(_SPACES) | {"to"})
    if types_of(instruction) != ["u64"]:
        raise Unsupported("addresses of 32 bits")
    space = _space(instruction, words - {"to"})
    window = np.uint64(context.symbols.get(f"window.{space}", 0))
    if "to" in words:
        return apply(context, instruction, lambda a: a - window, ("u64",))
    return apply(context, instruction, lambda a: a + window, ("u64",))


def _is_in_space(context: Context, instruction: Instruction) -> Step:
    """Compiles ``isspacep``: whether a generic address is in the window of a space.

    Global is every address outside the other windows, including parameters (PTX ISA, isspacep).
    """
    space = _space(instruction, restricted(instruction, frozenset(_SPACES)))
    parameters = [
        (context.symbols[p.name] - BASE, context.symbols[p.name] - BASE + p.size_bytes)
        for p in context.kernel.parameters
        if p.name in context.symbols
    ]
    target = writer(context, instruction.operands[0])
    value = reader(context, instruction.operands[1], "u64")

    def step(frame: Frame) -> None:
        arena, index = frame.arena, value(frame).view(np.int64) - BASE
        windows = {
            "shared": [(arena.shared, arena.shared_end)],
            "local": [(arena.local, arena.local + arena.local_size)],
            "const": arena.constant,
            "param": parameters,
        }
        if space == "global":
            others = windows["shared"] + windows["local"] + windows["const"]
            target(frame, ~_within(index, others))
        else:
            target(frame, _within(index, windows[space]))

    return step


def _within(index: Array, ranges: list[tuple[int, int]]) -> Array:
    inside = np.zeros(index.shape, dtype=bool)
    for start, end in ranges:
        inside |= (index >= start) & (index < end)
    return inside


def _require_single_blocks(context: Context) -> None:
    """Raises Unsupported if the kernel requires clusters of several blocks."""
    for directive in context.kernel.performance:
        flagged = directive.keyword in (".explicitcluster", ".blocksareclusters")
        asked = directive.keyword == ".reqnctapercluster" and math.prod(directive.values) > 1
        if flagged or asked:
            raise Unsupported("clusters of several blocks")


def _map_address(context: Context, instruction: Instruction) -> Step:
    """Compiles ``mapa`` in a cluster of one block: identity for rank 0, else an invalid address."""
    _require_single_blocks(context)
    restricted(instruction, frozenset({"shared::cluster"}))
    name = types_of(instruction)[-1]
    outside = np.array(-256, f"i{dtype_of(name).itemsize}").view(dtype_of(name))
    return apply(
        context, instruction, lambda a, rank: np.where(rank == 0, a, outside), (name, "u32")
    )


def _block_rank(context: Context, instruction: Instruction) -> Step:
    """Compiles ``getctarank`` in a cluster of one block: 0."""
    _require_single_blocks(context)
    restricted(instruction, frozenset({"shared::cluster"}))
    name = types_of(instruction)[-1]
    return apply(context, instruction, lambda a: np.zeros(a.shape, dtype=np.uint32), (name,))


MOVE_ROWS: Rows = {
    "mov": _move,
    "cvta": _convert_address,
    "isspacep": _is_in_space,
    "mapa": _map_address,
    "getctarank": _block_rank,
}
"""The rows for moves of unchanged bits, and for addresses."""


# --- Semantics of comparisons and selections (PTX ISA: set, setp, selp, slct, testp) --------------


_EQUAL: dict[str, Operation] = {"eq": operator.eq, "ne": operator.ne}
_SIGNED: dict[str, Operation] = _EQUAL | {
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip
_UNSIGNED: dict[str, Operation] = _SIGNED | {
    "lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge,
}  # fmt: skip
_FLOAT: dict[str, Operation] = _SIGNED | {
    "ne": lambda a, b: (a < b) | (a > b),  # False if an operand is NaN.
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
        """Returns the comparison of each part, not yet combined with the predicate operand."""
        parts = zip(self.first, self.second, strict=True)
        return [self.compare(a(frame), b(frame)) for a, b in parts]


def _operations(name: str) -> dict[str, Operation]:
    if name in FLOATS:
        return _FLOAT
    return {"b": _EQUAL, "s": _SIGNED, "u": _UNSIGNED}[name[0]]


def _numbers(context: Context, operand: Operand, name: str, ftz: bool) -> tuple[Read, ...]:
    """Builds the reads of an operand: one number, or the lower and the upper half of a pair."""
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
    """Compiles ``setp``: ``p|q`` are the result and its inverse, or the results of both halves."""
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
    """Compiles ``set``: all ones or 0 for integer types, else 1.0 or 0; per half if packed."""
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
    """Compiles ``slct``: a if c >= 0 (-0 as well), b if c is negative or NaN."""
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
"""The rows for comparisons of all types."""
