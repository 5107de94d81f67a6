"""Computes confidence intervals of levels that one run exceeds with small probabilities.

Profile likelihood: a level x belongs to the interval if the best law with that level is at most
``chi2 / 2`` less likely than the best of all. The interval is not symmetric, because the
uncertainty of a far tail is not: for a heavy tail it spans orders of magnitude, so that its ends
are searched by the logarithm of the distance from the law's location. Parametric bootstrap:
percentiles of the levels of laws fitted to samples of the fitted law.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ptxwcet.methods.pwcet.distributions import Family, Floats, sample, stretched
from ptxwcet.methods.pwcet.estimation import (
    SHAPE_RANGE,
    Estimator,
    Rows,
    climb,
    fit_rows,
    log_likelihood,
    score_rows,
    total_rows,
)
from ptxwcet.methods.pwcet.tail import Tail
from ptxwcet.support.records import dataclass

_CHUNK = 1 << 20
Laws: TypeAlias = tuple[Floats, Floats]
_FAR = 1.0  # reduced variate from which on the shape of maxima follows from the level
_SCALES = (1.5, 0.7, 2.5, 0.4, 4.0, 0.2, 8.0, 0.1, 20.0, 60.0)  # tried for a first law


def fitted_parameters(tail: Tail, count: int) -> Floats:
    """Returns the parameters of the tail's own law, ``count`` times, for :func:`best_laws`."""
    return np.tile([0.0, 1.0, tail.law.shape], (count, 1))


