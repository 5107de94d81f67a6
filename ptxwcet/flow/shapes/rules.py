"""The shape of a result from those of the operands, by opcode (:mod:`ptxwcet.flow.shapes.shape`).

A function of values that all agree on is one that all agree on: that holds for every opcode below,
whatever its types and modifiers, and it speaks of everything that the instruction reads, the carry
flag and special registers included. A row with a rule says more, for the words that it names, for
single integers and for registers as wide as the types. Every row is tested against execution on all
its forms (tests/oracle/test_shape_rules.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ptxwcet.flow.launch import WARP_SIZE
from ptxwcet.flow.shapes.shape import (
    MOST_ALIGNED,
    VARYING,
    Agreement,
    Shape,
    all_uniform,
    trailing_zeros,
    uniform,
)
from ptxwcet.flow.values.operands import computes_integers
from ptxwcet.ir.kernel import Instruction, Operand, Register
from ptxwcet.ir.operands import SpecialRegister, leaves
from ptxwcet.ir.operation import Operation, operation_of

Rule = Callable[[Operation, list[Shape]], Shape | None]
"""From the shapes of all source operands to that of the result; None if the rule says nothing."""


@dataclass(frozen=True, slots=True)
class ShapeRow:
    """A rule, and the combinations of modifiers (types left out) that it is for."""

    rule: Rule
    words: frozenset[tuple[str, ...]]


def result_shapes(
    instruction: Instruction,
    registers: Mapping[str, str],
    shape_of: Callable[[Operand], Shape],
) -> tuple[Shape, ...] | None:
    """The shapes of what an instruction writes, in the order of ``writes``; None if it is no
    function of what it reads.

    ``registers`` are the types of the kernel's registers, ``shape_of`` gives the shape of a
    register, a special register, a literal or a symbol. Cost: linear in the operands.
    """
    operation = operation_of(instruction.form)
    if operation.name not in SHAPE_RULES:
        return None
    operands = instruction.operands
    read = [shape_of(Register(name)) for name in instruction.reads]
    read += [shape_of(o) for one in operands for o in leaves(one) if isinstance(o, SpecialRegister)]
    alike = all_uniform(read)
    row = SHAPE_RULES[operation.name]
    found = None
    is_named = row is not None and operation.words in row.words
    if row is not None and is_named and computes_integers(instruction, operation, registers):
        found = row.rule(operation, [shape_of(operand) for operand in operands[1:]])
    first = alike if found is None else found
    # both results of a comparison are its outcome; another second result is the carry flag
    others = first if operation.name == "setp" else alike
    return (first, *[others] * (len(instruction.writes) - 1))


def _copied(operation: Operation, shapes: list[Shape]) -> Shape | None:
    return None if operation.integer is None else shapes[0]  # the number of a predicate is a truth


def _converted(operation: Operation, shapes: list[Shape]) -> Shape | None:
    """Between integer types: the lanes' part must not carry into bits that are cut or extended."""
    (shape,) = shapes
    bits = min(kind.bits for kind in operation.types)
    if shape.stride == 0 or not shape.fits or bits < 16:
        return None
    return Shape(shape.agreement, shape.stride, min(shape.align, bits), None)


def _sum(operation: Operation, shapes: list[Shape]) -> Shape | None:
    return _combined(shapes[0], shapes[1], 1)


def _difference(operation: Operation, shapes: list[Shape]) -> Shape | None:
    return _combined(shapes[0], shapes[1], -1)


def _combined(a: Shape, b: Shape, sign: int) -> Shape:
    if not (a.agreement and b.agreement):
        return VARYING
    known = None
    if a.constant is not None and b.constant is not None:
        known = a.constant + sign * b.constant
    stride = a.stride + sign * b.stride
    return Shape(min(a.agreement, b.agreement), stride, min(a.align, b.align), known)


