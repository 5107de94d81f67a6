"""What instructions make of patterns: results that are functions of what is read.

What an instruction computes is a term (:mod:`ptxwcet.ir.semantics`), and a term has a value
(:mod:`ptxwcet.flow.shapes.domain`). Where there is no term, a function of values that all agree on
is still one that all agree on, whatever its types and modifiers; that holds for everything that the
instruction reads, the carry flag and special registers included. Both are tested against execution
on all forms (``tests/oracle/test_shape_rules.py``).
"""

from __future__ import annotations

from collections.abc import Mapping

from ptxwcet.flow.shapes.domain import LaneDomain
from ptxwcet.flow.shapes.pattern import (
    KNOWN,
    Agreement,
    Pattern,
    Value,
    agreement_on,
    alike,
    constant,
    normal,
    trailing_zeros,
)
from ptxwcet.flow.values.accesses import variable_moves
from ptxwcet.flow.values.operands import register_width
from ptxwcet.ir.instruction_set import ROWS
from ptxwcet.ir.kernel import (
    Immediate,
    Instruction,
    Kernel,
    Negated,
    Operand,
    Register,
    SymbolRef,
)
from ptxwcet.ir.operands import SpecialRegister, leaves
from ptxwcet.ir.operation import operation_of
from ptxwcet.ir.semantics import Meaning, meaning_of

FUNCTIONS = frozenset(ROWS) | {
    *("fma", "copysign", "rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh", "testp"),
    *("fns", "cvt.pack", "isspacep"),
}
"""Opcodes whose results are functions of what they read, some only by forms without a term."""


def is_function(instruction: Instruction) -> bool:
    """Returns whether all that an instruction writes is a function of what it reads.

    Cost: constant.
    """
    if instruction.opcode is not None and instruction.opcode.meaning is not None:
        return True
    return operation_of(instruction.form).name in FUNCTIONS


def speaks_of_all(meaning: Meaning, instruction: Instruction) -> bool:
    """Returns whether the term's sources and the guard are all that is read."""
    named = {source.name for source in meaning.sources if isinstance(source, Register)}
    if instruction.guard is not None:
        named.add(instruction.guard.register)
    return named.issuperset(instruction.reads)


class RegisterValues(dict[str, Value]):
    """The values of the registers of a kernel, and what instructions make of them.

    ``specials`` are the values of special registers.
    """

    def __init__(self, kernel: Kernel, specials: Mapping[str, Value], domain: LaneDomain) -> None:
        super().__init__()
        self._kernel = kernel
        self._specials = specials
        self._domain = domain
        self._alignments = {
            variable.name: trailing_zeros(variable.alignment or 1) for variable in kernel.variables
        }

    def operand(self, operand: Operand) -> Value:
        """Returns what is known of a register that has a value, or of another operand."""
        match operand:
            case Register(name):
                return self[name]
            case Negated(inner):
                return alike(agreement_on(self.operand(inner)))
            case Immediate(value):
                return (constant(value),) if isinstance(value, int) else alike(Agreement.BLOCK)
            case SpecialRegister(name):
                return self._specials.get(name)
            case SymbolRef(name, offset):
                align = self._alignments.get(name, 0)
                return (normal(Pattern(offset, align, agreement=Agreement.BLOCK), KNOWN),)
            case _:
                return None

    def results(self, instruction: Instruction) -> tuple[Value, ...]:
        """Returns the values that an instruction writes which is a function of what it reads, in
        the order of ``writes``. Cost: linear in the operands and in the terms.
        """
        meaning = meaning_of(instruction, self._kernel.registers)
        values: tuple[Value, ...] = (None,) * len(instruction.writes)
        if meaning is not None and speaks_of_all(meaning, instruction):
            sources = [self.operand(source) for source in meaning.sources]
            values = tuple(self._domain.value(root, sources) for root in meaning.results)
        if None not in values:
            return values
        # bits that the ISA leaves open (of a quotient by 0) are still a function of what is read
        together = alike(self.agreement_on_read(instruction))
        return tuple(together if value is None else value for value in values)

    def agreement_on_read(self, instruction: Instruction) -> Agreement:
        """Returns who agrees on all that an instruction reads."""
        leaf = (leaf for operand in instruction.operands for leaf in leaves(operand))
        specials = [each for each in leaf if isinstance(each, SpecialRegister)]
        registers = [self[name] for name in instruction.reads]
        return agreement_on(*registers, *map(self.operand, specials))

    def moved(self, instruction: Instruction) -> tuple[Value, ...]:
        """Returns the values that a move through a variable of the thread writes."""
        moves = variable_moves(instruction)
        return tuple(self._moved(name, moves.get(name)) for name in instruction.writes)

    def _moved(self, target: str, origin: Operand | None) -> Value:
        """Returns what is moved: a register's value is kept if no bits are cut or added."""
        if not isinstance(origin, Register):
            return None if origin is None else self.operand(origin)
        kinds = self._kernel.registers
        is_whole = register_width(kinds[origin.name]) == register_width(kinds[target])
        return self[origin.name] if is_whole else alike(agreement_on(self[origin.name]))
