"""Computes the demand of warps on the issue port and the units, as sums over paths.

Limited totals allow only the paths through a program that pass tallies seldom enough. A
program with tallies (:class:`~ptxwcet.warp.program.Tally`) allows fewer paths than its tree. Let a
passing of a tally with key k cost ``price(k) >= 0`` cycles. A path that passes it n(k) <= most(k)
times takes x cycles; less the cost of its tallies that is at most M(prices), the maximum over *all*
paths through the tree, so that ::

    x <= M(prices) + sum over keys of price(k) * most(k)

for any prices: Lagrangian relaxation. The right side is convex in each price; its least value is
searched among integers. docs/methods/limited-totals.md has the argument for lengths of warps.

Example: 10 times (a loop of at most 8 iterations of 5 cycles, then 2 cycles), 20 iterations in a
run: with price 0 it is 420 cycles, with price 5 it is 20 + 5 * 20 = 120.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from ptxwcet.warp.program import (
    WARPGROUP,
    Barrier,
    BlockChoice,
    BlockRepeat,
    BlockWorkload,
    Choice,
    Node,
    PartialBarrier,
    Repeat,
    Tally,
    TimedInstruction,
    Unordered,
)
from ptxwcet.warp.structure import bodies, entered, issued, joining

Prices = Mapping[str, int]
"""The cost of passing a tally, by its key; 0 for a key that is absent."""

NO_PRICES: Prices = MappingProxyType({})


def most_cycles(
    body: Sequence[Node], weight: Callable[[TimedInstruction], int], prices: Prices = NO_PRICES
) -> int:
    """Returns the largest sum of ``weight >= 0`` over a path, less the cost of its tallies.

    The limits of tallies do not count here. Cost: linear in the tree.
    """
    total = 0
    for node in body:
        match node:
            case TimedInstruction():
                total += weight(node)
            case Barrier(instruction=instruction) | PartialBarrier(instruction=instruction):
                total += weight(instruction)
            case Repeat(count=count, body=inner) | BlockRepeat(count=count, body=inner):
                if count:
                    per_iteration = most_cycles(inner, weight, prices)
                    total += (count if per_iteration >= 0 else node.least) * per_iteration
            case Unordered(first, second):
                total += most_cycles(first, weight, prices) + most_cycles(second, weight, prices)
            case Choice(alternatives) | BlockChoice(alternatives=alternatives):
                sides = (most_cycles(side, weight, prices) for side in alternatives)
                total += max(sides, default=0)
            case Tally(key):
                total -= prices.get(key, 0)
    return total


def heaviest_cycles(
    body: Sequence[Node], weight: Callable[[TimedInstruction], int], prices: Prices = NO_PRICES
) -> dict[int, int]:
    """Returns the share of each of the kernel's instructions in :func:`most_cycles`.

    The cost of tallies is left out. The heaviest of several alternatives counts, the first of equal
    ones. Cost: linear in the tree, times the depth of alternatives within alternatives.
    """
    shares: dict[int, int] = {}
    _add_cycles(body, weight, prices, 1, shares)
    return shares


def _add_cycles(
    body: Sequence[Node],
    weight: Callable[[TimedInstruction], int],
    prices: Prices,
    times: int,
    shares: dict[int, int],
) -> None:
    for node in body:
        match node:
            case TimedInstruction():
                shares[node.origin] = shares.get(node.origin, 0) + times * weight(node)
            case Barrier(instruction=instruction) | PartialBarrier(instruction=instruction):
                _add_cycles((instruction,), weight, prices, times, shares)
            case Repeat(count=count, body=inner) | BlockRepeat(count=count, body=inner):
                if prices and most_cycles(inner, weight, prices) < 0:
                    count = node.least
                _add_cycles(inner, weight, prices, times * count, shares)
            case Unordered(first, second):
                _add_cycles((*first, *second), weight, prices, times, shares)
            case Choice(alternatives) | BlockChoice(alternatives=alternatives):
                if alternatives:
                    heaviest = max(alternatives, key=lambda side: most_cycles(side, weight, prices))
                    _add_cycles(heaviest, weight, prices, times, shares)
            case Tally():
                pass


def used_units(body: Sequence[Node]) -> frozenset[str]:
    """Returns the units of all instructions on allowed paths. Cost: linear in the tree."""
    instructions = map(issued, entered(body))
    return frozenset(own.unit for own in instructions if own is not None)


def issue_count(body: Sequence[Node]) -> int:
    """Returns the largest number of instructions that a path of the body executes."""
    return most_cycles(body, lambda _: 1)


def unit_demand(body: Sequence[Node]) -> Mapping[str, int]:
    """Returns, for each unit used, the largest total initiation on it, in cycles."""

    def demand_on(unit: str) -> int:
        return most_cycles(body, lambda i: i.initiation_cycles if i.unit == unit else 0)

    return {unit: demand_on(unit) for unit in sorted(used_units(body))}


def initiations_by_instruction(workload: BlockWorkload) -> dict[int, int]:
    """Returns the total initiation cycles of all warps, by index of the kernel's instruction."""
    return served_by_instruction(workload, lambda timed: timed.initiation_cycles)


def served_by_instruction(
    workload: BlockWorkload, weight: Callable[[TimedInstruction], int]
) -> dict[int, int]:
    """Returns the sum of a weight over all warps, by index of the kernel's instruction.

    Loops count with their bounds and undecided alternatives all at once: an upper bound for
    each instruction. Cost: linear in the program trees.
    """
    shares: Counter[int] = Counter()
    for warp_class in workload.classes:
        _add(warp_class.program.body, len(warp_class.warps), weight, shares)
    return dict(shares)


def _add(
    body: Sequence[Node],
    times: int,
    weight: Callable[[TimedInstruction], int],
    shares: Counter[int],
) -> None:
    for node in body:
        own = issued(node)
        if own is not None:
            shares[own.origin] += times * weight(own)
        count = node.count if isinstance(node, Repeat | BlockRepeat) else 1
        for inner in bodies(node):
            _add(inner, times * count, weight, shares)


_ROUNDS = 2  # rounds of searching each price in turn, with several limits
_LARGEST_PRICE = 1 << 62  # no price is right where the limits allow no path at all


def find_limits(body: Sequence[Node]) -> dict[str, int]:
    """Returns limits of tallies by key: of four warps where these meet at products. Linear."""
    times = WARPGROUP if joining(body) else 1
    return {tally.key: times * tally.most for tally in entered(body) if isinstance(tally, Tally)}


def least_over_prices(
    limits: Mapping[str, int], relaxed: Callable[[Prices], int]
) -> tuple[int, Prices]:
    """Returns the least ``relaxed(prices) + sum(price * limit)`` of a search, with its prices.

    ``relaxed(prices)`` is M above. Every value that is tried is a bound; without limits the result
    is the value without prices. Cost: some dozens of evaluations per limit, for twice the logarithm
    of the price.
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
    """Returns the prices with the price at ``place`` changed to where ``total`` is least."""

    def at(price: int) -> int:
        return total((*prices[:place], price, *prices[place + 1 :]))

    step = 1
    while step < _LARGEST_PRICE and at(2 * step) < at(step):
        step *= 2
    low, high = 0, 2 * step  # The function is convex: the least value is between these.
    while high - low > 2:
        middle = (low + high) // 2
        if at(middle) <= at(middle + 1):
            high = middle + 1
        else:
            low = middle
    best_price = min(range(low, high + 1), key=at)
    return (*prices[:place], best_price, *prices[place + 1 :])
