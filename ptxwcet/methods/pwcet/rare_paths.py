"""Which second path of a kernel n runs would not have shown: what the assumption of a tail leaves.

A path that a run takes with probability q is taken by fewer than k of n independent runs with
probability ``P(Bin(n, q) < k)``. The largest q for which that is more than what the confidence
leaves is ``I^-1(k, n - k + 1; confidence)``, the inverse of the regularised incomplete beta
function (Clopper and Pearson 1934); for k = 1 it is ``1 - (1 - confidence)^(1/n)``.
"""

from __future__ import annotations

from dataclasses import dataclass

from ptxwcet.methods.pwcet.extraction import LEAST_EXTREMES


@dataclass(frozen=True, slots=True)
class RarePaths:
    """Probabilities of a path below which, at ``confidence``, runs need not have shown it.

    ``unseen``: not once. ``shapeless``: in fewer runs than the extremes that a law is fitted to
    (``LEAST_EXTREMES``), so that the fitted tail may be that of other paths; 1 if there are fewer
    runs than that.
    """

    unseen: float
    shapeless: float
    confidence: float


def rare_paths(runs: int, confidence: float) -> RarePaths:
    """What so many independent runs need not have shown.

    >>> round(rare_paths(2_000, 0.95).unseen, 6)
    0.001497
    """
    return RarePaths(
        _share(1, runs, confidence), _share(LEAST_EXTREMES, runs, confidence), confidence
    )


def _share(least: int, runs: int, confidence: float) -> float:
    from scipy.special import betaincinv  # loaded only where there are runs

    if runs < least:
        return 1.0
    return float(betaincinv(least, runs - least + 1, confidence))
