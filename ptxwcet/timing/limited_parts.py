"""Where the cycles of a bound with limited totals go (timing.limits).

A bound is the time of a way through the program and a price for every passing that the limits
still allow: ``price * (limit - passings of the way)``. That rest goes to what the passings would
execute, the smallest part of the program around a tally, as it does when it is repeated. Prices one
above the best ones find a way with few passings, so that the rest is seldom negative.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ptxwcet.timing.attribution import WarpAttribution, attribute_warp
from ptxwcet.timing.demand import Prices
from ptxwcet.timing.wait_log import CycleParts
from ptxwcet.warp.program import (
    BlockChoice,
    BlockRepeat,
    Choice,
    Node,
    Repeat,
    Scoreboard,
    Tally,
    Unordered,
)

_STEADY = 64  # repetitions of a part, to see what it costs behind itself


def above(prices: Prices) -> Prices:
    """Prices one higher where they are not 0: the best ways at these pass few tallies."""
    return {key: price + 1 for key, price in prices.items() if price}


def limited_parts(body: Sequence[Node], prices: Prices) -> list[tuple[Node, ...]]:
    """The parts of a body around tallies that cost something, smallest first; then all of it."""
    return [*sorted(_parts(tuple(body), prices), key=_size), tuple(body)]


def _parts(body: tuple[Node, ...], prices: Prices) -> Iterator[tuple[Node, ...]]:
    for node in body:
        match node:
            case Tally(key) if prices.get(key):
                yield body
            case Repeat(body=inner) | BlockRepeat(body=inner):
                yield from _parts(inner, prices)
            case Unordered(first, second):
                yield from _parts(first, prices)
                yield from _parts(second, prices)
            case Choice(alternatives) | BlockChoice(alternatives=alternatives):
                for side in alternatives:
                    yield from _parts(side, prices)
            case _:
                pass


def _size(body: tuple[Node, ...]) -> int:
    size = 0
    for node in body:
        match node:
            case Repeat(body=inner) | BlockRepeat(body=inner):
                size += _size(inner)
            case Unordered(first, second):
                size += _size((*first, *second))
            case Choice(alternatives) | BlockChoice(alternatives=alternatives):
                size += sum(_size(side) for side in alternatives)
            case _:
                size += 1
    return size


def spread(amount: int, weights: Mapping[int, int]) -> dict[int, int]:
    """An amount in proportion to weights >= 0, which are not all 0; the parts add up to it."""
    total = sum(weights.values())
    parts = {key: amount * weight // total for key, weight in weights.items()}
    missing = amount - sum(parts.values())
    nearest = sorted(weights, key=lambda key: -(amount * weights[key] % total))
    for key in nearest[:missing]:
        parts[key] += 1
    return parts


def attribute_limited(
    body: Sequence[Node],
    scoreboard: Scoreboard,
    length: tuple[int, Prices],
    *,
    through_bubble: bool,
) -> WarpAttribution:
    """Attributes a length that is bounded with prices, each cycle of it. Raises PW404.

    Executions are those of the way that was found, and of the passings that pay for the rest.
    """
    cycles, prices = length
    attributed = attribute_warp(
        body, scoreboard, through_bubble=through_bubble, prices=above(prices)
    )
    rest = cycles - attributed.cycles
    if not rest:
        return attributed
    runs = (
        attribute_warp((Repeat(_STEADY, part),), scoreboard) for part in limited_parts(body, prices)
    )
    steady = next(run for run in runs if run.cycles)
    weights = {
        (origin, kind): cycles
        for origin, cycle_parts in steady.parts.items()
        for kind, cycles in enumerate(cycle_parts)
    }
    numbers = dict(enumerate(weights))
    shares = spread(rest, {number: weights[key] for number, key in numbers.items()})
    cycle_counts = {origin: list(cycle_parts) for origin, cycle_parts in attributed.parts.items()}
    for number, share in shares.items():
        origin, kind = numbers[number]
        cycle_counts.setdefault(origin, [0, 0, 0])[kind] += share
    executions = dict(attributed.executions)
    passings = -(-max(rest, 0) * _STEADY // steady.cycles)
    for origin, times in steady.executions.items():
        executions[origin] = executions.get(origin, 0) + passings * times // _STEADY
    parts = {origin: CycleParts(*counts) for origin, counts in cycle_counts.items()}
    return WarpAttribution(cycles, parts, executions)
