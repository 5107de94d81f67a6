"""What the rows of the table of semantics are made of: from an instruction's operands to terms."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ptxwcet.ir.opcodes import Opcode
from ptxwcet.ir.operation import NumberKind, NumberType, Operation
from ptxwcet.ir.permitted import Form
from ptxwcet.ir.terms import Term, const, source
from ptxwcet.support.records import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """How an operand is read: a literal, or a source of so many bits, of a predicate maybe not."""

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
        """Modifiers that are no types."""
        return self.operation.words

    def __len__(self) -> int:
        return len(self._places)

    @property
    def kind(self) -> NumberType:
        """The last type of the instruction."""
        return self.operation.types[-1]

    @property
    def width(self) -> int:
        """Bits of the last type."""
        return self.kind.width

    def read(self, place: int, width: int) -> Term:
        """The low bits of an operand."""
        one = self._places[place]
        if one.number is not None:
            truth = int(one.number != 0)  # as a predicate, any number but 0 is true
            return const(truth if width == 1 else one.number, width)
        whole = source(place, one.width)
        return (~whole if one.negated else whole).resized(width, signed=False)

    def literal(self, place: int) -> int | None:
        """The number of a literal."""
        return self._places[place].number

    def bits(self, place: int) -> int:
        """Bits of an operand's register; 0 of a literal."""
        return self._places[place].width

    def __getitem__(self, place: int) -> Term:
        return self.read(place, self.width)


Row = Callable[[Sources], "tuple[Term, ...] | None"]
"""The results of an instruction in the order of its writes, each in the width of its type."""


@dataclass(frozen=True, slots=True)
class SemanticsRow:
    """What builds the results, and the modifiers and types that it is for.

    ``floats``: types of floating point are taken as bits. ``packed``: so are two halves of a word.
    """

    build: Row
    words: frozenset[str] = frozenset()
    floats: bool = False
    packed: bool = False

    def takes(self, kind: NumberType) -> bool:
        """Whether the row computes with a type."""
        if kind.kind is NumberKind.FLOAT:
            return self.floats
        return kind.count == 1 or self.packed


Rows = Iterator[Opcode | Form | SemanticsRow]
"""Rows of a family: opcodes, each followed by its forms, and by what it computes if that counts."""


def computed(
    build: Row, words: str = "", *, floats: bool = False, packed: bool = False
) -> SemanticsRow:
    """A row for these modifiers; see :class:`SemanticsRow`."""
    return SemanticsRow(build, frozenset(words.split()), floats, packed)


def single(build: Callable[[Sources], Term]) -> Row:
    """A row with one result."""
    return lambda s: (build(s),)


def least(a: Term, b: Term, *, signed: bool) -> Term:
    """The smaller of two numbers."""
    return b.less_than(a, signed=signed).choose(b, a)


def saturated(a: Term, width: int, *, signed: bool = True) -> Term:
    """A signed number in the range of a narrower type."""
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)
    above = const(high, a.width).less_than(a, signed=True)
    below = a.less_than(low, signed=True)
    inside = below.choose(const(low, width), a.part(0, width))
    return above.choose(const(high, width), inside)
