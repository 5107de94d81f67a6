"""Defines the operands of instructions: registers, literals, symbols, addresses and groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ptxwcet.support.records import dataclass


@dataclass(frozen=True, slots=True)
class Register:
    """A virtual register. ``name`` is unique within its kernel: inner scopes get a ``@n`` suffix.

    A member of a vector register is a register of its own, named ``v.x`` (``r g b a`` are spelled
    ``x y z w``).
    """

    name: str


_WIDE_SPECIALS = frozenset({"%globaltimer", "%gridid", "%current_graph_exec"})


@dataclass(frozen=True, slots=True)
class SpecialRegister:
    """A predefined register such as ``%tid.x`` or ``%clock64``; ``name`` includes the ``%``."""

    name: str

    @property
    def bits(self) -> int:
        """The width in bits: 32, except for a few registers (PTX ISA, chapter 10)."""
        if self.name in _WIDE_SPECIALS or self.name.endswith("64"):
            return 64
        return 1 if self.name == "%is_explicit_cluster" else 32


@dataclass(frozen=True, slots=True)
class Immediate:
    """A literal. Integers are exact; floats carry their value; ``text`` is the spelling."""

    value: int | float
    text: str


@dataclass(frozen=True, slots=True)
class SymbolRef:
    """The name of a variable, parameter, function or label, plus a byte offset (``sym+8``)."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    """A memory operand ``[base + offset]``; base: register, symbol or absolute immediate."""

    base: Register | SpecialRegister | SymbolRef | Immediate
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Element:
    """A memory operand ``array[base + offset]``: a variable and an index in brackets."""

    array: SymbolRef
    index: Address


@dataclass(frozen=True, slots=True)
class Vector:
    """A vector operand ``{a, b, ...}``."""

    elements: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class WholeVector:
    """A vector register (``.reg .v4``) used as a whole; ``members`` are registers of their own."""

    name: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Bracket:
    """A texture, surface or tensor-map operand with its coordinates, ``[a, {x, y}]``."""

    elements: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Arguments:
    """The results or the arguments of a call, ``(a, b)``."""

    elements: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two destinations in one operand, ``a|b``."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Negated:
    """A predicate operand used negated, ``!p``."""

    operand: Operand


@dataclass(frozen=True, slots=True)
class Minus:
    """An operand of a video instruction with its sign changed, ``-a``."""

    operand: Operand


@dataclass(frozen=True, slots=True)
class Selected:
    """Bytes or a half of a register in a video instruction, ``a.b0``; ``selector`` has no dot."""

    operand: Register
    selector: str


@dataclass(frozen=True, slots=True)
class Decorated:
    """A source of machine code with its prefix and suffix, ``-|R4|.H0_H0``."""

    operand: Operand
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class Sink:
    """A discarded result, ``_``."""


Operand = (
    Register
    | SpecialRegister
    | Immediate
    | SymbolRef
    | Address
    | Element
    | Vector
    | WholeVector
    | Bracket
    | Arguments
    | Pair
    | Negated
    | Minus
    | Selected
    | Decorated
    | Sink
)


def leaves(operand: Operand) -> Iterator[Operand]:
    """Yields the registers, special registers, literals and symbols of an operand. Cost: linear."""
    match operand:
        case Address(base):
            yield from leaves(base)
        case Element(array, index):
            yield array
            yield from leaves(index)
        case Vector(elements) | Bracket(elements) | Arguments(elements):
            for element in elements:
                yield from leaves(element)
        case WholeVector(_, members):
            yield from (Register(name) for name in members)
        case Pair(first, second):
            yield from leaves(first)
            yield from leaves(second)
        case Negated(inner) | Minus(inner) | Selected(inner) | Decorated(inner):
            yield from leaves(inner)
        case Sink():
            return
        case _:
            yield operand


def mapped(operand: Operand, change: Callable[[Operand], Operand]) -> Operand:
    """Returns the operand with all leaves (:func:`leaves`) replaced, in their order."""
    match operand:
        case Address(base, offset):
            changed = change(base)
            assert isinstance(changed, Register | SpecialRegister | SymbolRef | Immediate)
            return Address(changed, offset)
        case Vector(elements) | Bracket(elements) | Arguments(elements):
            return type(operand)(tuple([mapped(element, change) for element in elements]))
        case Pair(first, second):
            return Pair(mapped(first, change), mapped(second, change))
        case Negated(inner) | Minus(inner):
            return type(operand)(mapped(inner, change))
        case Decorated(inner, before, after):
            return Decorated(mapped(inner, change), before, after)
        case Element(array, index):
            changed, place = change(array), mapped(index, change)
            assert isinstance(changed, SymbolRef)
            assert isinstance(place, Address)
            return Element(changed, place)
        case Sink():
            return operand
    return change(operand)
