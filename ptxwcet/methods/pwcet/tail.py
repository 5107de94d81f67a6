"""Fits a tail: its extremes, its law, and the consequences for one run.

Every probability here is that of *one run*. The maximum of ``b`` runs with extremal index
``theta`` stays below x with probability ``F(x)^(b theta)`` ([E] Equation 7): one run exceeds x
with ``1 - G(x)^(1 / (b theta))`` where G is the law of the maxima. A run exceeds the threshold u
with the observed rate, and x beyond it with the rate times the survival of the excess.
"""

from __future__ import annotations

import numpy as np

from ptxwcet.methods.pwcet.distributions import Family, Floats, Law, cdf_of, reduced_variate, sample
from ptxwcet.methods.pwcet.estimation import (
    Estimator,
    fit_law,
    fit_rows,
    log_likelihood,
    parameter_errors,
)
from ptxwcet.support.records import dataclass

REPLICATES = 499
_MOST_VALUES = 2000
_TINY = 1e-300


@dataclass(frozen=True, slots=True)
class GoodnessOfFit:
    """The statistics (Kolmogorov-Smirnov as ``sqrt(n) D``) and bootstrap p-values of a fit."""

    kolmogorov_smirnov: float
    anderson_darling: float
    cramer_von_mises: float
    p_kolmogorov_smirnov: float
    p_anderson_darling: float
    p_cramer_von_mises: float


def assess_fit(
    law: Law,
    values: Floats,
    estimator: Estimator,
    random: np.random.Generator,
    replicates: int = REPLICATES,
) -> GoodnessOfFit:
    """Tests the hypothesis that the values follow a law of this family.

    Tables of Kolmogorov-Smirnov, Anderson-Darling and Cramer-von Mises hold for a law fixed
    beforehand; a law fitted to the same values is closer to them, and such tables would pass nearly
    everything. The p-values result from a parametric bootstrap: samples of the fitted law, fitted
    by the same estimator, give the distribution of each statistic. It depends on the shape only,
    and hardly on the number of values, so that samples of at most 2,000 values serve for more.

    p-values are at least ``1 / (replicates + 1)``. Cost: as many fits of at most 2,000 values.
    """
    observed = edf_statistics(law.cdf(values)[None, :])[0]
    size = min(len(values), _MOST_VALUES)
    base = Law(law.family, 0.0, 1.0, law.shape)
    samples = sample(base, (replicates, size), random)
    fits = fit_rows(law.family, samples, estimator)
    usable = np.isfinite(fits).all(axis=1)
    fits, samples = fits[usable], samples[usable]
    standard = (samples - fits[:, :1]) / fits[:, 1:2]
    null = edf_statistics(cdf_of(law.family, reduced_variate(standard, fits[:, 2:])))
    p = (1 + (null >= observed).sum(axis=0)) / (1 + len(null))
    return GoodnessOfFit(*observed.tolist(), *p.tolist())


def edf_statistics(probabilities: Floats) -> Floats:
    """Returns ``sqrt(n) D``, ``A^2`` and ``W^2`` of each row of probabilities; shape (rows, 3)."""
    u = np.sort(np.clip(probabilities, _TINY, 1 - 1e-16), axis=1)
    n = u.shape[1]
    rank = np.arange(1, n + 1, dtype=np.float64)
    distance = np.maximum((rank / n - u).max(axis=1), (u - (rank - 1) / n).max(axis=1))
    odd = 2 * rank - 1
    anderson = -n - (odd * (np.log(u) + np.log1p(-u[:, ::-1]))).sum(axis=1) / n
    cramer = 1 / (12 * n) + ((u - odd / (2 * n)) ** 2).sum(axis=1)
    return np.stack([np.sqrt(n) * distance, anderson, cramer], axis=1)


def likelihood_ratio(full: Law, restricted: Law, values: Floats) -> tuple[float, float]:
    """Returns twice the gain of the law with a shape over the other, and its p-value (chi2, 1)."""
    from scipy.stats import chi2

    gain = 2 * (log_likelihood(full, values) - log_likelihood(restricted, values))
    gain = max(gain, 0.0)
    return gain, float(chi2.sf(gain, 1))


