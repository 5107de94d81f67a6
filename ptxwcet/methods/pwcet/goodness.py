"""How well a law fits its extremes, with p-values that know that its parameters were fitted.

Tables of Kolmogorov-Smirnov, Anderson-Darling and Cramer-von Mises hold for a law fixed beforehand;
a law fitted to the same values is closer to them, and such tables would pass nearly everything. The
p-values here come from a parametric bootstrap: samples of the fitted law, fitted by the same
estimator, give the distribution of each statistic. It depends on the shape only, and hardly on the
number of values, so that samples of at most 2,000 values serve for more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptxwcet.methods.pwcet.distributions import Family, Floats, Law, cdf_of, reduced_variate, sample
from ptxwcet.methods.pwcet.estimation import Estimator, fit_rows, log_likelihood

REPLICATES = 499
_MOST_VALUES = 2000
_TINY = 1e-300


@dataclass(frozen=True, slots=True)
class GoodnessOfFit:
    """Statistics (Kolmogorov-Smirnov as ``sqrt(n) D``) and bootstrap p-values of a fit."""

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
    """``sqrt(n) D``, ``A^2`` and ``W^2`` of each row of probabilities; shape (rows, 3)."""
    u = np.sort(np.clip(probabilities, _TINY, 1 - 1e-16), axis=1)
    n = u.shape[1]
    rank = np.arange(1, n + 1, dtype=np.float64)
    distance = np.maximum((rank / n - u).max(axis=1), (u - (rank - 1) / n).max(axis=1))
    odd = 2 * rank - 1
    anderson = -n - (odd * (np.log(u) + np.log1p(-u[:, ::-1]))).sum(axis=1) / n
    cramer = 1 / (12 * n) + ((u - odd / (2 * n)) ** 2).sum(axis=1)
    found: Floats = np.stack([np.sqrt(n) * distance, anderson, cramer], axis=1)
    return found


def likelihood_ratio(full: Law, restricted: Law, values: Floats) -> tuple[float, float]:
    """Twice the gain of the law with a shape over the one without, and its p-value (chi2, 1)."""
    from scipy.stats import chi2

    gain = 2 * (log_likelihood(full, values) - log_likelihood(restricted, values))
    gain = max(gain, 0.0)
    return gain, float(chi2.sf(gain, 1))


RESTRICTED = {Family.GEV: Family.GUMBEL, Family.GPD: Family.EXPONENTIAL}
"""The law of the same extremes whose shape is 0."""
