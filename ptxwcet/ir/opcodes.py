"""What a row of the table of instructions is, and the words that follow an opcode.

A row's name is the fixed leading words of a mnemonic (``add``, ``cp.async.bulk``, ``bar.sync``);
what follows are modifiers, in any order, as ptxas has it. The rows stand in a file a family
(``arithmetic.py``, ``bits.py``, ``moves.py``, ``memory.py``, ``asynchronous.py``, ``matrix.py``,
``texture.py``, ``control.py``), each with its forms behind it; ``instruction_set.py`` has them all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from ptxwcet.ir.op_classes import ControlEffect, Convergence, OpClass, Space
from ptxwcet.ir.operands import Operand
from ptxwcet.ir.permitted import Form, operand_counts
from ptxwcet.ir.terms import Meaning
from ptxwcet.ir.words import count_types, state_space, type_kind
from ptxwcet.support.records import dataclass

CARRY = "CC.CF"
"""Pseudo register of the carry flag, written by ``.cc`` and read by addc, subc and madc."""


@dataclass(frozen=True, slots=True)
class ByType:
    """Op class by the kind of the first type modifier; ``integer`` counts where none is written."""

    integer: OpClass
    half: OpClass
    single: OpClass
    double: OpClass


@dataclass(frozen=True, slots=True)
class BySpace:
    """Op class by the state space modifier; the generic class counts where none is written."""

    classes: Mapping[Space, OpClass]


ClassRule = OpClass | ByType | BySpace


WholeMeaning = Callable[[tuple[str, ...], tuple[Operand, ...]], Meaning | None]
"""What an instruction with these modifiers and operands computes, None if that is not known."""


@dataclass(frozen=True, slots=True, eq=False)
class Opcode:
    """A row: the name, how to class it, and effects.

    How many operands it has and which are written say its ``forms``. Where none
    judge it, ``operands`` is the least and largest number that ptxas takes, and ``destinations``
    how many leading ones are written. A destination that is an address is none: memory is no
    register. ``accumulates``: the destination is read as well. ``reads_carry``: it reads the carry
    flag. ``special_sources``: a special register may be a source. ``discards``: ``_`` may be the
    whole result. ``accesses``: it accesses memory, as one whose class says where always does.
    ``unjudged``: a word whose forms are taken as written, where there are no
    more types than that. ``meaning``: what it computes, of opcodes that are none of PTX;
    with one, known or not, all that is written is a function of what is read. ``convergence``: what
    it does to the barriers at which lanes meet, of machine code.
    """

    name: str
    rule: ClassRule
    control: ControlEffect = ControlEffect.NONE
    operands: tuple[int, int] | None = None
    destinations: int = 1
    accumulates: bool = False
    reads_carry: bool = False
    special_sources: bool = False
    discards: bool = False
    accesses: bool = False
    unjudged: tuple[str, int] | None = None
    forms: tuple[Form, ...] = ()
    meaning: WholeMeaning | None = None
    convergence: Convergence = Convergence.NONE

    def op_class(self, modifiers: Sequence[str]) -> OpClass:
        """The timing class for these modifiers. Cost: linear in their number."""
        rule = self.rule
        if isinstance(rule, OpClass):
            return rule
        if isinstance(rule, BySpace):
            return rule.classes[state_space(modifiers)]
        floats = {"half": rule.half, "single": rule.single, "double": rule.double}
        return floats.get(type_kind(modifiers), rule.integer)

    def space(self, modifiers: Sequence[str]) -> Space:
        """The state space that it accesses, ``Space.NONE`` for opcodes that access no memory."""
        accesses = self.accesses or isinstance(self.rule, BySpace)
        return state_space(modifiers) if accesses else Space.NONE

    def is_judged(self, modifiers: Sequence[str]) -> bool:
        """Whether its forms say which instructions with these modifiers exist."""
        if self.unjudged is None:
            return bool(self.forms)
        word, most = self.unjudged
        return count_types(modifiers) > most or not any(re.match(word, one) for one in modifiers)

    @property
    def counts(self) -> tuple[tuple[int, int], int]:
        """The least and largest number of operands, and how many leading ones are written."""
        if self.operands is not None:
            return self.operands, self.destinations
        return operand_counts(self.forms)
