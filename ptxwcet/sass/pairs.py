"""Recognises numbers of 64 bits whose low and high words are made by two instructions.

``IADD3 R2, P0, R4, R6, RZ`` and ``IADD3.X R3, R5, R7, RZ, P0, !PT`` are one sum, whose low word
carries into the high one. Each half on its own determines little of the whole. :func:`wholes`
recognises such pairs in a basic block and gives the whole as a term over the values before both.

Supported are sums with a carry (IADD3, LEA, IMAD.X), moves of both halves, shifts to the left and
sign-extended numbers. All others have no whole, and are represented by their halves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from ptxwcet.ir.kernel import Instruction
from ptxwcet.ir.operands import (
    Address,
    Decorated,
    Element,
    Immediate,
    Operand,
    Register,
    SymbolRef,
    Vector,
)
from ptxwcet.ir.terms import Meaning, Term, const
from ptxwcet.sass.meanings import Given, UnknownTermError

WORD = 4


Pair = tuple[str, str]
"""The registers with the low and the high word of a number."""


class Whole(NamedTuple):
    """A number of 64 bits: ``low`` and ``high`` are the indices of the instructions that write the
    words of ``pair``; ``meaning`` has the number, over the values of its sources before the first
    of both. Sources of 64 bits are vectors of their halves.
    """

    pair: Pair
    low: int
    high: int
    meaning: Meaning


def wholes(
    instructions: Sequence[Instruction], start: int, end: int, wanted: Collection[Pair]
) -> Iterator[Whole]:
    """Yields the numbers of wanted pairs that a basic block makes by two instructions.

    Cost: linear for each pair, but for the instructions between two halves.
    """
    for pair in wanted:
        before = -1  # the last writer of a single half
        for index in range(start, end):
            written = set(pair).intersection(instructions[index].writes)
            if not written:
                continue
            other = set(pair).intersection(instructions[before].writes) if before >= 0 else set()
            if len(written) == 1 and other == set(pair) - written:
                low, high = (index, before) if pair[0] in written else (before, index)
                meaning = _whole(instructions, low, high)
                if meaning is not None:
                    yield Whole(pair, low, high, meaning)
            before = index if len(written) == 1 else -1


def _whole(instructions: Sequence[Instruction], low: int, high: int) -> Meaning | None:
    lower, other = instructions[low], instructions[high]
    if lower.guard is not None or other.guard is not None:
        return None
    first, second = min(low, high), max(low, high)
    changed = {name for at in range(first, second) for name in instructions[at].writes}
    carries = {name for name in lower.writes if _is_carry(name)} if low < high else set[str]()
    if any(carries.intersection(instructions[at].writes) for at in range(low + 1, high)):
        return None
    if not changed.intersection(instructions[second].reads) <= carries:
        return None
    sources = list[Operand]()
    try:
        result = _made(_Half(lower, sources), _Half(other, sources), carries)
    except UnknownTermError:
        return None
    return Meaning((result,), tuple(sources))


def moved_register(instruction: Instruction) -> str | None:
    """Returns the register that an instruction copies to another one, None if it does not."""
    try:
        moved = _Half(instruction, []).moved
    except UnknownTermError:
        return None
    return moved.name if isinstance(moved, Register) and instruction.guard is None else None


def _is_carry(name: str) -> bool:
    return name.lstrip("U").startswith("P")


_SOURCES = {"IADD3": 3, "IMAD": 3, "MOV": 1, "SHF": 3, "LEA": 3}


class _Half(Given):
    """An instruction of a pair, which shares its sources with the other one."""

    def __init__(self, instruction: Instruction, sources: list[Operand]) -> None:
        name, *words = instruction.mnemonic.split(".")
        self.name = name[1:] if name.startswith("U") else name
        count = _SOURCES.get(self.name, -1)
        if count < 0:
            raise UnknownTermError
        count += self.name == "LEA" and "HI" in words and "SX32" not in words
        super().__init__(words, instruction.operands, count)
        self.sources = sources
        names = [p.name for p in self.predicates if isinstance(p, Register)]
        added = [p for p in self.predicates if not isinstance(p, Register)]
        self.require(all(isinstance(p, Immediate) and p.value == 0 for p in added))
        self.require(len(set(names)) == len(names))
        self.carried = frozenset(names)

    @property
    def is_carrying(self) -> bool:
        return self.name in ("IADD3", "IMAD", "LEA") and "X" in self.words

    @property
    def moved(self) -> Operand | None:
        """The operand that it moves."""
        if self.name == "MOV":
            return self.values[0]
        is_move = self.name == "IMAD" and self.words <= {"MOV", "U32"}
        return self.values[2] if is_move and self.literal(0) == self.literal(1) == 0 else None

    @property
    def signed(self) -> Operand | None:
        """The number of whose sign it makes copies."""
        is_sign = self.name == "SHF" and self.words == {"R", "S32", "HI"}
        return self.values[2] if is_sign and self.literal(1) == 31 else None

    def wide(self, low: Operand, high: Operand) -> Term:
        """Returns the number of 64 bits with these words."""
        match low, high:
            case Immediate(int()), Immediate(int()):
                return const(self.read(high).value << 32 | self.read(low).value, 64)
            case _, Immediate(0):
                return self.read(low).extended(64, signed=False)
        if are_halves(low, high) or (isinstance(low, Register) and isinstance(high, Register)):
            return self.source(Vector((low, high)), 64)
        return self.read(high).above(self.read(low))


def halves_of(name: str) -> Pair | None:
    """Returns the registers of the aligned pair that contains one, None without such a pair."""
    bank = name.rstrip("0123456789")
    if bank not in ("R", "UR") or bank == name:
        return None
    low = int(name[len(bank) :]) & ~1
    return f"{bank}{low}", f"{bank}{low + 1}"


def are_halves(low: Operand, high: Operand) -> bool:
    """Returns whether both are one number of 64 bits: adjacent registers, or words of a bank."""
    match low, high:
        case Register(one), Register(other):
            return halves_of(one) == (one, other)
        case Element(SymbolRef(bank), one_place), Element(SymbolRef(second), other_place):
            place, behind = place_of(one_place), place_of(other_place)
            return bank == second and place is not None and behind == place + WORD
    return False


def place_of(address: Address) -> int | None:
    """Returns a place in a constant bank that is a literal."""
    match address:
        case Address(Immediate(int(base)), offset):
            return base + offset
    return None


def _made(low: _Half, high: _Half, carries: set[str]) -> Term:
    """Returns the whole. Raises UnknownTermError if it is unknown."""
    if carries and high.is_carrying:
        if not high.carried <= carries or not high.carried:
            raise UnknownTermError
        return _sum(low, high)
    if low.carried or high.carried:
        raise UnknownTermError
    moved = low.moved
    if moved is not None and high.moved is not None:
        low.require(_are_literals(moved, high.moved) or _are_words(moved, high.moved))
        return low.wide(moved, high.moved)
    if moved is not None and high.signed == moved:
        return low.read(moved).extended(64, signed=True)
    return _shifted(low, high)


def _are_words(low: Operand, high: Operand) -> bool:
    """Returns whether both may be the words of one number: any registers, or words of a bank."""
    is_both = isinstance(low, Register) and isinstance(high, Register)
    return is_both or are_halves(low, high)


def _are_literals(*operands: Operand) -> bool:
    return all(isinstance(o, Immediate) and isinstance(o.value, int) for o in operands)


def _shifted(low: _Half, high: _Half) -> Term:
    """Returns both words shifted to the left by the same number of bits."""
    high.require(high.name == "SHF" and low.name in ("SHF", "IMAD"))
    amount = high.literal(1)
    high.require(high.words == {"L", "U64", "HI"} and amount is not None)
    assert amount is not None
    if low.name == "SHF":
        low.require(low.words == {"L", "U32"} and low.literal(1) == amount)
    else:
        low.require(low.name == "IMAD" and low.words == {"SHL", "U32"} and low.literal(2) == 0)
        low.require(low.literal(1) == 1 << amount)
    low.require(low.values[0] == high.values[0] and 0 < amount < 32)
    return low.wide(high.values[0], high.values[2]).shifted_left(amount)


def _sum(low: _Half, high: _Half) -> Term:
    """Returns a sum that carries from its low word into the high one."""
    if low.name == "LEA":
        return _scaled_sum(low, high)
    low.require(low.name == "IADD3" and "X" not in low.words and not low.predicates)
    if high.name == "LEA":
        return _sum_with_sign(low, high)
    summands = list(low.values)
    low.require(sum(not _is_zero(first) for first in summands) <= 1 + len(high.carried))
    if high.name == "IMAD":
        high.require("X" in high.words and 0 in (high.literal(0), high.literal(1)))
        high.require(not high.words & {"WIDE", "HI"})
        others = [high.values[2]]
    else:
        high.require(high.name == "IADD3")
        others = list(high.values)
    total = const(0, 64)
    for first, two in _paired(summands, others):
        added = _summand(low, first, two)
        total = added if total is const(0, 64) else total + added
    return total


def _paired(
    summands: list[Operand], others: list[Operand]
) -> Iterator[tuple[Operand | None, Operand | None]]:
    """Yields the words of each summand: first the matching ones, then registers in their order."""
    rules = (_fits, _may_fit)
    low = [w for w in summands if not _is_zero(w)]
    high = [word for word in others if not _is_zero(word)]
    for rule in rules:
        for word in list(low):
            partner = next((two for two in high if rule(word, two)), None)
            if partner is not None:
                low.remove(word)
                high.remove(partner)
                yield word, partner
    yield from ((word, None) for word in low)
    yield from ((None, two) for two in high)


def _may_fit(low: Operand, high: Operand) -> bool:
    return isinstance(low, Register) and isinstance(high, Register)


def _is_zero(operand: Operand) -> bool:
    return isinstance(operand, Immediate) and operand.value == 0


def _fits(low: Operand, high: Operand) -> bool:
    """Returns whether both are the words of one summand."""
    match low, high:
        case Decorated(one, "-", ""), Decorated(other, "~", ""):
            return are_halves(one, other) or _is_zero(other)
        case Decorated(), _:
            return False
        case _, Decorated():
            return False
    return are_halves(low, high) or _are_literals(low, high)


def _summand(half: _Half, low: Operand | None, high: Operand | None) -> Term:
    match low, high:
        case Decorated(one, "-", ""), Decorated(other, "~", ""):
            return -half.wide(one, other)
        case (Decorated(), _) | (_, Decorated()) | (None, None):
            raise UnknownTermError
        case None, two:
            assert two is not None
            return half.read(two).extended(64, signed=False).shifted_left(32)
        case one, None:
            assert one is not None
            return half.read(one).extended(64, signed=False)
        case one, two:
            assert one is not None
            assert two is not None
            return half.wide(one, two)


def _sum_with_sign(low: _Half, high: _Half) -> Term:
    """Returns a sum with LEA.HI.X.SX32 by 1: it adds the sign of the number that IADD3 added."""
    high.require({"HI", "X", "SX32"} <= high.words and high.literal(2) == 1)
    high.require(high.is_plain(0, 1) and low.is_plain(0, 1))
    number, *_ = high.values
    low.require(_is_zero(low.values[2]) and number in low.values[:2])
    other = low.values[1] if low.values[0] == number else low.values[0]
    return low.read(number).extended(64, signed=True) + low.wide(other, high.values[1])


def _scaled_sum(low: _Half, high: _Half) -> Term:
    """Returns the sum of LEA and LEA.HI.X: a number shifted left, and another one added."""
    amount = low.literal(len(low.values) - 1)
    low.require(not low.words and high.name == "LEA" and {"HI", "X"} <= high.words)
    low.require(amount is not None and high.literal(len(high.values) - 1) == amount)
    low.require(low.values[0] == high.values[0] and low.is_plain(0, 1) and high.is_plain(0, 1))
    assert amount is not None
    if "SX32" in high.words:
        number = low.read(low.values[0]).extended(64, signed=True)
    else:
        high.require(high.is_plain(2))
        number = low.wide(low.values[0], high.values[2])
    return number.shifted_left(amount) + low.wide(low.values[1], high.values[1])
