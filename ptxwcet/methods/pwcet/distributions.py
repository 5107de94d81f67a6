"""Defines the four laws of extremes, by one reduced variate.

For location ``m``, scale ``s`` and shape ``xi`` the reduced variate of ``x`` is
``r = log(1 + xi (x - m) / s) / xi``, and ``(x - m) / s`` where ``xi = 0``. Maxima of blocks follow
``F = exp(-exp(-r))`` (GEV, Gumbel where ``xi = 0``; [E] Equation 3), excesses of a threshold ``m``
follow ``F = 1 - exp(-r)`` (GPD, exponential where ``xi = 0``). A shape above 0 is a heavy tail,
one below 0 ends at ``m - s / xi``.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ptxwcet.support.records import dataclass

Floats: TypeAlias = npt.NDArray[np.float64]
"""Real numbers; the shape is stated where it matters."""

_NO_SHAPE = 1e-12


class Family(Enum):
    """A law of extremes."""

    GEV = "gev"
    GUMBEL = "gumbel"
    GPD = "gpd"
    EXPONENTIAL = "exponential"

    @property
    def is_of_maxima(self) -> bool:
        """Whether it is a law of block maxima, not of excesses."""
        return self in (Family.GEV, Family.GUMBEL)

    @property
    def has_shape(self) -> bool:
        """Whether its shape is estimated, not 0."""
        return self in (Family.GEV, Family.GPD)


@dataclass(frozen=True, slots=True)
class Law:
    """A member of a family; ``location`` is the threshold for excesses. Unit: that of the times."""

    family: Family
    location: float
    scale: float
    shape: float

    @property
    def upper_end(self) -> float:
        """The value that is never exceeded: finite only for a negative shape."""
        if self.shape >= 0:
            return float("inf")
        return self.location - self.scale / self.shape

    def cdf(self, values: Floats) -> Floats:
        """Returns P(X <= x), elementwise."""
        return cdf_of(self.family, self.reduced(values))

    def survival(self, values: Floats) -> Floats:
        """Returns P(X > x), elementwise, accurate where it is small."""
        reduced = self.reduced(values)
        with np.errstate(over="ignore"):
            gone = np.exp(-reduced)
        return -np.expm1(-gone) if self.family.is_of_maxima else np.minimum(gone, 1.0)

    def quantile(self, survival: Floats | float) -> Floats:
        """Returns the values exceeded with the given probabilities, accurate for small ones."""
        survival = np.asarray(survival, np.float64)
        with np.errstate(divide="ignore"):
            log_rate = (
                np.log(-np.log1p(-survival)) if self.family.is_of_maxima else np.log(survival)
            )
        return self.location + self.scale * stretched(-log_rate, self.shape)

    def reduced(self, values: Floats) -> Floats:
        """Returns the reduced variate; infinite outside of the support."""
        return reduced_variate((np.asarray(values) - self.location) / self.scale, self.shape)


def reduced_variate(standard: Floats, shape: Floats | float) -> Floats:
    """Returns ``log(1 + shape * standard) / shape``; +-infinity outside of the support.

    Arguments broadcast. Accurate at and around shape 0.
    """
    shape = np.asarray(shape, np.float64)
    small = np.abs(shape) < _NO_SHAPE
    safe = np.where(small, 1.0, shape)
    argument = safe * standard
    with np.errstate(divide="ignore", invalid="ignore"):
        curved = np.log1p(np.maximum(argument, -1.0)) / safe
    return np.where(small, standard, curved)


def stretched(reduced: Floats, shape: Floats | float) -> Floats:
    """Returns ``(exp(shape * reduced) - 1) / shape``: the inverse of :func:`reduced_variate`."""
    shape = np.asarray(shape, np.float64)
    small = np.abs(shape) < _NO_SHAPE
    safe = np.where(small, 1.0, shape)
    with np.errstate(over="ignore", invalid="ignore"):
        curved = np.expm1(safe * reduced) / safe
    return np.where(small, reduced, curved)


def cdf_of(family: Family, reduced: Floats) -> Floats:
    """Returns the distribution function at reduced variates."""
    with np.errstate(over="ignore"):
        gone = np.exp(-reduced)
    return np.exp(-gone) if family.is_of_maxima else np.maximum(-np.expm1(-reduced), 0.0)


def log_density(
    family: Family,
    values: Floats,
    location: Floats | float,
    scale: Floats | float,
    shape: Floats | float,
) -> Floats:
    """Returns the log density; minus infinity outside of the support. Arguments broadcast."""
    scale = np.asarray(scale, np.float64)
    standard = (values - location) / scale
    reduced = reduced_variate(standard, shape)
    inside = np.isfinite(reduced)
    if not family.is_of_maxima:
        inside &= standard >= 0
    bounded = np.where(inside, reduced, 0.0)
    density = -np.log(scale) - (1 + np.asarray(shape)) * bounded
    if family.is_of_maxima:
        with np.errstate(over="ignore"):
            density = density - np.exp(-bounded)
    return np.where(inside, density, -np.inf)


def sample(law: Law, shape: tuple[int, ...], random: np.random.Generator) -> Floats:
    """Returns independent values of a law, by inversion."""
    exponential = random.standard_exponential(shape)
    reduced = -np.log(exponential) if law.family.is_of_maxima else exponential
    return law.location + law.scale * stretched(reduced, law.shape)
