"""Laws that relate the quotients of one number by two others, which solvers do not find.

For n >= 0 and a, b > 0, with quotients rounded down:

* ``a <= 2**k`` gives ``n / a >= n / 2**k``, and ``a >= 2**k`` the opposite;
* ``a <= b`` gives ``n / b <= n / a``;
* ``a + n / a <= 2 * b + 1`` gives ``n / b <= b + 2``, which is what Newton's step for square roots
  needs: ``n + 1 <= a * (n / a + 1)``, and a product is at most the square of half the sum of its
  factors, so that ``n + 1 <= ((2 * b + 2) / 2)**2 = b * (b + 2) + 1``;
* ``b <= a`` and ``2 * b <= a + n / a`` give ``2 * (b - n / b) <= a - n / a``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from ptxwcet.ir.terms import Op, Term, const


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
