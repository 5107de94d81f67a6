"""A function of a parameter in as few rows as possible, from the progressions that define it.

Each row is quasi-linear: ``f(K + period) = f(K) + increment`` with an increment for each remainder
of K. Rows are found by guessing and then proved equal to the progressions they replace: along a
progression both are affine on each remainder, so that two values there decide.

Example: 0, 2, 4, ... take 5, 8, 11, ... and 1, 3, 5, ... take 7, 10, 13, ...: one row of period 2,
values 5 and 7, increments 3 and 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from math import gcd, lcm

from ptxwcet.bounds.parametric import Progression, Range, Unsettled

# Numbers listed one by one while rows are sought, and the longest period of a row. Both are far
# above what fits on a page.
_MOST_POINTS = 200_000
_MOST_PERIOD = 20_000


@dataclass(frozen=True, slots=True)
class FormulaRow:
    """``values[r] + increments[r] * q`` at ``K = first + q * period + r``, ``r < period``.

    For ``first <= K <= last``; ``period`` is the number of values. Divided by ``divisor`` and
    rounded up, where that is not 1.
    """

    first: int
    last: int
    values: tuple[int, ...]
    increments: tuple[int, ...]
    divisor: int = 1

    @property
    def period(self) -> int:
        """The number of arguments after which the values repeat, but for the increments."""
        return len(self.values)

    def at(self, number: int) -> int:
        """The value at a number; outside of the range, what the form of the row gives there."""
        return -(-self.parts(number) // self.divisor)

    def parts(self, number: int) -> int:
        """The value at a number, before it is divided and rounded up."""
        rounds, remainder = divmod(number - self.first, self.period)
        return self.values[remainder] + self.increments[remainder] * rounds


@dataclass(frozen=True, slots=True)
class Formula:
    """A function of the whole numbers from ``low`` to ``high``; the rows cover them in order."""

    rows: tuple[FormulaRow, ...]

    @property
    def low(self) -> int:
        """The smallest argument."""
        return self.rows[0].first

    @property
    def high(self) -> int:
        """The largest argument."""
        return self.rows[-1].last

    def at(self, number: int) -> int:
        """The value at a number of the range. Raises ValueError outside of it."""
        for row in self.rows:
            if row.first <= number <= row.last:
                return row.at(number)
        raise ValueError(f"{number} is not in {self.low}..{self.high}")


def largest(progressions: Sequence[Progression]) -> tuple[int, int]:
    """The largest value, and a number that has it. Cost: linear."""
    ends = [
        (one.base + one.slope * u, one.numbers.first + one.numbers.step * u)
        for one in progressions
        for u in (0, one.numbers.count - 1)
    ]
    value = max(end[0] for end in ends)
    return value, min(number for found, number in ends if found == value)


def value_at(progressions: Sequence[Progression], number: int) -> int:
    """The value of the progression that has the number. Raises ValueError if none does."""
    for one in progressions:
        u, remainder = divmod(number - one.numbers.first, one.numbers.step)
        if not remainder and 0 <= u < one.numbers.count:
            return one.base + one.slope * u
    raise ValueError(f"{number} is in no progression")


def formula_of(progressions: Sequence[Progression], divisor: int = 1) -> Formula:
    """The rows of a function whose progressions cover each number of a range once.

    Their values are in parts of a cycle: the function is rounded up after a division. Raises
    Unsettled if that takes too many rows. Cost: about linear in progressions and rows, times the
    periods.
    """
    long, points = _regions(progressions)
    pieces = _absorb(_joined(long), points)
    pieces += _runs(points)
    pieces.sort(key=lambda piece: piece.first)
    formula = Formula(tuple(_joined(pieces)))
    _prove(formula, progressions)
    return Formula(tuple(_joined(_divided(row, divisor) for row in formula.rows)))


# --- guessing rows --------------------------------------------------------------------------------


def _regions(progressions: Sequence[Progression]) -> tuple[list[FormulaRow], dict[int, int]]:
    """Stretches on which the same progressions take turns, as rows; all other numbers alone."""
    edges = {edge for one in progressions for edge in (one.numbers.first, one.numbers.last + 1)}
    shortest = 2 * min(one.numbers.step for one in progressions)  # of a stretch that is a row
    pieces: list[FormulaRow] = []
    alone: list[tuple[int, int]] = []
    for begin, end in pairwise(sorted(edges)):
        piece = None
        if end - begin >= shortest:
            active = [one for one in progressions if one.numbers.first <= begin <= one.numbers.last]
            piece = _turn_taking(active, begin, end - 1)
        if piece is not None:
            pieces.append(piece)
        elif alone and alone[-1][1] == begin:
            alone[-1] = alone[-1][0], end
        else:
            alone.append((begin, end))
    if sum(end - begin for begin, end in alone) > _MOST_POINTS:
        raise Unsettled("its values take too many rows to be written down")
    points: dict[int, int] = {}
    for begin, end in alone:
        for progression in progressions:
            points.update(_members(progression, begin, end - 1))
    return pieces, points


def _turn_taking(active: Sequence[Progression], first: int, last: int) -> FormulaRow | None:
    """The row of progressions that cover a stretch together; None if it is short or they do not."""
    if sum(Fraction(1, one.numbers.step) for one in active) != 1:
        return None
    period = lcm(*(one.numbers.step for one in active))
    if period > _MOST_PERIOD or last - first + 1 < 2 * period:
        return None
    values: dict[int, int] = {}
    increments: dict[int, int] = {}
    for progression in active:
        for number, value in _members(progression, first, first + period - 1):
            values[number - first] = value
            increments[number - first] = progression.slope * (period // progression.numbers.step)
    order = range(period)
    piece = FormulaRow(
        first, last, tuple(values[i] for i in order), tuple(increments[i] for i in order)
    )
    return _shortest(piece)


def _members(one: Progression, first: int, last: int) -> Iterator[tuple[int, int]]:
    """The numbers of a progression from ``first`` to ``last``, with their values."""
    numbers = one.numbers
    begin = max(0, -((numbers.first - first) // numbers.step))
    end = min(numbers.count - 1, (last - numbers.first) // numbers.step)
    for u in range(begin, end + 1):
        yield numbers.first + numbers.step * u, one.base + one.slope * u


def _shortest(piece: FormulaRow) -> FormulaRow:
    """The row of equal values that has the smallest period."""
    if len(set(piece.increments)) > 1:
        return piece
    total = piece.increments[0]
    for period in range(1, piece.period):
        if piece.period % period:
            continue
        step = total * period // piece.period
        if all(
            piece.at(piece.first + i + period) == piece.at(piece.first + i) + step
            for i in range(piece.period)
        ):
            return FormulaRow(piece.first, piece.last, piece.values[:period], (step,) * period)
    return piece


def _joined(rows: Iterable[FormulaRow]) -> list[FormulaRow]:
    """Rows, given in order, with neighbours joined where one row says the same."""
    out: list[FormulaRow] = []
    for row in rows:
        if out and out[-1].last + 1 == row.first and _same_form(out[-1], row):
            out[-1] = replace(out[-1], last=row.last)
        else:
            out.append(row)
    return out


def _same_form(one: FormulaRow, two: FormulaRow) -> bool:
    if (one.period, one.divisor) != (two.period, two.divisor):
        return False
    places = range(two.first, two.first + 2 * two.period)
    return all(one.parts(place) == two.parts(place) for place in places)


def _divided(row: FormulaRow, divisor: int) -> FormulaRow:
    """A row divided and rounded up, written with the smallest divisor that is possible.

    What divides all increments and steps is divided out at once: ``ceil(ceil(x / g) / d) =
    ceil(x / (g d))``, and ``ceil((v + g i q) / g) = ceil(v / g) + i q``.
    """
    shared = gcd(divisor, *row.increments, *(value - row.values[0] for value in row.values))
    values = tuple(-(-value // shared) for value in row.values)
    increments = tuple(increment // shared for increment in row.increments)
    return FormulaRow(row.first, row.last, values, increments, divisor // shared)


def _absorb(pieces: Sequence[FormulaRow], points: dict[int, int]) -> list[FormulaRow]:
    """Rows extended over the numbers beside them that they fit; those are taken from ``points``."""
    out = []
    for piece in pieces:
        first, last = piece.first, piece.last
        while points.get(first - 1) == piece.at(first - 1):
            first -= 1
            del points[first]
        while points.get(last + 1) == piece.at(last + 1):
            last += 1
            del points[last]
        places = range(first, first + piece.period)
        increments = [piece.at(place + piece.period) - piece.at(place) for place in places]
        out.append(FormulaRow(first, last, tuple(map(piece.at, places)), tuple(increments)))
    return out


def _runs(points: dict[int, int]) -> list[FormulaRow]:
    """Constant and linear rows for the values at single numbers."""
    pieces: list[FormulaRow] = []
    numbers = sorted(points)
    place = 0
    while place < len(numbers):
        first = numbers[place]
        step = points[first + 1] - points[first] if first + 1 in points else 0
        end = place + 1
        while end < len(numbers) and points.get(numbers[end - 1] + 1) == (
            points[numbers[end - 1]] + step
        ):
            end += 1
        if step and end - place < 3:
            end, step = place + 1, 0
        pieces.append(FormulaRow(first, numbers[end - 1], (points[first],), (step,)))
        place = end
    return pieces


# --- proving them ---------------------------------------------------------------------------------


def _prove(formula: Formula, progressions: Sequence[Progression]) -> None:
    """Rows and progressions have the same value everywhere, or an AssertionError is raised."""
    for row, after in pairwise(formula.rows):
        assert row.last + 1 == after.first, "the rows leave a gap"
    for one in progressions:
        numbers = one.numbers
        assert formula.low <= numbers.first, "the rows begin too late"
        assert numbers.last <= formula.high, "the rows end too early"
        for row in formula.rows:
            if row.first <= numbers.last and numbers.first <= row.last:
                assert _agree(row, one), f"row {row.first}..{row.last} is wrong"


def _agree(piece: FormulaRow, progression: Progression) -> bool:
    """Whether row and progression have the same values where both are defined."""
    numbers: Range = progression.numbers
    begin = max(0, -((numbers.first - piece.first) // numbers.step))
    end = min(numbers.count - 1, (piece.last - numbers.first) // numbers.step)
    turn = piece.period // gcd(piece.period, numbers.step)
    for u in range(begin, min(begin + turn, end + 1)):
        for place in (u, end - (end - u) % turn):
            number = numbers.first + numbers.step * place
            if piece.at(number) != progression.base + progression.slope * place:
                return False
    return True
