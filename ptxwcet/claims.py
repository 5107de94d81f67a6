"""Claims: no number leaves an analysis without how safe it is and under which assumptions.

Guarantees are ordered; composing claims weakens, never strengthens (``Guarantee.weakest``).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from ptxwcet.support.records import dataclass


class Guarantee(Enum):
    """How far a cycle count can be relied on, strongest first.

    What is called ``PROBABILISTIC`` is the upper end of a confidence interval, at its confidence;
    never the estimated curve inside, which is below the truth in half of all cases or more.
    """

    SAFE_BOUND = "safe-bound"  # no run allowed by the model exceeds it
    PROBABILISTIC = "probabilistic"  # exceeded with at most a stated probability
    ESTIMATE = "estimate"  # expected to hold, not proved
    OBSERVED = "observed"  # seen in runs

    @property
    def rank(self) -> int:
        """0 for the strongest guarantee, larger for weaker ones."""
        return list(Guarantee).index(self)

    @staticmethod
    def weakest(guarantees: Iterable[Guarantee]) -> Guarantee:
        """The weakest of several guarantees: what a composition of them may still claim."""
        return max(guarantees, key=lambda guarantee: guarantee.rank)


class AssumptionState(Enum):
    """What a machine file (or the user) says about an assumption that a method needs."""

    BY_DEFINITION = "by-definition"  # true of the machine described: claim kept, not repeated
    ASSUMED = "assumed"  # claim kept, printed as an assumption
    DOUBTFUL = "doubtful"  # demotes a safe bound to an estimate


@dataclass(frozen=True, slots=True)
class Assumption:
    """Something a bound needs to be true: a stable ``key``, a sentence for people."""

    key: str
    text: str
    state: AssumptionState
    source: str = ""


@dataclass(frozen=True, slots=True)
class Citation:
    """Where a method comes from: a paper and a place in it."""

    paper: str
    place: str


@dataclass(frozen=True, slots=True)
class TimingClaim:
    """A cycle count with its guarantee, method, assumptions and sources."""

    cycles: int
    guarantee: Guarantee
    method: str
    assumptions: tuple[Assumption, ...] = ()
    citations: tuple[Citation, ...] = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """An analysis that does not know says so: the reason, in one sentence."""

    reason: str
