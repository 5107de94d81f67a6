"""Gives the semantics of machine code: the terms of its integer opcodes, as for PTX's rows.

A builder makes a term for each target of an instruction from its operands. A modifier, an operand
or a number of registers that a builder does not handle has no term: then the result is only known
to depend on the operands. The words of constant bank 0 that hold the launch are the special
registers of PTX; the words of parameters are sources of their own (``c[0x0][0x160]``).

Registers of the uniform datapath belong to a whole warp: a term states the written value; the
consumer must consider that lanes which do not execute the instruction see it, too.

Each builder is compared with execution of the PTX from which its instructions were compiled
(``tests/oracle/test_machine_code_execution.py``).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from functools import partial, reduce

from ptxwcet.ir.bits import (
    first_found,
    length_extended,
    looked_up,
    mask_of,
    permuted,
)
from ptxwcet.ir.meanings import least, saturated
from ptxwcet.ir.opcodes import WholeMeaning
from ptxwcet.ir.operands import (
    Address,
    Decorated,
    Element,
    Immediate,
    Negated,
    Operand,
    Register,
    Sink,
    SpecialRegister,
    SymbolRef,
    Vector,
)
from ptxwcet.ir.terms import Meaning, Op, Term, any_bits, const, source, term

_LARGEST_HALF = 65504.0
BANK = "c[0x0]"
_BANKS = (BANK, "c[0x2]", "c[0x3]")  # and the banks of literals and of variables
LAUNCH = ("%ntid.x", "%ntid.y", "%ntid.z", "%nctaid.x", "%nctaid.y", "%nctaid.z")
"""The first words of constant bank 0."""

SPECIAL_REGISTERS = {
    **{f"SR_TID.{axis}": f"%tid.{axis.lower()}" for axis in "XYZ"},
    **{f"SR_CTAID.{axis}": f"%ctaid.{axis.lower()}" for axis in "XYZ"},
    "SR_LANEID": "%laneid",
    **{f"SR_{word}MASK": f"%lanemask_{word.lower()}" for word in ("EQ", "LE", "LT", "GE", "GT")},
}
"""The special registers that are registers of PTX under another name."""


class UnknownTermError(Exception):
    """The error of an instruction without a term."""


class Given:
    """The operands of an instruction as a builder reads them.

    ``targets`` is their number, including targets that discard results; ``predicates`` are read
    after all other sources.
    """

    def __init__(self, words: Sequence[str], operands: Sequence[Operand], count: int) -> None:
        self.order = tuple(words)
        self.words = frozenset(words)
        rest = list(operands)
        self.predicates: list[Operand] = []
        while rest and _is_read_predicate(rest[-1]):
            self.predicates.insert(0, rest.pop())
        if len(rest) < count:
            raise UnknownTermError
        self.written = rest[: len(rest) - count]
        self.values = rest[len(rest) - count :]
        self.sources: list[Operand] = []

    @property
    def targets(self) -> int:
        """The number of written operands."""
        return len(self.written)

    def source(self, operand: Operand, width: int) -> Term:
        """Returns the term of a register, or of a word of the launch."""
        if operand not in self.sources:
            self.sources.append(operand)
        return source(self.sources.index(operand), width)

    def word(self, place: int, width: int = 32) -> Term:
        """Returns the term of a source of 32 or 64 bits."""
        return self.read(self.values[place], width)

    def read(self, operand: Operand, width: int = 32) -> Term:
        """Returns the term of an operand; see :meth:`word`."""
        match operand:
            case Immediate(value) if isinstance(value, int) and (width == 32 or value == 0):
                return const(value, width)
            case Register(name) if width == 32 and not _is_predicate(name):
                return self.source(operand, 32)
            case Vector((low, high)) if width == 64:
                return self.read(high).above(self.read(low))
            case Element(SymbolRef(bank), Address(Immediate(base), offset)) if bank in _BANKS:
                places = range(int(base) + offset, int(base) + offset + width // 8, 4)
                words = [self.constant(bank, place) for place in places]
                return words[0] if width == 32 else words[1].above(words[0])
            case Element(SymbolRef(), Address(Immediate())) if width == 32:
                return self.source(operand, 32)
            case Decorated(inner, "-", ""):
                return -self.read(inner, width)
            case Decorated(inner, "~", ""):
                return ~self.read(inner, width)
        raise UnknownTermError

    def constant(self, bank: str, place: int) -> Term:
        """Returns the term of a word of a constant bank, the launch's at the start of bank 0."""
        if place % 4 or place < 0:
            raise UnknownTermError
        if bank == BANK and place // 4 < len(LAUNCH):
            return self.source(SpecialRegister(LAUNCH[place // 4]), 32)
        return self.source(Element(SymbolRef(bank), Address(Immediate(place, hex(place)))), 32)

    def require(self, is_known: bool) -> None:
        """Raises UnknownTermError unless a condition holds."""
        if not is_known:
            raise UnknownTermError

    def is_plain(self, *places: int) -> bool:
        """Returns whether these sources have no prefix or suffix."""
        return not any(isinstance(self.values[place], Decorated) for place in places)

    def literal(self, place: int) -> int | None:
        """Returns the number of a literal source."""
        operand = self.values[place]
        is_number = isinstance(operand, Immediate) and isinstance(operand.value, int)
        return int(operand.value) if isinstance(operand, Immediate) and is_number else None

    def predicate(self, place: int) -> Term:
        """Returns the term of a predicate that is read after the other sources."""
        if place >= len(self.predicates):
            raise UnknownTermError
        return self.truth(self.predicates[place])

    def truth(self, operand: Operand) -> Term:
        """Returns the term of a predicate."""
        match operand:
            case Immediate(value):
                return const(int(value != 0), 1)
            case Register(name) if _is_predicate(name):
                return self.source(operand, 1)
            case Negated(Register() as inner):
                return ~self.source(inner, 1)
            case Decorated(Register() | Element() as inner, "", ".SIGN"):
                return self.read(inner).part(31, 1)
        raise UnknownTermError


Builder = Callable[[Given], "tuple[Term, ...]"]
"""A function that returns a term for each target, in order."""


def meaning_of_opcode(name: str) -> WholeMeaning | None:
    """Returns the semantics of an opcode; None if it is not a function of its operands."""
    if not has_terms(name):
        return _nothing_known if name in _FUNCTIONS else None
    return partial(_meaning, name)


def _meaning(
    name: str, modifiers: tuple[str, ...], operands: tuple[Operand, ...]
) -> Meaning | None:
    build, sources = _BUILDERS[name]
    more = build is scaled and "HI" in modifiers and "SX32" not in modifiers
    try:
        given = Given(modifiers, operands, sources + more)
        results = build(given)
        if len(results) < given.targets:
            return None
        parts = [
            part
            for target, result in zip(given.written, results, strict=False)
            for part in _kept(target, result)
        ]
    except UnknownTermError:
        return None
    return Meaning(tuple(parts), tuple(given.sources))


def has_terms(name: str) -> bool:
    """Returns whether there are terms for an opcode, in some of its forms."""
    return name in _BUILDERS


def _nothing_known(modifiers: tuple[str, ...], operands: tuple[Operand, ...]) -> None:
    """Returns None, for a function without a term."""


def _kept(target: Operand, result: Term) -> tuple[Term, ...]:
    """Returns the term of each register of a target."""
    match target:
        case Sink():
            return ()
        case Register(name):
            if result.width == (1 if _is_predicate(name) else 32):
                return (result,)
        case Vector(elements):
            places = range(0, result.width, 32)
            if len(places) == len(elements) and all(isinstance(e, Register) for e in elements):
                return tuple(result.part(low, 32) for low in places)
    raise UnknownTermError


def _is_predicate(name: str) -> bool:
    return name.lstrip("U").startswith("P")


def _is_read_predicate(operand: Operand) -> bool:
    match operand:
        case Negated():
            return True
        case Register(name):
            return _is_predicate(name)
        case Immediate(_, text):
            return text.endswith("PT")
    return False


# --- sums and products ----------------------------------------------------------------------------


def added(given: Given) -> tuple[Term, ...]:
    """Builds IADD3: a sum, and its carry; a subtracted number is its complement and 1.

    A sum of three numbers has two carries; which is which is unknown.
    """
    width = 64 if "64" in given.words else 32
    places = [n for n in range(3) if given.literal(n) != 0]
    total = _total([given.word(n, width) for n in places], width)
    wide = [_long(given, n, width) for n in places] if width == 32 else []
    for place in range(len(given.predicates)):
        carry = given.predicate(place)
        total = _with_carry(total, carry)
        wide = [*wide, carry.extended(33, signed=False)]
    negated = any(map(_is_negated, given.values))
    given.require(not negated if "X" in given.words else not given.predicates)
    if len(places) > 2 or width == 64:
        return total, any_bits(1), any_bits(1)
    return total, _total(wide, 33).part(32, 1), const(0, 1)


def _long(given: Given, place: int, width: int) -> Term:
    """Returns a summand in one bit more, which is set where it carries by itself."""
    operand = given.values[place]
    if isinstance(operand, Decorated) and _is_negated(operand):
        return (~given.read(operand.operand, width)).extended(width + 1, signed=False) + 1
    return given.word(place, width).extended(width + 1, signed=False)


def _is_negated(operand: Operand) -> bool:
    return isinstance(operand, Decorated) and operand.before == "-"


def _total(summands: Sequence[Term], width: int) -> Term:
    """Returns the sum; negated summands are subtracted."""
    negated = [summand for summand in summands if _is_opposite(summand)]
    total: Term | None = None
    for summand in summands:
        if not _is_opposite(summand):
            total = summand if total is None else total + summand
    for summand in negated:
        total = summand if total is None else total - summand.args[1]
    return const(0, width) if total is None else total


def _is_opposite(summand: Term) -> bool:
    return summand.op is Op.SUB and summand.args[0] is const(0, summand.width)


def _with_carry(total: Term, carry: Term) -> Term:
    if carry.op is Op.CONST and carry.value == 0:
        return total
    return total + carry.extended(total.width, signed=False)


def multiplied(given: Given) -> tuple[Term, ...]:
    """Builds the forms of IMAD: the low or the high half, or all of a product, and an addend."""
    is_long = bool(given.words & {"WIDE", "HI"})
    width = 64 if is_long else 32
    is_signed = is_long and "U32" not in given.words
    factors = [given.word(n).extended(width, signed=is_signed) for n in (0, 1)]
    literals = [given.literal(n) for n in (0, 1)]
    given.require(not is_long or given.is_plain(0, 1, 2))
    given.require("X" in given.words or not given.predicates)
    summand = given.word(2, width)
    if 0 in literals:
        product = const(0, width)
    elif 1 in literals:
        product = factors[literals.index(1) ^ 1]
    else:
        product = factors[0] * factors[1]
    total = _total([n for n in (product, summand) if n is not const(0, width)], width)
    carried = total.less_than(summand, signed=False)
    for place in range(len(given.predicates)):
        total = _with_carry(total, given.predicate(place))
    is_exact = is_long and not is_signed and not given.predicates
    result = total.part(32, 32) if "HI" in given.words else total
    return result, carried if is_exact else any_bits(1)


def scaled(given: Given) -> tuple[Term, ...]:
    """Builds LEA: a number shifted left, and another one added; of 64 bits the high half."""
    amount = given.literal(len(given.values) - 1)
    if amount is None or not 0 <= amount < 32:
        raise UnknownTermError
    low, other = given.word(0), given.word(1)
    shifted = low.shifted_left(amount)
    given.require("X" in given.words or not given.predicates)
    if "HI" in given.words:
        given.require(given.is_plain(0, 2))
        is_extended = len(given.values) < 4  # by its sign, else by zeros or another word
        if amount and (is_extended or given.literal(2) == 0):
            shifted = low.shifted_right(32 - amount, signed=is_extended)
        else:
            high = low.shifted_right(31, signed=True) if is_extended else given.word(2)
            shifted = high.above(low).shifted_left(amount).part(32, 32)
    total = shifted if given.literal(1) == 0 else shifted + other
    wide = shifted.extended(33, signed=False) + other.extended(33, signed=False)
    for place in range(len(given.predicates)):
        total = _with_carry(total, given.predicate(place))
        wide = _with_carry(wide, given.predicate(place))
    is_exact = not _is_negated(given.values[1]) and ("HI" in given.words or given.is_plain(0))
    return total, wide.part(32, 1) if is_exact else any_bits(1)


def added_simply(given: Given) -> tuple[Term, ...]:
    """Builds VIADD."""
    return (given.word(0) + given.word(1),)


def absolute(given: Given) -> tuple[Term, ...]:
    """Builds IABS."""
    value = given.word(0)
    return (value.less_than(0, signed=True).choose(-value, value),)


def difference(given: Given) -> tuple[Term, ...]:
    """Builds VABSDIFF: the distance of two numbers, and a number added."""
    first, other, is_signed = given.word(0), given.word(1), "U32" not in given.words
    apart = first.less_than(other, signed=is_signed).choose(other - first, first - other)
    return (apart if given.literal(2) == 0 else apart + given.word(2),)


def products_added(given: Given) -> tuple[Term, ...]:
    """Builds IDP: the products of four bytes, or of two halves with two bytes, added."""
    kinds = [words for words in given.order if words[0] in "US"]
    given.require(len(kinds) == 2)
    first, second = kinds
    words, other, total = given.word(0), given.word(1), given.word(2)
    width = int(first[1:])
    begin = 16 if "HI" in given.words else 0
    for n in range(32 // width):
        a = words.part(width * n, width).extended(32, signed=first[0] == "S")
        b = other.part(begin + 8 * n, 8).extended(32, signed=second[0] == "S")
        total = total + a * b
    return (total,)


def narrowed(given: Given) -> tuple[Term, ...]:
    """Builds I2I: a signed number in the range of a narrower type; the bits above are unknown."""
    given.require(given.order[1:] == ("S32", "SAT") and given.order[0][1:] in ("8", "16"))
    kind = given.order[0]
    width = int(kind[1:])
    return (any_bits(32 - width).above(saturated(given.word(0), width, signed=kind[0] == "S")),)


def narrowed_pair(given: Given) -> tuple[Term, ...]:
    """Builds I2IP: two such numbers packed, the second one lower, and a third word above them."""
    given.require(given.order[1:] == ("S32", "SAT") and given.order[0][1:] in ("8", "16"))
    kind = given.order[0]
    width = int(kind[1:])
    high, other = (
        saturated(given.word(n), width, signed=kind[0] == "S").extended(32, signed=False)
        for n in (0, 1)
    )
    pair = high.shifted_left(width) | other
    return (pair | given.word(2).shifted_left(2 * width),)


def extreme(given: Given) -> tuple[Term, ...]:
    """Builds IMNMX: the minimum if the predicate holds, else the maximum; of two or three."""
    first, *others = (given.word(place) for place in range(len(given.values)))
    return (reduce(partial(_extreme, given), others, first),)


def extreme_of_sum(given: Given) -> tuple[Term, ...]:
    """Builds VIADDMNMX: the extreme of a sum, without its carry, and of a number."""
    return (_extreme(given, given.word(0) + given.word(1), given.word(2)),)


def _extreme(given: Given, first: Term, other: Term) -> Term:
    """Returns the extreme of words or halves; RELU: 0 in place of negative results."""
    is_signed = not given.words & {"U32", "U16x2"}
    is_least = given.predicate(0)
    given.require(is_signed or "RELU" not in given.words)
    width = 16 if given.words & {"S16x2", "U16x2"} else 32
    parts = []
    for low in range(0, 32, width):
        a, b = first.part(low, width), other.part(low, width)
        larger = a.less_than(b, signed=is_signed).choose(b, a)
        best = is_least.choose(least(a, b, signed=is_signed), larger)
        is_negative = best.less_than(const(0, width), signed=True)
        parts.append(is_negative.choose(const(0, width), best) if "RELU" in given.words else best)
    return parts[0] if width == 32 else parts[1].above(parts[0])


# --- comparisons and logic ------------------------------------------------------------------------


def compared(given: Given) -> tuple[Term, ...]:
    """Builds ISETP: a comparison, combined with a predicate; the second target is unknown.

    ``EX`` compares the high words, with the last predicate for the comparison of the low words.
    """
    first, other, words = given.word(0), given.word(1), given.words
    outcome = _comparison(first, other, words)
    if "EX" in words:
        outcome = first.equals(other).choose(given.predicate(1), outcome)
    return _joined(outcome, given.predicate(0), words), any_bits(1)


def _comparison(first: Term, other: Term, words: frozenset[str]) -> Term:
    is_signed = "U32" not in words
    less, more = first.less_than(other, signed=is_signed), other.less_than(first, signed=is_signed)
    equal = first.equals(other)
    outcomes = {"EQ": equal, "NE": ~equal, "LT": less, "GE": ~less, "GT": more, "LE": ~more}
    for name, outcome in outcomes.items():
        if name in words:
            return outcome
    raise UnknownTermError


def _joined(outcome: Term, other: Term, words: frozenset[str]) -> Term:
    """Returns an outcome combined with a predicate; neutral predicates are left out."""
    neutral = const(int("AND" in words), 1)
    if other is neutral:
        return outcome
    if "AND" in words:
        return outcome & other
    if "OR" in words:
        return outcome | other
    if "XOR" in words:
        return outcome ^ other
    raise UnknownTermError


_TWO = {8: "and", 14: "or", 6: "xor", 3: "not first", 5: "not second"}
"""The named tables of two numbers, where the third one is 0."""


def logic(given: Given) -> tuple[Term, ...]:
    """Builds LOP3: a table of three numbers; whether its result is not 0 or a predicate holds."""
    table = given.literal(3)
    if table is None:
        raise UnknownTermError
    a, b, c = (given.word(n) for n in range(3))
    result = _of_two(table, a, b) if given.literal(2) == 0 else None
    result = looked_up(table, a, b, c) if result is None else result
    joined = given.predicate(0)
    if given.targets == 1:
        return (result,)
    how = frozenset(("AND" if "PAND" in given.words else "OR",))
    return _joined(~result.equals(0), joined, how), result


def _of_two(table: int, a: Term, b: Term) -> Term | None:
    name = _TWO.get(sum((table >> 2 * n & 1) << n for n in range(4)))
    return {
        "and": a & b,
        "or": a | b,
        "xor": a ^ b,
        "not first": ~a,
        "not second": ~b,
    }.get(name or "")


def logic_of_predicates(given: Given) -> tuple[Term, ...]:
    """Builds PLOP3: two tables of three predicates."""
    given.require(len(given.written) == 5)
    *targets, a, b, c = given.written  # predicates are before the tables
    tables = [given.literal(n) for n in (0, 1)]
    given.written = targets
    inputs = [given.truth(operand) for operand in (a, b, c)]
    return tuple(looked_up(table, *inputs) for table in tables if table is not None)


def selected(given: Given) -> tuple[Term, ...]:
    """Builds SEL: the first number if the predicate holds, else the second one."""
    return (given.predicate(0).choose(given.word(0), given.word(1)),)


def packed_predicates(given: Given) -> tuple[Term, ...]:
    """Builds P2R: predicates as the lowest bits, those under a mask, in a word of zeros.

    The bit numbers are stated only by the vendor: compiled code was only seen to test whether any
    bit is set.
    """
    bits, predicates = given.literal(2), given.values[0]
    if bits is None or not 0 <= bits < 128 or not isinstance(predicates, Vector):
        raise UnknownTermError
    given.require(given.literal(1) == 0)
    result = const(0, 32)
    for predicate in predicates.elements:
        assert isinstance(predicate, Register)
        bit = given.truth(predicate).extended(32, signed=False)
        result = result | bit.shifted_left(int(predicate.name[1:]))
    return (result,)


# --- bits -----------------------------------------------------------------------------------------


def shifted(given: Given) -> tuple[Term, ...]:
    """Builds SHF: two words, the second one in front, shifted together.

    ``W`` takes the amount modulo the width of the type; otherwise larger amounts are the width.
    """
    width = 64 if given.words & {"U64", "S64"} else 32
    low, amount, high = (given.word(n) for n in range(3))
    if "W" in given.words:
        amount = amount & (width - 1)
    else:
        amount = least(amount, const(width, 32), signed=False)
    is_signed, upper = bool(given.words & {"S32", "S64"}), "HI" in given.words
    if "L" in given.words and not upper:
        return (low.shifted_left(amount),)
    if "R" in given.words and upper:
        return (high.shifted_right(amount, signed=is_signed),)
    pair = high.above(low)
    if "L" in given.words:
        return (pair.shifted_left(amount).part(32, 32),)
    return (pair.shifted_right(amount, signed=is_signed).part(0, 32),)


def extended(given: Given) -> tuple[Term, ...]:
    """Builds SGXT: the lowest bits as a number. nvdisasm misprints its constants."""
    given.require(not any(isinstance(value, Element) for value in given.values))
    wraps, is_signed = "W" in given.words, "U32" not in given.words
    return (length_extended(given.word(0), given.word(1), wraps=wraps, signed=is_signed),)


def mask(given: Given) -> tuple[Term, ...]:
    """Builds BMSK: a number of ones from a bit on."""
    given.require("C" not in given.words)
    return (mask_of(given.word(0), given.word(1), wraps="W" in given.words),)


def bytes_picked(given: Given) -> tuple[Term, ...]:
    """Builds PRMT: bytes of two words, picked by the number in the middle."""
    given.require(len(given.words) <= 1)
    mode = "".join(given.words).lower()
    return (permuted(given.word(2).above(given.word(0)), given.word(1), mode),)


def ones(given: Given) -> tuple[Term, ...]:
    """Builds POPC."""
    return (term(Op.POPC, 32, (given.word(0),)),)


def reversed_bits(given: Given) -> tuple[Term, ...]:
    """Builds BREV."""
    return (term(Op.BREV, 32, (given.word(0),)),)


def first_bit(given: Given) -> tuple[Term, ...]:
    """Builds FLO: the highest set bit, or its distance from the top; -1 if there is none."""
    is_signed = "U32" not in given.words
    return (first_found(given.word(0), signed=is_signed, is_distance="SH" in given.words),)


# --- moves ----------------------------------------------------------------------------------------


def moved(given: Given) -> tuple[Term, ...]:
    """Builds MOV."""
    return (given.word(0),)


def constant_loaded(given: Given) -> tuple[Term, ...]:
    """Builds LDC, from a literal place."""
    match given.values[0]:
        case Element(SymbolRef(bank), Address(Immediate(base), offset)) if bank in _BANKS:
            place = int(base) + offset
        case _:
            raise UnknownTermError
    given.require(given.words <= {"64", "U8", "S8", "U16", "S16"})
    for word in given.words - {"64"}:
        width = int(word[1:])
        given.require(place % (width // 8) == 0)
        few = given.constant(bank, place & ~3).part(8 * (place % 4), width)
        return (few.extended(32, signed=word[0] == "S"),)
    return (given.word(0, 64 if "64" in given.words else 32),)


def special(given: Given) -> tuple[Term, ...]:
    """Builds S2R."""
    match given.values[0]:
        case SpecialRegister(name) if name in SPECIAL_REGISTERS:
            return (given.source(SpecialRegister(SPECIAL_REGISTERS[name]), 32),)
    raise UnknownTermError


def special_of_block(given: Given) -> tuple[Term, ...]:
    """Builds S2UR, of values that are equal for all lanes of a warp."""
    match given.values[0]:
        case SpecialRegister(name) if name.startswith("SR_CTAID."):
            return special(given)
    raise UnknownTermError


def zero(given: Given) -> tuple[Term, ...]:
    """Builds CS2R of zero."""
    given.require(given.values == [SpecialRegister("SRZ")])
    return (const(0, 32 if "32" in given.words else 64),)


def halves_moved(given: Given) -> tuple[Term, ...]:
    """Builds HFMA2 of zeros and literals, by which the compiler moves constants."""
    given.require(given.words <= {"MMA"})
    match given.values:
        case [Decorated(Immediate(0, "RZ"), "-", ""), Immediate(0, "RZ"), *literals]:
            high, low = map(_half, literals)
            return (const(high << 16 | low, 32),)
    raise UnknownTermError


def _half(operand: Operand) -> int:
    """Returns the bits of a literal of half precision."""
    match operand:
        case Immediate(float(value)) if not math.isnan(value) and abs(value) <= _LARGEST_HALF:
            return int.from_bytes(struct.pack("<e", value), "little")
    raise UnknownTermError


_TABLE: dict[str, tuple[Builder, int]] = {
    "IADD3 UIADD3": (added, 3),
    "VIADD": (added_simply, 2),
    "IABS": (absolute, 1),
    "IMNMX VIMNMX": (extreme, 2),
    "VIMNMX3": (extreme, 3),
    "VIADDMNMX": (extreme_of_sum, 3),
    "IMAD UIMAD": (multiplied, 3),
    "IDP": (products_added, 3),
    "LEA ULEA": (scaled, 3),
    "VABSDIFF": (difference, 3),
    "I2I": (narrowed, 1),
    "I2IP": (narrowed_pair, 3),
    "ISETP UISETP": (compared, 2),
    "LOP3 ULOP3": (logic, 4),
    "PLOP3 UPLOP3": (logic_of_predicates, 2),
    "SEL USEL": (selected, 2),
    "P2R": (packed_predicates, 3),
    "SHF USHF": (shifted, 3),
    "SGXT USGXT": (extended, 2),
    "BMSK UBMSK": (mask, 2),
    "PRMT UPRMT": (bytes_picked, 3),
    "POPC UPOPC": (ones, 1),
    "BREV UBREV": (reversed_bits, 1),
    "FLO UFLO": (first_bit, 1),
    "MOV UMOV": (moved, 1),
    "LDC ULDC": (constant_loaded, 1),
    "S2R": (special, 1),
    "S2UR": (special_of_block, 1),
    "CS2R": (zero, 1),
    "HFMA2": (halves_moved, 4),
}
"""The builder of each opcode, and its number of sources besides predicates; LEA.HI has more."""

_BUILDERS = {name: row for names, row in _TABLE.items() for name in names.split()}

_FUNCTIONS = frozenset(
    (
        *("FADD", "FMUL", "FFMA", "FMNMX", "FSEL", "FSETP", "FSET", "FCHK", "MUFU", "F2FP", "I2FP"),
        *("F2F", "F2I", "I2F", "FRND", "HADD2", "HMUL2", "HFMA2", "HMNMX2", "HSETP2", "HSET2"),
        *("DADD", "DMUL", "DFMA", "DSETP", "VABSDIFF4", "R2P"),
    )
)
"""The opcodes without terms whose results are functions of their operands."""
