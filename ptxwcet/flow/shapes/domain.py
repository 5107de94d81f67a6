"""The operators of terms over shapes: how lanes differ in a result, given how its sources do.

A shape says ``u + stride * lane`` modulo ``2**width`` (:mod:`ptxwcet.flow.shapes.shape`). Sums,
products with a number and cuts to the low bits keep that form as it is. Other operators look at
bits, and there two facts help:

* Where ``u`` is a number, the values of all lanes are: the operator is computed in each, and the
  results have a shape or they have none.
* Where the lanes' part stays below the lowest bit that ``u`` may set, it carries into nothing. The
  bits below are numbers in each lane, the bits above are alike in all: an operator on bits, a
  comparison or an extension treats them apart.

The domain knows no instructions. What has no rule is uniform if its arguments are. Every operator
is compared with all families of lanes of small words (``tests/oracle/test_shape_domain.py``).

What an instruction computes is a term (:mod:`ptxwcet.ir.semantics`), and a term has a shape. Where
there is no term, a function of values that all agree on is still one that all agree on, whatever
its types and modifiers; that speaks of everything that the instruction reads, the carry flag and
special registers included. Both are tested against execution on all forms
(``tests/oracle/test_shape_rules.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ptxwcet.flow.launch import WARP_SIZE
from ptxwcet.flow.shapes.shape import (
    VARYING,
    Agreement,
    Shape,
    agreement_of,
    all_uniform,
    combined,
    constant,
    difference,
    join,
    limited,
    reduced,
    scaled,
    trailing_zeros,
    uniform,
)
from ptxwcet.ir.instruction_set import ROWS
from ptxwcet.ir.kernel import Instruction, Operand, Register
from ptxwcet.ir.operands import SpecialRegister, leaves
from ptxwcet.ir.operation import operation_of
from ptxwcet.ir.semantics import Meaning, meaning_of
from ptxwcet.ir.terms import Op, Term, apply, fold, signed

_MOST_KEPT = 1 << 14


class ShapeDomain:
    """Shapes of terms over so many lanes, at least two."""

    def __init__(self, lanes: int = WARP_SIZE) -> None:
        self._lanes = range(lanes)
        self._found: dict[tuple[Term, tuple[Shape, ...]], Shape] = {}

    def shape(self, root: Term, sources: Sequence[Shape]) -> Shape:
        """The shape of a term from those of its sources, by their numbers.

        Cost: linear in the distinct terms, times the lanes; once for the same shapes.
        """
        key = root, tuple(sources)
        shape = self._found.get(key)
        if shape is None:
            if len(self._found) >= _MOST_KEPT:
                self._found.clear()
            shape = self._found[key] = fold(root, partial(self._meaning, sources))
        return shape

    def _meaning(self, sources: Sequence[Shape], one: Term, args: list[Shape]) -> Shape:
        if one.op is Op.SOURCE:
            return reduced(sources[one.value], one.width)
        return self.result(one, args)

    def result(self, one: Term, args: list[Shape]) -> Shape:
        """The shape of a term from those of its arguments, each reduced to the width of its own."""
        if one.op is Op.CONST:
            return reduced(constant(one.value), one.width)
        if args and all(shape.constant is not None for shape in args):
            return self._computed(one, args)
        rule = _RULES.get(one.op)
        return all_uniform(args) if rule is None else rule(self, one, args)

    def _computed(self, one: Term, args: list[Shape]) -> Shape:
        """The shape of a result whose arguments are numbers that are known in each lane."""
        count = 1 if all(shape.stride == 0 for shape in args) else len(self._lanes)
        rows = [self._values(s, a.width)[:count] for s, a in zip(args, one.args, strict=True)]
        results = [
            apply(one.op, one.width, one.args, one.value, row) for row in zip(*rows, strict=True)
        ]
        return self._affine(results, one.width)

    def _values(self, shape: Shape, width: int) -> list[int]:
        """The values of a shape whose ``u`` is known, lane by lane; of another one without u."""
        start = shape.constant or 0
        return [(start + shape.stride * lane) % (1 << width) for lane in self._lanes]

    def _affine(self, values: Sequence[int], width: int) -> Shape:
        """The shape of numbers lane by lane; of one number in all lanes."""
        first = values[0]
        stride = values[1] - first if len(values) > 1 else 0
        if any((first + stride * lane - value) % (1 << width) for lane, value in enumerate(values)):
            return VARYING
        return reduced(Shape(Agreement.BLOCK, stride, 0, first), width)

    # --- the low bits, which are numbers, and the others, which are alike -------------------------

    def _parted(self, args: Sequence[Shape], width: int) -> tuple[int, list[list[int]]] | None:
        """Number of low bits that are known in every lane of every argument, and what they are.

        The bits above are alike in all lanes that agree. None if lanes differ in other bits too.
        The lanes' part does not wrap on the way: each of its steps is below half of ``2**width``.
        """
        bits = min([width, *(shape.align for shape in args if shape.constant is None)])
        rows = [self._values(shape, width) for shape in args]
        if any(value >> bits != row[0] >> bits for row in rows for value in row):
            return None
        return bits, [[value & ((1 << bits) - 1) for value in row] for row in rows]

    def _bitwise(self, one: Term, args: list[Shape]) -> Shape:
        numbers = [shape.number for shape in args]
        if one.op is Op.AND and any(number is not None for number in numbers):
            mask = next(number for number in numbers if number is not None)
            return self._masked(args[0] if numbers[0] is None else args[1], mask, one.width)
        return self._by_bits(one.op, args, one.width)

    def _masked(self, shape: Shape, mask: int, width: int) -> Shape:
        """A value under a mask; the bits above the highest one of the mask do not matter."""
        used = (mask % (1 << width)).bit_length()
        if used == 0:
            return constant(0)
        cut = reduced(shape, used)
        found = self._by_bits(Op.AND, [cut, reduced(constant(mask), used)], used)
        return self._extended(found, used, width, is_signed=False)

    def _by_bits(self, op: Op, args: list[Shape], width: int) -> Shape:
        parted = self._parted(args, width)
        if parted is None:
            return VARYING
        bits, low_parts = parted
        low = self._affine([_BITWISE[op](a, b) for a, b in zip(*low_parts, strict=True)], width)
        zeros = [
            shape.align if shape.constant is None
            else trailing_zeros(self._values(shape, width)[0] >> bits << bits)
            for shape in args
        ]  # fmt: skip
        align = max(zeros) if op is Op.AND else min(zeros)
        high = reduced(uniform(agreement_of(args), align), width)
        return combined(low, high, width)

    def _extended(self, shape: Shape, width: int, target: int, *, is_signed: bool) -> Shape:
        """The shape in more bits; the lanes' part must not carry out of the bits that it had."""
        if shape.constant is not None:
            values = self._values(shape, width)
            wide = [signed(value, width) if is_signed else value for value in values]
            return self._affine(wide, target)
        return VARYING if self._parted([shape], width) is None else shape

    def _cut(self, shape: Shape, low: int, width: int) -> Shape:
        """``width`` bits from bit ``low`` on."""
        if shape.constant is not None:
            return self._affine([v >> low for v in self._values(shape, low + width)], width)
        if shape.align >= low and shape.stride % (1 << low) == 0:
            return reduced(Shape(shape.agreement, shape.stride >> low, shape.align - low), width)
        parted = self._parted([shape], low + width)
        if parted is None:
            return VARYING
        rest = self._affine([value >> low for value in parted[1][0]], width)
        return combined(uniform(shape.agreement, max(0, shape.align - low)), rest, width)

    # --- the operators ----------------------------------------------------------------------------

    def _product(self, one: Term, args: list[Shape]) -> Shape:
        a, b = args if args[1].number is not None or args[0].number is None else args[::-1]
        if b.number is not None:
            return scaled(a, b.number, one.width)
        if not agreement_of(args) or (a.stride and b.stride):
            return VARYING
        strided, other = (a, b) if a.stride else (b, a)
        if strided.stride and trailing_zeros(strided.stride) + other.align < one.width:
            return VARYING  # a multiple of the lane that nobody knows, not of 2**width
        return reduced(uniform(agreement_of(args), a.align + b.align), one.width)

    def _quotient(self, one: Term, args: list[Shape]) -> Shape:
        power = _power(args[1])
        if power is None:
            return all_uniform(args)
        return self._shifted(args[0], power, one.width, is_signed=False)

    def _rest(self, one: Term, args: list[Shape]) -> Shape:
        power = _power(args[1])
        if power is None:
            return all_uniform(args)
        return self._masked(args[0], (1 << power) - 1, one.width)

    def _shifted_left(self, one: Term, args: list[Shape]) -> Shape:
        value, amount = args
        if amount.number is not None:
            return scaled(value, 1 << min(amount.number, one.width), one.width)
        return reduced(uniform(all_uniform(args).agreement, value.align), one.width)

    def _shifted_right(self, one: Term, args: list[Shape]) -> Shape:
        value, amount = args
        if amount.number is None:
            return all_uniform(args)
        return self._shifted(value, amount.number, one.width, is_signed=one.op is Op.ASHR)

    def _shifted(self, value: Shape, amount: int, width: int, *, is_signed: bool) -> Shape:
        """The shape of a right shift by a number: bits are cut off and the rest is extended."""
        if amount >= width and not is_signed:
            return constant(0)
        low = min(amount, width - 1)
        rest = width - low
        return self._extended(self._cut(value, low, rest), rest, width, is_signed=is_signed)

    def _compared(self, comparison: Term, args: list[Shape]) -> Shape:
        """A comparison: bits above decide for all lanes alike or, where equal, those below do."""
        parted = self._parted(args, comparison.args[0].width)
        is_equality = comparison.op is Op.EQ
        if parted is not None:
            pairs = list(zip(*parted[1], strict=True))
            outcomes = {a == b if is_equality else a < b for a, b in pairs}
            if is_equality and outcomes == {False}:
                return constant(0)
            if len(outcomes) == 1:
                return uniform(agreement_of(args))
        if is_equality:
            return all_uniform([difference(args[0], args[1], comparison.args[0].width)])
        return all_uniform(args)

    def _chosen(self, one: Term, args: list[Shape]) -> Shape:
        condition, yes, no = args
        if condition.number is not None:
            return yes if condition.number else no
        if yes == no and yes.constant is not None:
            return yes
        return limited(join(yes, no), condition.uniform)

    def _lengthened(self, one: Term, args: list[Shape]) -> Shape:
        is_signed = one.op is Op.SEXT
        return self._extended(args[0], one.args[0].width, one.width, is_signed=is_signed)


