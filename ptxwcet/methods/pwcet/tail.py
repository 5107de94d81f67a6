"""A fitted tail: which extremes, which law, and what it says of one run.

Every probability here is that of *one run*. The maximum of ``b`` runs with extremal index
``theta`` stays below x with probability ``F(x)^(b theta)`` ([E] Equation 7): one run exceeds x
with ``1 - G(x)^(1 / (b theta))`` where G is the law of the maxima. A run exceeds the threshold u
with the observed rate, and x beyond it with the rate times the survival of the excess.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptxwcet.methods.pwcet.distributions import Floats, Law


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
