"""Modules, kernels and instructions: what the parser lowers PTX to.

Everything here is immutable. An :class:`Instruction` shares its :class:`InstructionForm` (opcode,
modifiers, operand kinds, roles) with all instructions of the same shape; only the texts that fill the
operand slots and the position are its own. That keeps an instruction small and its creation cheap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from ptxwcet.ir.op_classes import ControlEffect, OpClass
from ptxwcet.support.source import SourceFile, Span


class Space(Enum):
    """PTX state space of a memory access or variable."""

    GENERIC = "generic"
    GLOBAL = "global"
    SHARED = "shared"
    LOCAL = "local"
    PARAM = "param"
    CONST = "const"
    NONE = "none"


# --- operands -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Register:
    """A virtual register. ``name`` is unique within its kernel: inner scopes get a ``@n`` suffix."""

    name: str


@dataclass(frozen=True, slots=True)
class SpecialRegister:
    """A predefined register such as ``%tid.x`` or ``%clock64``; ``name`` includes the ``%``."""

    name: str


@dataclass(frozen=True, slots=True)
class Immediate:
    """A literal. Integers are exact; floats carry their value; ``text`` is the spelling."""

    value: int | float
    text: str


@dataclass(frozen=True, slots=True)
class SymbolRef:
    """The name of a variable, parameter, function or label used as an operand."""

    name: str


@dataclass(frozen=True, slots=True)
class Address:
    """``[base + offset]``: base is a register, a symbol or an absolute immediate."""

    base: Register | SpecialRegister | SymbolRef | Immediate
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Vector:
    """``{a, b, ...}``; also the brace and bracket groups of texture and tensor operands."""

    elements: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """``a|b``: two destinations in one operand."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Negated:
    """``!p``: a predicate operand used negated."""

    operand: Operand


@dataclass(frozen=True, slots=True)
class Sink:
    """``_``: a result that is thrown away."""


Operand = (
    Register | SpecialRegister | Immediate | SymbolRef | Address | Vector | Pair | Negated | Sink
)


@dataclass(frozen=True, slots=True)
class Guard:
    """``@p`` or ``@!p``. ``register`` is the unique name of the predicate register."""

    register: str
    negated: bool


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """Where an instruction came from in the high-level source (``.loc``), and what inlined it."""

    file: str
    line: int
    column: int
    inlined_at: SourceLocation | None = None