@dataclass(frozen=True, slots=True, eq=False)
class Extremes:
    """The extremes of a fit. ``values``: block maxima, or times above ``threshold``.

    ``runs_per_maximum``: block size times extremal index (1 for excesses). ``rate``: share of runs
    above the threshold (1 for maxima), of all runs, declustered or not. ``threshold`` is NaN for
    maxima.
    """

    values: Floats
    threshold: float = float("nan")
    block_size: int = 0
    runs_per_maximum: float = 1.0
    rate: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Tail:
    """A law with the extremes to which it was fitted."""

    law: Law
    extremes: Extremes

    def survival_of(self, exceedance: Floats | float) -> Floats:
        """Returns the law's survival at which one run exceeds with probability ``exceedance``."""
        exceedance = np.asarray(exceedance, np.float64)
        if self.law.family.is_of_maxima:
            return -np.expm1(self.extremes.runs_per_maximum * np.log1p(-exceedance))
        return exceedance / self.extremes.rate

    def exceedance(self, values: Floats) -> Floats:
        """Returns the probability that one run exceeds each of ``values``, in the tail."""
        if self.law.family.is_of_maxima:
            with np.errstate(over="ignore"):
                gone = np.exp(-self.law.reduced(values))
            return -np.expm1(-gone / self.extremes.runs_per_maximum)
        return self.extremes.rate * self.law.survival(values)

    def level(self, exceedance: Floats | float) -> Floats:
        """Returns the time that one run exceeds with probability ``exceedance``.

        NaN where the probability is above the threshold's rate: the law is undefined there.
        """
        survival = self.survival_of(exceedance)
        with np.errstate(invalid="ignore"):
            levels = self.law.quantile(np.minimum(survival, 1.0))
        return np.where(survival <= 1.0, levels, np.nan)

    def reduced_level(self, exceedance: float) -> float:
        """Returns the reduced variate of :meth:`level`, independent of the law's parameters."""
        survival = float(self.survival_of(exceedance))
        if self.law.family.is_of_maxima:
            return float(-np.log(-np.log1p(-survival)))
        return float(-np.log(survival))


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """The times of a condition, in the order of measurement.

    ``spread`` are the times with separated ties; ``resolution`` is their grid, 0 if there is none.
    """

    label: str
    times: Floats
    spread: Floats
    resolution: float

    @property
    def high_water_mark(self) -> float:
        """The longest time that was observed."""
        return float(self.times.max())

    def rounded(self, value: float) -> float:
        """Returns a level on the grid of the times, rounded up, and at least the high-water mark.

        NaN is the level of a probability so large that the law is undefined: the high-water mark is
        above it.
        """
        if np.isnan(value):
            return self.high_water_mark
        if not np.isfinite(value):
            return max(value, self.high_water_mark)
        if self.resolution:
            base = float(self.times.min())
            steps = np.ceil((value - base) / self.resolution - 1e-9)
            value = base + self.resolution * float(steps)
        return max(value, self.high_water_mark)


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A tail, its parameters' errors (:func:`parameter_errors`), and its goodness of fit.

    ``is_eligible``: it may be chosen among the tried extractions; others are for the stability
    plot.
    """

    tail: Tail
    scale_error: float
    shape_error: float
    covariance: float
    goodness: GoodnessOfFit
    is_eligible: bool = True

    @property
    def choice(self) -> float:
        """The block size or the threshold of the extremes."""
        extremes = self.tail.extremes
        return float(extremes.block_size) if extremes.block_size else extremes.threshold

    def scale_at(self, threshold: float) -> tuple[float, float]:
        """Returns the law's scale at a lower threshold, and its error: it should not change."""
        away = self.choice - threshold
        variance = self.scale_error**2 + (away * self.shape_error) ** 2 - 2 * away * self.covariance
        error = float(np.sqrt(variance)) if variance > 0 else float("nan")
        return self.tail.law.scale - self.tail.law.shape * away, error


def fit_tail(
    extremes: Extremes,
    family: Family,
    estimator: Estimator,
    random: np.random.Generator,
    replicates: int = REPLICATES,
) -> Fit:
    """Fits a law and tests the fit. Cost: as :func:`assess_fit`."""
    law = fit_law(family, extremes.values, estimator, extremes.threshold)
    errors = parameter_errors(law, extremes.values)
    goodness = assess_fit(law, extremes.values, estimator, random, replicates)
    return Fit(Tail(law, extremes), *errors, goodness)


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The time that one run exceeds with at most a probability.

    ``pwcet`` is the answer: the upper end of the confidence interval. ``estimate`` is the estimated
    curve, below the truth in half of all cases or more, and ``low`` the lower end. None of the
    three is below the high-water mark; they are rounded up to the grid. ``law``, ``law_low`` and
    ``law_high`` are the values of the laws only; ``estimate_law`` and ``pwcet_law`` name the laws
    that gave the estimate and the upper end.
    """

    exceedance: float
    pwcet: float
    estimate: float
    low: float
    law: float
    law_low: float
    law_high: float
    estimate_law: Family
    pwcet_law: Family

    @property
    def has_ends(self) -> bool:
        """Whether both ends of the interval exist (or the laws are undefined here)."""
        return not (np.isinf(self.law_low) or np.isinf(self.law_high))
