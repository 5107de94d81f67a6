"""The 64-bit word of an mbarrier object and what changes it.

The layout is of our own (PTX ISA leaves it open): pending arrivals in bits 0-19, expected arrivals
of the next phase in 20-39, bytes that transactions still owe in 40-60 (two's complement), parity of
the phase in 61, and 62 set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

MOST = (1 << 20) - 1
"""The largest count of arrivals, and of bytes that transactions owe (PTX ISA, mbarrier)."""

LOW, _OWED, PARITY, VALID = MOST, (1 << 21) - 1, 61, 62


class Misuse(Exception):
    """What an operation does wrong with its object."""


@dataclass(slots=True)
class Phase:
    """An object unpacked; ``owed`` are bytes."""

    pending: int
    expected: int
    owed: int = 0
    parity: int = 0

    @staticmethod
    def of(word: int) -> Phase:
        """The phase of an object in memory. Raises Misuse if the word is no object."""
        if word >> VALID != 1:
            raise Misuse("there is no mbarrier object")
        owed = word >> 40 & _OWED
        owed -= (owed >> 20) << 21
        return Phase(word & LOW, word >> 20 & LOW, owed, word >> PARITY & 1)

    @property
    def word(self) -> int:
        """The object as the 64 bits that stand for it in memory."""
        counts = self.pending | self.expected << 20 | (self.owed & _OWED) << 40
        return counts | self.parity << PARITY | 1 << VALID

    def arrive(self, count: int) -> None:
        """Raises Misuse."""
        if not 1 <= count <= self.pending:
            raise Misuse(f"{count} arrivals where {self.pending} are pending")
        self.pending -= count
        self._settle()

    def drop(self, count: int) -> None:
        """Arrivals, from now on and for all later phases. Raises Misuse."""
        self.expected -= count
        self.arrive(count)

    def expect(self, size: int) -> None:
        """Raises Misuse."""
        self.owed += size
        if abs(self.owed) > MOST:
            raise Misuse(f"{self.owed} bytes are owed")

    def complete(self, size: int) -> None:
        """Raises Misuse."""
        self.expect(-size)
        self._settle()

    def _settle(self) -> None:
        if self.pending == 0 and self.owed == 0:
            self.parity ^= 1
            self.pending = self.expected


Change = Callable[[Phase, int], None]


def _arrive_incomplete(phase: Phase, count: int) -> None:
    if count >= phase.pending:
        raise Misuse("an arrival with .noComplete completes the phase")
    phase.arrive(count)


def _drop_incomplete(phase: Phase, count: int) -> None:
    phase.expected -= count
    _arrive_incomplete(phase, count)


def _expect_and_arrive(phase: Phase, size: int) -> None:
    phase.expect(size)
    phase.arrive(1)


def _expect_and_drop(phase: Phase, size: int) -> None:
    phase.expect(size)
    phase.drop(1)


ARRIVALS: dict[tuple[bool, str], Change] = {
    (False, ""): Phase.arrive,
    (False, "noComplete"): _arrive_incomplete,
    (False, "expect_tx"): _expect_and_arrive,
    (True, ""): Phase.drop,
    (True, "noComplete"): _drop_incomplete,
    (True, "expect_tx"): _expect_and_drop,
}
"""What an arrival does, by whether it drops out and by its form."""