def best_laws(tail: Tail, levels: Floats, exceedances: Floats, near: Floats) -> Laws:
    """Returns the laws of largest likelihood with ``levels[i]`` at ``exceedances[i]``, for each i.

    The result is log likelihoods, and (location, scale, shape) in rows: those of values from which
    the fitted location was subtracted, in fitted scales.

    One of the parameters follows from the level, and the others are free. Far levels are millions
    of scales away: if the location followed there, the search would have to move it that far for
    the least change of shape, and would get stuck.

    ``near`` holds parameters of laws with levels not far away, where the search begins. The
    likelihood is minus infinity where no law of the family near them has the level. Cost: some ten
    passes over the extremes for each level.
    """
    law = tail.law
    x = (tail.extremes.values - law.location) / law.scale
    targets = (levels - law.location) / law.scale
    reduced = np.asarray([tail.reduced_level(p) for p in exceedances.tolist()])
    chunk = max(1, _CHUNK // len(x))
    parts = [
        _LawsWithLevels(law.family, x, targets[k : k + chunk], reduced[k : k + chunk]).best(
            near[k : k + chunk]
        )
        for k in range(0, len(targets), chunk)
    ]
    moved = len(x) * float(np.log(law.scale))
    likelihoods, parameters = zip(*parts, strict=True)
    return np.concatenate(likelihoods) - moved, np.concatenate(parameters)


@dataclass(frozen=True, slots=True, eq=False)
class _LawsWithLevels:
    """The laws of standardised values ``x`` with ``targets`` at the reduced variates ``reduced``.

    Free are, for maxima, location and shape if the level is far (the scale follows), otherwise the
    logarithm of the scale and the shape (the location follows); without a shape only the former.
    For excesses it is the shape (the scale follows); nothing is free without one.
    """

    family: Family
    x: Floats
    targets: Floats
    reduced: Floats

    def best(self, near: Floats) -> Laws:
        start = self._start(near)

        def total(which: Rows, free: Floats) -> Floats:
            return total_rows(self.family, self._rows(which), self._full(which, free))

        def scores(which: Rows, free: Floats) -> Floats:
            whole = score_rows(self.family, self._rows(which), self._full(which, free))
            return np.asarray(np.einsum("rmi,rij->rmj", whole, self._slopes(which, free)))

        every = np.arange(len(start))
        if start.shape[1] == 0:
            return total(every, start), self._full(every, start)
        free, likelihoods = climb(start, total, scores)
        return likelihoods, self._full(every, free)

    def _start(self, near: Floats) -> Floats:
        """Returns the nearest law with each level under which the values are possible."""
        every = np.arange(len(near))
        start = self._free(every, near, 1.0)
        for factor in _SCALES:
            total = total_rows(self.family, self._rows(every), self._full(every, start[every]))
            every = every[~np.isfinite(total)]
            if not len(every):
                break
            start[every] = self._free(every, near[every], factor)
        return start

    def _rows(self, which: Rows) -> Floats:
        return np.asarray(np.broadcast_to(self.x, (len(which), len(self.x))), np.float64)

    def _free(self, which: Rows, near: Floats, factor: float) -> Floats:
        """Returns free parameters of laws near others, scales times ``factor``, at their levels."""
        location, scale, shape = near.T
        scale = scale * factor
        if self.family is Family.EXPONENTIAL:
            return np.zeros((len(which), 0))
        if self.family is Family.GUMBEL:
            return np.asarray(np.log(scale), np.float64).reshape(-1, 1)
        far = self.reduced[which] > _FAR
        bent = shape_of_level((self.targets[which] - location) / scale, self.reduced[which])
        if self.family is Family.GPD:
            return bent.reshape(-1, 1)
        first = np.where(far, location, np.log(scale))
        return np.stack([first, np.where(far, bent, shape)], axis=1)

    def _full(self, which: Rows, free: Floats) -> Floats:
        """Returns location, scale and shape of the laws with these parameters and levels."""
        targets, reduced = self.targets[which], self.reduced[which]
        zero = np.zeros(len(which))
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            match self.family:
                case Family.EXPONENTIAL:
                    columns = zero, targets / reduced, zero
                case Family.GPD:
                    columns = zero, targets / stretched(reduced, free[:, 0]), free[:, 0]
                case Family.GUMBEL:
                    scale = np.exp(free[:, 0])
                    columns = targets - scale * reduced, scale, zero
                case Family.GEV:
                    first, xi = free.T
                    far, level = reduced > _FAR, stretched(reduced, xi)
                    scale = np.where(far, (targets - first) / level, np.exp(first))
                    columns = np.where(far, first, targets - scale * level), scale, xi
        return np.stack(columns, axis=1)

    def _slopes(self, which: Rows, free: Floats) -> Floats:
        """Returns derivatives of location, scale and shape by the free parameters (central)."""
        columns = []
        for k in range(free.shape[1]):
            move = np.zeros_like(free)
            move[:, k] = 1e-6
            ends = self._full(which, free + move), self._full(which, free - move)
            columns.append((ends[0] - ends[1]) / 2e-6)
        return np.stack(columns, axis=2)


def shape_of_level(standard: Floats, reduced: Floats) -> Floats:
    """Returns the shape with which the reduced variates are ``standard`` scales above the location.

    It is the end of the allowed shapes where it would be beyond; elementwise, by bisection.
    """
    low: Floats = np.full(len(standard), SHAPE_RANGE[0])
    high: Floats = np.full(len(standard), SHAPE_RANGE[1])
    for _ in range(50):
        middle = (low + high) / 2
        above = stretched(reduced, middle) > standard
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return (low + high) / 2


_REPLICATES = 499
_FIRST_STEP = 0.02
_MOST_STEPS = 60
_TOLERANCE = 1e-5
_FURTHEST_SHAPE = 2.0
_FURTHEST = 1e4


class Interval(Enum):
    """The method of intervals."""

    PROFILE = "profile"
    BOOTSTRAP = "bootstrap"


def level_intervals(
    tail: Tail,
    exceedances: Sequence[float],
    confidence: float,
    how: Interval,
    estimator: Estimator,
    random: np.random.Generator,
) -> list[tuple[float, float]]:
    """Returns the interval of each :meth:`Tail.level`; an end outside of the search is infinite.

    Neither end falls as the probability does. Cost: some hundred passes over the extremes for each
    (profile), or 499 fits for all (bootstrap).
    """
    if how is Interval.BOOTSTRAP:
        return _by_bootstrap(tail, exceedances, confidence, estimator, random)
    return profile_intervals(tail, exceedances, confidence)


def profile_intervals(
    tail: Tail, exceedances: Sequence[float], confidence: float
) -> list[tuple[float, float]]:
    """Returns the intervals by profile likelihood, for a tail whose law has the largest likelihood.

    An end is infinite if levels so far away are still inside that the law would need a shape of 2
    to have them. Every law within the confidence region has levels that rise as the probability
    falls, and so do the ends; where the search misses this, ends are moved up.
    """
    order = sorted(range(len(exceedances)), key=lambda k: -exceedances[k])
    p = np.asarray([exceedances[k] for k in order], np.float64)
    lows, highs = _Search(tail, p, confidence).ends()
    intervals: list[tuple[float, float]] = [(0.0, 0.0)] * len(order)
    ordered = zip(np.maximum.accumulate(lows), np.maximum.accumulate(highs), strict=True)
    for k, (low, high) in zip(order, ordered, strict=True):
        intervals[k] = float(low), float(high)
    return intervals


class _Search:
    """A search that steps from the fitted levels down and up, all at once, until they are outside.

    A place is ``asinh((level - location) / scale)``: logarithmic far from the location, linear near
    it. The search moves from law to law: the best at one level is near the best at the next.
    """

    def __init__(self, tail: Tail, exceedances: Floats, confidence: float) -> None:
        from scipy.stats import chi2

        self.tail = tail
        self.best = log_likelihood(tail.law, tail.extremes.values)
        self.drop = float(chi2.ppf(confidence, 1)) / 2
        self.exceedances = np.tile(exceedances, 2)
        middle = (tail.level(exceedances) - tail.law.location) / tail.law.scale
        self.middle = np.tile(np.arcsinh(middle), 2)
        count = len(exceedances)
        self.sign = np.repeat([-1.0, 1.0], count)
        reduced = np.asarray([tail.reduced_level(p) for p in exceedances.tolist()])
        furthest = np.maximum(stretched(reduced, _FURTHEST_SHAPE), _FURTHEST)
        last = np.arcsinh(np.repeat([_FURTHEST, 1.0], count) * np.tile(furthest, 2))
        self.room = np.maximum(self.sign * (self.sign * last - self.middle), 0.0)

    def ends(self) -> tuple[Floats, Floats]:
        inside, outside, laws, lost = self._bracket()
        self._narrow(inside, outside, laws, lost)
        away = np.where(np.isfinite(outside), np.minimum(outside, self.room), 0.0)
        levels = self._levels(np.arange(len(away)), away)
        levels = np.where(np.isfinite(outside), levels, self.sign * np.inf)
        lows, highs = np.split(levels, 2)
        return lows, highs

    def _levels(self, rows: npt.NDArray[np.intp], away: Floats) -> Floats:
        places = self.middle[rows] + self.sign[rows] * away
        return self.tail.law.location + self.tail.law.scale * np.sinh(places)

    def _lost(
        self, rows: npt.NDArray[np.intp], away: Floats, near: Floats
    ) -> tuple[Floats, Floats]:
        """Returns the excess over the allowed drop (0: the end), as a root, and the laws.

        The drop grows about as the square of the distance: its root is nearly a line.
        """
        levels = self._levels(rows, away)
        likelihoods, laws = best_laws(self.tail, levels, self.exceedances[rows], near)
        drop = self.best - likelihoods
        drop = np.where(np.isnan(drop), np.inf, np.maximum(drop, 0.0))
        return np.sqrt(drop) - np.sqrt(self.drop), laws

    def _bracket(self) -> tuple[Floats, Floats, Floats, tuple[Floats, Floats]]:
        """Returns distances inside and outside of each end, inner laws, and both losses."""
        count = len(self.middle)
        inside, outside = np.zeros(count), np.full(count, np.inf)
        laws = fitted_parameters(self.tail, count)
        lost_in, lost_out = np.full(count, -np.sqrt(self.drop)), np.full(count, np.inf)
        step = np.full(count, _FIRST_STEP)
        going = np.flatnonzero(self.room > 0)
        for _ in range(_MOST_STEPS):
            if not len(going):
                break
            away = np.minimum(inside[going] + step[going], self.room[going])
            lost, fitted = self._lost(going, away, laws[going])
            is_out = lost > 0
            gone, still = going[is_out], going[~is_out]
            outside[gone], lost_out[gone] = away[is_out], lost[is_out]
            inside[still], lost_in[still] = away[~is_out], lost[~is_out]
            laws[still] = fitted[~is_out]
            step *= 2
            going = still[inside[still] < self.room[still]]
        return inside, outside, laws, (lost_in, lost_out)

    def _narrow(
        self, inside: Floats, outside: Floats, laws: Floats, lost: tuple[Floats, Floats]
    ) -> None:
        """Applies false position (Illinois) between inside and outside until they meet."""
        lost_in, lost_out = lost
        for _ in range(_MOST_STEPS):
            width = outside - inside
            going = np.flatnonzero(np.isfinite(outside) & (width > _TOLERANCE * (1 + inside)))
            if not len(going):
                break
            with np.errstate(invalid="ignore", divide="ignore"):
                share = -lost_in[going] / (lost_out[going] - lost_in[going])
            share = np.where(np.isfinite(lost_out[going]), np.clip(share, 0.02, 0.98), 0.5)
            away = inside[going] + share * width[going]
            here, fitted = self._lost(going, away, laws[going])
            is_out = here > 0
            gone, still = going[is_out], going[~is_out]
            outside[gone], lost_out[gone] = away[is_out], here[is_out]
            lost_in[gone] /= 2
            inside[still], lost_in[still] = away[~is_out], here[~is_out]
            lost_out[still] /= 2
            laws[still] = fitted[~is_out]


def _by_bootstrap(
    tail: Tail,
    exceedances: Sequence[float],
    confidence: float,
    estimator: Estimator,
    random: np.random.Generator,
) -> list[tuple[float, float]]:
    count = len(tail.extremes.values)
    family, shift = tail.law.family, tail.law.location
    chunk = max(1, _CHUNK // count)
    parts: list[Floats] = []
    for begin in range(0, _REPLICATES, chunk):
        samples = sample(tail.law, (min(chunk, _REPLICATES - begin), count), random)
        fits = fit_rows(family, samples if family.is_of_maxima else samples - shift, estimator)
        if not family.is_of_maxima:
            fits[:, 0] = shift
        parts.append(fits)
    location, scale, shape = np.concatenate(parts).T
    outside = (1 - confidence) / 2
    intervals = []
    for p in exceedances:
        levels = location + scale * stretched(np.asarray(tail.reduced_level(p)), shape)
        low, high = np.nanquantile(levels, [outside, 1 - outside])
        # Percentiles of a biased estimator may leave its own estimate outside.
        level = float(tail.level(p))
        intervals.append((min(float(low), level), max(float(high), level)))
    return intervals
