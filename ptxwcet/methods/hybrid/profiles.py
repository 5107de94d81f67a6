"""Execution-time profiles: the distribution of a warp's time if transitions were independent.

Each transition's times as observed are its distribution; the time of a path is the convolution of
those of its transitions, a transition that is taken n times convolved n times with itself by
repeated squaring. [B] VI-D leaves this for later; the idea is that of execution-time profiles
(Bernat, Colin and Petters, RTSS 2002).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from ptxwcet.methods.hybrid.observations import TransitionTimes
from ptxwcet.support.records import dataclass

MOST_CELLS = 1 << 15
"""Cells of a distribution; a longer one is coarsened, its times rounded up."""
_DIRECT_CELLS = 1 << 9
LEAST_EXCEEDANCE = 1e-9
"""The least probability asked for: below, the rounding of long convolutions would be seen."""


@dataclass(frozen=True, slots=True)
class TimeDistribution:
    """Times ``least + i * step`` with probability ``cells[i]``; ``step`` is a power of two."""

    least: int
    step: int
    cells: npt.NDArray[np.float64]

    def quantile(self, exceedance: float) -> int:
        """The least time of the grid that is exceeded with at most this probability."""
        beyond = np.cumsum(self.cells[::-1])[::-1]
        above = np.append(beyond[1:], 0.0)
        fits = np.flatnonzero(above <= exceedance * (1 + 1e-9))
        return self.least + int(fits[0]) * self.step


def of_times(row: TransitionTimes) -> TimeDistribution:
    """The times of a transition, each as likely as often it was seen."""
    least, most = int(row.values[0]), int(row.values[-1])
    step = 1 << ((most - least) // MOST_CELLS).bit_length()
    places = -(-(row.values - least) // step)  # rounded up
    cells = np.zeros(int(places[-1]) + 1)
    np.add.at(cells, places, row.counts / row.count)
    return TimeDistribution(least, step, cells)


def add_times(one: TimeDistribution, other: TimeDistribution) -> TimeDistribution:
    """The sum of two independent times, on the coarser grid of both."""
    step = max(one.step, other.step)
    first, second = coarsened(one, step), coarsened(other, step)
    cells = _convolved(first.cells, second.cells)
    whole = TimeDistribution(first.least + second.least, step, cells)
    if len(cells) <= MOST_CELLS:
        return whole
    return coarsened(whole, 2 * step)


def _convolved(
    one: npt.NDArray[np.float64], other: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    if min(len(one), len(other)) <= _DIRECT_CELLS:
        return np.convolve(one, other)
    size = len(one) + len(other) - 1
    padded = 1 << (size - 1).bit_length()
    product = np.fft.rfft(one, padded) * np.fft.rfft(other, padded)
    return np.maximum(np.fft.irfft(product, padded)[:size], 0.0)


def coarsened(one: TimeDistribution, step: int) -> TimeDistribution:
    """The distribution on a grid with a larger step; times are rounded up."""
    if step == one.step:
        return one
    factor = step // one.step
    places = -(-np.arange(len(one.cells)) // factor)
    cells: npt.NDArray[np.float64] = np.bincount(places, weights=one.cells).astype(np.float64)
    return TimeDistribution(one.least, step, cells)


def repeated(distribution: TimeDistribution, times: int) -> TimeDistribution:
    """The sum of ``times`` independent times of the same distribution, at least one."""
    total: TimeDistribution | None = None
    power = distribution
    while True:
        if times & 1:
            total = power if total is None else add_times(total, power)
        times >>= 1
        if not times:
            assert total is not None
            return total
        power = add_times(power, power)


def path_distribution(
    rows: Iterable[TransitionTimes], counts: Mapping[int, int]
) -> TimeDistribution:
    """The time of a path that takes each transition as often as ``counts`` says.

    Cost: for each transition a number of convolutions logarithmic in its count.
    """
    total = TimeDistribution(0, 1, np.ones(1))
    taken = ((row, counts.get(row.number, 0)) for row in rows)
    parts = [repeated(of_times(row), count) for row, count in taken if count]
    for part in sorted(parts, key=lambda one: one.step):
        total = add_times(total, part)
    return total
