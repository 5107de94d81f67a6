"""The operators of terms over patterns: differences of lanes in a result, from those of its
sources.

Sums, products with a number and cuts to the low bits keep ``u + offsets`` as it is. Numbers that
are known in each thread are computed in each. Other operators work on bits: where the offsets of a
warp stay below the lowest bit that ``u`` may set, they do not carry; the bits below are numbers in
each lane, the bits above are warp-uniform, and an operator treats them separately. A result without
a rule is warp-uniform if its arguments are (:mod:`ptxwcet.memory.pattern`).

Each operator is compared with all lanes of small words (``tests/oracle/test_pattern_domain.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from math import prod

import numpy as np

from ptxwcet.flow.values.term_lanes import in_lanes
from ptxwcet.flow.values.value import Known, Number, multiply, wrap
from ptxwcet.flow.values.value import Value as LaneValue
from ptxwcet.ir.terms import Op, Term, apply, fold
from ptxwcet.memory.pattern import (
    KNOWN,
    MOST_PATTERNS,
    PHASES,
    Lanes,
    Pattern,
    Patterns,
    Value,
    constant,
    hull,
    joined,
    known_number,
    normal,
    rows,
    steps,
    trailing_zeros,
    uniform,
)

_LEAST_CUT = 16
"""A cut moves lanes by a multiple of 2 to this power: below it nothing is known of where."""

_MOST_SPAN = 1 << 62

Rule = Callable[[Term, Sequence[Pattern]], Pattern | None]


Results = dict[tuple[object, ...], Pattern | None]
"""The results of terms, by the term and the patterns of its arguments."""


def meaning(
    root: Term, sources: Sequence[Value], threads: int, known: Results | None = None
) -> Value:
    """Evaluates a term over the values of its sources, by their numbers.

    ``threads`` is the number of threads of the block, in whole warps; ``known`` are earlier results
    for as many threads, which are used and extended: the value of a counter grows by one pattern at
    a time. Cost: linear in the distinct terms and the threads, for each combination of patterns, at
    most :data:`~ptxwcet.memory.pattern.MOST_PATTERNS`.
    """
    result = partial(_result, threads, {} if known is None else known)
    found: Value = fold(root, partial(_meaning, sources, result))
    return found


def moved(value: Patterns, distance: int, width: int) -> Value:
    """Adds a number that all threads share to a value. Cost: linear in the threads."""
    if not distance:
        return tuple(normal(pattern, width) for pattern in value)
    results = [_added(pattern, known_number(distance, width), 1) for pattern in value]
    return joined((), tuple(normal(result, width) for result in results), width)


_Result = Callable[[Term, tuple[Pattern, ...]], Pattern | None]


def _meaning(sources: Sequence[Value], result_of: _Result, term: Term, args: list[Value]) -> Value:
    if term.op is Op.SOURCE:
        source = sources[term.value]
        return None if source is None else tuple(normal(each, term.width) for each in source)
    if term.op is Op.CONST:
        return (known_number(term.value, term.width),)
    if term.op is Op.ITE:
        return _chosen(term, args, result_of)
    given = [each for each in args if each is not None]
    if len(given) < len(args) or term.op is Op.ANY:
        return None
    if prod(map(len, given)) > MOST_PATTERNS:
        given = [hull(each, arg.width) for each, arg in zip(given, term.args, strict=True)]
        if prod(map(len, given)) > MOST_PATTERNS:
            return None
    numbers = [
        [each for pattern in value if (each := pattern.constant) is not None] for value in given
    ]
    if all(len(some) == len(value) for some, value in zip(numbers, given, strict=True)):
        return _of_numbers(term, numbers)
    results: list[Pattern] = []
    for patterns in product(*given):
        result = result_of(term, patterns)
        if result is None:
            return None
        results.append(result)
    return joined((), tuple(results), term.width)


def _of_numbers(root: Term, numbers: Sequence[Sequence[int]]) -> Value:
    """Returns the result for arguments that are each one of a few numbers, equal in all threads."""
    masks = [(1 << term.width) - 1 for term in root.args]
    bits = [[value & mask for value in each] for each, mask in zip(numbers, masks, strict=True)]
    results = (apply(root.op, root.width, root.args, root.value, each) for each in product(*bits))
    different = dict.fromkeys(known_number(result, root.width) for result in results)
    return joined((), tuple(different), root.width)


def _chosen(term: Term, args: list[Value], result_of: _Result) -> Value:
    """Returns the side that a test selects for whole warps, or per lane if all are numbers."""
    condition, yes, no = args
    if condition is None:
        return None
    sides: Value = ()
    for test in condition:
        if test.constant is not None:
            sides = joined(sides, yes if test.constant else no, term.width)
        elif test.is_uniform:
            sides = joined(joined(sides, yes, term.width), no, term.width)
        elif test.align == KNOWN and yes is not None and no is not None and not test.cuts:
            for pair in product(yes, no):
                chosen = result_of(term, (test, *pair))
                sides = None if chosen is None else joined(sides, (chosen,), term.width)
        else:
            return None
        if sides is None:
            return None
    return sides


def _result(threads: int, known: Results, one: Term, args: tuple[Pattern, ...]) -> Pattern | None:
    key = one, *args
    if key not in known:
        known[key] = _computed(one, args, threads)
    return known[key]


def _computed(root: Term, args: Sequence[Pattern], threads: int) -> Pattern | None:
    if max(root.width, *(term.width for term in root.args)) > KNOWN:
        # Lanes differ by numbers of 64 bits: of wider words only warp-uniform ones are represented.
        return normal(uniform(), root.width) if all(each.is_uniform for each in args) else None
    if all(each.align == KNOWN and not each.cuts for each in args):
        return _known(root, args, threads)
    rule = _RULES.get(root.op)
    result = None if rule is None else rule(root, args)
    if result is None and all(each.is_uniform for each in args):
        result = uniform()
    return None if result is None else normal(result, root.width)


def _known(term: Term, args: Sequence[Pattern], threads: int) -> Pattern | None:
    """Returns the result for arguments that are known in each thread.

    If the rules for lanes do not give it: a uniform number if all arguments are uniform.
    """
    values: list[LaneValue] = [Known(each.offsets) for each in args]
    found = in_lanes(term, values, np.ones(threads, dtype=np.bool_))
    if isinstance(found, Known) and not found.terms and found.valid is None:
        return normal(Pattern(_numbers(found.base, threads)), term.width)
    return uniform() if all(each.is_uniform for each in args) else None


def _numbers(base: Number, threads: int) -> Number:
    if isinstance(base, int):
        return base
    return np.broadcast_to(np.asarray(base, dtype=np.int64), (threads,)).copy()


# --- Operators that keep the form of a pattern ----------------------------------------------------


def _sum(sign: int) -> Rule:
    def rule(one: Term, args: Sequence[Pattern]) -> Pattern | None:
        a, b = args
        return _added(a, b, sign)

    return rule


def _added(a: Pattern, b: Pattern, sign: int) -> Pattern:
    offsets = a.offsets + b.offsets if sign > 0 else a.offsets - b.offsets
    align = min(a.align, b.align)
    cuts = a.cuts + b.cuts
    span = _sum_of(a.interval, b.interval, sign)
    if not cuts:
        return Pattern(offsets, align, span=span)
    cut, other = (a, b) if a.cuts else (b, a)
    pure = cut.pure and other.is_uniform
    phase = None
    is_moved = isinstance(other.offsets, int) and other.align >= trailing_zeros(PHASES)
    if pure and is_moved and cut.phase is not None and (cut is a or sign > 0):
        phase = (cut.phase + sign * int(other.offsets)) % PHASES
    return Pattern(offsets, align, cuts, phase, pure)


_Span = tuple[int, int] | None


def _sum_of(a: _Span, b: _Span, sign: int) -> _Span:
    if a is None or b is None:
        return None
    return (a[0] + b[0], a[1] + b[1]) if sign > 0 else (a[0] - b[1], a[1] - b[0])


def _product_of(a: _Span, b: _Span) -> _Span:
    if a is None or b is None:
        return None
    products = [x * y for x in a for y in b]
    return min(products), max(products)


def _complement(one: Term, args: Sequence[Pattern]) -> Pattern | None:
    (a,) = args
    return Pattern(-1 - a.offsets, a.align, a.cuts, None, a.pure)


def _scaled(pattern: Pattern, factor: int, width: int) -> Pattern:
    if factor % (1 << width) == 0:
        return constant(0)
    offsets = multiply(pattern.offsets, factor, width)
    align = KNOWN if pattern.align == KNOWN else pattern.align + trailing_zeros(factor)
    if not pattern.cuts:
        return Pattern(offsets, align, span=_product_of(pattern.interval, (factor, factor)))
    lanes = pattern.offsets
    span = 0 if isinstance(lanes, int) else max(map(abs, steps(lanes).reshape(-1).tolist()))
    pure = pattern.pure and span * abs(factor) < _MOST_SPAN
    phase = None if pattern.phase is None or factor < 0 else pattern.phase * factor % PHASES
    return Pattern(offsets, align, pattern.cuts, phase, pure)


def _product(term: Term, args: Sequence[Pattern]) -> Pattern | None:
    a, b = args if args[1].constant is not None else args[::-1]
    if b.constant is not None:
        return _scaled(a, b.constant, term.width)
    if not (a.is_uniform and b.is_uniform):
        return None
    zeros = min(term.width, sum(_zeros(each) for each in (a, b)))
    return uniform(zeros, _product_of(a.interval, b.interval))


def _zeros(pattern: Pattern) -> int:
    """Returns the power of two that divides a uniform number."""
    return min(pattern.align, trailing_zeros(pattern.offsets))


def _shifted_left(term: Term, args: Sequence[Pattern]) -> Pattern | None:
    value, amount = args
    if amount.constant is not None:
        bits = min(amount.constant % (1 << term.width), term.width)
        return _scaled(value, 1 << bits, term.width)
    if value.is_uniform and amount.is_uniform:
        return uniform(min(term.width, _zeros(value)))
    return None


# --- the low bits, which are numbers, and the others, which are alike -------------------------


def _parted(args: Sequence[Pattern]) -> tuple[int, list[Number], list[int]] | None:
    """Returns the number of low bits that are known in every lane, their values, and for each
    argument the power of two that divides the bits above; None if lanes differ in other bits too.
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


