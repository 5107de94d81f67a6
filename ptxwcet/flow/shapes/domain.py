"""The operators of terms over patterns: how lanes differ in a result, given how its sources do.

Sums, products with a number and cuts to the low bits keep ``u + offsets`` as it is. Numbers that
are known in each thread are computed in each. Other operators look at bits: where the offsets of a
warp stay below the lowest bit that ``u`` may set, they carry into nothing; the bits below are
numbers in each lane, the bits above are alike in a warp, and an operator treats them apart. What
has no rule is alike in a warp if its arguments are (:mod:`ptxwcet.flow.shapes.pattern`). A result
is a function of its arguments: who agrees on all of them agrees on it. The span of a result is that
of :mod:`ptxwcet.flow.values.term_intervals`.

The domain knows no instructions. Each operator is compared with all lanes of small words
(``tests/oracle/test_pattern_domain.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from math import prod

import numpy as np

from ptxwcet.flow.shapes.pattern import (
    KNOWN,
    MOST_PATTERNS,
    PHASES,
    Agreement,
    Join,
    Lanes,
    Pattern,
    Patterns,
    Value,
    constant,
    hull,
    joined,
    known_number,
    limited,
    normal,
    rows,
    steps,
    trailing_zeros,
    uniform,
)
from ptxwcet.flow.values.intervals import Interval
from ptxwcet.flow.values.term_intervals import Numbers, applied, numbers, whole
from ptxwcet.flow.values.term_lanes import in_lanes
from ptxwcet.flow.values.value import Known, Number, multiply, wrap
from ptxwcet.flow.values.value import Value as LaneValue
from ptxwcet.ir.terms import Op, Term, apply, fold

_LEAST_CUT = 16
"""A cut moves lanes by a multiple of 2 to this power: below it nothing is known of where."""

_MOST_SPAN = 1 << 62
_MOST_KEPT = 1 << 14

Rule = Callable[[Term, Sequence[Pattern]], Pattern | None]


class LaneDomain:
    """Values of terms in so many threads, which are whole warps.

    ``join`` says what is known where one of two values is held. Results are kept, those of
    operators, too: the value of a counter grows by a pattern at a time.
    """

    def __init__(self, threads: int, join: Join = joined) -> None:
        self._threads = threads
        self._join = join
        self._known: dict[tuple[object, ...], Pattern | None] = {}
        self._values: dict[tuple[Term, tuple[Value, ...]], Value] = {}

    def value(self, root: Term, sources: Sequence[Value]) -> Value:
        """Returns what is known of a term from what is known of its sources, by their numbers.

        Cost: linear in the distinct terms and the threads, for each combination of patterns, of
        which there are at most :data:`~ptxwcet.flow.shapes.pattern.MOST_PATTERNS`.
        """
        key = root, tuple(sources)
        if key not in self._values:
            if max(len(self._values), len(self._known)) >= _MOST_KEPT:
                self._values.clear()
                self._known.clear()
            self._values[key] = fold(root, partial(self._meaning, sources))
        return self._values[key]

    def _meaning(self, sources: Sequence[Value], term: Term, args: list[Value]) -> Value:
        if term.op is Op.SOURCE:
            source = sources[term.value]
            return None if source is None else tuple(normal(each, term.width) for each in source)
        if term.op is Op.CONST:
            return (known_number(term.value, term.width),)
        if term.op is Op.ITE:
            return self._chosen(term, args)
        given = [each for each in args if each is not None]
        if len(given) < len(args) or term.op is Op.ANY:
            return self._of_anything(term, args) if given else None
        if prod(map(len, given)) > MOST_PATTERNS:
            given = [hull(each, arg.width) for each, arg in zip(given, term.args, strict=True)]
            if prod(map(len, given)) > MOST_PATTERNS:
                return None
        numbers = [
            [each for pattern in value if (each := pattern.constant) is not None] for value in given
        ]
        if all(len(some) == len(value) for some, value in zip(numbers, given, strict=True)):
            return self._of_numbers(term, numbers)
        results: list[Pattern] = []
        for patterns in product(*given):
            result = self._result(term, patterns)
            if result is None:
                return None
            results.append(result)
        return self._join((), tuple(results), term.width)

    def _of_anything(self, term: Term, args: list[Value]) -> Value:
        """Returns the number that a result is whatever is in the lanes of arguments of which
        nothing is known, as that of a product with 0; else nothing.
        """
        numbers = [
            whole(argument.width) if value is None or len(value) != 1
            else _numbers(value[0], argument.width)
            for value, argument in zip(args, term.args, strict=True)
        ]  # fmt: skip
        result = applied(term, numbers).unsigned
        return (known_number(result.low, term.width),) if result.is_number else None

    def _of_numbers(self, term: Term, numbers: Sequence[Sequence[int]]) -> Value:
        """Returns the result for arguments that are each one of a few numbers of all threads."""
        masks = [(1 << argument.width) - 1 for argument in term.args]
        bits = [[value & mask for value in each] for each, mask in zip(numbers, masks, strict=True)]
        results = (
            apply(term.op, term.width, term.args, term.value, each) for each in product(*bits)
        )
        different = dict.fromkeys(known_number(result, term.width) for result in results)
        return self._join((), tuple(different), term.width)

    def _chosen(self, term: Term, args: list[Value]) -> Value:
        """Returns the side that a test chooses for whole warps, or lane by lane where all numbers
        are known.
        """
        condition, yes, no = args
        if condition is None:
            return None
        sides: Value = ()
        limit = Agreement.BLOCK
        for test in condition:
            if test.constant is not None:
                sides = self._join(sides, yes if test.constant else no, term.width)
            elif test.is_uniform:
                limit = min(limit, test.uniform)
                sides = self._join(self._join(sides, yes, term.width), no, term.width)
            elif test.is_known and yes is not None and no is not None:
                for pair in product(yes, no):
                    chosen = self._result(term, (test, *pair))
                    sides = None if chosen is None else self._join(sides, (chosen,), term.width)
            else:
                return None
            if sides is None:
                return None
        return limited(sides, limit, term.width)

    def _result(self, term: Term, args: tuple[Pattern, ...]) -> Pattern | None:
        key = term, *args
        if key not in self._known:
            self._known[key] = self._computed(term, args)
        return self._known[key]

    def _computed(self, term: Term, args: Sequence[Pattern]) -> Pattern | None:
        if max(term.width, *(argument.width for argument in term.args)) > KNOWN:
            # lanes differ by numbers of 64 bits
            found, span = None, None
        elif all(each.is_known for each in args):
            found, span = self._in_lanes(term, args), None
        else:
            result = applied(term, list(map(_numbers, args, (each.width for each in term.args))))
            if result.unsigned.is_number:
                return known_number(result.unsigned.low, term.width)
            rule = _RULES.get(term.op)
            found = None if rule is None else rule(term, args)
            span = result.signed.low, result.signed.high
        if found is None:
            if not all(each.is_uniform for each in args):
                return None
            found = uniform()
        elif any(found is each for each in args):
            return found
        agreement = min(each.agreement for each in args)
        return normal(replace(found, span=span, agreement=agreement), term.width)

    def _in_lanes(self, term: Term, args: Sequence[Pattern]) -> Pattern | None:
        """Returns the result for arguments that are known in each thread."""
        values: list[LaneValue] = [Known(each.offsets) for each in args]
        found = in_lanes(term, values, np.ones(self._threads, dtype=np.bool_))
        if isinstance(found, Known) and not found.terms and found.valid is None:
            return Pattern(self._lanes(found.base))
        return None

    def _lanes(self, base: Number) -> Number:
        if isinstance(base, int):
            return base
        return np.broadcast_to(np.asarray(base, dtype=np.int64), (self._threads,)).copy()


def moved(value: Patterns, distance: int, width: int) -> Value:
    """Returns the sum of a value and a number of all threads. Cost: linear in the threads."""
    if not distance:
        return tuple(normal(pattern, width) for pattern in value)
    results = [_added(pattern, known_number(distance, width), 1) for pattern in value]
    return joined((), tuple(normal(result, width) for result in results), width)


# --- what keeps the form as it is -----------------------------------------------------------------


def _sum(sign: int) -> Rule:
    def rule(operator: Term, args: Sequence[Pattern]) -> Pattern | None:
        a, b = args
        return _added(a, b, sign)

    return rule


def _added(a: Pattern, b: Pattern, sign: int) -> Pattern:
    offsets = a.offsets + b.offsets if sign > 0 else a.offsets - b.offsets
    align = min(a.align, b.align)
    cuts = a.cuts + b.cuts
    if not cuts:
        return Pattern(offsets, align)
    cut, other = (a, b) if a.cuts else (b, a)
    pure = cut.pure and other.is_uniform
    phase = None
    is_moved = isinstance(other.offsets, int) and other.align >= trailing_zeros(PHASES)
    if pure and is_moved and cut.phase is not None and (cut is a or sign > 0):
        phase = (cut.phase + sign * int(other.offsets)) % PHASES
    return Pattern(offsets, align, cuts, phase, pure)


def _scaled(pattern: Pattern, factor: int, width: int) -> Pattern:
    offsets = multiply(pattern.offsets, factor, width)
    align = KNOWN if pattern.align == KNOWN else pattern.align + trailing_zeros(factor)
    if not pattern.cuts:
        return Pattern(offsets, align)
    lanes = pattern.offsets
    span = 0 if isinstance(lanes, int) else max(map(abs, steps(lanes).reshape(-1).tolist()))
    pure = pattern.pure and span * abs(factor) < _MOST_SPAN
    phase = None if pattern.phase is None or factor < 0 else pattern.phase * factor % PHASES
    return Pattern(offsets, align, pattern.cuts, phase, pure)


def _product(operator: Term, args: Sequence[Pattern]) -> Pattern | None:
    a, b = args if args[1].constant is not None else args[::-1]
    if b.constant is not None:
        return _scaled(a, b.constant, operator.width)
    if b.is_uniform:
        a, b = b, a
    if not a.is_uniform or b.cuts:
        return None
    if not b.is_uniform and trailing_zeros(_steps(b)) + _zeros(a) < operator.width:
        return None  # a multiple of the lane that nobody knows, not of 2**width
    zeros = min(operator.width, sum(_zeros(each) for each in (a, b)))
    return uniform(zeros)


def _steps(pattern: Pattern) -> Number:
    """Returns how each lane differs from the first one of its warp."""
    return 0 if isinstance(pattern.offsets, int) else steps(pattern.offsets)


def _zeros(pattern: Pattern) -> int:
    """Returns the power of two that divides the numbers of all lanes."""
    return min(pattern.align, trailing_zeros(pattern.offsets))


def _shifted_left(operator: Term, args: Sequence[Pattern]) -> Pattern | None:
    value, amount = args
    if amount.constant is not None:
        bits = min(amount.constant % (1 << operator.width), operator.width)
        return _scaled(value, 1 << bits, operator.width)
    if value.is_uniform and amount.is_uniform:
        return uniform(min(operator.width, _zeros(value)))
    return None


# --- the low bits, which are numbers, and the others, which are alike -------------------------


def _parted(args: Sequence[Pattern]) -> tuple[int, list[Number], list[int]] | None:
    """Number of low bits that are known in every lane, what they are, and the power of two that
    divides the bits above of each argument. None if lanes differ in other bits too.
    """
    if any(each.cuts and not each.is_uniform for each in args):
        return None
    bits = min(each.align for each in args)
    low: list[Number] = []
    zeros: list[int] = []
    for each in args:
        if isinstance(each.offsets, int):
            above: Number = each.offsets >> bits
        else:
            above = each.offsets >> bits
            lanes = rows(above)
            if bool((lanes != lanes[:, :1]).any()):
                return None
        low.append(each.offsets & ((1 << bits) - 1))
        zeros.append(min(each.align, bits + trailing_zeros(above)))
    return bits, low, zeros


def _bitwise(operator: Term, args: Sequence[Pattern]) -> Pattern | None:
    if operator.op is Op.AND:
        for value, mask in (args, args[::-1]):
            if mask.constant is not None:
                return _masked(value, mask.constant % (1 << operator.width))
    return _by_bits(operator.op, args)


def _masked(value: Pattern, mask: int) -> Pattern | None:
    """A value AND a constant: its bits above the highest one of the mask do not matter."""
    cut = _low_bits(value, mask.bit_length())
    if cut.is_known:
        return Pattern(cut.offsets & mask)
    return _by_bits(Op.AND, (cut, constant(mask)))


def _unsigned(value: Pattern, width: int) -> Number:
    """Returns the known numbers of a value of ``width`` bits, at most 63, read without sign."""
    return value.offsets & ((1 << width) - 1)


def _low_bits(value: Pattern, bits: int) -> Pattern:
    """Returns the lowest ``bits`` of a value: without its cuts if those bits cannot show them."""
    if bits <= _LEAST_CUT and value.cuts:
        value = Pattern(value.offsets, value.align)
    return normal(value, bits)


def _by_bits(op: Op, args: Sequence[Pattern]) -> Pattern | None:
    parted = _parted(args)
    if parted is None:
        return None
    bits, (a, b), zeros = parted
    align = max(zeros) if op is Op.AND else min(zeros)
    low = a & b if op is Op.AND else a | b if op is Op.OR else a ^ b
    return Pattern(low, max(bits, align))


def _shifted_right(operator: Term, args: Sequence[Pattern]) -> Pattern | None:
    value, amount = args
    if amount.constant is None:
        return None
    by = amount.constant % (1 << operator.width)
    return _shifted(value, by, operator.width, is_signed=operator.op is Op.ASHR)


def _shifted(value: Pattern, by: int, width: int, *, is_signed: bool) -> Pattern | None:
    """Returns a right shift by a number: bits are cut off, and the rest is extended."""
    if by == 0:
        return value
    by = min(by, width - 1)
    rest, whole_value = _cut(value, by, width - by), _numbers(value, width).read(signed=is_signed)
    above = Interval(whole_value.low >> by, whole_value.high >> by)
    return None if rest is None else _extended(rest, width - by, above, is_signed=is_signed)


def _numbers(value: Pattern, width: int) -> Numbers:
    """Returns the numbers that a value of ``width`` bits may be in any lane."""
    span = value.interval
    return whole(width) if span is None else numbers(width, Interval(*span))


def _cut(value: Pattern, by: int, width: int) -> Pattern | None:
    """Returns ``width`` bits of a value from bit ``by`` on."""
    value = _low_bits(value, by + width)
    if by == 0:
        return value
    if value.is_known:
        return normal(Pattern(_unsigned(value, by + width) >> by), width)
    parted = _parted([value])
    if parted is not None:
        bits, (low,), _ = parted
        return normal(Pattern(low >> by, max(0, bits - by)), width)
    if value.cuts or value.align < by:
        return None
    return normal(Pattern(value.offsets >> by, value.align - by), width)


def _quotient(operator: Term, args: Sequence[Pattern]) -> Pattern | None:
    power = _power(args[1], operator.width)
    return None if power is None else _shifted(args[0], power, operator.width, is_signed=False)


def _rest(operator: Term, args: Sequence[Pattern]) -> Pattern | None:
    power = _power(args[1], operator.width)
    return None if power is None else _masked(args[0], (1 << power) - 1)


def _power(pattern: Pattern, width: int) -> int | None:
    number = pattern.constant
    if number is None:
        return None
    number %= 1 << width
    return number.bit_length() - 1 if number and not number & (number - 1) else None


def _lengthened(operator: Term, args: Sequence[Pattern]) -> Pattern | None:
    (value,), width, is_signed = args, operator.args[0].width, operator.op is Op.SEXT
    return _extended(
        value, width, _numbers(value, width).read(signed=is_signed), is_signed=is_signed
    )


def _extended(value: Pattern, width: int, among: Interval, *, is_signed: bool) -> Pattern | None:
    """Returns a value of ``width`` bits read in more of them, where it is ``among`` these.

    No lane goes round where offsets do not carry out of the low bits, or the numbers are less than
    half of all; else they may at a multiple of that half.
    """
    if value.is_known:
        return Pattern(value.offsets if is_signed else _unsigned(value, width))
    parted = _parted([value])
    if parted is not None:
        bits, (low,), _ = parted
        return Pattern(low, bits)
    if value.cuts or width < _LEAST_CUT:
        return None
    assert not isinstance(value.offsets, int), "a number that all lanes have carries nowhere"
    lanes: Lanes = rows(value.offsets)
    apart = np.asarray(wrap(lanes - lanes[:, :1], width), dtype=np.int64)
    offsets: Lanes = (lanes[:, :1] + apart).reshape(-1)
    goes_round = among.high - among.low >= 1 << width - 1
    return Pattern(offsets, value.align, int(goes_round), 0)


def _compared(operator: Term, args: Sequence[Pattern]) -> Pattern | None:
    """Returns whether numbers are equal, or the first is less: bits above decide for all lanes
    alike or, where they are equal, those below do.
    """
    parted = _parted(args)
    if parted is not None:
        low, other = parted[1]
        outcomes = set(np.ravel(low == other if operator.op is Op.EQ else low < other).tolist())
        if operator.op is Op.EQ and outcomes == {False}:
            return constant(0)
        if len(outcomes) == 1:
            return uniform()
    if (
        operator.op is Op.EQ
        and normal(_added(args[0], args[1], -1), operator.args[0].width).is_uniform
    ):
        return uniform()
    return None


def _extracted(operator: Term, args: Sequence[Pattern]) -> Pattern | None:
    return _cut(args[0], operator.value, operator.width)


_RULES: Mapping[Op, Rule] = {
    Op.ADD: _sum(1),
    Op.SUB: _sum(-1),
    Op.MUL: _product,
    Op.NOT: lambda term, args: _added(constant(-1), args[0], -1),
    Op.AND: _bitwise,
    Op.OR: _bitwise,
    Op.XOR: _bitwise,
    Op.SHL: _shifted_left,
    Op.LSHR: _shifted_right,
    Op.ASHR: _shifted_right,
    Op.UDIV: _quotient,
    Op.UREM: _rest,
    Op.ZEXT: _lengthened,
    Op.SEXT: _lengthened,
    Op.EXTRACT: _extracted,
    Op.EQ: _compared,
    Op.ULT: _compared,
    Op.SLT: _compared,
}
"""What these operators keep; the others are alike in a warp if their arguments are, and no more."""