def _power(shape: Shape) -> int | None:
    """``n`` if the value is ``2**n`` in all lanes."""
    number = shape.number
    if number is None or number <= 0 or number & (number - 1):
        return None
    return number.bit_length() - 1


_BITWISE: Mapping[Op, Callable[[int, int], int]] = {
    Op.AND: int.__and__,
    Op.OR: int.__or__,
    Op.XOR: int.__xor__,
}

_RULES: Mapping[Op, Callable[[ShapeDomain, Term, list[Shape]], Shape]] = {
    Op.ANY: lambda domain, one, args: VARYING,
    Op.ADD: lambda domain, one, args: combined(args[0], args[1], one.width),
    Op.SUB: lambda domain, one, args: difference(args[0], args[1], one.width),
    Op.MUL: ShapeDomain._product,
    Op.UDIV: ShapeDomain._quotient,
    Op.UREM: ShapeDomain._rest,
    Op.AND: ShapeDomain._bitwise,
    Op.OR: ShapeDomain._bitwise,
    Op.XOR: ShapeDomain._bitwise,
    Op.NOT: lambda domain, one, args: difference(constant(-1), args[0], one.width),
    Op.SHL: ShapeDomain._shifted_left,
    Op.LSHR: ShapeDomain._shifted_right,
    Op.ASHR: ShapeDomain._shifted_right,
    Op.ULT: ShapeDomain._compared,
    Op.SLT: ShapeDomain._compared,
    Op.EQ: ShapeDomain._compared,
    Op.ITE: ShapeDomain._chosen,
    Op.ZEXT: ShapeDomain._lengthened,
    Op.SEXT: ShapeDomain._lengthened,
    Op.EXTRACT: lambda domain, one, args: domain._cut(args[0], one.value, one.width),
}
"""What these operators keep; the others are uniform if their arguments are, and no more."""


