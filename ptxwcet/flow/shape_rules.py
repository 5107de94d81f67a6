"""The shape of a result from those of the operands, by opcode (:mod:`ptxwcet.flow.lane_shapes`).

Where nothing better is known, a function of uniform values is uniform.
"""

from __future__ import annotations

from ptxwcet.flow.facts import WARP_SIZE
from ptxwcet.flow.lane_shapes import (
    MOST_ALIGNED,
    VARYING,
    Agreement,
    Shape,
    all_uniform,
    trailing_zeros,
    uniform,
)
from ptxwcet.ir.kernel import Instruction


def _pure(instruction: Instruction, shapes: list[Shape]) -> Shape:
    return all_uniform(shapes)


def _copied(instruction: Instruction, shapes: list[Shape]) -> Shape:
    (shape,) = shapes
    return shape


def _converted(instruction: Instruction, shapes: list[Shape]) -> Shape:
    """Between integer types: the lanes' part must not carry into bits that are cut or extended."""
    shape = shapes[0]
    integer = all(m[0] in "usb" for m in instruction.modifiers if m[-1].isdigit())
    if len(shapes) == 1 and integer and shape.stride and shape.fits:
        widths = [int(m[1:]) for m in instruction.modifiers if m[-1].isdigit()]
        if min(widths, default=0) >= 16 and "sat" not in instruction.modifiers:
            return Shape(shape.agreement, shape.stride, min(shape.align, min(widths)), None)
    return all_uniform(shapes)


def _sum(instruction: Instruction, shapes: list[Shape]) -> Shape:
    return _combined(shapes[0], shapes[1], 1) if _is_ring(instruction) else all_uniform(shapes)


def _differing(instruction: Instruction, shapes: list[Shape]) -> Shape:
    return _combined(shapes[0], shapes[1], -1) if _is_ring(instruction) else all_uniform(shapes)


def _is_ring(instruction: Instruction) -> bool:
    """Whether the result is the low word of the integers' sum or product."""
    words = instruction.modifiers
    kinds = {word[0] for word in words if word[-1].isdigit()}
    return kinds <= {"u", "s", "b"} and not {"sat", "cc", "hi", "x2"} & set(words)


def _combined(a: Shape, b: Shape, sign: int) -> Shape:
    if not (a.agreement and b.agreement):
        return VARYING
    known = None
    if a.constant is not None and b.constant is not None:
        known = a.constant + sign * b.constant
    stride = a.stride + sign * b.stride
    return Shape(min(a.agreement, b.agreement), stride, min(a.align, b.align), known)


def _product(instruction: Instruction, shapes: list[Shape]) -> Shape:
    if not _is_ring(instruction):
        return all_uniform(shapes)
    a, b = shapes[:2]
    if b.stride or b.constant is None:
        a, b = b, a
    wide = "wide" in instruction.modifiers
    if a.stride == 0 and b.stride == 0:
        agreement = min(a.agreement, b.agreement)
        known = None
        if a.constant is not None and b.constant is not None and not wide:
            known = a.constant * b.constant
        if not agreement:
            return VARYING
        return Shape(agreement, 0, 0 if wide else a.align + b.align, known)
    if b.stride or b.constant is None or not a.agreement:
        return VARYING
    if wide and not (a.fits and 0 <= b.constant < 1 << 15):  # it is extended as a number >= 0
        return VARYING
    return Shape(a.agreement, a.stride * b.constant, a.align + b.align)


def _multiply_add(instruction: Instruction, shapes: list[Shape]) -> Shape:
    if not _is_ring(instruction):
        return all_uniform(shapes)
    return _combined(_product(instruction, shapes[:2]), shapes[2], 1)


def _shifted_left(instruction: Instruction, shapes: list[Shape]) -> Shape:
    value, amount = shapes
    if amount.constant is None or not 0 <= amount.constant < 32 or not value.agreement:
        return all_uniform(shapes)
    known = None if value.constant is None else value.constant << amount.constant
    stride = value.stride << amount.constant
    return Shape(value.agreement, stride, value.align + amount.constant, known)


def _shifted_right(instruction: Instruction, shapes: list[Shape]) -> Shape:
    """The lanes' part is lost if it is below the bits of ``u`` and below those that stay."""
    value, amount = shapes
    if value.stride == 0 or amount.constant is None or not 0 <= amount.constant < 64:
        return all_uniform(shapes)
    lanes = value.stride * (WARP_SIZE - 1)
    if not value.agreement or not value.fits or lanes >= 1 << amount.constant:
        return VARYING
    return Shape(value.agreement, 0, max(0, value.align - amount.constant))


def _masked(instruction: Instruction, shapes: list[Shape]) -> Shape:
    value, mask = shapes
    if value.stride == 0 or mask.constant is None or mask.stride or not value.fits:
        return all_uniform(shapes)
    if mask.constant % (1 << min(value.align, 62)) == 0:
        return uniform(value.agreement, trailing_zeros(mask.constant))
    lanes = (1 << (value.stride * (WARP_SIZE - 1)).bit_length()) - 1
    low = mask.constant & ((1 << min(value.align, 32)) - 1)
    if low & lanes == lanes and mask.constant == low:
        return Shape(Agreement.BLOCK, value.stride, MOST_ALIGNED, 0)
    return VARYING


def _compared(instruction: Instruction, shapes: list[Shape]) -> Shape:
    a, b, *rest = shapes
    if instruction.modifiers[0] in ("eq", "ne") and _is_ring(instruction):
        difference = _combined(a, b, -1)
        return all_uniform([difference, *rest])
    return all_uniform(shapes)


_PURE = (
    *("addc", "subc", "madc", "fma", "mul24", "mad24", "div", "rem", "min", "max", "sad", "abs"),
    *("neg", "copysign", "dp4a", "dp2a", "rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2"),
    *("tanh", "testp", "set", "or", "xor", "not", "cnot", "lop3", "shf", "popc", "clz", "bfind"),
    *("brev", "fns", "bfe", "bfi", "szext", "bmsk", "prmt", "cvt.pack", "isspacep", "selp", "slct"),
)


SHAPE_RULES = {
    **dict.fromkeys(_PURE, _pure),
    "mov": _copied,
    "cvta": _copied,
    "cvt": _converted,
    "add": _sum,
    "sub": _differing,
    "mul": _product,
    "mad": _multiply_add,
    "shl": _shifted_left,
    "shr": _shifted_right,
    "and": _masked,
    "setp": _compared,
}
