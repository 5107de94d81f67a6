"""Execution times of many runs, condition by condition, and how clock pairs become times.

A condition is what was kept the same over its runs: a grid, a class of inputs ([E] 5: VOR-1 to
VOR-32). Nothing here knows who took the times.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Times: TypeAlias = npt.NDArray[np.float64]
"""Execution times in the order in which they were taken."""

Counters: TypeAlias = npt.NDArray[np.uint64]
"""Values of clock registers."""


class TimeUnit(Enum):
    """What times count."""

    CYCLES = "cycles"
    NANOSECONDS = "ns"


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """The times of one condition. ``discarded``: runs left out because a counter overflowed."""

    label: str
    times: Times
    discarded: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Measurements:
    """Times of all conditions, in one unit; labels differ. ``sources``: the files, in order."""

    unit: TimeUnit
    conditions: tuple[Condition, ...]
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ClockPairs:
    """First and last clock of each SM in each run, row by row; ``run`` numbers the runs from 0.

    ``bits``: width of the clock registers.
    """

    run: npt.NDArray[np.intp]
    start: Counters
    end: Counters
    bits: int

    @property
    def is_idle(self) -> npt.NDArray[np.bool_]:
        """Rows of SMs that ran no block: the largest start of that width ([E] Fig. 2), end 0."""
        untouched = np.zeros(len(self.start), bool)
        for width in (self.bits - 1, self.bits):
            untouched |= self.start == np.uint64(2**width - 1)
        return np.asarray(untouched & (self.end == 0), np.bool_)


def times_of_pairs(pairs: ClockPairs) -> tuple[Times, int]:
    """The largest end minus the smallest start over the SMs of each run ([E] Equation 1).

    Runs in which a counter overflowed are left out and counted, as there ([E] footnote 3): an end
    before its start, or a run of half the counter's range or more, which is what an overflow on
    some of the SMs looks like. Runs without an SM that ran a block are left out without being
    counted. Times in the order of the runs' numbers. Cost: a sort of the rows.
    """
    used = ~pairs.is_idle
    run, start, end = pairs.run[used], pairs.start[used], pairs.end[used]
    if not len(run):
        return np.zeros(0), 0
    order = np.argsort(run, kind="stable")
    run, start, end = run[order], start[order], end[order]
    first = np.flatnonzero(np.concatenate([[True], run[1:] != run[:-1]]))
    backwards = np.logical_or.reduceat(end < start, first)
    # unsigned: where the difference would be negative, the run is left out
    length = np.maximum.reduceat(end, first) - np.minimum.reduceat(start, first)
    overflowed = backwards | (length >= np.uint64(2 ** (pairs.bits - 1)))
    return length[~overflowed].astype(np.float64), int(overflowed.sum())