def _bitwise(term: Term, args: Sequence[Pattern]) -> Pattern | None:
    if term.op is Op.AND:
        for value, mask in (args, args[::-1]):
            if mask.constant is not None:
                return _masked(value, mask.constant % (1 << term.width), term.width)
    return _by_bits(term.op, args)


def _masked(value: Pattern, mask: int, width: int) -> Pattern | None:
    """Returns a value AND a constant: its bits above the highest one of the mask do not matter."""
    cut = normal(_without_cuts(value, mask.bit_length()), mask.bit_length()) if mask else None
    if cut is None:
        return constant(0)
    if cut.align == KNOWN:
        return Pattern(cut.offsets & mask)
    found = _by_bits(Op.AND, (cut, constant(mask)))
    return None if found is None else replace(found, span=(0, mask))


def _without_cuts(value: Pattern, bits: int) -> Pattern:
    """Returns a value of which ``bits`` are used: without its cuts if those do not show them."""
    return Pattern(value.offsets, value.align, span=value.span) if bits <= _LEAST_CUT else value


def _by_bits(op: Op, args: Sequence[Pattern]) -> Pattern | None:
    parted = _parted(args)
    if parted is None:
        return None
    bits, (a, b), zeros = parted
    align = max(zeros) if op is Op.AND else min(zeros)
    low = a & b if op is Op.AND else a | b if op is Op.OR else a ^ b
    return Pattern(low, max(bits, align))


