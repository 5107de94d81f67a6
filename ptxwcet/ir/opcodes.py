"""What a row of the table of instructions is, and the words that follow an opcode.

A row's name is the fixed leading words of a mnemonic (``add``, ``cp.async.bulk``, ``bar.sync``);
what follows are modifiers, in any order, as ptxas has it. The rows stand in a file a family
(``arithmetic.py``, ``bits.py``, ``moves.py``, ``memory.py``, ``asynchronous.py``, ``matrix.py``,
``texture.py``, ``control.py``), each with its forms behind it; ``instruction_set.py`` has them all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field

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
    ``least``: the architecture that it needs, and ``needs`` those that it needs
    with some modifiers. ``unjudged``: a word whose forms are taken as written, where there are no
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
    least: int = 0
    needs: Mapping[str, int] = field(default_factory=dict)
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


# --- Which instructions need a newer target: what their opcodes need, and words behind them -------
# Rows say what ptxas 13.0 says ("requires .target sm_N or higher", "not supported on"). What a
# newer architecture has lost again, and what a ``.version`` is too old for, is not judged.


SPECIFIC = 1000
"""Added to the number of an architecture whose ``a`` or ``f`` variant is needed."""


@dataclass(frozen=True, slots=True)
class Target:
    """The number of a target and its letter: ``sm_90a`` is 90 and ``a``."""

    number: int
    letter: str = ""

    @staticmethod
    def read(name: str) -> Target:
        """The target that a file names, such as ``sm_90a`` or ``compute_75``."""
        found = re.match(r"\w+_(\d+)([af]?)\Z", name)
        return NEWEST if found is None else Target(int(found[1]), found[2])

    @property
    def order(self) -> tuple[int, str]:
        """Sorts targets by what they need of a GPU."""
        return self.number, self.letter

    def has(self, least: int) -> bool:
        """Whether it has what needs an architecture, ``SPECIFIC`` added for its variants."""
        return self.number >= least % SPECIFIC and (least < SPECIFIC or self.letter != "")


NEWEST = Target(SPECIFIC - 1, "a")

_WORDS = {
    **dict.fromkeys(("bf16", "bf16x2", "tf32", "L2::cache_hint", "NaN", "relu", "sp"), 80),
    **dict.fromkeys(("m16n8k16", "m16n8k256", "sp::ordered_metadata"), 80),
    **dict.fromkeys(("e4m3x2", "e5m2x2"), 89),
    **dict.fromkeys(("cluster", "shared::cluster"), 90),
    **dict.fromkeys(("f32x2", "v8", "cp_mask"), 100),
    **dict.fromkeys(("e2m1x2", "e2m3x2", "e3m2x2", "ue8m0x2", "rs"), SPECIFIC + 100),
    "block_scale": SPECIFIC + 100,
}


def needed(opcode: Opcode, modifiers: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The architectures that an instruction needs, each with the word for it. Cost: linear."""
    if opcode.least:
        yield opcode.least, opcode.name
    for word in modifiers:
        yield from ((_WORDS[word], f".{word}"),) if word in _WORDS else ()
        if word in opcode.needs:
            yield opcode.needs[word], f"{opcode.name} with .{word}"
