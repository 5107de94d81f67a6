"""Terms: what instructions compute, as expressions over bit-vectors.

A term has a width in bits and an operator of :class:`Op`, whose meaning is that of SMT-LIB's QF_BV
(shifts by the width or more give zeros, or copies of the sign; ``popc``, ``clz`` and ``brev`` count
and turn bits around). Leaves are constants, sources (numbered), and ``ANY``: bits that the ISA does
not determine, different ones at each place.

Equal terms are one object, so that they can be compared and looked up by identity. Whoever gives
terms another meaning (a domain) interprets the operators with :func:`fold`, each distinct term
once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import TypeVar
from weakref import WeakValueDictionary

from ptxwcet.ir.operands import Operand
from ptxwcet.support.records import dataclass

Interpreted = TypeVar("Interpreted")


class Op(Enum):
    """Operators of terms, by their names in SMT-LIB where they have one."""

    __hash__ = object.__hash__  # by identity: rules are looked up by operator all the time

    CONST = "const"
    SOURCE = "source"
    ANY = "any"
    ADD = "bvadd"
    SUB = "bvsub"
    MUL = "bvmul"
    UDIV = "bvudiv"
    UREM = "bvurem"
    SDIV = "bvsdiv"
    SREM = "bvsrem"
    AND = "bvand"
    OR = "bvor"
    XOR = "bvxor"
    NOT = "bvnot"
    SHL = "bvshl"
    LSHR = "bvlshr"
    ASHR = "bvashr"
    ULT = "bvult"
    SLT = "bvslt"
    EQ = "="
    ITE = "ite"
    ZEXT = "zero_extend"
    SEXT = "sign_extend"
    EXTRACT = "extract"
    POPC = "popc"
    CLZ = "clz"
    BREV = "brev"


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Term:
    """An expression of ``width`` bits. ``value``: of a constant; the number of a source; of
    ``EXTRACT`` the lowest bit.

    Python's operators build terms; numbers beside a term are constants of its width.
    """

    op: Op
    width: int
    args: tuple[Term, ...] = ()
    value: int = 0

    def __reduce__(self) -> tuple[object, ...]:
        """Equal terms are one object behind a pickle, too."""
        make = Term if self.op is Op.ANY else term
        return make, (self.op, self.width, self.args, self.value)

    def __add__(self, other: Term | int) -> Term:
        return _binary(Op.ADD, self, other)

    def __sub__(self, other: Term | int) -> Term:
        return _binary(Op.SUB, self, other)

    def __mul__(self, other: Term | int) -> Term:
        return _binary(Op.MUL, self, other)

    def __and__(self, other: Term | int) -> Term:
        return _binary(Op.AND, self, other)

    def __or__(self, other: Term | int) -> Term:
        return _binary(Op.OR, self, other)

    def __xor__(self, other: Term | int) -> Term:
        return _binary(Op.XOR, self, other)

    def __invert__(self) -> Term:
        return term(Op.NOT, self.width, (self,))

    def __neg__(self) -> Term:
        return const(0, self.width) - self

    def divided_by(self, other: Term, *, signed: bool) -> Term:
        """The quotient, rounded towards zero; any number where the divisor is 0."""
        quotient = _binary(Op.SDIV if signed else Op.UDIV, self, other)
        return other.equals(0).choose(any_bits(self.width), quotient)

    def remainder(self, other: Term, *, signed: bool) -> Term:
        """What division leaves, with the sign of ``self``; any number where the divisor is 0."""
        rest = _binary(Op.SREM if signed else Op.UREM, self, other)
        return other.equals(0).choose(any_bits(self.width), rest)

    def shifted_left(self, amount: Term | int) -> Term:
        """Shifted by an amount of any width, read without sign."""
        return term(Op.SHL, self.width, (self, self._amount(amount)))

    def shifted_right(self, amount: Term | int, *, signed: bool) -> Term:
        """Shifted by an amount of any width, read without sign."""
        op = Op.ASHR if signed else Op.LSHR
        return term(op, self.width, (self, self._amount(amount)))

    def _amount(self, amount: Term | int) -> Term:
        """A number of bits in the width of what is shifted: its width where it is more."""
        if isinstance(amount, int):
            return const(min(amount, self.width), self.width)
        if amount.width <= self.width:
            return amount.extended(self.width, signed=False)
        small = amount.less_than(self.width, signed=False)
        return small.choose(amount.part(0, self.width), const(self.width, self.width))

    def equals(self, other: Term | int) -> Term:
        """One bit: whether both are the same."""
        return term(Op.EQ, 1, (self, _same(self, other)))

    def less_than(self, other: Term | int, *, signed: bool) -> Term:
        """One bit: whether it is the smaller number."""
        return term(Op.SLT if signed else Op.ULT, 1, (self, _same(self, other)))

    def choose(self, yes: Term, no: Term) -> Term:
        """``yes`` where this bit is set, else ``no``."""
        return term(Op.ITE, yes.width, (self, yes, no))

    def extended(self, width: int, *, signed: bool) -> Term:
        """Its number in more bits (or as many)."""
        if width == self.width:
            return self
        return term(Op.SEXT if signed else Op.ZEXT, width, (self,))

    def part(self, low: int, width: int) -> Term:
        """``width`` bits from bit ``low`` on."""
        if width == self.width:
            return self
        return term(Op.EXTRACT, width, (self,), low)

    def resized(self, width: int, *, signed: bool) -> Term:
        """The lowest bits, or the number in more bits."""
        if width > self.width:
            return self.extended(width, signed=signed)
        return self.part(0, width)

    def above(self, low: Term) -> Term:
        """Both side by side: these bits in front of those of ``low``."""
        width = self.width + low.width
        high = self.extended(width, signed=False).shifted_left(low.width)
        return high | low.extended(width, signed=False)


@dataclass(frozen=True, slots=True)
class Meaning:
    """What an instruction leaves in the registers that it writes, guard apart.

    ``results`` has a term for each register of ``instruction.writes``, as wide as the register;
    source number n of a term is ``sources[n]``: a register, a special register, the address of a
    variable, or a word of a constant bank of machine code.
    """

    results: tuple[Term, ...]
    sources: tuple[Operand, ...]


_TERMS: WeakValueDictionary[tuple[object, ...], Term] = WeakValueDictionary()


def term(op: Op, width: int, args: tuple[Term, ...] = (), value: int = 0) -> Term:
    """The one term of an operator and its arguments; constants are computed at once.

    Cost: constant.
    """
    if args and all(one.op is Op.CONST for one in args):
        return const(apply(op, width, args, value, [one.value for one in args]), width)
    if op is Op.ITE:
        condition, yes, no = args
        if yes is no or condition.op is Op.CONST:
            return yes if condition.value or yes is no else no
    key = (op, width, *map(id, args), value)
    unique = _TERMS.get(key)
    if unique is None:
        unique = _TERMS[key] = Term(op, width, args, value)
    return unique


def const(value: int, width: int) -> Term:
    """A number, modulo ``2**width``."""
    return term(Op.CONST, width, (), value % (1 << width))


def source(number: int, width: int) -> Term:
    """A source, by its number."""
    return term(Op.SOURCE, width, (), number)


def any_bits(width: int) -> Term:
    """Bits that nothing determines."""
    return Term(Op.ANY, width)


def _same(one: Term, other: Term | int) -> Term:
    return const(other, one.width) if isinstance(other, int) else other


def _binary(op: Op, one: Term, other: Term | int) -> Term:
    return term(op, one.width, (one, _same(one, other)))


def signed(value: int, width: int) -> int:
    """Bits read in two's complement."""
    return value - (1 << width) if value >> (width - 1) else value


