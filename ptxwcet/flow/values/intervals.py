"""Intervals of integers: never empty, and of Python's integers, which do not overflow.

Where two intervals have nothing in common there is no interval: :meth:`Interval.meet` is None then,
and who asks says what that means. Nothing is ever concluded from bounds that have changed places.
"""

from __future__ import annotations

from collections.abc import Iterable

from ptxwcet.support.records import dataclass


@dataclass(frozen=True, slots=True)
class Interval:
    """The integers ``low``, ``low + step``, ... up to ``high``, which is one of them.

    Raises ValueError if there are none, TypeError for what is not a Python int: numbers of numpy
    wrap around without a word.
    """

    low: int
    high: int
    step: int = 1

    def __post_init__(self) -> None:
        if not type(self.low) is type(self.high) is type(self.step) is int:
            raise TypeError(f"not an interval of Python ints: {self!r}")
        if self.low > self.high or self.step < 1 or (self.high - self.low) % self.step:
            raise ValueError(f"not an interval: {self!r}")

    @property
    def is_number(self) -> bool:
        """Whether it holds one number."""
        return self.low == self.high

    def holds(self, number: int) -> bool:
        """Whether a number lies between its ends."""
        return self.low <= number <= self.high

    def covers(self, other: Interval) -> bool:
        """Whether another lies between its ends."""
        return self.low <= other.low and other.high <= self.high

    def hull(self, other: Interval) -> Interval:
        """The least interval of step 1 around both."""
        return Interval(min(self.low, other.low), max(self.high, other.high))

    def meet(self, other: Interval) -> Interval | None:
        """What lies between the ends of both; None if nothing does."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Interval(low, high) if low <= high else None

    def plus(self, other: Interval) -> Interval:
        """All sums of a number of each, and what is between."""
        return Interval(self.low + other.low, self.high + other.high)

    def times(self, factor: int) -> Interval:
        """All products with a number, and what is between."""
        return around((self.low * factor, self.high * factor))


def around(numbers: Iterable[int]) -> Interval:
    """The least interval of step 1 around some numbers. Raises ValueError if there are none."""
    found = tuple(numbers)
    return Interval(min(found), max(found))
