"""Intervals of terms: the numbers that a result may be where it is not known in each lane.

A term has two intervals, of its bits read without and with sign; what is known of the one that lies
in the half that both read alike is known of the other. A choice refines: in the side that is taken
where ``a < b``, what is compared is in the part of its interval where that can be. The operators
are those of :mod:`ptxwcet.ir.terms`; no instruction is seen here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import NamedTuple

from ptxwcet.flow.values.intervals import Interval, around
from ptxwcet.ir.terms import Op, Term

_MOST_REFINED = 3
"""Choices within choices that refine; deeper ones take both sides as they are."""


class Numbers(NamedTuple):
    """What bits may be, read without sign and with it."""

    unsigned: Interval
    signed: Interval

    def read(self, *, signed: bool) -> Interval:
        """The interval of one reading."""
        return self.signed if signed else self.unsigned


def whole(width: int) -> Numbers:
    """The numbers of a width of which nothing is known."""
    half = 1 << width - 1
    return Numbers(Interval(0, 2 * half - 1), Interval(-half, half - 1))


def numbers(width: int, true: Interval) -> Numbers:
    """Bits of integers in an interval, modulo ``2**width``."""
    return Numbers(_wrapped(width, true, 0), _wrapped(width, true, -(1 << width - 1)))


def _wrapped(width: int, true: Interval, least: int) -> Interval:
    """The interval moved to numbers from ``least`` on; all of them if it wraps around there."""
    turns = (true.low - least) >> width
    low, high = true.low - (turns << width), true.high - (turns << width)
    end = least + (1 << width) - 1
    return Interval(low, high, true.step) if high <= end else Interval(least, end)


def _both(width: int, unsigned: Interval | None, signed: Interval | None) -> Numbers:
    """What two readings say together; None says nothing."""
    any_bits = whole(width)
    one = None if unsigned is None else numbers(width, unsigned)
    two = None if signed is None else numbers(width, signed)
    if one is None or two is None:
        return one or two or any_bits
    return Numbers(_closer(one.unsigned, two.unsigned), _closer(one.signed, two.signed))


def _closer(one: Interval, two: Interval) -> Interval:
    """What lies in both of two intervals that meet; one that is inside the other keeps its step."""
    if one.covers(two):
        return two
    if two.covers(one):
        return one
    return one.meet(two) or one


Known = Callable[[Term], "Numbers | None"]
"""What is known of a term from elsewhere; of a leaf it must be something."""


def numbers_of(root: Term, known: Known) -> Numbers:
    """The numbers of a term. Cost: linear in its distinct parts for each choice that refines."""
    return _Reader(known, {}, 0).numbers(root)


def applied(term: Term, arguments: list[Numbers]) -> Numbers:
    """The numbers of a term from those of its arguments, whatever these are."""
    rule = _RULES.get(term.op)
    return whole(term.width) if rule is None else rule(term, arguments)


class _Reader:
    """Intervals of terms on one side of some choices."""

    def __init__(self, known: Known, assumed: Mapping[Term, Numbers], depth: int) -> None:
        self._known = known
        self._assumed = assumed
        self._depth = depth
        self._found: dict[Term, Numbers] = {}

    def numbers(self, term: Term) -> Numbers:
        found = self._found.get(term)
        if found is None:
            found = self._computed(term)
            assumed = self._assumed.get(term)
            if assumed is not None:
                found = Numbers(
                    _closer(found.unsigned, assumed.unsigned), _closer(found.signed, assumed.signed)
                )
            self._found[term] = found
        return found

    def _computed(self, term: Term) -> Numbers:
        if term.op is Op.CONST:
            return numbers(term.width, Interval(term.value, term.value))
        if term.op is Op.ANY:
            return whole(term.width)
        known = self._known(term)
        if known is not None:
            return known
        if term.op is Op.ITE:
            return self._chosen(term)
        return applied(term, [self.numbers(one) for one in term.args])

    def _chosen(self, term: Term) -> Numbers:
        condition, yes, no = term.args
        sides = [self._side(condition, truth, side) for truth, side in ((True, yes), (False, no))]
        present = [one for one in sides if one is not None]
        if not present:  # of bits that there are not
            return whole(term.width)
        if len(present) == 1:
            return present[0]
        one, two = present
        return Numbers(one.unsigned.hull(two.unsigned), one.signed.hull(two.signed))

    def _side(self, condition: Term, truth: bool, side: Term) -> Numbers | None:
        """A side of a choice; None if it is never taken."""
        if self._depth >= _MOST_REFINED:
            return self.numbers(side)
        assumed = dict(self._assumed)
        if not self._assume(condition, truth, assumed):
            return None
        return _Reader(self._known, assumed, self._depth + 1).numbers(side)

    def _assume(self, condition: Term, truth: bool, assumed: dict[Term, Numbers]) -> bool:
        """Adds what a condition says of what it compares; False if it cannot be."""
        if condition.op is Op.NOT:
            return self._assume(condition.args[0], not truth, assumed)
        if condition.op is (Op.AND if truth else Op.OR):
            return all(self._assume(one, truth, assumed) for one in condition.args)
        decided = self.numbers(condition).unsigned
        if decided.is_number and decided.low != truth:
            return False
        if condition.op in (Op.ULT, Op.SLT):
            return self._ordered(condition, truth, assumed)
        if condition.op is Op.EQ:
            return (self._equal if truth else self._different)(condition, assumed)
        return True

    def _ordered(self, condition: Term, truth: bool, assumed: dict[Term, Numbers]) -> bool:
        less, more = condition.args if truth else reversed(condition.args)
        signed, gap = condition.op is Op.SLT, int(truth)  # less < more, or less <= more
        one, two = (self.numbers(each).read(signed=signed) for each in (less, more))
        if one.low + gap > two.high:
            return False
        below = Interval(one.low, min(one.high, two.high - gap))
        above = Interval(max(two.low, one.low + gap), two.high)
        return _narrow(less, below, signed, assumed) and _narrow(more, above, signed, assumed)

    def _equal(self, condition: Term, assumed: dict[Term, Numbers]) -> bool:
        one, two = condition.args
        for signed in (False, True):
            both = self.numbers(one).read(signed=signed).meet(self.numbers(two).read(signed=signed))
            if not (_narrow(one, both, signed, assumed) and _narrow(two, both, signed, assumed)):
                return False
        return True

    def _different(self, condition: Term, assumed: dict[Term, Numbers]) -> bool:
        """A number at the end of an interval that it is not."""
        for one, two in (condition.args, condition.args[::-1]):
            for signed in (False, True):
                mine, other = (self.numbers(each).read(signed=signed) for each in (one, two))
                if not other.is_number or mine.is_number:
                    continue
                low, high = mine.low + (mine.low == other.low), mine.high - (mine.high == other.low)
                if not _narrow(one, Interval(low, high), signed, assumed):
                    return False
        return True


def _narrow(
    term: Term, interval: Interval | None, signed: bool, assumed: dict[Term, Numbers]
) -> bool:
    """Adds that a term lies in an interval; False if that leaves nothing."""
    if interval is None:
        return False
    narrowed = numbers(term.width, interval)
    before = assumed.get(term)
    if before is not None:
        unsigned = narrowed.unsigned.meet(before.unsigned)
        together = narrowed.signed.meet(before.signed)
        if unsigned is None or together is None:
            return False
        narrowed = Numbers(unsigned, together)
    assumed[term] = narrowed
    return True


# --- operators ------------------------------------------------------------------------------------


_Rule = Callable[[Term, list[Numbers]], Numbers]


def _ends(interval: Interval) -> tuple[int, int]:
    return interval.low, interval.high


def _ring(combine: Callable[[Interval, Interval], Interval]) -> _Rule:
    """The rule of a ring operation, which is that of integers modulo the width in any reading."""

    def rule(term: Term, v: list[Numbers]) -> Numbers:
        a, b = v
        from_unsigned = combine(a.unsigned, b.unsigned)
        from_signed = combine(a.signed, b.signed)
        first, second = numbers(term.width, from_unsigned), numbers(term.width, from_signed)
        mixed = numbers(term.width, combine(a.unsigned, b.signed))
        return Numbers(
            _closer(_closer(first.unsigned, second.unsigned), mixed.unsigned),
            _closer(_closer(first.signed, second.signed), mixed.signed),
        )

    return rule


def _sum(a: Interval, b: Interval) -> Interval:
    if a.is_number:
        a, b = b, a
    return Interval(a.low + b.low, a.high + b.high, a.step) if b.is_number else a.plus(b)


def _difference(a: Interval, b: Interval) -> Interval:
    if b.is_number:
        return Interval(a.low - b.low, a.high - b.low, a.step)
    return Interval(a.low - b.high, a.high - b.low)


def _product(a: Interval, b: Interval) -> Interval:
    if a.is_number:
        a, b = b, a
    if b.is_number and b.low > 0:
        return Interval(a.low * b.low, a.high * b.low, a.step * b.low)
    return around(x * y for x in _ends(a) for y in _ends(b))


def _and(term: Term, v: list[Numbers]) -> Numbers:
    a, b = (one.unsigned for one in v)
    most = min(a.high, b.high)
    mask = a if a.is_number else b
    step = mask.low & -mask.low if mask.is_number and mask.low else 1
    return numbers(term.width, Interval(0, most // step * step, step))


def _or(term: Term, v: list[Numbers]) -> Numbers:
    a, b = (one.unsigned for one in v)
    most = (1 << max(a.high, b.high).bit_length()) - 1
    return numbers(term.width, Interval(max(a.low, b.low), most))


def _xor(term: Term, v: list[Numbers]) -> Numbers:
    a, b = (one.unsigned for one in v)
    return numbers(term.width, Interval(0, (1 << max(a.high, b.high).bit_length()) - 1))


def _not(term: Term, v: list[Numbers]) -> Numbers:
    (a,) = v
    signed = Interval(-1 - a.signed.high, -1 - a.signed.low, a.signed.step)
    unsigned = Interval(-1 - a.unsigned.high, -1 - a.unsigned.low, a.unsigned.step)
    return _both(term.width, unsigned, signed)


def _shift_left(term: Term, v: list[Numbers]) -> Numbers:
    value, amount = v[0], v[1].unsigned
    if not amount.is_number:
        return whole(term.width)
    if amount.low >= term.width:
        return numbers(term.width, Interval(0, 0))
    factor = Interval(1 << amount.low, 1 << amount.low)
    return _both(term.width, _product(value.unsigned, factor), _product(value.signed, factor))


def _shift_right(signed: bool) -> _Rule:
    def rule(term: Term, v: list[Numbers]) -> Numbers:
        value, amount = v[0].read(signed=signed), v[1].unsigned
        amounts = (min(amount.low, term.width), min(amount.high, term.width))
        return numbers(term.width, around(x >> n for x in _ends(value) for n in amounts))

    return rule


def _quotient(signed: bool) -> _Rule:
    """The rule of quotients; it bounds none whose divisor may be 0 or less."""

    def rule(term: Term, v: list[Numbers]) -> Numbers:
        value, divisor = (one.read(signed=signed) for one in v)
        if divisor.low <= 0:
            return whole(term.width)
        pairs = product(_ends(value), _ends(divisor))
        ends = (x // d if x >= 0 else -(-x // d) for x, d in pairs)
        return numbers(term.width, around(ends))

    return rule


def _remainder(signed: bool) -> _Rule:
    def rule(term: Term, v: list[Numbers]) -> Numbers:
        value, divisor = (one.read(signed=signed) for one in v)
        if divisor.low <= 0:
            return whole(term.width)
        most = divisor.high - 1
        low = 0 if value.low >= 0 else max(value.low, -most)
        return numbers(term.width, Interval(low, 0 if value.high <= 0 else min(value.high, most)))

    return rule


def _less(signed: bool) -> _Rule:
    def rule(term: Term, v: list[Numbers]) -> Numbers:
        a, b = (one.read(signed=signed) for one in v)
        return numbers(1, Interval(int(a.high < b.low), int(a.low < b.high)))

    return rule


def _equality(term: Term, v: list[Numbers]) -> Numbers:
    a, b = v
    if a.unsigned.meet(b.unsigned) is None or a.signed.meet(b.signed) is None:
        return numbers(1, Interval(0, 0))
    sure = a.unsigned.is_number and b.unsigned.is_number
    return numbers(1, Interval(int(sure), 1))


def _part(term: Term, v: list[Numbers]) -> Numbers:
    def cut(interval: Interval) -> Interval:
        if term.value == 0:
            return interval
        return Interval(interval.low >> term.value, interval.high >> term.value)

    return _both(term.width, cut(v[0].unsigned), cut(v[0].signed))


def _zeros(term: Term, v: list[Numbers]) -> Numbers:
    low, high = (term.width - end.bit_length() for end in reversed(_ends(v[0].unsigned)))
    return numbers(term.width, Interval(low, high))


_RULES: dict[Op, _Rule] = {
    Op.ADD: _ring(_sum),
    Op.SUB: _ring(_difference),
    Op.MUL: _ring(_product),
    Op.UDIV: _quotient(False),
    Op.UREM: _remainder(False),
    Op.SDIV: _quotient(True),
    Op.SREM: _remainder(True),
    Op.AND: _and,
    Op.OR: _or,
    Op.XOR: _xor,
    Op.NOT: _not,
    Op.SHL: _shift_left,
    Op.LSHR: _shift_right(False),
    Op.ASHR: _shift_right(True),
    Op.ULT: _less(False),
    Op.SLT: _less(True),
    Op.EQ: _equality,
    Op.ZEXT: lambda term, v: numbers(term.width, v[0].unsigned),
    Op.SEXT: lambda term, v: numbers(term.width, v[0].signed),
    Op.EXTRACT: _part,
    Op.POPC: lambda term, v: numbers(term.width, Interval(0, v[0].unsigned.high.bit_length())),
    Op.CLZ: _zeros,
}
