"""Fits laws to extremes: maximum likelihood and probability-weighted moments (L-moments).

Samples are rows of a matrix, so that the hundreds of fits of a bootstrap are one call. For excesses
the location is the threshold: values are then excesses, and the location is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ptxwcet.methods.pwcet.distributions import Family, Floats, Law, log_density, reduced_variate

SHAPE_RANGE = (-0.95, 3.0)
"""The range of shapes of a fit: at -1 and below no maximum of the likelihood exists."""

Rows: TypeAlias = npt.NDArray[np.intp]
"""Indices of rows."""

_EULER = 0.5772156649015329
_MOST_STEPS = 60
_TOLERANCE = 1e-9


class Estimator(Enum):
    """The method of parameter estimation."""

    MLE = "mle"
    PWM = "pwm"


def fit_rows(family: Family, samples: Floats, estimator: Estimator) -> Floats:
    """Returns (location, scale, shape) of each sample, a row of ``samples``; shape (samples, 3).

    A sample without an estimate (all its values are the same) gets NaN. Cost: linear in the values,
    some ten passes for likelihoods.
    """
    start = _by_moments(family, samples)
    if estimator is Estimator.PWM or family is Family.EXPONENTIAL:
        return start
    if family is Family.GPD:
        return _gpd_by_likelihood(samples)
    return _climb(family, samples, start)


def fit_law(family: Family, values: Floats, estimator: Estimator, threshold: float = 0.0) -> Law:
    """Returns the law of one sample; of the excesses ``values - threshold`` for laws of excesses.

    ``values`` must have two different members.
    """
    shifted = values if family.is_of_maxima else values - threshold
    location, scale, shape = fit_rows(family, shifted[None, :], estimator)[0].tolist()
    return Law(family, location if family.is_of_maxima else threshold, scale, shape)


def log_likelihood(law: Law, values: Floats) -> float:
    """Returns the logarithm of the likelihood of independent values."""
    return float(np.sum(log_density(law.family, values, law.location, law.scale, law.shape)))


def free_parameters(family: Family) -> list[int]:
    """Returns the indices of the estimated parameters (location, scale, shape)."""
    return {
        Family.GEV: [0, 1, 2],
        Family.GUMBEL: [0, 1],
        Family.GPD: [1, 2],
        Family.EXPONENTIAL: [1],
    }[family]


def l_moments(samples: Floats) -> tuple[Floats, Floats, Floats]:
    """Returns the first two L-moments and the L-skewness of each row, unbiased (Hosking 1990)."""
    ordered = np.sort(samples, axis=1)
    n = ordered.shape[1]
    rank = np.arange(n, dtype=np.float64)
    b0 = ordered.mean(axis=1)
    b1 = ordered @ (rank / (n - 1)) / n
    b2 = ordered @ (rank * (rank - 1) / ((n - 1) * (n - 2))) / n
    second = 2 * b1 - b0
    with np.errstate(divide="ignore", invalid="ignore"):
        skewness = (6 * b2 - 6 * b1 + b0) / second
    return b0, second, skewness


def _by_moments(family: Family, samples: Floats) -> Floats:
    """Fits by L-moments: Hosking, Wallis and Wood 1985 (GEV), Hosking and Wallis 1987 (GPD)."""
    from scipy.special import gamma

    mean, second, skewness = l_moments(samples)
    zero = np.zeros_like(mean)
    with np.errstate(divide="ignore", invalid="ignore"):
        if family is Family.EXPONENTIAL:
            columns = (zero, mean, zero)
        elif family is Family.GUMBEL:
            scale = second / np.log(2)
            columns = (mean - _EULER * scale, scale, zero)
        elif family is Family.GPD:
            k = mean / second - 2
            columns = (zero, (1 + k) * mean, -k)
        else:
            c = 2 / (3 + skewness) - np.log(2) / np.log(3)
            k = 7.8590 * c + 2.9554 * c * c
            k = np.where(np.abs(k) < 1e-8, 1e-8, k)
            scale = second * k / ((1 - 2.0**-k) * gamma(1 + k))
            columns = (mean - scale * (1 - gamma(1 + k)) / k, scale, -k)
    fitted: Floats = np.stack(columns, axis=1)
    fitted[~(second > 0)] = np.nan
    return fitted


def _gpd_by_likelihood(samples: Floats) -> Floats:
    """Fits by Grimshaw 1993: for ``tau = shape / scale`` the best shape is ``mean(log1p(tau y))``.

    The profile of the likelihood in tau is maximised over a grid in the transformed variable, then
    by golden sections around its best point.
    """
    mean = samples.mean(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        y = samples / mean[:, None]
    lowest = -1 / y.max(axis=1)
    # u = log(1 + tau * y_max): tau from just above -1/y_max upwards
    grid = np.concatenate([-np.geomspace(25.0, 1e-3, 22), np.geomspace(1e-3, 12.0, 22)])
    values = np.stack([_gpd_profile(y, -lowest * np.expm1(u)) for u in grid], axis=1)
    best = np.clip(np.argmax(values, axis=1), 1, len(grid) - 2)
    low, high = grid[best - 1], grid[best + 1]
    ratio = (np.sqrt(5) - 1) / 2
    for _ in range(_MOST_STEPS // 2 + 5):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        is_left = _gpd_profile(y, -lowest * np.expm1(left)) > _gpd_profile(
            y, -lowest * np.expm1(right)
        )
        low, high = np.where(is_left, low, left), np.where(is_left, right, high)
    tau = -lowest * np.expm1((low + high) / 2)
    shape = np.log1p(tau[:, None] * y).mean(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.where(np.abs(tau) < 1e-10, 1.0, shape / tau)
    shape, scale = _kept_in_range(y, shape, scale)
    fitted: Floats = np.stack([np.zeros_like(mean), scale * mean, shape], axis=1)
    fitted[~(samples.max(axis=1) > samples.min(axis=1))] = np.nan
    return fitted


def _kept_in_range(y: Floats, shape: Floats, scale: Floats) -> tuple[Floats, Floats]:
    """Returns, where the best shape is too low, the end of the range and its best scale."""
    low = SHAPE_RANGE[0]
    out = ~(shape > low)
    # For a shape below 0 the likelihood decreases with the scale beyond the need of the largest
    # value.
    least = -low * y.max(axis=1)
    return np.where(out, low, shape), np.where(out, np.maximum(least, (1 + low)), scale)


def _gpd_profile(y: Floats, tau: Floats | float) -> Floats:
    tau = np.broadcast_to(np.asarray(tau, np.float64), (len(y),))
    with np.errstate(divide="ignore", invalid="ignore"):
        shape = np.log1p(np.maximum(tau[:, None] * y, -1.0)).mean(axis=1)
        scale = np.where(np.abs(tau) < 1e-10, y.mean(axis=1), shape / tau)
        value = -np.log(scale) - shape - 1
    allowed = np.isfinite(value) & (shape > SHAPE_RANGE[0])
    return np.where(allowed, value, -np.inf)


def _climb(family: Family, samples: Floats, start: Floats) -> Floats:
    """Fits laws of maxima by maximum likelihood, on standardised rows."""
    middle, spread = start[:, :1], start[:, 1:2]
    usable = np.isfinite(start).all(axis=1) & (start[:, 1] > 0)
    x = np.where(usable[:, None], (samples - middle) / np.where(spread > 0, spread, 1.0), 0.0)
    free = free_parameters(family)
    now = np.tile([0.0, 1.0, 0.0], (len(samples), 1))
    if family is Family.GEV:
        # A shape of moments may leave values outside of the support: begin with Gumbel there.
        now[:, 2] = np.clip(np.where(usable, start[:, 2], 0.0), -0.4, 0.6)
        now[~np.isfinite(total_rows(family, x, now)), 2] = 0.0

    def full(parameters: Floats) -> Floats:
        complete = np.zeros((len(parameters), 3))
        complete[:, free] = parameters
        return complete

    best, _ = climb(
        now[:, free],
        lambda which, parameters: total_rows(family, x[which], full(parameters)),
        lambda which, parameters: score_rows(family, x[which], full(parameters))[:, :, free],
    )
    fitted = full(best)
    fitted[:, 0] = middle[:, 0] + spread[:, 0] * fitted[:, 0]
    fitted[:, 1] = spread[:, 0] * fitted[:, 1]
    fitted[~usable] = np.nan
    return fitted


def climb(
    start: Floats,
    total: Callable[[Rows, Floats], Floats],
    scores: Callable[[Rows, Floats], Floats],
) -> tuple[Floats, Floats]:
    """Climbs to a maximum of the likelihood from each row of ``start``; returns laws and values.

    ``total(rows, parameters)`` gives log likelihoods of the rows with those indices, ``scores`` the
    derivatives value by value (rows, values, parameters). Berndt, Hall, Hall and Hausman's method
    with halved steps: every step is uphill, and near the maximum of a law that holds they are
    Newton's. A start of likelihood zero stays where it is. Cost: some ten scores.
    """
    best = start.copy()
    every = np.arange(len(start))
    value = total(every, best)
    active = every[np.isfinite(value)]
    for _ in range(_MOST_STEPS):
        if not len(active):
            break
        here = scores(active, best[active])
        gradient = here.sum(axis=1)
        outer = np.einsum("rmi,rmj->rij", here, here)
        size = np.trace(outer, axis1=1, axis2=2)[:, None, None]
        outer += (1e-12 + 1e-9 * size) * np.eye(start.shape[1])
        step = np.linalg.solve(outer, gradient[:, :, None])[:, :, 0]
        gained = _uphill(active, step, best, value, total)
        active = active[gained > _TOLERANCE * (1 + np.abs(value[active]))]
    return best, value


def _uphill(
    active: Rows,
    step: Floats,
    best: Floats,
    value: Floats,
    total: Callable[[Rows, Floats], Floats],
) -> Floats:
    """Takes the first of the halved steps with a gain, in place; returns the gain."""
    before = value[active].copy()
    waiting = np.arange(len(active))
    for halving in range(12):
        trying = active[waiting]
        trial = best[trying] + step[waiting] / 2**halving
        reached = total(trying, trial)
        better = reached > value[trying]
        best[trying[better]] = trial[better]
        value[trying[better]] = reached[better]
        waiting = waiting[~better]
        if not len(waiting):
            break
    return value[active] - before


def total_rows(family: Family, x: Floats, now: Floats) -> Floats:
    """Returns log likelihoods of rows; minus infinity outside of the support or shapes."""
    location, scale, shape = (now[:, k : k + 1] for k in range(3))
    allowed = (scale[:, 0] > 0) & (shape[:, 0] > SHAPE_RANGE[0]) & (shape[:, 0] < SHAPE_RANGE[1])
    total = log_density(family, x, location, np.where(scale > 0, scale, 1.0), shape).sum(axis=1)
    return np.where(allowed, total, -np.inf)


def score_rows(family: Family, x: Floats, now: Floats) -> Floats:
    """Returns derivatives of each value's log density by location, scale and shape.

    With z the standardised value, a = 1 + shape z, r the reduced variate and w = 1 for excesses,
    1 - exp(-r) for maxima (so that d log f / d r = -shape - w): all three follow by the chain rule.
    """
    location, scale, shape = (now[:, k : k + 1] for k in range(3))
    z = (x - location) / scale
    r = reduced_variate(z, shape)
    a = 1 + shape * z
    with np.errstate(over="ignore"):
        w = 1 - np.exp(-r) if family.is_of_maxima else np.ones_like(r)
    by_r = -shape - w
    by_location = -by_r / (a * scale)
    by_scale = -1 / scale - by_r * z / (a * scale)
    small = np.abs(shape) < 1e-5
    safe = np.where(small, 1.0, shape)
    slope = np.where(small, -z * z / 2 + 2 * shape * z**3 / 3, (z / a - r) / safe)
    by_shape = -r + by_r * slope
    return np.stack([by_location, by_scale, by_shape], axis=2)


def parameter_errors(law: Law, values: Floats) -> tuple[float, float, float]:
    """Returns standard errors of scale and shape and their covariance, by observed information.

    The error of a fixed shape is 0. Information is the slope of the scores, by central differences.
    """
    start = np.asarray([law.location, law.scale, law.shape])
    if not law.family.is_of_maxima:
        values, start[0] = values - law.location, 0.0
    free = free_parameters(law.family)
    moves = np.asarray([1e-4 * law.scale, 1e-4 * law.scale, 1e-4])[free]
    information = np.zeros((len(free), len(free)))
    for k, (parameter, move) in enumerate(zip(free, moves, strict=True)):
        ends = np.tile(start, (2, 1))
        ends[:, parameter] += (move, -move)
        with np.errstate(invalid="ignore", divide="ignore"):
            sums = score_rows(law.family, np.stack([values, values]), ends).sum(axis=1)[:, free]
        information[k] = (sums[1] - sums[0]) / (2 * move)
    if not np.isfinite(information).all():
        return float("nan"), float("nan"), float("nan")
    covariance = np.linalg.pinv((information + information.T) / 2)
    errors = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    scale = free.index(1)
    if 2 not in free:
        return float(errors[scale]), 0.0, 0.0
    shape = free.index(2)
    return float(errors[scale]), float(errors[shape]), float(covariance[scale, shape])
