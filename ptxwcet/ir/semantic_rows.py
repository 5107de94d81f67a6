"""The rows of the table of semantics: from the operands of an instruction to terms.

Source: the PTX ISA manual, chapter 9, section by section as the rows are grouped here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ptxwcet.ir.operation import NumberKind, NumberType, Operation
from ptxwcet.ir.terms import Op, Term, const, source, term


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


# --- sums and products ----------------------------------------------------------------------------


def _least(a: Term, b: Term, *, signed: bool) -> Term:
    return b.less_than(a, signed=signed).choose(b, a)


def _greatest(a: Term, b: Term, *, signed: bool) -> Term:
    return a.less_than(b, signed=signed).choose(b, a)


def _magnitude(a: Term) -> Term:
    return a.less_than(0, signed=True).choose(-a, a)


def _saturated(a: Term, width: int, *, signed: bool = True) -> Term:
    """A signed number in the range of a narrower type."""
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)
    above = const(high, a.width).less_than(a, signed=True)
    below = a.less_than(low, signed=True)
    inside = below.choose(const(low, width), a.part(0, width))
    return above.choose(const(high, width), inside)


def _by_halves(build: Callable[[Sources, Term, Term], Term]) -> Row:
    """Two operands, or each half of them where the type is packed."""

    def row(s: Sources) -> tuple[Term, ...]:
        if s.kind.count == 1:
            return (build(s, s[0], s[1]),)
        high, low = (build(s, s[0].part(at, 16), s[1].part(at, 16)) for at in (16, 0))
        return (high.above(low),)

    return row


def _sum(sign: int) -> Row:
    def one(s: Sources, a: Term, b: Term) -> Term:
        if "sat" not in s.words:
            return a + b if sign > 0 else a - b
        x, y = (each.extended(a.width + 1, signed=True) for each in (a, b))
        return _saturated(x + y if sign > 0 else x - y, a.width)

    halves = _by_halves(one)

    def row(s: Sources) -> tuple[Term, ...] | None:
        return _with_carry(s, sign, const(0, 1)) if "cc" in s.words else halves(s)

    return row


def _with_carry(s: Sources, sign: int, carry: Term) -> tuple[Term, ...]:
    """Sum or difference with the carry or borrow that comes in, and the one that goes out."""
    return _carried(s[0], s[1], sign, carry)


def _carried(a: Term, b: Term, sign: int, carry: Term) -> tuple[Term, ...]:
    width = a.width
    come = carry.extended(width, signed=False)
    x, y, c = (each.extended(width + 1, signed=False) for each in (a, b, come))
    if sign > 0:
        return a + b + come, (x + y + c).part(width, 1)
    return a - b - come, (x - y - c).part(width, 1)


def _sum_of_carry(sign: int) -> Row:
    return lambda s: _with_carry(s, sign, s.read(len(s) - 1, 1))


def _product(s: Sources) -> Term | None:
    a, b, width = s[0], s[1], s.width
    if "lo" in s.words:
        return a * b
    x, y = (each.extended(2 * width, signed=s.kind.is_signed) for each in (a, b))
    if "wide" in s.words:
        return x * y
    return (x * y).part(width, width) if "hi" in s.words else None


def _multiply(s: Sources) -> tuple[Term, ...] | None:
    found = _product(s)
    return None if found is None else (found,)


def _multiply_add(s: Sources) -> tuple[Term, ...] | None:
    product = _product(s)
    if product is None:
        return None
    summand = s.read(2, product.width)
    if "cc" in s.words:
        return _carried(product, summand, 1, const(0, 1))
    if "sat" in s.words:
        x, y = (each.extended(product.width + 1, signed=True) for each in (product, summand))
        return (_saturated(x + y, product.width),)
    return (product + summand,)


def _multiply_add_carry(s: Sources) -> tuple[Term, ...] | None:
    product = _product(s)
    if product is None:
        return None
    return _carried(product, s.read(2, product.width), 1, s.read(len(s) - 1, 1))


def _product_of_24(s: Sources) -> Term:
    x, y = (s.read(place, 24).extended(48, signed=s.kind.is_signed) for place in (0, 1))
    return (x * y).part(16 if "hi" in s.words else 0, 32)


def _multiply_add_24(s: Sources) -> tuple[Term, ...]:
    product, summand = _product_of_24(s), s[2]
    if "sat" in s.words:
        x, y = (each.extended(33, signed=True) for each in (product, summand))
        return (_saturated(x + y, 32),)
    return (product + summand,)


def _dot_product(lanes: int, bits: tuple[int, int]) -> Row:
    """``dp4a`` and ``dp2a``: products of parts, each of its operand's type, and a summand."""

    def row(s: Sources) -> tuple[Term, ...]:
        kinds = s.operation.types
        start = 2 if "hi" in s.words else 0
        total = s.read(2, 32)
        for lane in range(lanes):
            a = s.read(0, 32).part(lane * bits[0], bits[0])
            b = s.read(1, 32).part((start + lane) * bits[1], bits[1])
            x, y = (
                part.extended(32, signed=kind.is_signed)
                for part, kind in zip((a, b), kinds, strict=True)
            )
            total = total + x * y
        return (total,)

    return row


