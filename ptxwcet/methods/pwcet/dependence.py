"""Measures dependence: autocorrelation, Ljung-Box, AR order, R/S; extremal index, extremogram.

The extremal index theta is the reciprocal of the mean size of clusters of exceedances; 1 means that
extremes are isolated ([E] Equation 7).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ptxwcet.methods.pwcet.distributions import Floats
from ptxwcet.support.records import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class SerialDependence:
    """The autocorrelations for lags 1, 2, ...; Ljung-Box statistics and p-values up to each lag.

    ``limit``: the range of the autocorrelations of independent times, with the tests' confidence,
    for each lag. ``order_aic`` and ``order_bic``: order of an AR model.
    """

    autocorrelation: Floats
    limit: float
    ljung_box: Floats
    ljung_box_p: Floats
    order_aic: int
    order_bic: int


def serial_dependence(times: Floats, lags: int, level: float) -> SerialDependence:
    """Computes the autocorrelations of a series. Cost: a Fourier transform of it."""
    from scipy.stats import norm
    from statsmodels.tsa.stattools import acf, q_stat

    n = len(times)
    correlations = np.asarray(acf(times, nlags=lags, fft=True), np.float64)[1:]
    statistics, p = q_stat(correlations, n)
    aic, bic = autoregressive_orders(times)
    return SerialDependence(
        correlations,
        float(norm.ppf(1 - level / 2) / np.sqrt(n)),
        np.asarray(statistics, np.float64),
        np.asarray(p, np.float64),
        aic,
        bic,
    )


def autoregressive_orders(times: Floats) -> tuple[int, int]:
    """Returns the orders with the least AIC and the least BIC, by the Yule-Walker equations.

    Orders up to ``10 log10(n)`` are tried, as by R's ``ar``, the source of [E] Table 1. AIC
    sometimes takes a higher order than the true one, also for independent times; BIC seldom does.
    """
    from statsmodels.tsa.stattools import acovf, levinson_durbin

    n = len(times)
    most = min(n - 1, int(10 * np.log10(n)))
    covariances = acovf(times, fft=True, nlag=most)
    partial = np.asarray(levinson_durbin(covariances, nlags=most, isacov=True)[2])[1:]
    variances = covariances[0] * np.cumprod(np.concatenate([[1.0], 1 - partial**2]))
    fit = n * np.log(np.maximum(variances, 1e-300))
    orders = np.arange(most + 1)
    return int(np.argmin(fit + 2 * orders)), int(np.argmin(fit + np.log(n) * orders))


def rescaled_range(times: Floats) -> tuple[float, int]:
    """Computes Lo's modified R/S statistic ``Q / sqrt(n)`` and its number of lags (Lo 1991).

    It is the range of the partial sums of deviations from the mean, divided by their long-run
    standard deviation (Newey-West, Andrews' choice of lags for an AR(1) process). Short-range
    dependence does not change its distribution, long-range dependence makes it larger.
    """
    n = len(times)
    deviations = times - times.mean()
    variance = float(deviations @ deviations) / n
    first = float(deviations[1:] @ deviations[:-1]) / n / variance
    bend = (2 * abs(first) / (1 - min(first * first, 0.999))) ** (2 / 3)
    lags = min(int((1.5 * n) ** (1 / 3) * bend), n // 4)
    long_run = variance
    for lag in range(1, lags + 1):
        covariance = float(deviations[lag:] @ deviations[:-lag]) / n
        long_run += 2 * (1 - lag / (lags + 1)) * covariance
    sums = np.cumsum(deviations)
    spread = float(sums.max() - sums.min())
    return spread / np.sqrt(n * max(long_run, 1e-6 * variance)), lags


def rescaled_range_survival(statistic: float) -> float:
    """Returns P(V > v) for the range V of a Brownian bridge, the limit of :func:`rescaled_range`.

    ``2 sum over k of (4 k^2 v^2 - 1) exp(-2 k^2 v^2)`` (Kuiper 1960, Lo 1991 Equation 3.9).
    """
    if statistic < 0.3:
        return 1.0
    squares = (np.arange(1, 101) * statistic) ** 2
    total = 2 * float(((4 * squares - 1) * np.exp(-2 * squares)).sum())
    return min(1.0, max(0.0, total))


def bridge_square_survival(statistic: float) -> float:
    """Returns P(W > w) for the integral W of a squared Brownian bridge: KPSS's limit about a level.

    Anderson and Darling 1952, Equation 4.35; twenty terms of the series. Below 0.01 it is 1.
    """
    from scipy.special import gammaln, kve

    if statistic < 0.01:
        return 1.0
    k = np.arange(20)
    terms = np.exp(gammaln(k + 0.5) - gammaln(k + 1) - gammaln(0.5))
    y = (4 * k + 1) ** 2 / (16 * statistic)
    total = float((terms * np.sqrt(4 * k + 1) * np.exp(-2 * y) * kve(0.25, y)).sum())
    return min(1.0, max(0.0, 1 - total / (np.pi * float(np.sqrt(statistic)))))


def independent_gap(times: Floats, level: float) -> int:
    """Returns the distance at which times are uncorrelated: the first lag below the limit."""
    from statsmodels.tsa.stattools import acf

    n = len(times)
    most = max(1, n // 100)
    limit = 2 / np.sqrt(n)
    correlations = np.abs(np.asarray(acf(times, nlags=most, fft=True), np.float64)[1:])
    small = np.flatnonzero(correlations < limit)
    return int(small[0]) + 1 if len(small) else most


_SIMULATIONS = 999


@dataclass(frozen=True, slots=True)
class ExtremalIndex:
    """Estimates of theta from exceedances of ``threshold``, each at most 1.

    ``p`` is the probability of an estimate by intervals this low for independent times.
    ``block_length`` and ``run_length`` are those of the blocks and the runs estimator; independent
    times would give the latter ``runs_if_independent``.
    """

    threshold: float
    exceedances: int
    blocks: float
    runs: float
    intervals: float
    sliding: float
    block_length: int
    run_length: int
    runs_if_independent: float
    p: float


def extremal_threshold(times: Floats) -> float:
    """Returns the threshold of tests of extremes: exceeded by two square roots of the runs' number.

    At least 50 exceedances, at most a tenth of all.
    """
    n = len(times)
    count = min(max(50, round(2 * np.sqrt(n))), n // 10)
    return float(np.partition(times, n - count - 1)[n - count - 1])


def extremal_index(times: Floats, random: np.random.Generator) -> ExtremalIndex:
    """Computes the extremal index. Cost: a few passes, and 999 samples of the exceedances."""
    n = len(times)
    threshold = extremal_threshold(times)
    places = np.flatnonzero(times > threshold)
    rate = len(places) / n
    gaps = np.diff(places)
    block_length = max(2, round(1 / rate))
    run_length = max(1, round(0.05 / rate))
    estimate = by_intervals(gaps[None, :])[0]
    null = by_intervals(random.geometric(rate, (_SIMULATIONS, len(gaps))))
    return ExtremalIndex(
        threshold,
        len(places),
        by_blocks(places, n, block_length),
        by_runs(gaps, run_length),
        float(estimate),
        by_sliding_blocks(times, block_length),
        block_length,
        run_length,
        (1 - rate) ** run_length,
        float((1 + (null <= estimate).sum()) / (1 + len(null))),
    )


def by_blocks(places: npt.NDArray[np.intp], n: int, length: int) -> float:
    """Returns ``log(1 - K / k) / (length * log(1 - N / n))``: K of k blocks hold N exceedances.

    Smith and Weissman 1994; an incomplete last block is left out. NaN if every block holds one.
    """
    blocks = n // length
    inside = places[places < blocks * length]
    held = len(np.unique(inside // length))
    if held == blocks or not len(inside):
        return float("nan")
    rate = len(inside) / (blocks * length)
    return min(1.0, float(np.log1p(-held / blocks) / (length * np.log1p(-rate))))


def by_runs(gaps: npt.NDArray[np.intp], length: int) -> float:
    """Returns the share of exceedances without another in the next ``length`` observations."""
    return float((1 + (gaps > length).sum()) / (1 + len(gaps)))


def by_intervals(gaps: npt.NDArray[np.intp]) -> Floats:
    """Computes Ferro and Segers 2003, Equation 22, of each row of gaps between exceedances."""
    gaps = gaps.astype(np.float64)
    count = gaps.shape[1]
    short = gaps.max(axis=1) <= 2
    less = gaps - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        plain = 2 * gaps.sum(axis=1) ** 2 / (count * (gaps**2).sum(axis=1))
        moved = 2 * less.sum(axis=1) ** 2 / (count * (less * (gaps - 2)).sum(axis=1))
    estimates: Floats = np.minimum(1.0, np.where(short, plain, moved))
    return estimates


def by_sliding_blocks(times: Floats, length: int) -> float:
    """Computes Northrop 2015, from sliding blocks, less its bias (Berghaus and Buecher 2018)."""
    from scipy.ndimage import maximum_filter1d

    n = len(times)
    maxima = maximum_filter1d(times, length)[length // 2 : n - (length - 1) // 2]
    share = np.searchsorted(np.sort(times), maxima, side="right") / (n + 1)
    mean = float((-length * np.log(share)).mean())
    return min(1.0, max(1e-6, 1 / mean - 1 / length))


@dataclass(frozen=True, slots=True, eq=False)
class Extremogram:
    """The probability of an exceedance ``lag`` runs after another, from lag 1 ([E] Fig. 5).

    ``expected`` is the value for independent times, ``limit`` their upper limit at each lag with
    the tests' confidence. ``p``: the probability of at least this many pairs at all lags together.
    """

    values: Floats
    expected: float
    limit: float
    pairs: int
    p: float


def extremogram(
    times: Floats, threshold: float, lags: int, level: float, random: np.random.Generator
) -> Extremogram:
    """Computes the extremogram of exceedances of ``threshold`` (Davis and Mikosch 2009).

    ``limit`` is by the Poisson law, ``p`` by 999 random orders of the times. Cost: linear in times
    and lags.
    """
    from scipy.stats import poisson

    above = times > threshold
    n, count = len(times), int(above.sum())
    pairs = np.asarray([int((above[:-lag] & above[lag:]).sum()) for lag in range(1, lags + 1)])
    chance = count * (count - 1) / (n * (n - 1))
    means = chance * (n - np.arange(1, lags + 1))
    limit = float(poisson.ppf(1 - level, means.mean()))
    return Extremogram(
        pairs / count,
        count / n,
        limit / count,
        int(pairs.sum()),
        _share_with_as_many(n, count, lags, int(pairs.sum()), random),
    )


def _share_with_as_many(
    n: int, count: int, lags: int, pairs: int, random: np.random.Generator
) -> float:
    """Returns the share of random orders with at least this many pairs within ``lags``."""
    reached = 0
    own = np.arange(1, count + 1)
    for _ in range(_SIMULATIONS):
        places = np.sort(random.choice(n, count, replace=False, shuffle=False))
        within = np.searchsorted(places, places + lags, side="right") - own
        reached += int(within.sum()) >= pairs
    return (1 + reached) / (1 + _SIMULATIONS)


def cluster_maxima(times: Floats, threshold: float, index: float) -> Floats:
    """Returns the largest time of each cluster of exceedances (Ferro and Segers 2003, section 4).

    The ``theta N`` largest gaps between the N exceedances separate the clusters.
    """
    places = np.flatnonzero(times > threshold)
    gaps = np.diff(places)
    clusters = int(np.clip(np.floor(index * len(places)) + 1, 1, len(places)))
    if clusters == len(places):
        return times[places]
    order = np.argsort(-gaps, kind="stable")[: clusters - 1]
    starts = np.concatenate([[0], np.sort(order) + 1])
    return np.asarray(np.maximum.reduceat(times[places], starts), np.float64)
