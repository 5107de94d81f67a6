"""Limited totals: bounds over the ways through a program that pass its tallies seldom enough.

A program with tallies (:class:`~ptxwcet.warp.program.Tally`) allows fewer ways than its tree. Let a
passing of a tally with key k cost ``price(k) >= 0`` cycles. A way that passes it n(k) <= most(k)
times takes x cycles; less what its tallies cost that is at most M(prices), the maximum over *all*
ways through the tree, so that ::

    x <= M(prices) + sum over keys of price(k) * most(k)

for any prices: Lagrangian relaxation. The right side is convex in each price; its least value is
looked for among integers. docs/methods/limited-totals.md has the argument for lengths of warps.

Example: 10 times (a loop of at most 8 iterations of 5 cycles, then 2 cycles), 20 iterations in a
run: with price 0 it is 420 cycles, with price 5 it is 20 + 5 * 20 = 120.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ptxwcet.timing.demand import NO_PRICES, Prices
from ptxwcet.warp.program import Node, Tally
from ptxwcet.warp.structure import entered

_ROUNDS = 2  # of looking for each price in turn, with several limits
_LARGEST_PRICE = 1 << 62  # no price is right where the limits allow no way at all


def find_limits(body: Sequence[Node]) -> dict[str, int]:
    """The keys of the tallies in a body, with their limits. Cost: linear in the tree."""
    return {node.key: node.most for node in entered(body) if isinstance(node, Tally)}


def least_over_prices(
    limits: Mapping[str, int], relaxed: Callable[[Prices], int]
) -> tuple[int, Prices]:
    """The least of ``relaxed(prices) + sum(price * limit)`` that is found, and its prices.

    ``relaxed(prices)`` is M above. Every value that is looked at is a bound; without limits it is
    that without prices. Cost: some dozens of evaluations a limit, for twice the logarithm of the
    price.
    """
    totals: dict[tuple[int, ...], int] = {}
    keys = sorted(limits)

    def total(prices: tuple[int, ...]) -> int:
        if prices not in totals:
            named = {key: price for key, price in zip(keys, prices, strict=True) if price}
            paid = sum(price * limits[key] for key, price in named.items())
            totals[prices] = paid + relaxed(named or NO_PRICES)
        return totals[prices]

    best = (0,) * len(keys)
    total(best)
    for _ in range(_ROUNDS if len(keys) > 1 else 1):
        for place in range(len(keys)):
            best = _along(best, place, total)
    return total(best), dict(zip(keys, best, strict=True))


def _along(
    prices: tuple[int, ...], place: int, total: Callable[[tuple[int, ...]], int]
) -> tuple[int, ...]:
    """The prices with the one at ``place`` changed to where ``total`` is least."""

    def at(price: int) -> int:
        return total((*prices[:place], price, *prices[place + 1 :]))

    step = 1
    while step < _LARGEST_PRICE and at(2 * step) < at(step):
        step *= 2
    low, high = 0, 2 * step  # convex: the least value is between them
    while high - low > 2:
        middle = (low + high) // 2
        if at(middle) <= at(middle + 1):
            high = middle + 1
        else:
            low = middle
    best_price = min(range(low, high + 1), key=at)
    return (*prices[:place], best_price, *prices[place + 1 :])
