"""The measurements as a time series: autocorrelation, Ljung-Box, order of an AR model, R/S.

Lags count runs ([E] 4.2). Each function gives plain figures;
:mod:`ptxwcet.methods.pwcet.hypotheses` makes tests of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptxwcet.methods.pwcet.distributions import Floats


@dataclass(frozen=True, slots=True, eq=False)
class SerialDependence:
    """For lags 1, 2, ...: autocorrelations, and Ljung-Box statistics and p-values up to each lag.

    ``limit``: what the autocorrelations of independent times stay within, with the tests'
    confidence, each for itself. ``order_aic`` and ``order_bic``: order of an AR model.
    """

    autocorrelation: Floats
    limit: float
    ljung_box: Floats
    ljung_box_p: Floats
    order_aic: int
    order_bic: int


def serial_dependence(times: Floats, lags: int, level: float) -> SerialDependence:
    """Autocorrelations of a series. Cost: a Fourier transform of it."""
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
    """The orders with the least AIC and the least BIC, by the Yule-Walker equations.

    Orders up to ``10 log10(n)`` are tried, as R's ``ar`` does, from which [E] Table 1 has its
    figures. AIC takes a higher order than the true one now and then, also for independent times;
    BIC seldom does.
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
    """Lo's modified R/S statistic ``Q / sqrt(n)`` and its number of lags (Lo 1991).

    The range of the partial sums of deviations from the mean, by their long-run standard deviation
    (Newey-West, Andrews' choice of lags for an AR(1) process). Short-range dependence leaves its
    distribution as it is, long-range dependence makes it larger.
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
    """P(V > v) for the range V of a Brownian bridge, the limit of :func:`rescaled_range`.

    ``2 sum over k of (4 k^2 v^2 - 1) exp(-2 k^2 v^2)`` (Kuiper 1960, Lo 1991 Equation 3.9).
    """
    if statistic < 0.3:
        return 1.0
    squares = (np.arange(1, 101) * statistic) ** 2
    total = 2 * float(((4 * squares - 1) * np.exp(-2 * squares)).sum())
    return min(1.0, max(0.0, total))


def bridge_square_survival(statistic: float) -> float:
    """P(W > w) for the integral W of a squared Brownian bridge: the limit of KPSS about a level.

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
    """How many runs apart times are uncorrelated: the first lag whose autocorrelation is small."""
    from statsmodels.tsa.stattools import acf

    n = len(times)
    most = max(1, n // 100)
    limit = 2 / np.sqrt(n)
    found = np.abs(np.asarray(acf(times, nlags=most, fft=True), np.float64)[1:])
    small = np.flatnonzero(found < limit)
    return int(small[0]) + 1 if len(small) else most
