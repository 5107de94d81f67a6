"""The time of one instruction sequence on one warp: the model's rules 1-3 and 7, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Step = tuple[tuple[int, ...], tuple[int, ...], int, int, int, bool, int, bool]
"""Registers waited for and written, unit, init, latency, conditional, 1 + bubble, a barrier."""


@dataclass(frozen=True, slots=True)
class SectionRun:
    """A stretch of one execution between barriers: L, and inits and issues of each unit."""

    cycles: int
    initiations: tuple[int, ...]
    issues: tuple[int, ...]

    @property
    def units(self) -> int:
        """Units used, a bit each."""
        return sum(1 << unit for unit, count in enumerate(self.issues) if count)

    def interference(self, units: int) -> int:
        """What it takes from a warp that uses ``units``: inits there, an issue slot elsewhere."""
        return sum(
            init if units >> unit & 1 else count
            for unit, (init, count) in enumerate(zip(self.initiations, self.issues, strict=True))
        )


@dataclass(frozen=True, slots=True)
class WarpRun:
    """One execution of one warp: its sections on a clean machine each, and L of the whole."""

    sections: tuple[SectionRun, ...]
    cycles: int


@dataclass(slots=True)
class Clock:
    """The timing state of a warp: the model's rules, one instruction after the other."""

    ready: list[int]
    free: list[int]
    inits: list[int]
    issues: list[int]
    t: int = 0
    end: int = 0

    @staticmethod
    def fresh(registers: int, units: int) -> Clock:
        return Clock([0] * registers, [0] * units, [0] * units, [0] * units)

    def copy(self) -> Clock:
        return Clock(self.ready[:], self.free[:], self.inits[:], self.issues[:], self.t, self.end)

    def run(self, steps: Sequence[Step]) -> None:
        ready, free, t = self.ready, self.free, self.t
        for waits, writes, unit, initiation, latency, conditional, advance, _ in steps:
            for register in waits:
                if ready[register] > t:
                    t = ready[register]
            dispatched = free[unit] if free[unit] > t else t
            free[unit] = dispatched + initiation
            done = dispatched + initiation + latency
            if done > self.end:
                self.end = done
            for register in writes:
                if not conditional or done > ready[register]:
                    ready[register] = done
            self.inits[unit] += initiation
            self.issues[unit] += 1
            t += advance
        self.t = t

    def section(self) -> SectionRun:
        cycles = max(self.end, self.t)
        return SectionRun(cycles, tuple(self.inits), tuple(self.issues))