def _product(operation: Operation, shapes: list[Shape]) -> Shape | None:
    a, b = shapes[:2]
    if a.number is not None and b.number is None:
        a, b = b, a
    wide = "wide" in operation.words
    agreement = min(a.agreement, b.agreement)
    if not agreement:
        return VARYING
    if a.stride == 0 and b.stride == 0:
        known = None
        if a.number is not None and b.number is not None and not wide:
            known = a.number * b.number
        return Shape(agreement, 0, 0 if wide else a.align + b.align, known)
    if b.number is None:
        return VARYING
    if wide and not (a.fits and 0 <= b.number < 1 << 15):  # it is extended as a number >= 0
        return VARYING
    return Shape(a.agreement, a.stride * b.number, a.align + b.align)


def _multiply_add(operation: Operation, shapes: list[Shape]) -> Shape | None:
    product = _product(operation, shapes[:2])
    return None if product is None else _combined(product, shapes[2], 1)


def _shifted_left(operation: Operation, shapes: list[Shape]) -> Shape | None:
    value, amount = shapes
    if amount.number is None or not 0 <= amount.number < 64 or not value.agreement:
        return None
    known = None if value.constant is None else value.constant << amount.number
    stride = value.stride << amount.number
    return Shape(value.agreement, stride, value.align + amount.number, known)


def _shifted_right(operation: Operation, shapes: list[Shape]) -> Shape | None:
    """The lanes' part is lost if it is below the bits of ``u`` and below those that stay."""
    value, amount = shapes
    if value.stride == 0 or amount.number is None or not 0 <= amount.number < 64:
        return None
    lanes = value.stride * (WARP_SIZE - 1)
    if not value.agreement or not value.fits or lanes >= 1 << amount.number:
        return VARYING
    return uniform(value.agreement, max(0, value.align - amount.number))


def _masked(operation: Operation, shapes: list[Shape]) -> Shape | None:
    value, mask = shapes
    if value.number is not None:
        value, mask = mask, value
    if value.stride == 0 or mask.number is None or not value.fits:
        return None
    if mask.number % (1 << min(value.align, 62)) == 0:
        return uniform(value.agreement, trailing_zeros(mask.number))
    lanes = (1 << (value.stride * (WARP_SIZE - 1)).bit_length()) - 1
    low = mask.number & ((1 << min(value.align, 32)) - 1)
    if low & lanes == lanes and mask.number == low:
        return Shape(Agreement.BLOCK, value.stride, MOST_ALIGNED, 0)
    return VARYING


def _equality(operation: Operation, shapes: list[Shape]) -> Shape | None:
    a, b, *rest = shapes
    return all_uniform([_combined(a, b, -1), *rest])


def _words(*choices: str) -> frozenset[tuple[str, ...]]:
    return frozenset(tuple(choice.split()) for choice in choices)


_PLAIN = _words("")
_HALVES = _words("lo", "wide")
_EQUALITIES = _words("eq", "ne", "eq and", "eq or", "eq xor", "ne and", "ne or", "ne xor")


_ALIKE = (
    *("addc", "subc", "madc", "fma", "mul24", "mad24", "div", "rem", "min", "max", "sad", "abs"),
    *("neg", "copysign", "dp4a", "dp2a", "rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2"),
    *("tanh", "testp", "set", "or", "xor", "not", "cnot", "lop3", "shf", "popc", "clz", "bfind"),
    *("brev", "fns", "bfe", "bfi", "szext", "bmsk", "prmt", "cvt.pack", "isspacep", "selp", "slct"),
)


SHAPE_RULES: Mapping[str, ShapeRow | None] = {
    **dict.fromkeys(_ALIKE),
    "mov": ShapeRow(_copied, _PLAIN),
    "cvta": ShapeRow(_copied, _words("global", "to global")),
    "cvt": ShapeRow(_converted, _PLAIN),
    "add": ShapeRow(_sum, _words("", "cc")),
    "sub": ShapeRow(_difference, _words("", "cc")),
    "mul": ShapeRow(_product, _HALVES),
    "mad": ShapeRow(_multiply_add, _words("lo", "wide", "lo cc")),
    "shl": ShapeRow(_shifted_left, _PLAIN),
    "shr": ShapeRow(_shifted_right, _PLAIN),
    "and": ShapeRow(_masked, _PLAIN),
    "setp": ShapeRow(_equality, _EQUALITIES),
}
"""Opcodes whose results are functions of what they read, some with a rule for integers."""
