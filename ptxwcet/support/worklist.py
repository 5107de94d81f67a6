"""Keeps a list of numbers to process, each once, in a fixed order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush


class Worklist:
    """Numbers to be processed repeatedly, the number of least rank first.

    ``ranks`` has one for each number; without them the smallest number is first. A number that is
    added while it waits stays there once. Cost: logarithmic for each.
    """

    def __init__(self, first: Iterable[int], ranks: Sequence[int] | None = None) -> None:
        self._ranks = ranks
        self._waiting = set(first)
        self._heap = [(self._rank(number), number) for number in self._waiting]
        heapify(self._heap)

    def __bool__(self) -> bool:
        """Returns whether anything is left."""
        return bool(self._heap)

    def add(self, numbers: Iterable[int]) -> None:
        """Adds numbers that do not wait already, including those that were taken before."""
        for number in numbers:
            if number not in self._waiting:
                self._waiting.add(number)
                heappush(self._heap, (self._rank(number), number))

    def pop(self) -> int:
        """Removes the next number from the list and returns it."""
        _, number = heappop(self._heap)
        self._waiting.remove(number)
        return number

    def _rank(self, number: int) -> int:
        return number if self._ranks is None else self._ranks[number]
