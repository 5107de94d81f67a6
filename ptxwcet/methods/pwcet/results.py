"""What a study of a condition consists of: the sample, fits, points of the curve."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptxwcet.methods.pwcet.distributions import Family, Floats
from ptxwcet.methods.pwcet.goodness import GoodnessOfFit
from ptxwcet.methods.pwcet.tail import Tail


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
    """A tail, how well it fits, and its levels at the probabilities asked for."""

    tail: Tail
    scale_error: float
    shape_error: float
    goodness: GoodnessOfFit
    levels: tuple[float, ...]


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
