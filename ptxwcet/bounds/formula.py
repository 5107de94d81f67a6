"""Writes a function of a parameter in as few rows as possible, from its progressions.

Each row is quasi-linear: ``f(K + period) = f(K) + increment`` with an increment for each remainder
of K. Rows are found by guessing and then proved equal to the progressions they replace: along a
progression both are affine on each remainder, so that two values there decide.

Example: 0, 2, 4, ... take 5, 8, 11, ... and 1, 3, 5, ... take 7, 10, 13, ...: one row of period 2,
values 5 and 7, increments 3 and 3.

The largest of several functions, where all are affine: numbers with the same remainder modulo the
common period of all progressions form a line on which every function is affine on an interval.
Between the ends of intervals the largest function changes only where two lines cross, which is
computed in whole numbers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from math import gcd, lcm

from ptxwcet.bounds.parametric import Progression, Range, Unsettled
from ptxwcet.support.records import dataclass

# The most remainders of the common period that are examined individually.
_MOST_REMAINDERS = 20_000
# Progressions this short are taken number by number: their steps would only lengthen the period.
_FEW = 2


@dataclass(frozen=True, slots=True)
class _Line:
    """A line ``base + slope * t`` for ``first <= t <= last``."""

    first: int
    last: int
    base: int
    slope: int

    def at(self, t: int) -> int:
        return self.base + self.slope * t


def upper_envelope(
    progressions: Sequence[Progression], low: int, high: int
) -> tuple[Progression, ...]:
    """Returns the pointwise maximum on ``low..high``, as progressions that share no number.

    The given progressions may overlap. Raises Unsettled if they leave out a number of the range, or
    if their common period is too long. Cost: the period times the lines on one remainder.
    """
    points: dict[int, int] = {}
    long: dict[tuple[int, int], list[Progression]] = defaultdict(list)
    for piece in progressions:
        numbers = piece.numbers
        if numbers.count > _FEW:
            long[numbers.step, numbers.first % numbers.step].append(piece)
            continue
        for u in range(numbers.count):
            number, value = piece.at(u)
            points[number] = max(value, points.get(number, value))
    steps = sorted({step for step, _ in long})
    period = lcm(*steps)
    if period > _MOST_REMAINDERS:
        raise Unsettled(f"its values repeat only after {period:,} numbers")
    of_remainder: dict[int, list[int]] = defaultdict(list)
    for number in points:
        of_remainder[number % period].append(number)
    out: list[Progression] = []
    for first in range(low, min(low + period, high + 1)):
        lines = [
            _point((number - first) // period, points[number])
            for number in of_remainder[first % period]
        ]
        for step in steps:
            lines += [_line(piece, first, period) for piece in long.get((step, first % step), ())]
        out += _envelope(lines, Range(first, period, (high - first) // period + 1))
    return tuple(out)


def side_by_side(
    functions: Sequence[Sequence[Progression]], low: int, high: int
) -> Iterator[tuple[Range, tuple[tuple[int, int], ...]]]:
    """Yields ranges of ``low..high`` on which all functions are affine, with base and slope.

    Each function is given by progressions that cover every number of the range once. Raises
    Unsettled if their common period is too long. Cost: the period, and the output.
    """
    lines: list[dict[tuple[int, int], list[Progression]]] = [defaultdict(list) for _ in functions]
    for index, progressions in enumerate(functions):
        for piece in progressions:
            step = piece.numbers.step if piece.numbers.count > 1 else 0
            lines[index][step, piece.numbers.first % step if step else 0].append(piece)
    steps = [sorted({step for step, _ in own if step}) for own in lines]
    period = lcm(*(step for own in steps for step in own))
    if period > _MOST_REMAINDERS:
        raise Unsettled(f"its values repeat only after {period:,} numbers")
    points: list[dict[int, list[_Line]]] = [defaultdict(list) for _ in functions]
    for index, own in enumerate(lines):
        for piece in own.get((0, 0), ()):
            number = piece.numbers.first
            points[index][number % period].append(_point((number - low) // period, piece.base))
    for first in range(low, min(low + period, high + 1)):
        active = []
        for index, own in enumerate(lines):
            parts = (piece for step in steps[index] for piece in own.get((step, first % step), ()))
            active.append(
                [*points[index][first % period], *(_line(p, first, period) for p in parts)]
            )
        yield from _common(active, Range(first, period, (high - first) // period + 1))


def _common(
    functions: Sequence[Sequence[_Line]], numbers: Range
) -> Iterator[tuple[Range, tuple[tuple[int, int], ...]]]:
    """Yields ranges of ``numbers`` on which each function is a single line, with base and slope."""
    edges = {edge for lines in functions for line in lines for edge in (line.first, line.last + 1)}
    inside = {edge for edge in edges if 0 < edge < numbers.count}
    ordered = [sorted(lines, key=lambda line: line.first) for lines in functions]
    for begin, end in pairwise(sorted({0, numbers.count} | inside)):
        affine = []
        for lines in ordered:
            while lines[0].last < begin:
                del lines[0]
            assert lines[0].first <= begin, "a function leaves out a number"
            affine.append((lines[0].at(begin), lines[0].slope))
        part = Range(numbers.first + numbers.step * begin, numbers.step, end - begin)
        yield part, tuple(affine)


def _point(t: int, value: int) -> _Line:
    return _Line(t, t, value, 0)


def _line(progression: Progression, first: int, period: int) -> _Line:
    """Returns the line in t of a progression on the numbers ``first + period * t``."""
    numbers = progression.numbers
    scale = period // numbers.step
    begin = (numbers.first - first) // numbers.step  # in steps of the progression, from ``first``
    base = progression.base - progression.slope * begin
    last = (begin + numbers.count - 1) // scale
    return _Line(-(-begin // scale), last, base, progression.slope * scale)


def _envelope(lines: Sequence[_Line], numbers: Range) -> Iterator[Progression]:
    edges = {edge for line in lines for edge in (line.first, line.last + 1)}
    inside = {edge for edge in edges if 0 < edge < numbers.count}
    runs: list[_Line] = []
    for begin, end in pairwise(sorted({0, numbers.count} | inside)):
        active = [line for line in lines if line.first <= begin <= line.last]
        if not active:
            number = numbers.first + numbers.step * begin
            raise Unsettled(f"no block executes anything for {number:,}: the facts exclude it")
        for run in _tops(active, begin, end):
            last_run = runs[-1] if runs else None
            if last_run is not None and (last_run.base, last_run.slope) == (run.base, run.slope):
                runs[-1] = _Line(last_run.first, run.last, last_run.base, last_run.slope)
            else:
                runs.append(run)
    for run in runs:
        part = Range(
            numbers.first + numbers.step * run.first, numbers.step, run.last - run.first + 1
        )
        yield Progression(part, run.at(run.first), run.slope)


def _tops(lines: Sequence[_Line], begin: int, end: int) -> Iterator[_Line]:
    """Yields the largest of lines that are all defined for ``begin <= t < end``."""
    while begin < end:
        top = max(lines, key=lambda line: (line.at(begin), line.slope))
        until = end
        for line in lines:
            if line.slope > top.slope:
                lead = top.at(begin) - line.at(begin)
                until = min(until, begin + lead // (line.slope - top.slope) + 1)
        yield _Line(begin, until - 1, top.base, top.slope)
        begin = until


# The most numbers listed individually while rows are sought, and the longest period of a row. Both
# are far above the size of a readable page.
_MOST_POINTS = 200_000
_MOST_PERIOD = 20_000


@dataclass(frozen=True, slots=True)
class FormulaRow:
    """A row: ``values[r] + increments[r] * q`` at ``K = first + q * period + r``, ``r < period``.

    It holds for ``first <= K <= last``; ``period`` is the number of values. The result is divided
    by ``divisor`` and rounded up, where ``divisor`` is not 1.
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
        """Returns the value at a number; outside of the range, the continuation of the row."""
        return -(-self.parts(number) // self.divisor)

    def parts(self, number: int) -> int:
        """Returns the value at a number, before it is divided and rounded up."""
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
        """Returns the value at a number of the range. Raises ValueError outside of it."""
        for row in self.rows:
            if row.first <= number <= row.last:
                return row.at(number)
        raise ValueError(f"{number} is not in {self.low}..{self.high}")


def largest(progressions: Sequence[Progression]) -> tuple[int, int]:
    """Returns the largest value, and a number that has it. Cost: linear."""
    ends = [p.at(u) for p in progressions for u in (0, p.numbers.count - 1)]
    value = max(v for _, v in ends)
    return value, min(number for number, v in ends if v == value)


def value_at(progressions: Sequence[Progression], number: int) -> int:
    """Returns the value of the progression that has the number. Raises ValueError if none does."""
    for progression in progressions:
        u, remainder = divmod(number - progression.numbers.first, progression.numbers.step)
        if not remainder and 0 <= u < progression.numbers.count:
            return progression.at(u)[1]
    raise ValueError(f"{number} is in no progression")


def formula_of(progressions: Sequence[Progression], divisor: int = 1) -> Formula:
    """Returns the rows of a function whose progressions cover each number of a range once.

    Their values are in parts of a cycle: the function is divided and rounded up. Raises Unsettled
    if that takes too many rows. Cost: about linear in progressions and rows, times the periods.
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
    """Returns ranges on which the same progressions alternate, as rows; and all other numbers."""
    edges = {edge for p in progressions for edge in (p.numbers.first, p.numbers.last + 1)}
    shortest = 2 * min(p.numbers.step for p in progressions)  # of a range that is a row
    pieces: list[FormulaRow] = []
    alone: list[tuple[int, int]] = []
    for begin, end in pairwise(sorted(edges)):
        piece = None
        if end - begin >= shortest:
            active = [p for p in progressions if p.numbers.first <= begin <= p.numbers.last]
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
    """Returns the row of progressions that together cover a range; None if they do not."""
    if sum(Fraction(1, p.numbers.step) for p in active) != 1:
        return None
    period = lcm(*(p.numbers.step for p in active))
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


def _members(progression: Progression, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yields the numbers of a progression from ``first`` to ``last``, with their values."""
    numbers = progression.numbers
    begin = max(0, -((numbers.first - first) // numbers.step))
    end = min(numbers.count - 1, (last - numbers.first) // numbers.step)
    return map(progression.at, range(begin, end + 1))


def _shortest(piece: FormulaRow) -> FormulaRow:
    """Returns the row of equal values that has the smallest period."""
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
    """Returns rows, given in order, with neighbours joined where a single row covers both."""
    out: list[FormulaRow] = []
    for piece in rows:
        if out and out[-1].last + 1 == piece.first and _same_form(out[-1], piece):
            out[-1] = replace(out[-1], last=piece.last)
        else:
            out.append(piece)
    return out


def _same_form(first: FormulaRow, second: FormulaRow) -> bool:
    if (first.period, first.divisor) != (second.period, second.divisor):
        return False
    places = range(second.first, second.first + 2 * second.period)
    return all(first.parts(place) == second.parts(place) for place in places)


def _divided(row: FormulaRow, divisor: int) -> FormulaRow:
    """Returns a row divided and rounded up, with the smallest possible divisor.

    A common factor of all increments and steps is divided out at once: ``ceil(ceil(x / g) / d) =
    ceil(x / (g d))``, and ``ceil((v + g i q) / g) = ceil(v / g) + i q``.
    """
    shared = gcd(divisor, *row.increments, *(value - row.values[0] for value in row.values))
    values = tuple(-(-value // shared) for value in row.values)
    increments = tuple(increment // shared for increment in row.increments)
    return FormulaRow(row.first, row.last, values, increments, divisor // shared)


def _absorb(pieces: Sequence[FormulaRow], points: dict[int, int]) -> list[FormulaRow]:
    """Returns rows extended over adjacent numbers that fit; these leave ``points``."""
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
    """Returns constant and linear rows for the values at single numbers."""
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
    """Asserts that rows and progressions have the same value everywhere."""
    for row, after in pairwise(formula.rows):
        assert row.last + 1 == after.first, "the rows leave a gap"
    for progression in progressions:
        numbers = progression.numbers
        assert formula.low <= numbers.first, "the rows begin too late"
        assert numbers.last <= formula.high, "the rows end too early"
        for row in formula.rows:
            if row.first <= numbers.last and numbers.first <= row.last:
                assert _agree(row, progression), f"row {row.first}..{row.last} is wrong"


def _agree(piece: FormulaRow, progression: Progression) -> bool:
    """Returns whether row and progression have the same values where both are defined."""
    numbers: Range = progression.numbers
    begin = max(0, -((numbers.first - piece.first) // numbers.step))
    end = min(numbers.count - 1, (piece.last - numbers.first) // numbers.step)
    turn = piece.period // gcd(piece.period, numbers.step)
    for u in range(begin, min(begin + turn, end + 1)):
        for place in (u, end - (end - u) % turn):
            number, value = progression.at(place)
            if piece.at(number) != value:
                return False
    return True
