"""Semantics of integer, logic, shift and bit-field instructions."""

from __future__ import annotations

import operator

import numpy as np

from ptxwcet.emulator import integer, memory_ops
from ptxwcet.emulator.registers import Context, Frame, Step, Unsupported, reader
from ptxwcet.emulator.rows import Builder, Operation, Rows, apply, restricted, types_of
from ptxwcet.ir.kernel import Immediate, Instruction


def _same_type(operation: Operation, arity: int) -> Builder:
    def build(context: Context, instruction: Instruction) -> Step:
        restricted(instruction, frozenset())
        return apply(context, instruction, operation, (types_of(instruction)[-1],) * arity)

    return build


def _saturating(plain: Operation, clamped: Operation) -> Builder:
    ordinary = _same_type(plain, 2)

    def build(context: Context, instruction: Instruction) -> Step:
        if instruction.modifiers == ("sat", "s32"):
            return apply(context, instruction, clamped, ("s32", "s32"))
        return ordinary(context, instruction)

    return build


def _multiply(context: Context, instruction: Instruction) -> Step:
    name = types_of(instruction)[0]
    kinds: dict[str, Operation] = {
        "wide": integer.multiply_wide,
        "hi": integer.multiply_high,
        "lo": operator.mul,
    }
    words = restricted(instruction, frozenset(kinds))
    return apply(context, instruction, kinds[next(iter(words))], (name, name))


def _multiply_add(context: Context, instruction: Instruction) -> Step:
    name = types_of(instruction)[0]
    words = restricted(instruction, frozenset({"wide", "hi", "lo"}))
    if "lo" in words:
        low: Operation = lambda a, b, c: a * b + c  # noqa: E731
        return apply(context, instruction, low, (name,) * 3)
    if "hi" in words:
        high: Operation = lambda a, b, c: integer.multiply_high(a, b) + c  # noqa: E731
        return apply(context, instruction, high, (name,) * 3)
    wide = f"{name[0]}{int(name[1:]) * 2}"
    return apply(
        context, instruction, lambda a, b, c: integer.multiply_wide(a, b) + c, (name, name, wide)
    )


def _division(operation: Operation) -> Builder:
    def build(context: Context, instruction: Instruction) -> Step:
        restricted(instruction, frozenset())
        name = types_of(instruction)[-1]
        run = apply(context, instruction, operation, (name, name))
        divisor = reader(context, instruction.operands[2], name)

        def step(frame: Frame) -> None:
            memory_ops.divide_checked(frame, instruction, divisor(frame))
            run(frame)

        return step

    return build


def _shift(operation: Operation) -> Builder:
    return lambda context, instruction: apply(
        context, instruction, operation, (types_of(instruction)[-1], "u32")
    )


def _counted(operation: Operation) -> Builder:
    return lambda context, instruction: apply(
        context, instruction, operation, (types_of(instruction)[-1],)
    )


def _logic3(context: Context, instruction: Instruction) -> Step:
    *_, table = instruction.operands
    if not isinstance(table, Immediate) or len(instruction.operands) != 5:
        raise Unsupported("this form of lop3")
    number = int(table.value)
    operation: Operation = lambda a, b, c, _: integer.logic3(a, b, c, number)  # noqa: E731
    return apply(context, instruction, operation, ("b32",) * 4)


def _funnel(context: Context, instruction: Instruction) -> Step:
    left, wrap = "l" in instruction.modifiers, "wrap" in instruction.modifiers
    operation: Operation = lambda a, b, c: integer.funnel(a, b, c, left, wrap)  # noqa: E731
    return apply(context, instruction, operation, ("u32",) * 3)


def _field_extract(context: Context, instruction: Instruction) -> Step:
    name = types_of(instruction)[-1]
    return apply(context, instruction, integer.field_extract, (name, "u32", "u32"))


def _field_insert(context: Context, instruction: Instruction) -> Step:
    name = types_of(instruction)[-1]
    return apply(context, instruction, integer.field_insert, (name, name, "u32", "u32"))


INTEGER_ROWS: Rows = {
    "add": _saturating(operator.add, integer.saturated_add),
    "sub": _saturating(operator.sub, integer.saturated_subtract),
    "mul": _multiply,
    "mad": _multiply_add,
    "div": _division(integer.divide),
    "rem": _division(integer.remainder),
    "min": _same_type(np.minimum, 2),
    "max": _same_type(np.maximum, 2),
    "neg": _same_type(integer.negate, 1),
    "abs": _same_type(integer.absolute, 1),
    "and": _same_type(operator.and_, 2),
    "or": _same_type(operator.or_, 2),
    "xor": _same_type(operator.xor, 2),
    "not": _same_type(operator.invert, 1),
    "lop3": _logic3,
    "shl": _shift(integer.shift_left),
    "shr": _shift(integer.shift_right),
    "shf": _funnel,
    "bfe": _field_extract,
    "bfi": _field_insert,
    "popc": _counted(integer.population),
    "clz": _counted(integer.leading_zeros),
    "brev": _counted(integer.reversed_bits),
}
"""Rows for integer types; a name that is in the table of floats too is chosen by type."""