FUNCTIONS = frozenset(ROWS) | {
    *("fma", "copysign", "rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh", "testp"),
    *("fns", "cvt.pack", "isspacep"),
}
"""Opcodes whose results are functions of what they read, some only by forms without a term."""

_DOMAIN = ShapeDomain()


def is_function(instruction: Instruction) -> bool:
    """Whether all that an instruction writes is a function of what it reads. Cost: constant."""
    if instruction.opcode is not None and instruction.opcode.meaning is not None:
        return True
    return operation_of(instruction.form).name in FUNCTIONS


def result_shapes(
    instruction: Instruction,
    registers: Mapping[str, str],
    shape_of: Callable[[Operand], Shape],
) -> tuple[Shape, ...] | None:
    """The shapes of what an instruction writes, in the order of ``writes``; None if it is no
    function of what it reads.

    ``registers`` are the types of the kernel's registers, ``shape_of`` gives the shape of a
    register or a special register. Cost: linear in the operands and in the terms.
    """
    if not is_function(instruction):
        return None
    meaning = meaning_of(instruction, registers)
    if meaning is None or not speaks_of_all(meaning, instruction):
        return (_alike(instruction, shape_of),) * len(instruction.writes)
    sources = [shape_of(one) for one in meaning.sources]
    shapes = [_DOMAIN.shape(root, sources) for root in meaning.results]
    if all(shape.agreement for shape in shapes):
        return tuple(shapes)
    # bits that the ISA leaves open (of a quotient by 0) are still a function of what is read
    alike = _alike(instruction, shape_of)
    return tuple(shape if shape.agreement else alike for shape in shapes)


def _alike(instruction: Instruction, shape_of: Callable[[Operand], Shape]) -> Shape:
    """The shape of a function of all that an instruction reads."""
    read = [shape_of(Register(name)) for name in instruction.reads]
    leaf = (leaf for one in instruction.operands for leaf in leaves(one))
    return all_uniform(
        [*read, *(shape_of(one) for one in leaf if isinstance(one, SpecialRegister))]
    )


def speaks_of_all(meaning: Meaning, instruction: Instruction) -> bool:
    """Whether the term's sources and the guard are all that is read."""
    named = {one.name for one in meaning.sources if isinstance(one, Register)}
    if instruction.guard is not None:
        named.add(instruction.guard.register)
    return named.issuperset(instruction.reads)