def _extremum(largest: bool) -> Row:
    def one(s: Sources, a: Term, b: Term) -> Term:
        signed = s.kind.is_signed
        found = _greatest(a, b, signed=signed) if largest else _least(a, b, signed=signed)
        if "relu" not in s.words:
            return found
        return found.less_than(0, signed=True).choose(const(0, a.width), found)

    return _by_halves(one)


def _distance(s: Sources) -> tuple[Term, ...]:
    a, b = s[0], s[1]
    return (a.less_than(b, signed=s.kind.is_signed).choose(b - a, a - b) + s[2],)


# --- bits -----------------------------------------------------------------------------------------


def _logic_of_three(s: Sources) -> tuple[Term, ...] | None:
    """``lop3``; with a word, whether the result is not 0 is joined with a predicate."""
    table = s.literal(3)
    if table is None:
        return None
    a, b, c = s[0], s[1], s[2]
    result = const(0, 32)
    for minterm in range(8):
        if table >> minterm & 1:
            x, y, z = (one if minterm & bit else ~one for one, bit in ((a, 4), (b, 2), (c, 1)))
            result = result | (x & y & z)
    if not s.words:
        return (result,)
    outcome, predicate = ~result.equals(0), s.read(4, 1)
    return result, outcome & predicate if "and" in s.words else outcome | predicate


def _funnel(s: Sources) -> tuple[Term, ...]:
    amount = s.read(2, 32)
    limit = const(32, 32)
    amount = amount & 31 if "wrap" in s.words else _least(amount, limit, signed=False)
    pair = s[1].above(s[0])
    if "l" in s.words:
        return (pair.shifted_left(amount).part(32, 32),)
    return (pair.shifted_right(amount, signed=False).part(0, 32),)


def _lowest(count: Term, width: int) -> Term:
    """The lowest bits of a word, so many of them."""
    return ~const(-1, width).shifted_left(count)


def _extracted(s: Sources) -> tuple[Term, ...]:
    width, signed = s.width, s.kind.is_signed
    start, length = (s.read(place, 32) & 255 for place in (1, 2))
    field = s[0].shifted_right(start, signed=signed)
    if not signed:
        return (field & _lowest(length, width),)
    end = start + length - 1
    top = _least(end, const(width - 1, 32), signed=False)
    sign = (s[0].shifted_right(top, signed=False) & 1).part(0, 1)
    mask = _lowest(length, width)
    whole = sign.choose(field | ~mask, field & mask)
    return (length.equals(0).choose(const(0, width), whole),)


def _inserted(s: Sources) -> tuple[Term, ...]:
    start, length = (s.read(place, 32) & 255 for place in (2, 3))
    mask = _lowest(length, s.width).shifted_left(start)
    return ((s[1] & ~mask) | (s[0].shifted_left(start) & mask),)


def _found(s: Sources) -> tuple[Term, ...]:
    value = s[0]
    if s.kind.is_signed:
        value = value.less_than(0, signed=True).choose(~value, value)
    zeros = term(Op.CLZ, s.width, (value,)).resized(32, signed=False)
    if "shiftamt" in s.words:
        return (value.equals(0).choose(const(-1, 32), zeros),)
    return (const(s.width - 1, 32) - zeros,)


def _mask_of(s: Sources) -> tuple[Term, ...]:
    start, length = s[0], s[1]
    if "wrap" in s.words:
        start, length = start & 31, length & 31
    return (_lowest(length, 32).shifted_left(start),)


def _extension(s: Sources) -> tuple[Term, ...]:
    value, bits = s[0], s[1]
    bits = bits & 31 if "wrap" in s.words else _least(bits, const(32, 32), signed=False)
    unused = const(32, 32) - bits
    top = value.shifted_left(unused)
    return (top.shifted_right(unused, signed=s.kind.is_signed),)


