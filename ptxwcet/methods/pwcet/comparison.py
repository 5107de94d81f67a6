"""Conditions against one another: which takes longer, and the envelope over all ([E] section 4).

A condition dominates another (``C_j >= C_k``) if its times are longer at every probability:
``P(C_j <= d) <= P(C_k <= d)`` for all d.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from ptxwcet.claims import Guarantee
from ptxwcet.methods.pwcet.sample_study import Study


class Order(Enum):
    """How the first condition stands to the second."""

    DOMINATES = "dominates"
    DOMINATED = "is dominated by"
    ALIKE = "is not told from"
    CROSSING = "crosses"  # longer at some probabilities, shorter at others


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two conditions. ``above`` and ``below``: by how much the distribution functions differ, at
    most, where the first takes longer and where it takes shorter; with p-values."""

    first: str
    second: str
    order: Order
    above: float
    p_above: float
    below: float
    p_below: float


@dataclass(frozen=True, slots=True)
class EnvelopePoint:
    """The largest pWCET at a probability and the condition that it is of; the largest estimate."""

    exceedance: float
    pwcet: float
    estimate: float
    label: str


@dataclass(frozen=True, slots=True)
class Envelope:
    """The largest of the curves of all conditions; the guarantee is the weakest of theirs.

    ``guarantee`` None: the curve of a condition is refused, and so is the envelope.
    """

    points: tuple[EnvelopePoint, ...]
    guarantee: Guarantee | None


def compare(first: Study, second: Study, level: float) -> Comparison:
    """One-sided two-sample Kolmogorov-Smirnov tests, both ways. Cost: sorts."""
    from scipy.stats import ks_2samp

    a, b = first.sample.times, second.sample.times
    longer = ks_2samp(a, b, alternative="less", method="asymp")
    shorter = ks_2samp(a, b, alternative="greater", method="asymp")
    is_longer, is_shorter = longer.pvalue <= level, shorter.pvalue <= level
    order = {
        (True, False): Order.DOMINATES,
        (False, True): Order.DOMINATED,
        (False, False): Order.ALIKE,
        (True, True): Order.CROSSING,
    }[bool(is_longer), bool(is_shorter)]
    return Comparison(
        first.sample.label,
        second.sample.label,
        order,
        float(longer.statistic),
        float(longer.pvalue),
        float(shorter.statistic),
        float(shorter.pvalue),
    )


def compare_all(studies: Sequence[Study], level: float) -> tuple[Comparison, ...]:
    """All pairs; the level is divided by their number."""
    pairs = [(a, b) for k, a in enumerate(studies) for b in studies[k + 1 :]]
    return tuple(compare(a, b, level / len(pairs)) for a, b in pairs)


def envelope(studies: Sequence[Study]) -> Envelope:
    """The envelope over the conditions: a bound for a run under any one of them."""
    points = []
    for k, point in enumerate(studies[0].curve):
        top = max(studies, key=lambda study: study.curve[k].pwcet)
        estimate = max(study.curve[k].estimate for study in studies)
        pwcet = top.curve[k].pwcet
        points.append(EnvelopePoint(point.exceedance, pwcet, estimate, top.sample.label))
    guarantees = [study.claim.guarantee for study in studies]
    claimed = [one for one in guarantees if one is not None]
    weakest = Guarantee.weakest(claimed) if len(claimed) == len(guarantees) else None
    return Envelope(tuple(points), weakest)
