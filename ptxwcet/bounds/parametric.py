"""Computes a bound as a function of a parameter: the same method, run on affine numbers.

The counts of a path depend on a number s, ``0 <= s < count``, affinely. The bound is evaluated once
for all s of a range, with :class:`~ptxwcet.support.affine.Affine` numbers in place of integers. If
that ends, every comparison had a single outcome for the whole range, so that the result *is* that
of the method for each s. If a comparison has two outcomes, or a loop's periods divide the range
into remainders, the range is cut there and its parts are evaluated separately.

A loop whose count depends on s is run until its state repeats, like any loop
(docs/methods/phases.md). Values of s that end it before are cut off individually (the transient
prefix). A range is refused where the state of an outer loop does not repeat because an inner count
depends on s, where it never settles, or where two numbers that depend on s are multiplied.
docs/methods/parametric.md has the argument and its limits.

Example: ``Repeat(s, A(1, 0))`` takes s cycles. s = 0 to 3 are cut off individually, since the state
has to repeat once and a whole period is always executed; the rest, up to 10^9, is one evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ptxwcet.support.affine import CutRange, CutResidues, NotAffine, parts, variable
from ptxwcet.support.records import dataclass

# The most evaluations of the bound for paths of one kind: one for each remainder of the loops'
# periods, each step of their transients and each cut. The samples need at most 5, random programs
# some hundreds.
_MOST_EVALUATIONS = 1_000


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers ``first + step * u`` for ``0 <= u < count``."""

    first: int
    step: int
    count: int

    @property
    def last(self) -> int:
        """The largest number, for a positive step."""
        return self.first + self.step * (self.count - 1)

    def cut(self, at: int) -> tuple[Range, Range]:
        """Returns the first ``at`` numbers, and the others."""
        rest = Range(self.first + self.step * at, self.step, self.count - at)
        return Range(self.first, self.step, at), rest

    def residues(self, modulus: int) -> tuple[Range, ...]:
        """Returns, for each remainder of u modulo ``modulus``, the numbers that have it."""
        return tuple(
            Range(self.first + self.step * r, self.step * modulus, -(-(self.count - r) // modulus))
            for r in range(min(modulus, self.count))
        )


@dataclass(frozen=True, slots=True)
class Progression:
    """An affine function: ``base + slope * u`` at ``numbers.first + numbers.step * u``."""

    numbers: Range
    base: int
    slope: int

    def at(self, u: int) -> tuple[int, int]:
        """Returns a number, and its value."""
        return self.numbers.first + self.numbers.step * u, self.base + self.slope * u


def carried(solved: Iterable[Progression], numbers: Range) -> Iterator[Progression]:
    """Yields the solution for s as a function of ``numbers.first + numbers.step * s``.

    It is defined for ``0 <= s < numbers.count`` only.
    """
    for piece in solved:
        own = piece.numbers
        count = min(own.count, -(-(numbers.count - own.first) // own.step))
        if count > 0:
            first = numbers.first + numbers.step * own.first
            yield Progression(Range(first, numbers.step * own.step, count), piece.base, piece.slope)


class Unsettled(Exception):
    """The lack of a formula: ``reason`` names the obstacle, as the end of a sentence."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def solve(evaluate: Callable[[int], int], count: int) -> tuple[Progression, ...]:
    """Returns ``evaluate`` as a piecewise affine function of ``0 <= s < count``, exactly.

    ``evaluate`` must only use the operations of Affine numbers on s. The progressions cover each s
    once, in the order of their first number. Raises Unsettled, and all exceptions of ``evaluate``.
    Cost: an evaluation for each piece and each cut, whatever the count.
    """
    open_ranges = [Range(0, 1, count)]
    done: list[Progression] = []
    for _ in range(_MOST_EVALUATIONS):
        if not open_ranges:
            return tuple(sorted(done, key=lambda piece: piece.numbers.first))
        numbers = open_ranges.pop()
        try:
            value = evaluate(variable(numbers.first, numbers.step, numbers.count))
        except CutRange as cut:
            open_ranges += reversed(numbers.cut(cut.at))
        except CutResidues as cut:
            open_ranges += reversed(numbers.residues(cut.modulus))
        except NotAffine as stop:
            raise Unsettled(f"the bound needs {stop.operation}") from None
        else:
            done.append(Progression(numbers, *parts(value)))
    raise Unsettled(
        f"no repeat of the state was established in {_MOST_EVALUATIONS:,} evaluations of the bound"
    )
