"""Confidence intervals of a level that one run exceeds with a small probability.

Profile likelihood: a level x belongs to the interval if the best law with that level is at most
``chi2 / 2`` less likely than the best of all. It is not symmetric, as the uncertainty of a far tail
is not. Parametric bootstrap: percentiles of the levels of laws fitted to samples of the fitted law.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import numpy as np

from ptxwcet.pwcet.distributions import Family, Floats, sample, stretched
from ptxwcet.pwcet.estimation import (
    SHAPE_RANGE,
    Estimator,
    Rows,
    climb,
    fit_rows,
    log_likelihood,
    score_rows,
    total_rows,
)
from ptxwcet.pwcet.tail import Tail

_CHUNK = 1 << 20
_SIDE = 28
_GROWTH = 0.62  # the furthest level tried: half a million scales away
_FINE = 12
_REPLICATES = 499


class Interval(Enum):
    """How intervals are computed."""

    PROFILE = "profile"
    BOOTSTRAP = "bootstrap"


def level_interval(
    tail: Tail,
    exceedance: float,
    confidence: float,
    how: Interval,
    estimator: Estimator,
    random: np.random.Generator,
) -> tuple[float, float]:
    """The interval of :meth:`Tail.level`; an end that is not found is infinite.

    Cost: some hundred passes over the extremes (profile), or 499 fits (bootstrap).
    """
    if how is Interval.BOOTSTRAP:
        low, high = _by_bootstrap(tail, exceedance, confidence, estimator, random)
        # percentiles of a biased estimator may leave its own estimate outside
        level = float(tail.level(exceedance))
        return min(low, level), max(high, level)
    return profile_interval(tail, exceedance, confidence)


def profile_interval(tail: Tail, exceedance: float, confidence: float) -> tuple[float, float]:
    """The interval by profile likelihood. The tail's law must be that of largest likelihood."""
    from scipy.stats import chi2

    best = log_likelihood(tail.law, tail.extremes.values)
    drop = float(chi2.ppf(confidence, 1)) / 2
    middle = float(tail.level(exceedance))
    # far levels of heavy tails are many scales away: steps grow with the distance
    unit = max(0.02 * tail.law.scale, 4e-4 * abs(middle - tail.law.location))

    def loss(levels: Floats) -> Floats:
        with np.errstate(over="ignore"):
            lost = best - profile_likelihood(tail, levels, exceedance) - drop
        return np.where(np.isnan(lost), np.inf, lost)

    steps = unit * np.expm1(_GROWTH * np.arange(1, _SIDE + 1)) / np.expm1(_GROWTH)
    sides = np.concatenate([middle - steps, middle + steps])
    lost = loss(sides)
    ends = []
    for side, none in ((slice(0, _SIDE), -np.inf), (slice(_SIDE, None), np.inf)):
        bracket = _bracket(np.append(middle, sides[side]), np.append(-drop, lost[side]))
        for _ in range(2):
            if bracket is None:
                break
            fine = np.linspace(bracket[0], bracket[1], _FINE)
            bracket = _bracket(fine, loss(fine)) or bracket
        ends.append(none if bracket is None else bracket[1])
    return ends[0], ends[1]


def _bracket(levels: Floats, loss: Floats) -> tuple[float, float] | None:
    """The last level inside and the first one outside, None if none is outside."""
    outside = np.flatnonzero(loss > 0)
    if not len(outside):
        return None
    k = max(int(outside[0]), 1)
    return float(levels[k - 1]), float(levels[k])


