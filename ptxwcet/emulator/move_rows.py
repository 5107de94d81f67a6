"""Semantics of moves, packing and addresses (PTX ISA: mov, cvta, isspacep, mapa, getctarank)."""

from __future__ import annotations

import math

import numpy as np

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
from ptxwcet.emulator.rows import Rows, apply, elements_of, restricted, types_of
from ptxwcet.ir.kernel import Immediate, Instruction, Operand

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
    """Bits of each of ``count`` parts of a type. Raises Unsupported."""
    width = 8 * dtype_of(name).itemsize
    if name[0] != "b" or width % count or width // count not in (8, 16, 32):
        raise Unsupported(f"{count} parts of .{name}")
    return width // count


def _pack(context: Context, destination: Operand, parts: tuple[Operand, ...], name: str) -> Step:
    """``mov`` of a vector into one register, the first part lowest."""
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
    """``cvta``: an address of a space as a generic one, with ``.to`` the reverse."""
    words = restricted(instruction, frozenset(_SPACES) | {"to"})
    if types_of(instruction) != ["u64"]:
        raise Unsupported("addresses of 32 bits")
    space = _space(instruction, words - {"to"})
    window = np.uint64(context.symbols.get(f"window.{space}", 0))
    if "to" in words:
        return apply(context, instruction, lambda a: a - window, ("u64",))
    return apply(context, instruction, lambda a: a + window, ("u64",))


def _is_in_space(context: Context, instruction: Instruction) -> Step:
    """``isspacep``: whether a generic address lies in the window of a space.

    Global is what lies in no other window, kernel parameters included (PTX ISA, isspacep).
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
    """Raises Unsupported if the kernel asks for clusters of several blocks."""
    for directive in context.kernel.performance:
        flagged = directive.keyword in (".explicitcluster", ".blocksareclusters")
        asked = directive.keyword == ".reqnctapercluster" and math.prod(directive.values) > 1
        if flagged or asked:
            raise Unsupported("clusters of several blocks")


def _map_address(context: Context, instruction: Instruction) -> Step:
    """``mapa`` in a cluster of one block: the address itself for rank 0, else one outside all."""
    _require_single_blocks(context)
    restricted(instruction, frozenset({"shared::cluster"}))
    name = types_of(instruction)[-1]
    outside = np.array(-256, f"i{dtype_of(name).itemsize}").view(dtype_of(name))
    return apply(
        context, instruction, lambda a, rank: np.where(rank == 0, a, outside), (name, "u32")
    )


def _block_rank(context: Context, instruction: Instruction) -> Step:
    """``getctarank`` in a cluster of one block: 0."""
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
"""Rows for what moves bits unchanged, and for addresses."""
