"""Defines the settings of a study of measurements."""

from __future__ import annotations

from enum import Enum

from ptxwcet.methods.pwcet.distributions import Family
from ptxwcet.methods.pwcet.estimation import Estimator
from ptxwcet.methods.pwcet.intervals import Interval
from ptxwcet.support.records import dataclass


class Extraction(Enum):
    """The kind of extremes: peaks over a threshold, or maxima of blocks."""

    PEAKS = "pot"
    BLOCKS = "bm"

    def family(self, *, has_shape: bool) -> Family:
        """Returns the law of these extremes, with its shape estimated or 0."""
        if self is Extraction.PEAKS:
            return Family.GPD if has_shape else Family.EXPONENTIAL
        return Family.GEV if has_shape else Family.GUMBEL


class Shape(Enum):
    """The laws of the curve.

    ``LARGER``: at each probability the larger of the law with a shape and the law with shape 0. An
    estimated shape below 0 states that the tail ends, which measurements do not show and which is
    known to be estimated too low for tails that are nearly exponential. ``FREE``: only the law with
    a shape; ``ZERO``: only Gumbel or exponential, as [E] takes Gumbel.
    """

    LARGER = "larger"
    FREE = "free"
    ZERO = "zero"


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of an analysis. Probabilities are those with which one run exceeds.

    ``level`` is that of the hypothesis tests; ``block_size`` and ``threshold`` None: chosen.
    ``seed`` is that of everything random: spread ties, bootstraps.
    """

    extraction: Extraction = Extraction.PEAKS
    shape: Shape = Shape.LARGER
    estimator: Estimator = Estimator.MLE
    interval: Interval = Interval.PROFILE
    block_size: int | None = None
    threshold: float | None = None
    probabilities: tuple[float, ...] = (1e-6, 1e-9, 1e-12)
    level: float = 0.05
    confidence: float = 0.95
    lags: int = 20
    seed: int = 0

    @property
    def families(self) -> tuple[Family, ...]:
        """The laws of the curve; the first one must fit the extremes."""
        free, zero = (self.extraction.family(has_shape=shape) for shape in (True, False))
        return {Shape.LARGER: (free, zero), Shape.FREE: (free,), Shape.ZERO: (zero,)}[self.shape]

    @property
    def interval_used(self) -> Interval:
        """The method of intervals: profiles need a maximum of the likelihood, else bootstraps."""
        return self.interval if self.estimator is Estimator.MLE else Interval.BOOTSTRAP