def profile_likelihood(tail: Tail, levels: Floats, exceedance: float) -> Floats:
    """The largest log likelihood of laws of the family with each of ``levels`` at ``exceedance``.

    Minus infinity where no law of the family near the fitted one has that level.
    """
    family = tail.law.family
    values = tail.extremes.values
    shift = tail.law.location
    x = (values - shift) / tail.law.scale
    targets = (levels - shift) / tail.law.scale
    chunk = max(1, _CHUNK // len(x))
    parts = [
        _profile(family, x, targets[k : k + chunk], tail.reduced_level(exceedance))
        for k in range(0, len(targets), chunk)
    ]
    return np.concatenate(parts) - len(x) * float(np.log(tail.law.scale))


def _profile(family: Family, x: Floats, targets: Floats, reduced: float) -> Floats:
    """The same for standardised values; nuisances: scale and shape of maxima, shape of excesses."""
    rows = np.broadcast_to(x, (len(targets), len(x)))

    def full(which: Rows, free: Floats) -> Floats:
        scale, xi = _expand(family, targets[which], free, reduced)
        location = (
            targets[which] - scale * stretched(np.asarray(reduced), xi)
            if family.is_of_maxima
            else np.zeros_like(scale)
        )
        return np.stack([location, scale, xi], axis=1)

    def total(which: Rows, free: Floats) -> Floats:
        return total_rows(family, rows[which], full(which, free))

    def scores(which: Rows, free: Floats) -> Floats:
        whole = score_rows(family, rows[which], full(which, free))
        found: Floats = np.einsum("rmi,rij->rmj", whole, _slopes(which, free, full))
        return found

    start = _start(family, targets, reduced)
    if start.shape[1] == 0:
        return total(np.arange(len(targets)), start)
    return climb(start, total, scores)[1]


def _expand(family: Family, targets: Floats, free: Floats, reduced: float) -> tuple[Floats, Floats]:
    if family is Family.GEV:
        return free[:, 0], free[:, 1]
    if family is Family.GUMBEL:
        return free[:, 0], np.zeros(len(free))
    xi = free[:, 0] if family is Family.GPD else np.zeros(len(free))
    return targets / stretched(np.asarray(reduced), xi), xi


def _slopes(which: Rows, free: Floats, full: Callable[[Rows, Floats], Floats]) -> Floats:
    """Derivatives of location, scale and shape by the nuisances, by central differences."""
    columns = []
    for k in range(free.shape[1]):
        move = np.zeros_like(free)
        move[:, k] = 1e-6
        columns.append((full(which, free + move) - full(which, free - move)) / 2e-6)
    found: Floats = np.stack(columns, axis=2)
    return found


def _start(family: Family, targets: Floats, reduced: float) -> Floats:
    """The fitted law with its shape bent until it has the level (its scale, without a shape)."""
    if family is Family.EXPONENTIAL:
        return np.zeros((len(targets), 0))
    if family is Family.GUMBEL:
        return np.maximum(targets / reduced, 0.05)[:, None]
    low: Floats = np.full(len(targets), SHAPE_RANGE[0])
    high: Floats = np.full(len(targets), SHAPE_RANGE[1])
    for _ in range(50):
        middle = (low + high) / 2
        above = stretched(np.asarray(reduced), middle) > targets
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    bent: Floats = (low + high) / 2
    if family is Family.GPD:
        return bent.reshape(-1, 1)
    found: Floats = np.stack([np.ones_like(bent), bent], axis=1)
    return found


def _by_bootstrap(
    tail: Tail,
    exceedance: float,
    confidence: float,
    estimator: Estimator,
    random: np.random.Generator,
) -> tuple[float, float]:
    count = len(tail.extremes.values)
    family, shift = tail.law.family, tail.law.location
    reduced = np.asarray(tail.reduced_level(exceedance))
    chunk = max(1, _CHUNK // count)
    levels: list[Floats] = []
    for begin in range(0, _REPLICATES, chunk):
        rows = sample(tail.law, (min(chunk, _REPLICATES - begin), count), random)
        fits = fit_rows(family, rows if family.is_of_maxima else rows - shift, estimator)
        base = fits[:, 0] if family.is_of_maxima else shift
        levels.append(base + fits[:, 1] * stretched(reduced, fits[:, 2]))
    outside = (1 - confidence) / 2
    low, high = np.nanquantile(np.concatenate(levels), [outside, 1 - outside])
    return float(low), float(high)