def _shifted_right(term: Term, args: Sequence[Pattern]) -> Pattern | None:
    value, amount = args
    if amount.constant is None:
        return None
    by = amount.constant % (1 << term.width)
    if by == 0:
        return value
    return None if by >= term.width else _cut_off(value, by, term.width - by)


def _cut_off(value: Pattern, by: int, left: int) -> Pattern | None:
    """Returns a value shifted right by ``by`` bits, so that ``left`` bits of it remain."""
    span = value.interval
    above = None if span is None or span[0] < 0 else (span[0] >> by, span[1] >> by)
    parted = _parted([value])
    if parted is not None:
        bits, (low,), zeros = parted
        return Pattern(low >> by, max(0, min(bits, zeros[0]) - by), span=above)
    if value.cuts or value.align < by or trailing_zeros(value.offsets) < by or left < _LEAST_CUT:
        return None
    return _gone_round(Pattern(value.offsets >> by, value.align - by, span=above), left)


def _quotient(one: Term, args: Sequence[Pattern]) -> Pattern | None:
    power = _power(args[1], one.width)
    if power is None:
        return None
    return args[0] if power == 0 else _cut_off(args[0], power, one.width - power)


def _rest(one: Term, args: Sequence[Pattern]) -> Pattern | None:
    power = _power(args[1], one.width)
    return None if power is None else _masked(args[0], (1 << power) - 1, one.width)


