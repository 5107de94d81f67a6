"""Semantics of extended precision: ``.cc`` writes the carry flag, addc and its kin read it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptxwcet.emulator import integer
from ptxwcet.emulator.launch import Array
from ptxwcet.emulator.registers import Context, Frame, Step, reader, writer
from ptxwcet.emulator.rows import Builder, Rows, types_of
from ptxwcet.ir.kernel import CARRY, Instruction

Sum = Callable[[Array, Array, Array], tuple[Array, Array]]


def _added(a: Array, b: Array, carry: Array) -> tuple[Array, Array]:
    """a + b + carry and the carry out, of unsigned numbers."""
    first = a + b
    total = first + carry.astype(a.dtype)
    return total, (first < a) | (total < first)


def _subtracted(a: Array, b: Array, borrow: Array) -> tuple[Array, Array]:
    """a - b - borrow and the borrow out, of unsigned numbers."""
    first = a - b
    total = first - borrow.astype(a.dtype)
    return total, (a < b) | (first < total)


def _write_carry(frame: Frame, carry: Array) -> None:
    old = frame.registers[CARRY]
    frame.registers[CARRY] = carry if frame.mask is None else np.where(frame.mask, carry, old)


def _sum(operation: Sum, *, reads: bool) -> Builder:
    def build(context: Context, instruction: Instruction) -> Step:
        sets_carry = "cc" in instruction.modifiers
        name = types_of(instruction)[-1]
        unsigned = f"u{name[1:]}"
        destination, *sources = instruction.operands
        target = writer(context, destination)
        a, b = (reader(context, source, unsigned) for source in sources)
        none = np.zeros(context.lanes, dtype=bool)

        def step(frame: Frame) -> None:
            carry = frame.registers[CARRY] if reads else none
            total, out = operation(a(frame), b(frame), carry)
            target(frame, total)
            if sets_carry:
                _write_carry(frame, out)

        return step

    return build


def _product_sum(*, reads: bool) -> Builder:
    def build(context: Context, instruction: Instruction) -> Step:
        low, sets_carry = "lo" in instruction.modifiers, "cc" in instruction.modifiers
        name = types_of(instruction)[-1]
        kind = np.dtype(f"u{int(name[1:]) // 8}")
        destination, *sources = instruction.operands
        target = writer(context, destination)
        a, b = (reader(context, source, name) for source in sources[:2])
        c = reader(context, sources[2], f"u{name[1:]}")
        none = np.zeros(context.lanes, dtype=bool)

        def step(frame: Frame) -> None:
            x, y = a(frame), b(frame)
            product = x * y if low else integer.multiply_high(x, y)
            carry = frame.registers[CARRY] if reads else none
            total, out = _added(np.ascontiguousarray(product).view(kind), c(frame), carry)
            target(frame, total)
            if sets_carry:
                _write_carry(frame, out)

        return step

    return build


WITH_CARRY: Rows = {
    "add": _sum(_added, reads=False),
    "sub": _sum(_subtracted, reads=False),
    "mad": _product_sum(reads=False),
}
"""The forms with ``.cc`` of opcodes that do without it otherwise."""

CARRY_ROWS: Rows = {
    "addc": _sum(_added, reads=True),
    "subc": _sum(_subtracted, reads=True),
    "madc": _product_sum(reads=True),
}
"""Opcodes that read the carry flag."""
