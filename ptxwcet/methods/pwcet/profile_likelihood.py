"""The likelihood of a level: that of the best law of a family that has the level.

Of the parameters one follows from the level, and the others are free. Far levels are millions of
scales away: were it the location that follows there, the search would have to move it that far for
the least change of shape, and would get stuck.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptxwcet.methods.pwcet.distributions import Family, Floats, stretched
from ptxwcet.methods.pwcet.estimation import SHAPE_RANGE, Rows, climb, score_rows, total_rows
from ptxwcet.methods.pwcet.tail import Tail

_CHUNK = 1 << 20
_FAR = 1.0  # reduced variate from which on the shape of maxima follows from the level
_SCALES = (1.5, 0.7, 2.5, 0.4, 4.0, 0.2, 8.0, 0.1, 20.0, 60.0)  # tried for a first law


@dataclass(frozen=True, slots=True, eq=False)
class BestLaws:
    """The best laws with some levels: log likelihoods, and (location, scale, shape) in rows.

    Parameters are those of values from which the fitted location was taken, in fitted scales.
    """

    likelihoods: Floats
    parameters: Floats


def fitted_parameters(tail: Tail, count: int) -> Floats:
    """The parameters of the tail's own law, ``count`` times, as :class:`BestLaws` has them."""
    return np.tile([0.0, 1.0, tail.law.shape], (count, 1))


def best_laws(tail: Tail, levels: Floats, exceedances: Floats, near: Floats) -> BestLaws:
    """The laws of largest likelihood with ``levels[i]`` at ``exceedances[i]``, for each i.

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
    return BestLaws(
        np.concatenate([row.likelihoods for row in parts]) - moved,
        np.concatenate([row.parameters for row in parts]),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _LawsWithLevels:
    """Laws of standardised values ``x`` with ``targets`` where the reduced variate is ``reduced``.

    Free are, of maxima, location and shape where the level is far (the scale follows), otherwise
    logarithm of the scale and shape (the location follows); without a shape the former alone. Of
    excesses the shape (the scale follows); nothing is free without one.
    """

    family: Family
    x: Floats
    targets: Floats
    reduced: Floats

    def best(self, near: Floats) -> BestLaws:
        start = self._start(near)

        def total(which: Rows, free: Floats) -> Floats:
            return total_rows(self.family, self._rows(which), self._full(which, free))

        def scores(which: Rows, free: Floats) -> Floats:
            whole = score_rows(self.family, self._rows(which), self._full(which, free))
            projected: Floats = np.einsum("rmi,rij->rmj", whole, self._slopes(which, free))
            return projected

        every = np.arange(len(start))
        if start.shape[1] == 0:
            return BestLaws(total(every, start), self._full(every, start))
        free, likelihoods = climb(start, total, scores)
        return BestLaws(likelihoods, self._full(every, free))

    def _start(self, near: Floats) -> Floats:
        """The nearest law with each level under which the values can be: other scales are tried."""
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
        """The free parameters of laws near others, scales times ``factor``, with their levels."""
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
        """Location, scale and shape of the laws with these free parameters and their level."""
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
        """Derivatives of location, scale and shape by what is free, by central differences."""
        columns = []
        for k in range(free.shape[1]):
            move = np.zeros_like(free)
            move[:, k] = 1e-6
            ends = self._full(which, free + move), self._full(which, free - move)
            columns.append((ends[0] - ends[1]) / 2e-6)
        found: Floats = np.stack(columns, axis=2)
        return found


def shape_of_level(standard: Floats, reduced: Floats) -> Floats:
    """The shape with which the reduced variates are ``standard`` scales above the location.

    The end of the allowed shapes where it would be beyond; elementwise, by bisection.
    """
    low: Floats = np.full(len(standard), SHAPE_RANGE[0])
    high: Floats = np.full(len(standard), SHAPE_RANGE[1])
    for _ in range(50):
        middle = (low + high) / 2
        above = stretched(reduced, middle) > standard
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    shape: Floats = (low + high) / 2
    return shape
