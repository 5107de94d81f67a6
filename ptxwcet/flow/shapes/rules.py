"""The shapes of what an instruction computes from registers (:mod:`ptxwcet.flow.shapes.shape`).

What an instruction computes is a term (:mod:`ptxwcet.ir.semantics`), and a term has a shape
(:mod:`ptxwcet.flow.shapes.domain`). Where there is no term, a function of values that all agree on
is still one that all agree on, whatever its types and modifiers; that speaks of everything that the
instruction reads, the carry flag and special registers included. Both are tested against execution
on all forms (``tests/oracle/test_shape_rules.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ptxwcet.flow.shapes.domain import ShapeDomain
from ptxwcet.flow.shapes.shape import Shape, all_uniform
from ptxwcet.ir.instruction_set import ROWS
from ptxwcet.ir.kernel import Instruction, Operand, Register
from ptxwcet.ir.operands import SpecialRegister, leaves
from ptxwcet.ir.operation import operation_of
from ptxwcet.ir.semantics import Meaning, meaning_of

FUNCTIONS = frozenset(ROWS) | {
    *("fma", "copysign", "rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh", "testp"),
    *("fns", "cvt.pack", "isspacep"),
}
"""Opcodes whose results are functions of what they read, some only by forms without a term."""

_DOMAIN = ShapeDomain()


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
    if operation_of(instruction.form).name not in FUNCTIONS:
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