def apply(op: Op, width: int, args: Sequence[Term], value: int, numbers: Sequence[int]) -> int:
    """What an operator computes from numbers without sign. Raises KeyError for leaves."""
    bits = args[0].width
    found = _NUMBERS[op](bits, value, *numbers)
    return found & ((1 << width) - 1)


def _signed_quotient(bits: int, a: int, b: int) -> int:
    x, y = signed(a, bits), signed(b, bits)
    if y == 0:
        return -1 if x >= 0 else 1
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def _signed_remainder(bits: int, a: int, b: int) -> int:
    x, y = signed(a, bits), signed(b, bits)
    return x if y == 0 else x - _signed_quotient(bits, a, b) * y


_NUMBERS: dict[Op, Callable[..., int]] = {
    Op.ADD: lambda w, _, a, b: a + b,
    Op.SUB: lambda w, _, a, b: a - b,
    Op.MUL: lambda w, _, a, b: a * b,
    Op.UDIV: lambda w, _, a, b: a // b if b else -1,
    Op.UREM: lambda w, _, a, b: a % b if b else a,
    Op.SDIV: lambda w, _, a, b: _signed_quotient(w, a, b),
    Op.SREM: lambda w, _, a, b: _signed_remainder(w, a, b),
    Op.AND: lambda w, _, a, b: a & b,
    Op.OR: lambda w, _, a, b: a | b,
    Op.XOR: lambda w, _, a, b: a ^ b,
    Op.NOT: lambda w, _, a: ~a,
    Op.SHL: lambda w, _, a, n: a << n if n < w else 0,
    Op.LSHR: lambda w, _, a, n: a >> n,
    Op.ASHR: lambda w, _, a, n: signed(a, w) >> min(n, w),
    Op.ULT: lambda w, _, a, b: int(a < b),
    Op.SLT: lambda w, _, a, b: int(signed(a, w) < signed(b, w)),
    Op.EQ: lambda w, _, a, b: int(a == b),
    Op.ITE: lambda w, _, c, a, b: a if c else b,
    Op.ZEXT: lambda w, _, a: a,
    Op.SEXT: lambda w, _, a: signed(a, w),
    Op.EXTRACT: lambda w, low, a: a >> low,
    Op.POPC: lambda w, _, a: a.bit_count(),
    Op.CLZ: lambda w, _, a: w - a.bit_length(),
    Op.BREV: lambda w, _, a: int(f"{a:0{w}b}"[::-1], 2),
}


def fold(
    root: Term,
    meaning: Callable[[Term, list[Interpreted]], Interpreted],
    memo: dict[Term, Interpreted] | None = None,
) -> Interpreted:
    """The meaning of a term from those of its arguments. Cost: once for each distinct term.

    ``memo``: meanings from other folds, which are taken from there, and added.
    """
    memo = {} if memo is None else memo
    pending = [root]
    while pending:
        node = pending[-1]
        if node in memo:
            pending.pop()
            continue
        missing = [argument for argument in node.args if argument not in memo]
        if missing:
            pending += missing
        else:
            memo[node] = meaning(node, [memo[argument] for argument in node.args])
            pending.pop()
    return memo[root]


def evaluate(
    root: Term,
    sources: Sequence[int] | Mapping[int, int],
    undetermined: int = 0,
    memo: dict[Term, int] | None = None,
) -> int:
    """The number that a term is, for numbers without sign as sources; ``undetermined`` stands for
    all bits that nothing determines. ``memo``: see :func:`fold`.
    """

    def number(node: Term, numbers: list[int]) -> int:
        if node.op is Op.CONST:
            return node.value
        if node.op is Op.SOURCE:
            return sources[node.value]
        if node.op is Op.ANY:
            return undetermined & ((1 << node.width) - 1)
        return apply(node.op, node.width, node.args, node.value, numbers)

    return fold(root, number, memo)