_PICKED: Mapping[str, tuple[str, ...]] = {
    "f4e": ("3210", "4321", "5432", "6543"),
    "b4e": ("5670", "6701", "7012", "0123"),
    "rc8": ("0000", "1111", "2222", "3333"),
    "ecl": ("3210", "3211", "3222", "3333"),
    "ecr": ("0000", "1110", "2210", "3210"),
    "rc16": ("1010", "3232", "1010", "3232"),
}
"""The bytes that the modes of ``prmt`` pick, highest first, for the selector's two low bits."""


def _permuted(s: Sources) -> tuple[Term, ...]:
    pair, selector = s[1].above(s[0]), s[2]
    if s.words:
        arrangements = [_bytes(pair, pattern) for pattern in _PICKED[s.words[0]]]
        choice = selector & 3
        result = arrangements[3]
        for number in (2, 1, 0):
            result = choice.equals(number).choose(arrangements[number], result)
        return (result,)
    result = const(0, 32)
    for place in range(4):
        nibble = selector.part(4 * place, 4)
        byte = pair.shifted_right((nibble & 7).extended(8, signed=False) * 8, signed=False)
        picked = byte.part(0, 8)
        copied = picked.shifted_right(7, signed=True)
        picked = nibble.part(3, 1).choose(copied, picked)
        result = result | picked.extended(32, signed=False).shifted_left(8 * place)
    return (result,)


def _bytes(pair: Term, pattern: str) -> Term:
    found = pair.part(8 * int(pattern[0]), 8)
    for digit in pattern[1:]:
        found = found.above(pair.part(8 * int(digit), 8))
    return found


# --- comparisons, copies, conversions -------------------------------------------------------------


_ORDERS = ("lt", "le", "gt", "ge", "lo", "ls", "hi", "hs")
_COMPARISONS = frozenset({"eq", "ne", *_ORDERS})
_JOINS = frozenset({"and", "or", "xor"})


def _outcome(s: Sources) -> Term | None:
    operator = s.words[0] if s.words else ""
    kind, a, b = s.kind, s[0], s[1]
    if kind.kind in (NumberKind.PREDICATE, NumberKind.FLOAT):
        return None
    if operator in ("eq", "ne"):
        return a.equals(b) if operator == "eq" else ~a.equals(b)
    if kind.kind is NumberKind.BITS or operator not in _ORDERS:
        return None
    signed = kind.is_signed and operator in ("lt", "le", "gt", "ge")
    if operator in ("lt", "lo"):
        return a.less_than(b, signed=signed)
    if operator in ("gt", "hi"):
        return b.less_than(a, signed=signed)
    more, less = b.less_than(a, signed=signed), a.less_than(b, signed=signed)
    return ~more if operator in ("le", "ls") else ~less


def _joined(s: Sources, outcome: Term) -> tuple[Term, Term] | None:
    """The outcome and its opposite, each joined with a third operand if there is one."""
    if len(s) == 2:
        return outcome, ~outcome
    third = s.read(2, 1)
    match s.words[1:]:
        case ("and",):
            return outcome & third, ~outcome & third
        case ("or",):
            return outcome | third, ~outcome | third
        case ("xor",):
            return outcome ^ third, ~outcome ^ third
    return None


def _compared(s: Sources) -> tuple[Term, ...] | None:
    outcome = _outcome(s)
    return None if outcome is None else _joined(s, outcome)


def _set(s: Sources) -> tuple[Term, ...] | None:
    outcome = _outcome(s)
    joined = None if outcome is None else _joined(s, outcome)
    target = s.operation.types[0]
    if joined is None or target.width != 32:
        return None
    yes = 0x3F80_0000 if target.kind is NumberKind.FLOAT else -1
    return (joined[0].choose(const(yes, 32), const(0, 32)),)


def _selected(s: Sources) -> tuple[Term, ...]:
    return (s.read(2, 1).choose(s[0], s[1]),)


def _selected_by_sign(s: Sources) -> tuple[Term, ...] | None:
    target, chooser = s.operation.types
    if chooser.kind is NumberKind.FLOAT:
        return None
    a, b = (s.read(place, target.width) for place in (0, 1))
    return (s.read(2, 32).less_than(0, signed=True).choose(b, a),)


