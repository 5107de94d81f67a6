"""A fitted tail: which extremes, which law, and what it says of one run.

Every probability here is that of *one run*. The maximum of ``b`` runs with extremal index
``theta`` stays below x with probability ``F(x)^(b theta)`` ([E] Equation 7): one run exceeds x
with ``1 - G(x)^(1 / (b theta))`` where G is the law of the maxima. A run exceeds the threshold u
with the observed rate, and x beyond it with the rate times the survival of the excess.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptxwcet.methods.pwcet.distributions import Family, Floats, Law
from ptxwcet.methods.pwcet.estimation import Estimator, fit_law, parameter_errors
from ptxwcet.methods.pwcet.goodness import REPLICATES, GoodnessOfFit, assess_fit


@dataclass(frozen=True, slots=True, eq=False)
class Extremes:
    """What a law is fitted to. ``values``: block maxima, or times above ``threshold``.

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
    """A law with the extremes that it was fitted to."""

    law: Law
    extremes: Extremes

    def survival_of(self, exceedance: Floats | float) -> Floats:
        """The survival in the law at which one run exceeds with probability ``exceedance``."""
        exceedance = np.asarray(exceedance, np.float64)
        if self.law.family.is_of_maxima:
            result: Floats = -np.expm1(self.extremes.runs_per_maximum * np.log1p(-exceedance))
            return result
        return exceedance / self.extremes.rate

    def exceedance(self, values: Floats) -> Floats:
        """Probability that one run takes longer than each of ``values``; for values in the tail."""
        if self.law.family.is_of_maxima:
            with np.errstate(over="ignore"):
                gone = np.exp(-self.law.reduced(values))
            result: Floats = -np.expm1(-gone / self.extremes.runs_per_maximum)
            return result
        return self.extremes.rate * self.law.survival(values)

    def level(self, exceedance: Floats | float) -> Floats:
        """The time that one run exceeds with probability ``exceedance``.

        NaN where the probability is above the threshold's rate: the law says nothing there.
        """
        survival = self.survival_of(exceedance)
        with np.errstate(invalid="ignore"):
            found = self.law.quantile(np.minimum(survival, 1.0))
        return np.where(survival <= 1.0, found, np.nan)

    def reduced_level(self, exceedance: float) -> float:
        """The reduced variate of :meth:`level`, which depends on no parameter of the law."""
        survival = float(self.survival_of(exceedance))
        if self.law.family.is_of_maxima:
            return float(-np.log(-np.log1p(-survival)))
        return float(-np.log(survival))


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """The times of a condition, in the order in which they were taken.

    ``spread`` are the times with ties taken apart; ``resolution`` the grid that they lie on, 0 if
    there is none.
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
        """A level on the grid of the times, rounded up, and at least the high-water mark.

        NaN is the level of a probability so large that the law says nothing: the high-water mark
        is above it.
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
    """A tail, the errors of its law's parameters (:func:`parameter_errors`), and how well it fits.

    ``is_eligible``: of the extractions that are tried it may be chosen; others are for the
    stability plot.
    """

    tail: Tail
    scale_error: float
    shape_error: float
    covariance: float
    goodness: GoodnessOfFit
    is_eligible: bool = True

    @property
    def choice(self) -> float:
        """The block size or the threshold that the extremes were taken with."""
        extremes = self.tail.extremes
        return float(extremes.block_size) if extremes.block_size else extremes.threshold

    def scale_at(self, threshold: float) -> tuple[float, float]:
        """The scale that the law has at a lower threshold, and its error: it should not change."""
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
    """Fits a law and tests the fit. Cost: that of :func:`assess_fit`."""
    law = fit_law(family, extremes.values, estimator, extremes.threshold)
    errors = parameter_errors(law, extremes.values)
    goodness = assess_fit(law, extremes.values, estimator, random, replicates)
    return Fit(Tail(law, extremes), *errors, goodness)


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The time that one run exceeds with at most a probability.

    ``pwcet`` is the answer: the upper end of the confidence interval. ``estimate`` is the estimated
    curve, below the truth in half of all cases or more, and ``low`` the lower end. None of the
    three is below the high-water mark; they are rounded up to the grid. ``law``, ``law_low``
    and ``law_high`` are what the laws alone say; ``estimate_law`` and ``pwcet_law`` which of them
    gave the estimate and the upper end.
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
        """Whether both ends of the interval were found (or the laws say nothing here)."""
        return not (np.isinf(self.law_low) or np.isinf(self.law_high))
