"""Defines the elements of semantics rows, which map an instruction's operands to terms."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ptxwcet.ir.opcodes import Opcode
from ptxwcet.ir.operation import NumberKind, NumberType, Operation
from ptxwcet.ir.permitted import Form
from ptxwcet.ir.terms import Term, const, source
from ptxwcet.support.records import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """The reading of an operand: a literal, or ``width`` bits; a predicate may be negated."""

    number: int | None
    width: int
    negated: bool = False


class Sources:
    """The operands of an instruction as its row reads them."""

    def __init__(self, operation: Operation, places: tuple[Place, ...], targets: int) -> None:
        self.operation = operation
        self.targets = targets
        self._places = places

    @property
    def words(self) -> tuple[str, ...]:
        """The modifiers that are not types."""
        return self.operation.words

    def __len__(self) -> int:
        return len(self._places)

    @property
    def kind(self) -> NumberType:
        """The last type of the instruction."""
        return self.operation.types[-1]

    @property
    def width(self) -> int:
        """The width of the last type in bits."""
        return self.kind.width

    def read(self, place: int, width: int) -> Term:
        """Returns the low bits of an operand."""
        operand = self._places[place]
        if operand.number is not None:
            truth = int(operand.number != 0)  # as a predicate, any number except 0 is true
            return const(truth if width == 1 else operand.number, width)
        whole = source(place, operand.width)
        return (~whole if operand.negated else whole).resized(width, signed=False)

    def literal(self, place: int) -> int | None:
        """Returns the number of a literal operand."""
        return self._places[place].number

    def bits(self, place: int) -> int:
        """Returns the bits of an operand's register; 0 for a literal."""
        return self._places[place].width

    def __getitem__(self, place: int) -> Term:
        return self.read(place, self.width)


Row = Callable[[Sources], "tuple[Term, ...] | None"]
"""A builder of the results in the order of the writes, each in the width of its type."""


@dataclass(frozen=True, slots=True)
class SemanticsRow:
    """The builder of the results, and the modifiers and types that it supports.

    ``floats``: floating-point types are taken as bits. ``packed``: so are two halves of a word.
    """

    build: Row
    words: frozenset[str] = frozenset()
    floats: bool = False
    packed: bool = False

    def takes(self, kind: NumberType) -> bool:
        """Returns whether the row computes with a type."""
        if kind.kind is NumberKind.FLOAT:
            return self.floats
        return kind.count == 1 or self.packed


Rows = Iterator[Opcode | Form | SemanticsRow]
"""The rows of a family: opcodes, each followed by its forms, and by its semantics if needed."""


def computed(
    build: Row, words: str = "", *, floats: bool = False, packed: bool = False
) -> SemanticsRow:
    """Returns a row for these modifiers; see :class:`SemanticsRow`."""
    return SemanticsRow(build, frozenset(words.split()), floats, packed)


def single(build: Callable[[Sources], Term]) -> Row:
    """Returns a row with one result."""
    return lambda s: (build(s),)


def least(a: Term, b: Term, *, signed: bool) -> Term:
    """Returns the smaller of two numbers."""
    return b.less_than(a, signed=signed).choose(b, a)


def saturated(a: Term, width: int, *, signed: bool = True) -> Term:
    """Clamps a signed number to the range of a narrower type."""
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)
    above = const(high, a.width).less_than(a, signed=True)
    below = a.less_than(low, signed=True)
    inside = below.choose(const(low, width), a.part(0, width))
    return above.choose(const(high, width), inside)
