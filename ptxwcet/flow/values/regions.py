"""Affine constraints over iteration counters and block indices.

While a loop is being summarised, its iteration number is a :class:`Symbol` ``k`` with range
``0 <= k < limit``; the limit may be affine in the symbols of the enclosing loops (a triangular
loop). A block index that the launch leaves open is a symbol too. Values are affine in the symbols,
so every decision of the program is the sign of an affine form over this region.

:func:`require_negative` makes ``form < 0`` true on the whole region, given that it is true where
all symbols are 0, by *shrinking* the range of a loop symbol ("for the first K iterations the same
path is taken") or, for a block index, by raising :class:`SplitRequest` ("analyse the blocks below K
apart from the others"). Shrinking keeps every constraint that was established before.

Other unknowns have a range that is as it is: a parameter of which only a range is given, the low
bits of a loaded word. They are symbols too; where a constraint does not hold on all of their range,
and no loop symbol can make it hold, it *wavers* (:class:`Wavers`). The limit of a loop symbol may
depend on a parameter, which is the same for all lanes, but not on a symbol that each lane has a
value of its own for (``is_own``): lanes would leave the loop one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from math import gcd

from ptxwcet.support.records import dataclass

Terms = Mapping["Symbol", int]


@dataclass(eq=False, slots=True)
class Symbol:
    """An integer unknown ``0 <= k < limit``; ``limit`` = ``count + sum(slopes[s] * s)``.

    ``serial`` grows with nesting: a symbol's limit mentions only symbols of smaller serial.
    ``count`` None means that nothing limits the range yet. ``splittable`` marks a block index or
    parameter whose range may be cut, ``fixed`` a range that stays as it is; ``is_own``: each lane
    has a value of its own. ``origin`` says for such a symbol where it comes from, ``is_parameter``
    that it is one of the kernel's parameters.
    """

    name: str
    serial: int
    count: int | None = None
    slopes: dict[Symbol, int] = field(default_factory=dict)
    splittable: bool = False
    fixed: bool = False
    is_own: bool = False
    is_parameter: bool = False
    origin: object = None

    @property
    def in_loops(self) -> bool:
        """Whether it counts iterations."""
        return not (self.fixed or self.splittable)

    @property
    def last(self) -> int:
        """The largest value of a range that does not depend on others."""
        assert self.count is not None
        assert not self.slopes
        return self.count - 1

    def __repr__(self) -> str:
        return self.name


class SplitRequest(Exception):
    """A decision is not uniform over a block index: analyse ``[0, at)`` and ``[at, ...)`` apart.

    With a ``modulus`` the classes of numbers with the same remainder are to be analysed apart.
    """

    def __init__(self, symbol: Symbol, at: int = 0, modulus: int = 0) -> None:
        super().__init__(f"split {symbol.name} at {at} or modulo {modulus}")
        self.symbol = symbol
        self.at = at
        self.modulus = modulus


def require_multiples(terms: Mapping[Symbol, object], modulus: int) -> None:
    """Ask for classes of a parameter in which every term is a multiple of ``modulus``.

    Raises SplitRequest; does nothing for terms of other symbols, lanes of numbers, or if all are
    multiples already.
    """
    for symbol, c in terms.items():
        if symbol.is_parameter and symbol.splittable and isinstance(c, int) and c % modulus:
            raise SplitRequest(symbol, modulus=modulus // gcd(c, modulus))


class Wavers(Exception):
    """A constraint holds for some values of a fixed symbol and not for others."""


def widest(base: int, terms: Terms, *, largest: bool) -> tuple[int, dict[Symbol, int]]:
    """The largest (smallest) value over the fixed symbols; what is left depends on loops alone."""
    rest: dict[Symbol, int] = {}
    for symbol, c in terms.items():
        if not symbol.fixed:
            rest[symbol] = c
        elif (c > 0) == largest:
            base += c * symbol.last
    return base, rest


def require_negative(base: int, terms: Terms) -> None:
    """Shrink the region until ``base + sum(terms) < 0`` holds everywhere on it.

    ``base < 0`` must hold already. Eliminates symbols from the innermost outwards; a linear form
    over ``0 <= k < limit`` is largest at one of the ends, and limits are affine, so the elimination
    is exact. Cost: O(symbols^2). Raises SplitRequest if a block index would have to shrink, Wavers
    if a fixed symbol would.
    """
    own = {symbol: c for symbol, c in terms.items() if symbol.is_own}
    base, _ = widest(base, own, largest=True)
    if base >= 0:
        if own:
            raise Wavers
        raise ValueError("constraint does not hold at the origin")
    terms = {symbol: c for symbol, c in terms.items() if c and not symbol.is_own}
    while terms:
        symbol = max(terms, key=lambda s: s.serial)
        slope = terms.pop(symbol)
        if slope < 0:
            continue  # largest at k = 0
        if symbol.count is not None:
            last = base + slope * (symbol.count - 1)
            if last < 0:
                base = last
                for outer, c in symbol.slopes.items():
                    terms[outer] = terms.get(outer, 0) + slope * c
                terms = {s: c for s, c in terms.items() if c}
                continue
        if not _shrink(symbol, base, slope, terms):
            base += slope * (_count(symbol) - 1)
            continue
        return


def require_nonnegative(base: int, terms: Terms) -> None:
    """Shrink the region until ``base + sum(terms) >= 0`` holds everywhere; see require_negative."""
    require_negative(-base - 1, {symbol: -c for symbol, c in terms.items()})


def require_zero(terms: Terms) -> None:
    """Shrink the region until a form that is 0 at the origin is 0 everywhere."""
    require_negative(-1, terms)
    require_nonnegative(0, terms)


def _count(symbol: Symbol) -> int:
    assert symbol.count is not None
    return symbol.count


def _shrink(symbol: Symbol, base: int, slope: int, rest: Terms) -> bool:
    """Limit ``symbol`` so that ``base + slope * symbol + rest`` stays negative.

    True: the limit is affine in the outer symbols and settles the whole constraint. False: the
    limit is a constant that settles it where the outer symbols are 0 (and for all values of fixed
    ones, if it can); the caller goes on with them.
    """
    count = (-1 - base) // slope + 1
    if symbol.splittable:
        raise SplitRequest(symbol, count)
    if symbol.fixed:
        raise Wavers
    require_multiples(rest, slope)
    if all(c % slope == 0 for c in rest.values()):
        try:
            _limit(symbol, count, {s: -(c // slope) for s, c in rest.items()})
        except Wavers:
            if not any(s.fixed for s in rest):
                raise
        else:
            return True
    worst, _ = widest(base, rest, largest=True)
    _limit(symbol, (-1 - worst) // slope + 1 if worst < 0 else count, {})
    return False


def _limit(symbol: Symbol, count: int, slopes: dict[Symbol, int]) -> None:
    """Give a symbol a limit that is at least 1 and at most its limit so far.

    Where that wavers the symbol stays as it was.
    """
    old_count, old_slopes = symbol.count, symbol.slopes
    symbol.count, symbol.slopes = count, slopes
    try:
        if slopes:
            require_nonnegative(count - 1, slopes)
        if old_count is not None:
            difference = {s: -c for s, c in slopes.items()}
            for s, c in old_slopes.items():
                difference[s] = difference.get(s, 0) + c
            require_nonnegative(old_count - count, difference)
    except Wavers:
        symbol.count, symbol.slopes = old_count, old_slopes
        raise
