"""Defines the semantics of integer, logic, shift and bit-field instructions.

In extended precision ``.cc`` writes the carry flag, addc and its kin read it. Only the forms that
the manual has are executed: rows of ``ptxwcet.ir.instruction_set``; floating-point types have
builders of their own.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

import numpy as np

from ptxwcet.emulator import integer, memory_access
from ptxwcet.emulator.launch import Array
from ptxwcet.emulator.registers import Context, Frame, Step, Unsupported, reader, writer
from ptxwcet.emulator.rows import Builder, Operation, Rows, apply, types_of
from ptxwcet.ir.instruction_set import OPCODES
from ptxwcet.ir.kernel import CARRY, Immediate, Instruction, Pair
from ptxwcet.ir.operation import NumberKind, number_type
from ptxwcet.ir.permitted import Form, matching


def permitted(name: str, builder: Builder) -> Builder:
    """Restricts a builder to the forms of an opcode; raises Unsupported for anything else."""
    forms = _INTEGER_FORMS[name]

    def build(context: Context, instruction: Instruction) -> Step:
        forms_here, reason = matching(forms, instruction.modifiers)
        if not forms_here:
            raise Unsupported(reason)
        return builder(context, instruction)

    return build


def _is_integer(form: Form) -> bool:
    kinds = [number_type(word) for word in form.types.split()]
    return all(kind is not None and kind.kind is not NumberKind.FLOAT for kind in kinds)


_INTEGER_FORMS: Mapping[str, tuple[Form, ...]] = {
    name: tuple(form for form in row.forms if form.documented and _is_integer(form))
    for name, row in OPCODES.items()
}


Sum = Callable[[Array, Array, Array], tuple[Array, Array]]


def _added(a: Array, b: Array, carry: Array) -> tuple[Array, Array]:
    """Returns a + b + carry and the carry out, for unsigned numbers."""
    first = a + b
    total = first + carry.astype(a.dtype)
    return total, (first < a) | (total < first)


def _subtracted(a: Array, b: Array, carry: Array) -> tuple[Array, Array]:
    """Returns a - b - borrow, for unsigned numbers; the flag is the inverse of the borrow."""
    return _added(a, ~b, carry)


def _write_carry(frame: Frame, carry: Array) -> None:
    old = frame.registers[CARRY]
    frame.registers[CARRY] = carry if frame.mask is None else np.where(frame.mask, carry, old)


def _carrying(operation: Sum, *, reads: bool) -> Builder:
    """Builds an operation on two operands, or on the product of two and a third operand."""

    def build(context: Context, instruction: Instruction) -> Step:
        low, sets_carry = "lo" in instruction.modifiers, "cc" in instruction.modifiers
        name = types_of(instruction)[-1]
        if name[1:] == "16" and reads and "hi" in instruction.modifiers:
            raise Unsupported("type .16, of which ptxas forgets the upper half of the product")
        unsigned = f"u{name[1:]}"
        destination, *factors, last = instruction.operands
        target = writer(context, destination)
        kind = name if len(factors) > 1 else unsigned
        first, second = (
            [reader(context, factor, kind) for factor in factors],
            reader(context, last, unsigned),
        )
        none = np.full(context.lanes, operation is _subtracted)

        def step(frame: Frame) -> None:
            a, *others = [read(frame) for read in first]
            if others:
                product = a * others[0] if low else integer.multiply_high(a, others[0])
                a = np.ascontiguousarray(product).view(f"u{product.itemsize}")
            carry = frame.registers[CARRY] if reads else none
            total, out = operation(a, second(frame), carry)
            target(frame, total)
            if sets_carry:
                _write_carry(frame, out)

        return step

    return build


_SUMS: Mapping[str, Sum] = {"add": _added, "sub": _subtracted, "mad": _added}
_WITH_CARRY = {name: _carrying(operation, reads=False) for name, operation in _SUMS.items()}
"""The forms with ``.cc`` of opcodes whose other forms do not use the carry flag."""


def _same_type(operation: Operation, arity: int) -> Builder:
    def build(context: Context, instruction: Instruction) -> Step:
        name = types_of(instruction)[-1]
        if name in ("u16x2", "s16x2"):
            return apply(context, instruction, _in_halves(operation, name), ("b32",) * arity)
        return apply(context, instruction, operation, (name,) * arity)

    return build


def _in_halves(operation: Operation, name: str) -> Operation:
    """Returns the operation on both halves of 32-bit words."""

    def run(*values: Array) -> Array:
        parts = [
            np.ascontiguousarray(value).view(f"{name[0].replace('s', 'i')}2") for value in values
        ]
        return np.ascontiguousarray(operation(*parts)).view(np.uint32)

    return run


def _extremum(operation: Operation) -> Builder:
    ordinary = _same_type(operation, 2)

    def build(context: Context, instruction: Instruction) -> Step:
        if "relu" not in instruction.modifiers:
            return ordinary(context, instruction)
        name = types_of(instruction)[-1]
        clamped: Operation = lambda a, b: np.maximum(operation(a, b), np.zeros_like(a))  # noqa: E731
        if name == "s16x2":
            return apply(context, instruction, _in_halves(clamped, name), ("b32", "b32"))
        return apply(context, instruction, clamped, (name, name))

    return build


def _saturating(plain: Operation, clamped: Operation) -> Builder:
    ordinary = _same_type(plain, 2)

    def build(context: Context, instruction: Instruction) -> Step:
        if "sat" in instruction.modifiers:
            return apply(context, instruction, clamped, ("s32", "s32"))
        if "cc" in instruction.modifiers:
            assert instruction.opcode is not None
            return _WITH_CARRY[instruction.opcode.name](context, instruction)
        return ordinary(context, instruction)

    return build


def _multiply(context: Context, instruction: Instruction) -> Step:
    name = types_of(instruction)[0]
    kinds: dict[str, Operation] = {
        "wide": integer.multiply_wide,
        "hi": integer.multiply_high,
        "lo": operator.mul,
    }
    return apply(context, instruction, kinds[instruction.modifiers[0]], (name, name))


def _multiply_add(context: Context, instruction: Instruction) -> Step:
    name = types_of(instruction)[0]
    if "cc" in instruction.modifiers:
        return _WITH_CARRY["mad"](context, instruction)
    kinds: dict[str, Operation] = {
        "sat": lambda a, b, c: integer.saturated_add(integer.multiply_high(a, b), c),
        "lo": lambda a, b, c: a * b + c,
        "hi": lambda a, b, c: integer.multiply_high(a, b) + c,
    }
    for word, operation in kinds.items():  # only high parts saturate
        if word in instruction.modifiers:
            return apply(context, instruction, operation, (name,) * 3)
    wide = f"{name[0]}{int(name[1:]) * 2}"
    return apply(
        context, instruction, lambda a, b, c: integer.multiply_wide(a, b) + c, (name, name, wide)
    )


def _division(operation: Operation) -> Builder:
    def build(context: Context, instruction: Instruction) -> Step:
        name = types_of(instruction)[-1]
        run = apply(context, instruction, operation, (name, name))
        divisor = reader(context, instruction.operands[2], name)

        def step(frame: Frame) -> None:
            memory_access.divide_checked(frame, instruction, divisor(frame))
            run(frame)

        return step

    return build


def _reading(operation: Operation, *kinds: str) -> Builder:
    """Builds an operation on operands of these types; "" is the type of the instruction."""

    def build(context: Context, instruction: Instruction) -> Step:
        own = types_of(instruction)[-1]
        return apply(context, instruction, operation, tuple(kind or own for kind in kinds))

    return build


def _logic3(context: Context, instruction: Instruction) -> Step:
    destination, *sources = instruction.operands
    pair, conjunction = isinstance(destination, Pair), "and" in instruction.modifiers
    if pair != (conjunction or "or" in instruction.modifiers):
        raise Unsupported("a predicate and .and or .or go together")
    table = sources[3]
    if not isinstance(table, Immediate):
        raise Unsupported("a table that is not a literal")
    number = int(table.value)
    reads = [reader(context, source, "b32") for source in sources[:3]]
    target = writer(context, destination.first if isinstance(destination, Pair) else destination)
    second = writer(context, destination.second) if isinstance(destination, Pair) else None
    other = reader(context, sources[4], "pred") if pair else None

    def step(frame: Frame) -> None:
        a, b, c = (read(frame) for read in reads)
        result = integer.logic3(a, b, c, number)
        predicate = other(frame) if other is not None else None
        target(frame, result)
        if second is not None and predicate is not None:
            any_bit = result != 0
            second(frame, any_bit & predicate if conjunction else any_bit | predicate)

    return step


def _funnel(context: Context, instruction: Instruction) -> Step:
    left, wrap = "l" in instruction.modifiers, "wrap" in instruction.modifiers
    operation: Operation = lambda a, b, c: integer.funnel(a, b, c, left, wrap)  # noqa: E731
    return apply(context, instruction, operation, ("u32",) * 3)


def _multiply24(context: Context, instruction: Instruction) -> Step:
    """Builds products of the low 24 bits: low 32 bits or bits 16 to 47, plus an addend."""
    words = instruction.modifiers
    name = types_of(instruction)[-1]
    arity = len(instruction.operands) - 1

    def operation(a: Array, b: Array, *rest: Array) -> Array:
        left, right = ((x << np.uint8(8) >> np.uint8(8)).astype(np.int64) for x in (a, b))
        product = left * right
        result = (product >> 16 if "hi" in words else product).astype(np.uint64)
        low = result.astype(np.uint32).view(a.dtype)
        if not rest:
            return low
        return integer.saturated_add(low, rest[0]) if "sat" in words else low + rest[0]

    return apply(context, instruction, operation, (name,) * arity)


def _dot4(context: Context, instruction: Instruction) -> Step:
    return _dot(context, instruction, (1, 1), tuple((i, i) for i in range(4)))


def _dot2(context: Context, instruction: Instruction) -> Step:
    first = 2 if "hi" in instruction.modifiers else 0
    return _dot(context, instruction, (2, 1), ((0, first), (1, first + 1)))


def _dot(
    context: Context,
    instruction: Instruction,
    sizes: tuple[int, int],
    steps: tuple[tuple[int, int], ...],
) -> Step:
    left, right = types_of(instruction)
    kinds = [
        f"{'i' if name[0] == 's' else 'u'}{size}"
        for name, size in zip((left, right), sizes, strict=True)
    ]
    total = "s32" if "s32" in (left, right) else "u32"

    def operation(a: Array, b: Array, c: Array) -> Array:
        parts = [
            np.ascontiguousarray(value).view(kind).reshape(value.size, -1)
            for value, kind in zip((a, b), kinds, strict=True)
        ]
        return integer.dot_product(parts[0], parts[1], c, steps)

    return apply(context, instruction, operation, ("b32", "b32", total))


def _find(context: Context, instruction: Instruction) -> Step:
    as_shift = "shiftamt" in instruction.modifiers
    operation: Operation = lambda a: integer.highest_bit(a, as_shift=as_shift)  # noqa: E731
    return apply(context, instruction, operation, (types_of(instruction)[-1],))


_PERMUTATIONS: dict[str, tuple[int, ...]] = {
    "f4e": (0x3210, 0x4321, 0x5432, 0x6543),
    "b4e": (0x5670, 0x6701, 0x7012, 0x0123),
    "rc8": (0x0000, 0x1111, 0x2222, 0x3333),
    "ecl": (0x3210, 0x3211, 0x3222, 0x3333),
    "ecr": (0x0000, 0x1110, 0x2210, 0x3210),
    "rc16": (0x1010, 0x3232, 0x1010, 0x3232),
}  # ISA, prmt, "pick modes": nibbles by the low bits of the selector


def _permute(context: Context, instruction: Instruction) -> Step:
    operation: Operation = integer.chosen_bytes
    mode = next((word for word in instruction.modifiers if word in _PERMUTATIONS), None)
    if mode is not None:
        table = np.array(_PERMUTATIONS[mode], dtype=np.uint32)
        operation = lambda a, b, c: integer.chosen_bytes(a, b, table[c & 3])  # noqa: E731
    return apply(context, instruction, operation, ("b32",) * 3)


def _sign_extend(context: Context, instruction: Instruction) -> Step:
    wraps = "wrap" in instruction.modifiers
    name = types_of(instruction)[-1]
    kind = np.dtype("i4" if name[0] == "s" else "u4")

    def operation(a: Array, b: Array) -> Array:
        length = b & 31 if wraps else np.minimum(b, 32)
        zero = np.zeros_like(b)
        return integer.field_extract(a.view(kind), zero, length.astype(np.uint32))

    return apply(context, instruction, operation, ("b32", "u32"))


def _bit_mask(context: Context, instruction: Instruction) -> Step:
    wraps = "wrap" in instruction.modifiers

    def operation(a: Array, b: Array) -> Array:
        if wraps:
            a, b = a & 31, b & 31
        return integer.shift_left(integer.low_ones(np.minimum(b, 32), np.dtype(np.uint32)), a)

    return apply(context, instruction, operation, ("u32", "u32"))


_BUILDERS: Rows = {
    "add": _saturating(operator.add, integer.saturated_add),
    "sub": _saturating(operator.sub, integer.saturated_subtract),
    "mul": _multiply,
    "mad": _multiply_add,
    "div": _division(integer.divide),
    "rem": _division(integer.remainder),
    "min": _extremum(np.minimum),
    "max": _extremum(np.maximum),
    "mul24": _multiply24,
    "mad24": _multiply24,
    "dp4a": _dot4,
    "dp2a": _dot2,
    "sad": _same_type(integer.difference_added, 3),
    "cnot": _reading(lambda a: (a == 0).astype(a.dtype), ""),
    "bfind": _find,
    "prmt": _permute,
    "fns": _reading(integer.nth_set, "b32", "u32", "s32"),
    "szext": _sign_extend,
    "bmsk": _bit_mask,
    **{f"{name}c": _carrying(operation, reads=True) for name, operation in _SUMS.items()},
    "neg": _same_type(integer.negate, 1),
    "abs": _same_type(integer.absolute, 1),
    "and": _same_type(operator.and_, 2),
    "or": _same_type(operator.or_, 2),
    "xor": _same_type(operator.xor, 2),
    "not": _same_type(operator.invert, 1),
    "lop3": _logic3,
    "shl": _reading(integer.shift_left, "", "u32"),
    "shr": _reading(integer.shift_right, "", "u32"),
    "shf": _funnel,
    "bfe": _reading(integer.field_extract, "", "u32", "u32"),
    "bfi": _reading(integer.field_insert, "", "", "u32", "u32"),
    "popc": _reading(integer.population, ""),
    "clz": _reading(integer.leading_zeros, ""),
    "brev": _reading(integer.reversed_bits, ""),
}

INTEGER_ROWS: Rows = {name: permitted(name, builder) for name, builder in _BUILDERS.items()}
"""The rows for integer types; for names that are also in the table of floats, the type decides."""
