"""Extracts extremes from times: block maxima and peaks over a threshold, of any size."""

from __future__ import annotations

import numpy as np

from ptxwcet.methods.pwcet.dependence import cluster_maxima
from ptxwcet.methods.pwcet.distributions import Floats
from ptxwcet.methods.pwcet.tail import Extremes, Fit
from ptxwcet.support.records import dataclass

LEAST_EXTREMES = 40
"""The fewest maxima or excesses to which a law is fitted."""

LEAST_BLOCK = 25
"""The block size of [E] 5.2, and the smallest that is tried."""

_MOST_EXTREMES = 10_000
_SIZES = (10, 15, 20, 25, 35, 50, 75, 100, 150, 200, 300, 400, 600, 800, 1600, 3200, 6400, 12800)
_RATES = (
    0.2,
    0.15,
    0.1,
    0.075,
    0.05,
    0.04,
    0.03,
    0.025,
    0.02,
    0.015,
    0.01,
    0.0075,
    0.005,
    0.0025,
    0.001,
)
_MOST_RATE = 0.101
_GRID_LIMIT = 1e-6
_MOST_EXACT = 2.0**53


@dataclass(frozen=True, slots=True, eq=False)
class MeanExcess:
    """The mean excess above thresholds, and its standard error: a line where a GPD holds."""

    thresholds: Floats
    means: Floats
    errors: Floats


def resolution_of(times: Floats) -> float:
    """Returns the grid of the times: the largest step of which all distances are multiples.

    It is 0 if no step of at least a millionth exists. Cycle counts give 1 or more. Cost: linear.
    """
    distances = times - times.min()
    for digits in range(7):
        scaled = distances * 10.0**digits
        if scaled.max() > _MOST_EXACT:
            break
        whole = np.rint(scaled)
        if np.abs(scaled - whole).max() < _GRID_LIMIT * max(1.0, 10.0 ** (digits - 3)):
            step = int(np.gcd.reduce(whole.astype(np.int64)))
            return step / 10.0**digits
    return 0.0


def spread_ties(times: Floats, resolution: float, random: np.random.Generator) -> Floats:
    """Returns the times moved down at random within their grid cell, so that none are equal.

    A count of x cycles represents a time in ``(x - resolution, x]``; the laws are continuous, and
    equal values would mislead their fits and tests. Levels are rounded up to the grid again.
    """
    if resolution == 0:
        return times
    return times - resolution * random.random(len(times))


def block_maxima(times: Floats, size: int) -> Floats:
    """Returns maxima of blocks of ``size`` consecutive times, without an incomplete last block.

    Raises ValueError for a size below 1.
    """
    if size < 1:
        raise ValueError("a block has at least one time")
    blocks = len(times) // size
    return np.asarray(times[: blocks * size].reshape(blocks, size).max(axis=1), np.float64)


def maxima_of(times: Floats, size: int, index: float) -> Extremes:
    """Returns block maxima as extremes; ``index`` is the extremal index of the times."""
    return Extremes(block_maxima(times, size), block_size=size, runs_per_maximum=size * index)


def peaks_of(times: Floats, threshold: float, index: float) -> Extremes:
    """Returns times above a threshold as extremes; with ``index`` below 1 one per cluster."""
    above = times > threshold
    rate = float(above.mean())
    values = times[above] if index >= 1 else cluster_maxima(times, threshold, index)
    return Extremes(values, threshold=threshold, rate=rate)


def block_sizes(count: int) -> tuple[int, ...]:
    """Returns sizes from 10 on to try: those that leave 20 to 10,000 maxima, and 25."""
    fit = [size for size in _SIZES if 20 <= count // size <= _MOST_EXTREMES]
    return tuple(sorted({*fit, LEAST_BLOCK})) if count // LEAST_BLOCK <= _MOST_EXTREMES else (*fit,)


def thresholds(times: Floats) -> tuple[float, ...]:
    """Returns ascending thresholds, exceeded by 20 % to 0.1 % of the times, by 30 to 10,000."""
    counts = [round(rate * len(times)) for rate in _RATES]
    counts = [c for c in counts if 30 <= c <= _MOST_EXTREMES]
    if len(times) // 10 > _MOST_EXTREMES:
        counts.insert(0, _MOST_EXTREMES)
    ordered = np.sort(times)
    candidates = sorted({float(ordered[-count - 1]) for count in counts})
    # Equal times at the top leave thresholds without values, or without variation, above them.
    above = [
        ordered[np.searchsorted(ordered, candidate, side="right") :] for candidate in candidates
    ]
    return tuple(
        candidate
        for candidate, values in zip(candidates, above, strict=True)
        if len(values) >= 30 and values[0] < values[-1]
    )


def is_eligible(extremes: Extremes) -> bool:
    """Returns whether unrequested extremes may be chosen: enough, and not from too far down."""
    size = extremes.block_size
    coarse = size < LEAST_BLOCK if size else extremes.rate > _MOST_RATE
    enough = len(extremes.values) >= LEAST_EXTREMES + (0 if size == LEAST_BLOCK else 10)
    return enough and not coarse


def choose(candidates: tuple[Fit, ...], level: float) -> Fit:
    """Returns the first candidate with a p above ``level``: it uses the most data that still fit.

    Only eligible ones are considered; the best one if none fits. Candidates are ordered by
    decreasing number of extremes.
    """
    eligible = [fit for fit in candidates if fit.is_eligible] or list(candidates)
    best = max(eligible, key=lambda fit: fit.goodness.p_anderson_darling)
    return next((fit for fit in eligible if fit.goodness.p_anderson_darling > level), best)


def mean_excess(times: Floats, points: int = 60) -> MeanExcess:
    """Returns the mean excess above thresholds from the median up to the tenth largest time.

    Cost: a sort, and linear in the points.
    """
    ordered = np.sort(times)
    n = len(ordered)
    sums = np.cumsum(ordered[::-1])[::-1]
    squares = np.cumsum((ordered[::-1] - ordered[-1]) ** 2)[::-1]
    places = np.unique(np.linspace(n // 2, max(n // 2, n - 10), points).astype(np.int64))
    counts = (n - places).astype(np.float64)
    levels = ordered[places - 1]
    means = sums[places] / counts - levels
    away = ordered[-1] - (sums[places] / counts)
    variance = np.maximum(squares[places] / counts - away**2, 0.0)
    return MeanExcess(levels, means, np.sqrt(variance / counts))
