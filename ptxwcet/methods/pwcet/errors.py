"""Standard errors of fitted parameters, for tables and stability plots."""

from __future__ import annotations

import numpy as np

from ptxwcet.methods.pwcet.distributions import Floats, Law
from ptxwcet.methods.pwcet.estimation import free_parameters, score_rows


def parameter_errors(law: Law, values: Floats) -> tuple[float, float, float]:
    """Standard errors of scale and shape and their covariance, by the observed information.

    0 for a shape that is fixed. The information is the slope of the scores, by central differences.
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
