"""Defines the content of a row of the table of instructions.

A row's name is the fixed leading words of a mnemonic (``add``, ``cp.async.bulk``, ``bar.sync``);
the words after it are modifiers, in any order, as in ptxas. Each family has a file of rows
(``arithmetic.py``, ``bits.py``, ``moves.py``, ``memory.py``, ``asynchronous.py``, ``matrix.py``,
``texture.py``, ``control.py``), forms follow their opcode; ``instruction_set.py`` has all.
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
"""The pseudo register of the carry flag, written by ``.cc`` and read by addc, subc and madc."""


@dataclass(frozen=True, slots=True)
class ByType:
    """The op class by the kind of the first type modifier; ``integer`` if none is written."""

    integer: OpClass
    half: OpClass
    single: OpClass
    double: OpClass


@dataclass(frozen=True, slots=True)
class BySpace:
    """The op class by the state space modifier; the generic class if none is written."""

    classes: Mapping[Space, OpClass]


ClassRule = OpClass | ByType | BySpace


WholeMeaning = Callable[[tuple[str, ...], tuple[Operand, ...]], Meaning | None]
"""The semantics of an instruction with these modifiers and operands, or None if unknown."""


@dataclass(frozen=True, slots=True, eq=False)
class Opcode:
    """A row: the name, the rule for its op class, and its effects.

    The ``forms`` determine the number of operands and which are written. Without forms,
    ``operands`` is the least and largest number that ptxas takes, and ``destinations`` the number
    of leading ones that are written. An address is not a destination: memory is not a register.
    ``accumulates``: the destination is read as well. ``reads_carry``: it reads the carry flag.
    ``special_sources``: a special register may be a source. ``discards``: ``_`` may be the whole
    result. ``accesses``: it accesses memory; an opcode whose class depends on the space always
    does. ``unjudged``: a word whose forms are taken as written, if there are at most that many
    types. ``meaning``: its semantics, for opcodes outside PTX; with it, all results are functions
    of the operands, even if unknown. ``convergence``: its effect on barriers of a warp's lanes.
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
        """Returns the timing class for these modifiers. Cost: linear in their number."""
        rule = self.rule
        if isinstance(rule, OpClass):
            return rule
        if isinstance(rule, BySpace):
            return rule.classes[state_space(modifiers)]
        floats = {"half": rule.half, "single": rule.single, "double": rule.double}
        return floats.get(type_kind(modifiers), rule.integer)

    def space(self, modifiers: Sequence[str]) -> Space:
        """Returns the state space of its access, ``Space.NONE`` if it accesses no memory."""
        accesses = self.accesses or isinstance(self.rule, BySpace)
        return state_space(modifiers) if accesses else Space.NONE

    def is_judged(self, modifiers: Sequence[str]) -> bool:
        """Returns whether its forms determine which instructions with these modifiers exist."""
        if self.unjudged is None:
            return bool(self.forms)
        word, most = self.unjudged
        return count_types(modifiers) > most or not any(re.match(word, text) for text in modifiers)

    @property
    def counts(self) -> tuple[tuple[int, int], int]:
        """The least and largest number of operands, and how many leading ones are written."""
        if self.operands is not None:
            return self.operands, self.destinations
        return operand_counts(self.forms)