def _copied(s: Sources) -> tuple[Term, ...] | None:
    """``mov``: of one number, of several into one, of one into several."""
    width = s.width
    if len(s) == 1:
        if 0 < s.bits(0) < width or width % s.targets:
            return None
        part = width // s.targets
        return tuple(s[0].part(place * part, part) for place in range(s.targets))
    each = [s.bits(place) for place in range(len(s))]
    if 0 in each or sum(each) != width or s.targets != 1:
        return None
    whole = s.read(0, each[0])
    for place in range(1, len(s)):
        whole = s.read(place, each[place]).above(whole)
    return (whole,)


def _converted(s: Sources) -> tuple[Term, ...] | None:
    if len(s.operation.types) != 2:
        return None
    target, origin = s.operation.types
    value = s.read(0, origin.width)
    if "sat" not in s.words:
        return (value.resized(target.width, signed=origin.is_signed),)
    wide = max(target.width, origin.width) + 2
    return (
        _saturated(
            value.extended(wide, signed=origin.is_signed), target.width, signed=target.is_signed
        ),
    )


def _one(build: Callable[[Sources], Term]) -> Row:
    return lambda s: (build(s),)


def _counted(op: Op) -> Row:
    return lambda s: (term(op, s.width, (s[0],)).resized(32, signed=False),)


def _quotient(s: Sources) -> tuple[Term, ...]:
    return (s[0].divided_by(s[1], signed=s.kind.is_signed),)


def _rest(s: Sources) -> tuple[Term, ...]:
    return (s[0].remainder(s[1], signed=s.kind.is_signed),)


def _row(
    build: Row, words: str = "", *, floats: bool = False, packed: bool = False
) -> SemanticsRow:
    return SemanticsRow(build, frozenset(words.split()), floats, packed)


ROWS: Mapping[str, SemanticsRow] = {
    "mov": _row(_copied, floats=True, packed=True),
    "cvt": _row(_converted, "sat"),
    # the addresses of other windows than that of global memory are moved
    "cvta": _row(_one(lambda s: s[0]), "global to"),
    "add": _row(_sum(1), "sat cc", packed=True),
    "sub": _row(_sum(-1), "sat cc", packed=True),
    "addc": _row(_sum_of_carry(1), "cc"),
    "subc": _row(_sum_of_carry(-1), "cc"),
    "mul": _row(_multiply, "lo hi wide"),
    "mad": _row(_multiply_add, "lo hi wide sat cc"),
    "madc": _row(_multiply_add_carry, "lo hi cc"),
    "mul24": _row(_one(_product_of_24), "lo hi"),
    "mad24": _row(_multiply_add_24, "lo hi sat"),
    "dp4a": _row(_dot_product(4, (8, 8))),
    "dp2a": _row(_dot_product(2, (16, 8)), "lo hi"),
    "div": _row(_quotient),
    "rem": _row(_rest),
    "neg": _row(_one(lambda s: -s[0])),
    "abs": _row(_one(lambda s: _magnitude(s[0]))),
    "min": _row(_extremum(False), "relu", packed=True),
    "max": _row(_extremum(True), "relu", packed=True),
    "sad": _row(_distance),
    "and": _row(_one(lambda s: s[0] & s[1])),
    "or": _row(_one(lambda s: s[0] | s[1])),
    "xor": _row(_one(lambda s: s[0] ^ s[1])),
    "not": _row(_one(lambda s: ~s[0])),
    "cnot": _row(_one(lambda s: s[0].equals(0).extended(s.width, signed=False))),
    "lop3": _row(_logic_of_three, "and or"),
    "shl": _row(_one(lambda s: s[0].shifted_left(s.read(1, 32)))),
    "shr": _row(_one(lambda s: s[0].shifted_right(s.read(1, 32), signed=s.kind.is_signed))),
    "shf": _row(_funnel, "l r wrap clamp"),
    "bfe": _row(_extracted),
    "bfi": _row(_inserted),
    "bfind": _row(_found, "shiftamt"),
    "bmsk": _row(_mask_of, "wrap clamp"),
    "szext": _row(_extension, "wrap clamp"),
    "prmt": _row(_permuted, " ".join(_PICKED)),
    "popc": _row(_counted(Op.POPC)),
    "clz": _row(_counted(Op.CLZ)),
    "brev": _row(_one(lambda s: term(Op.BREV, s.width, (s[0],)))),
    "setp": _row(_compared, " ".join(_COMPARISONS | _JOINS)),
    "set": _row(_set, " ".join(_COMPARISONS | _JOINS), floats=True),
    "selp": _row(_selected, floats=True),
    "slct": _row(_selected_by_sign, floats=True),
}
"""By opcode; what has no row here is unknown to every domain alike."""
