"""The table opcode -> semantics: a row compiles an instruction to a step over the frame.

A new opcode is a new row of :data:`SEMANTICS`. Control flow and barriers are no rows: see
:mod:`ptxwcet.emulator.nodes`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

import numpy as np

from ptxwcet.emulator import floating, integer, memory_ops, warp_ops
from ptxwcet.emulator.conversion import convert
from ptxwcet.emulator.launch import Array
from ptxwcet.emulator.registers import (
    Context,
    Frame,
    Step,
    Unsupported,
    dtype_of,
    reader,
    writer,
)
from ptxwcet.ir.kernel import Immediate, Instruction, Pair
from ptxwcet.ir.operands import Vector

Builder = Callable[[Context, Instruction], Step]
Operation = Callable[..., Array]

_TYPES = frozenset(f"{kind}{width}" for kind in "bus" for width in (8, 16, 32, 64)) | {
    "f16", "f32", "f64", "pred", "b128", "f16x2", "bf16", "bf16x2", "f32x2", "e4m3x2", "e5m2x2",
    "u16x2", "s16x2", "tf32",
}  # fmt: skip


def types_of(instruction: Instruction) -> list[str]:
    """The type modifiers in order."""
    return [modifier for modifier in instruction.modifiers if modifier in _TYPES]


def _restricted(instruction: Instruction, allowed: frozenset[str]) -> frozenset[str]:
    words = frozenset(instruction.modifiers) - _TYPES
    if words - allowed:
        raise Unsupported("modifier ." + ", .".join(sorted(words - allowed)))
    return words


def apply(
    context: Context, instruction: Instruction, operation: Operation, read_types: tuple[str, ...]
) -> Step:
    """A step that applies an operation to all lanes and writes under the mask."""
    destination, *sources = instruction.operands
    if len(sources) != len(read_types):
        raise Unsupported(f"{len(sources)} source operands")
    target = writer(context, destination)
    reads = [reader(context, s, t) for s, t in zip(sources, read_types, strict=True)]

    def step(frame: Frame) -> None:
        target(frame, operation(*[read(frame) for read in reads]))

    return step


def same_type(integers: Operation | None, floats: Operation | None, arity: int) -> Builder:
    """A row whose sources all have the instruction's type, with its ``.ftz`` and ``.sat``."""

    def build(context: Context, instruction: Instruction) -> Step:
        name = types_of(instruction)[-1]
        words = _restricted(instruction, frozenset({"rn", "ftz", "sat", "approx", "full"}))
        is_float = dtype_of(name).kind == "f"
        operation = floats if is_float else integers
        if operation is None or name == "f16" or ("sat" in words and not is_float):
            raise Unsupported(f"type .{name} or .sat")
        if is_float:
            operation = _float_modes(operation, words, name)
        return apply(context, instruction, operation, (name,) * arity)

    return build


def _float_modes(operation: Operation, words: frozenset[str], name: str) -> Operation:
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


def _multiply(context: Context, instruction: Instruction) -> Step:
    name = types_of(instruction)[0]
    if dtype_of(name).kind == "f":
        return same_type(None, operator.mul, 2)(context, instruction)
    kinds: dict[str, Operation] = {
        "wide": integer.multiply_wide,
        "hi": integer.multiply_high,
        "lo": operator.mul,
    }
    words = _restricted(instruction, frozenset(kinds))
    return apply(context, instruction, kinds[next(iter(words))], (name, name))


def _multiply_add(context: Context, instruction: Instruction) -> Step:
    name = types_of(instruction)[0]
    if dtype_of(name).kind == "f":
        return same_type(None, floating.fused, 3)(context, instruction)
    words = _restricted(instruction, frozenset({"wide", "hi", "lo"}))
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


def _division(operation: Operation, floats: Operation | None) -> Builder:
    def build(context: Context, instruction: Instruction) -> Step:
        name = types_of(instruction)[-1]
        if dtype_of(name).kind == "f":
            return same_type(None, floats, 2)(context, instruction)
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
    words = _restricted(instruction, frozenset(_COMPARE) | frozenset(_COMBINE) | {"ftz"})
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