def _power(pattern: Pattern, width: int) -> int | None:
    number = pattern.constant
    if number is None:
        return None
    number %= 1 << width
    return number.bit_length() - 1 if number and not number & (number - 1) else None


def _lengthened(term: Term, args: Sequence[Pattern]) -> Pattern | None:
    """Extends a value to more bits: no lane wraps if offsets do not carry out of the low bits."""
    (value,) = args
    parted = _parted(args)
    if parted is not None:
        bits, (low,), zeros = parted
        align = max(bits, min(zeros[0], term.args[0].width))
        return Pattern(low, align, span=_read(term, value))
    if value.cuts or term.args[0].width < _LEAST_CUT:
        return None
    return _gone_round(replace(value, span=_read(term, value)), term.args[0].width)


def _read(one: Term, value: Pattern) -> _Span:
    """Returns the least and the largest number of a value that is read in more bits."""
    span, half = value.interval, 1 << one.args[0].width - 1
    if one.op is Op.SEXT:
        return (-half, half - 1) if span is None else span
    return (0, 2 * half - 1) if span is None or span[0] < 0 else span


def _compared(term: Term, args: Sequence[Pattern]) -> Pattern | None:
    """Compares numbers: whether they are equal, or one is less, if their ranges do not overlap."""
    first, second = (each.interval for each in args)
    if first is None or second is None:
        return None
    if term.op is Op.ULT and min(first[0], second[0]) < 0:
        return None  # nothing is known of numbers read without sign there
    is_below, is_above = first[1] < second[0], first[0] > second[1]
    if term.op is Op.EQ:
        return constant(0) if is_below or is_above else None
    return constant(1) if is_below else constant(0) if first[0] >= second[1] else None


def _gone_round(value: Pattern, width: int) -> Pattern:
    """Returns a number of ``width`` bits read in more: lanes may go round, at a multiple of half,
    unless all of them hold numbers in a span of less than half.
    """
    assert not isinstance(value.offsets, int), "a number that all lanes have carries nowhere"
    lanes: Lanes = rows(value.offsets)
    apart = np.asarray(wrap(lanes - lanes[:, :1], width), dtype=np.int64)
    offsets: Lanes = (lanes[:, :1] + apart).reshape(-1)
    span = value.span
    if span is not None and span[1] - span[0] < 1 << width - 1:
        return Pattern(offsets, value.align, span=span)
    return Pattern(offsets, value.align, 1, 0, span=span)


def _extracted(one: Term, args: Sequence[Pattern]) -> Pattern | None:
    (value,) = args
    if one.value == 0:
        return _without_cuts(value, one.width)
    return _cut_off(value, one.value, one.width)


_RULES: Mapping[Op, Rule] = {
    Op.ADD: _sum(1),
    Op.SUB: _sum(-1),
    Op.MUL: _product,
    Op.NOT: _complement,
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
