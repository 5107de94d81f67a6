"""Functions defined on arithmetic progressions: the largest of several, or where all are affine.

Numbers with the same remainder modulo the common period of all progressions form a line on which
every function is affine on an interval. Between the ends of intervals the largest function changes
only where two lines cross, which is found in whole numbers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import lcm

from ptxwcet.bounds.parametric import Progression, Range, Unsettled

# Remainders of the common period that are looked at one by one.
_MOST_PERIOD = 20_000
# Progressions so short are taken number by number: their steps would only lengthen the period.
_FEW = 2


@dataclass(frozen=True, slots=True)
class _Line:
    """``base + slope * t`` for ``first <= t <= last``."""

    first: int
    last: int
    base: int
    slope: int

    def at(self, t: int) -> int:
        return self.base + self.slope * t


def upper_envelope(
    progressions: Sequence[Progression], low: int, high: int
) -> tuple[Progression, ...]:
    """The pointwise maximum on ``low..high``, as progressions that share no number.

    Those given may overlap. Raises Unsettled if they leave out a number of the range, or if their
    common period is too long. Cost: the period times what is defined on one remainder.
    """
    points: dict[int, int] = {}
    long: dict[tuple[int, int], list[Progression]] = defaultdict(list)
    for piece in progressions:
        numbers = piece.numbers
        if numbers.count > _FEW:
            long[numbers.step, numbers.first % numbers.step].append(piece)
            continue
        for u in range(numbers.count):
            number, value = numbers.first + numbers.step * u, piece.base + piece.slope * u
            points[number] = max(value, points.get(number, value))
    steps = sorted({step for step, _ in long})
    period = lcm(*steps)
    if period > _MOST_PERIOD:
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
            lines += [_line(one, first, period) for one in long.get((step, first % step), ())]
        out += _envelope(lines, Range(first, period, (high - first) // period + 1))
    return tuple(out)


def side_by_side(
    functions: Sequence[Sequence[Progression]], low: int, high: int
) -> Iterator[tuple[Range, tuple[tuple[int, int], ...]]]:
    """Ranges of ``low..high`` on which all functions are affine, with base and slope of each.

    Each function is given by progressions that cover every number of the range once. Raises
    Unsettled if their common period is too long. Cost: the period, and what is yielded.
    """
    lines: list[dict[tuple[int, int], list[Progression]]] = [defaultdict(list) for _ in functions]
    for index, progressions in enumerate(functions):
        for piece in progressions:
            step = piece.numbers.step if piece.numbers.count > 1 else 0
            lines[index][step, piece.numbers.first % step if step else 0].append(piece)
    steps = [sorted({step for step, _ in own if step}) for own in lines]
    period = lcm(*(step for own in steps for step in own))
    if period > _MOST_PERIOD:
        raise Unsettled(f"its values repeat only after {period:,} numbers")
    points: list[dict[int, list[_Line]]] = [defaultdict(list) for _ in functions]
    for index, own in enumerate(lines):
        for piece in own.get((0, 0), ()):
            number = piece.numbers.first
            points[index][number % period].append(_point((number - low) // period, piece.base))
    for first in range(low, min(low + period, high + 1)):
        active = []
        for index, own in enumerate(lines):
            parts = (one for step in steps[index] for one in own.get((step, first % step), ()))
            active.append(
                [*points[index][first % period], *(_line(p, first, period) for p in parts)]
            )
        yield from _common(active, Range(first, period, (high - first) // period + 1))


def _common(
    functions: Sequence[Sequence[_Line]], numbers: Range
) -> Iterator[tuple[Range, tuple[tuple[int, int], ...]]]:
    """Ranges of ``numbers`` on which each function is one of its lines, with base and slope."""
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


def _line(one: Progression, first: int, period: int) -> _Line:
    """What a progression is on the numbers ``first + period * t``, as a line in t."""
    numbers = one.numbers
    scale = period // numbers.step
    begin = (numbers.first - first) // numbers.step  # in steps of the progression, from ``first``
    base = one.base - one.slope * begin
    last = (begin + numbers.count - 1) // scale
    return _Line(-(-begin // scale), last, base, one.slope * scale)


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
    """The largest of lines that are all defined for ``begin <= t < end``."""
    while begin < end:
        top = max(lines, key=lambda line: (line.at(begin), line.slope))
        until = end
        for line in lines:
            if line.slope > top.slope:
                lead = top.at(begin) - line.at(begin)
                until = min(until, begin + lead // (line.slope - top.slope) + 1)
        yield _Line(begin, until - 1, top.base, top.slope)
        begin = until