def _convert(context: Context, instruction: Instruction) -> Step:
    names = types_of(instruction)
    known = frozenset({"rn", "rni", "rzi", "rmi", "rpi", "sat", "ftz"})
    words = _restricted(instruction, known)
    to, source = names
    if "f16" in names and to == "f16" and source == "f64":
        raise Unsupported("f64 to f16")
    if {"rni", "rzi", "rmi", "rpi"} & words == set() and (
        dtype_of(source).kind == "f" and dtype_of(to).kind != "f"
    ):
        raise Unsupported("float to integer without a rounding")
    dtype = dtype_of(to)
    return apply(context, instruction, lambda a: convert(a, dtype, words), (source,))


def _to_space(context: Context, instruction: Instruction) -> Step:
    words = frozenset(instruction.modifiers)
    name = types_of(instruction)[-1]
    space = next(w for w in words if w in ("global", "shared", "local", "const", "param"))
    shift = context.symbols.get(f"window.{space}", 0)
    amount = np.uint64(shift).astype(dtype_of(name))
    if "to" in words:
        return apply(context, instruction, lambda a: a - amount, (name,))
    return apply(context, instruction, lambda a: a + amount, (name,))


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


def _nothing(context: Context, instruction: Instruction) -> Step:
    return lambda frame: None


def _saturating(plain: Operation, clamped: Operation) -> Builder:
    ordinary = same_type(plain, plain, 2)

    def build(context: Context, instruction: Instruction) -> Step:
        if instruction.modifiers == ("sat", "s32"):
            return apply(context, instruction, clamped, ("s32", "s32"))
        return ordinary(context, instruction)

    return build


def _field_extract(context: Context, instruction: Instruction) -> Step:
    name = types_of(instruction)[-1]
    return apply(context, instruction, integer.field_extract, (name, "u32", "u32"))


def _field_insert(context: Context, instruction: Instruction) -> Step:
    name = types_of(instruction)[-1]
    return apply(context, instruction, integer.field_insert, (name, name, "u32", "u32"))


SEMANTICS: Mapping[str, Builder] = {
    "add": _saturating(operator.add, integer.saturated_add),
    "sub": _saturating(operator.sub, integer.saturated_subtract),
    "mul": _multiply,
    "mad": _multiply_add,
    "fma": same_type(None, floating.fused, 3),
    "div": _division(integer.divide, operator.truediv),
    "rem": _division(integer.remainder, None),
    "min": same_type(np.minimum, floating.minimum, 2),
    "max": same_type(np.maximum, floating.maximum, 2),
    "neg": same_type(integer.negate, operator.neg, 1),
    "abs": same_type(integer.absolute, np.abs, 1),
    "and": same_type(operator.and_, None, 2),
    "or": same_type(operator.or_, None, 2),
    "xor": same_type(operator.xor, None, 2),
    "not": same_type(operator.invert, None, 1),
    "lop3": _logic3,
    "shl": _shift(integer.shift_left),
    "shr": _shift(integer.shift_right),
    "shf": _funnel,
    "bfe": _field_extract,
    "bfi": _field_insert,
    "popc": _counted(integer.population),
    "clz": _counted(integer.leading_zeros),
    "brev": _counted(integer.reversed_bits),
    "rcp": same_type(None, floating.reciprocal, 1),
    "sqrt": same_type(None, np.sqrt, 1),
    "rsqrt": same_type(None, floating.reciprocal_root, 1),
    "sin": same_type(None, floating.sine, 1),
    "cos": same_type(None, floating.cosine, 1),
    "ex2": same_type(None, floating.power_of_two, 1),
    "lg2": same_type(None, floating.logarithm, 1),
    "tanh": same_type(None, floating.tangent, 1),
    "setp": _set_predicate,
    "selp": _select,
    "mov": _move,
    "cvt": _convert,
    "cvta": _to_space,
    "ld": memory_ops.load,
    "ldu": memory_ops.load,
    "st": memory_ops.store,
    "atom": memory_ops.atomic,
    "red": memory_ops.atomic,
    "cp.async": memory_ops.copy_async,
    "cp.async.commit_group": _nothing,
    "cp.async.wait_group": _nothing,
    "cp.async.wait_all": _nothing,
    "membar": _nothing,
    "fence": _nothing,
    "bar.warp.sync": _nothing,
    "shfl": warp_ops.shuffle,
    "vote": warp_ops.vote,
    "match": warp_ops.match,
    "activemask": warp_ops.active_mask,
    "redux": warp_ops.reduce_warp,
}
