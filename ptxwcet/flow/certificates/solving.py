"""Questions about terms, answered by the solver with an effort that is counted.

Quotients of numbers without sign by what is no constant stay unknown functions, of which the solver
is told what may matter: for n >= 0 and a, b > 0, with quotients rounded down:

* ``a <= 2**k`` gives ``n / a >= n / 2**k``, and ``a >= 2**k`` the opposite;
* ``a <= b`` gives ``n / b <= n / a``;
* ``a + n / a <= 2 * b + 1`` gives ``n / b <= b + 2``, which is what Newton's step for square roots
  needs: ``n + 1 <= a * (n / a + 1)``, and a product is at most the square of half the sum of its
  factors, so that ``n + 1 <= ((2 * b + 2) / 2)**2 = b * (b + 2) + 1``;
* ``b <= a`` and ``2 * b <= a + n / a`` give ``2 * (b - n / b) <= a - n / a``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import permutations

from ptxwcet.flow.effort import Effort
from ptxwcet.ir.terms import Op, Term, any_bits, const, evaluate, fold, term
from ptxwcet.support.smt import Answer, Expression, Formula


def laws_of(one: Term, two: Term) -> Iterator[Term]:
    """Terms of one bit that are true: of two quotients of one number, signed or not.

    Cost: some dozens, one for each bit.
    """
    number, signed = one.args[0], one.op is Op.SDIV
    width = number.width
    divisors = [by for quotient in (one, two) for by in quotient.args[1:]]
    excluded = const(0, 1)
    for by in divisors:
        excluded |= by.equals(0)
    if signed:
        for by in (number, *divisors):
            excluded |= by.less_than(0, signed=True)
    for quotient, by in ((one, divisors[0]), (two, divisors[1])):
        for k in range(width - signed):
            power, most = const(1 << k, width), number.shifted_right(k, signed=False)
            yield excluded | power.less_than(by, signed=False) | _at_most(most, quotient)
            yield excluded | by.less_than(power, signed=False) | _at_most(quotient, most)
    wide = width + 2
    for (a, by_a), (b, by_b) in permutations(((divisors[0], one), (divisors[1], two))):
        is_above, is_below = (x.less_than(y, signed=False) for x, y in ((b, a), (a, b)))
        yield excluded | is_above | _at_most(by_b, by_a)
        a, by_a, b, by_b = (part.extended(wide, signed=False) for part in (a, by_a, b, by_b))
        yield excluded | (b * 2 + 1).less_than(a + by_a, signed=False) | _at_most(by_b, b + 2)
        is_more = (a + by_a).less_than(b * 2, signed=False)
        less = (a - by_a).less_than((b - by_b) * 2, signed=True)
        yield excluded | is_below | is_more | ~less


def _at_most(one: Term, two: Term) -> Term:
    return ~two.less_than(one, signed=False)


_DIVISIONS = (Op.UDIV, Op.UREM, Op.SDIV, Op.SREM)
_GRAIN = 32
_ASKING = 60
"""Effort of building a question, whatever its answer takes."""


def arithmetic_width(bits: int) -> int:
    """Bits in which sums of so many are computed: products of the same are the same term then."""
    return -(-bits // _GRAIN) * _GRAIN


class Question:
    """Whether some sources make terms of one bit true together.

    A quotient by a constant is the number whose multiple leaves a remainder below the constant:
    solvers know the one less well than the other. They are told how quotients of one number hang
    together (:mod:`~ptxwcet.flow.certificates.solving`).
    """

    def __init__(self) -> None:
        self._formula = Formula()
        self._known: dict[Term, Expression] = {}
        self._quotients: dict[tuple[Term, int], tuple[Term, Term]] = {}
        self._divided_by: dict[tuple[Op, Term], list[Term]] = {}

    def require(self, truth: Term) -> None:
        """Adds a term of one bit that is to be true. Cost: once for each distinct term."""
        self._formula.require(self._expression(truth))

    def narrow(self, register: Term, low: int, high: int) -> None:
        """Makes a source one of few bits, extended: it is required to be from ``low`` to ``high``.

        Ranges alone say as much, but where high bits are the same the solver need not find that.
        To be called before anything is required of the source.
        """
        bits = max(low.bit_length(), high.bit_length()) + (low < 0)
        if register.op is not Op.SOURCE or register in self._known or not 0 < bits < register.width:
            return
        part = self._formula.variable(bits)
        operator = "sign_extend" if low < 0 else "zero_extend"
        self._known[register] = self._formula.apply(operator, register.width, [part])

    def answer(self, most: int, effort: Effort) -> Answer:
        """Whether it is possible. Raises TooMuchEffort. Cost: see :meth:`Formula.solve`."""
        effort.spend(_ASKING)
        found = self._formula.solve(min(most, (effort.most - effort.spent) // 2 + 1))
        effort.spend(self._formula.spent)
        return found

    def close(self) -> None:
        """Releases what the solver holds, in an order that it survives; nothing is asked anymore.

        Left to the garbage collector it is taken apart in any order, and ends the process.
        """
        self._known.clear()
        self._formula.close()

    def number(self, one: Term) -> int:
        """What a term, which was asked about, is for the sources that were found, without sign."""
        return self._formula.value(self._expression(one))

    def state(self) -> State:
        """The numbers that make all true together; after ``POSSIBLE`` only."""
        leaves = (Op.SOURCE, Op.ANY)
        return State({one: self.number(one) for one in list(self._known) if one.op in leaves})

    def _expression(self, root: Term) -> Expression:
        """The solver's expression of a term."""
        return fold(root, self._built, self._known)

    def _built(self, one: Term, args: list[Expression]) -> Expression:
        match one.op:
            case Op.CONST:
                return self._formula.constant(one.value, one.width)
            case Op.SOURCE | Op.ANY:
                return self._formula.variable(one.width)
        if one.op in _DIVISIONS and one.args[1].op is Op.CONST:
            divided = self._by_constant(one)
            if divided is not None:
                return self._expression(divided)
        found = self._formula.apply(one.op.value, one.width, args, one.value)
        if one.op in (Op.UDIV, Op.SDIV):
            self._known[one] = found
            others = self._divided_by.setdefault((one.op, one.args[0]), [])
            for law in [law for other in others for law in laws_of(one, other)]:
                self.require(law)
            others.append(one)
        return found

    def _by_constant(self, division: Term) -> Term | None:
        """A quotient or remainder by a constant, in other terms; None if it is for the solver."""
        number, by = division.args
        width, signed = division.width, division.op in (Op.SDIV, Op.SREM)
        divisor_is_negative = signed and bool(by.value >> (width - 1))
        divisor = (1 << width) - by.value if divisor_is_negative else by.value
        if divisor < 2 or (not signed and divisor & (divisor - 1) == 0):
            return None
        is_negative = number.less_than(0, signed=True)
        quotient, rest = self._divided(
            is_negative.choose(-number, number) if signed else number, divisor
        )
        if not signed:
            return quotient if division.op is Op.UDIV else rest
        if division.op is Op.SREM:
            return is_negative.choose(-rest, rest)
        turned = ~is_negative if divisor_is_negative else is_negative
        return turned.choose(-quotient, quotient)

    def _divided(self, number: Term, divisor: int) -> tuple[Term, Term]:
        """Quotient and remainder of a number without sign, by what defines them."""
        width, key = number.width, (number, divisor)
        if key not in self._quotients:
            below = number.shifted_right(divisor.bit_length() - 1, signed=False)
            if divisor & (divisor - 1) == 0:
                self._quotients[key] = below, number & (divisor - 1)
                return self._quotients[key]
            quotient, rest = any_bits(width), any_bits(width)
            wide = arithmetic_width(width + divisor.bit_length())
            product = quotient.extended(wide, signed=False) * divisor
            whole = product + rest.extended(wide, signed=False)
            self._quotients[key] = quotient, rest
            self.require(whole.equals(number.extended(wide, signed=False)))
            self.require(rest.less_than(divisor, signed=False))
            self.require(~below.less_than(quotient, signed=False))  # follows, but helps
        return self._quotients[key]


class State:
    """Numbers of sources, in which a question may have its answer without the solver."""

    def __init__(self, numbers: Mapping[Term, int]) -> None:
        self._known = dict(numbers)

    def makes_true(self, truth: Term) -> bool:
        """Whether a term of one bit is true where all other sources are 0.

        Cost: once for each distinct term, whatever is asked of the same state.
        """
        return bool(evaluate(truth, defaultdict(int), memo=self._known))


def all_of(truths: list[Term]) -> Term:
    """The term of one bit that says whether all of ``truths`` are true."""
    found = const(1, 1)
    for one in truths:
        found = one if found.op is Op.CONST and found.value else term(Op.AND, 1, (found, one))
    return found
