"""Semantics of moves, packing and addresses."""

from __future__ import annotations

import numpy as np

from ptxwcet.emulator.registers import Context, Frame, Step, dtype_of, reader, writer
from ptxwcet.emulator.rows import Rows, apply, types_of
from ptxwcet.ir.kernel import Instruction
from ptxwcet.ir.operands import Vector


def _move(context: Context, instruction: Instruction) -> Step:
    name = types_of(instruction)[-1]
    destination, source = instruction.operands
    if isinstance(source, Vector):
        return _pack(context, instruction, source, name)
    if isinstance(destination, Vector):
        parts = destination.elements
        width = int(name[1:]) // len(parts)
        targets = [writer(context, part) for part in parts]
        value = reader(context, source, name)

        def step(frame: Frame) -> None:
            words = np.ascontiguousarray(value(frame)).view(f"u{width // 8}")
            for place, target in enumerate(targets):
                target(frame, np.ascontiguousarray(words[place :: len(targets)]))

        return step
    return apply(context, instruction, lambda a: a, (name,))


def _pack(context: Context, instruction: Instruction, source: Vector, name: str) -> Step:
    target = writer(context, instruction.operands[0])
    width = int(name[1:]) // len(source.elements)
    reads = [reader(context, element, f"b{width}") for element in source.elements]

    def step(frame: Frame) -> None:
        words = np.stack([read(frame) for read in reads], axis=1)
        target(frame, np.ascontiguousarray(words).view(f"u{int(name[1:]) // 8}").reshape(-1))

    return step


def _to_space(context: Context, instruction: Instruction) -> Step:
    words = frozenset(instruction.modifiers)
    name = types_of(instruction)[-1]
    space = next(w for w in words if w in ("global", "shared", "local", "const", "param"))
    shift = context.symbols.get(f"window.{space}", 0)
    amount = np.uint64(shift).astype(dtype_of(name))
    if "to" in words:
        return apply(context, instruction, lambda a: a - amount, (name,))
    return apply(context, instruction, lambda a: a + amount, (name,))


MOVE_ROWS: Rows = {
    "mov": _move,
    "cvta": _to_space,
}
"""Rows for what moves bits unchanged."""
