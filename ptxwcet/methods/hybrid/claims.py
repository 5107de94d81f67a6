"""What each estimate of the hybrid analysis claims, and what it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import starmap

from ptxwcet.claims import Assumption, AssumptionState, Citation, Guarantee, TimingClaim
from ptxwcet.methods.hybrid.estimate import HybridEstimate
from ptxwcet.support.printable import plural

PAPER = "A. Betts, A. Donaldson: Estimating the WCET of GPU-Accelerated Applications (ECRTS 2013)"
PROFILES = "G. Bernat, A. Colin, S. Petters: WCET Analysis of Probabilistic Systems (RTSS 2002)"


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A figure that the traces it was made from exceed: it claims nothing.

    ``observed`` is what they show: the high-water mark, of Z_warp the longest warp.
    """

    cycles: int
    observed: int
    method: str
    citations: tuple[Citation, ...]


_FIGURES: Mapping[str, tuple[str, str, Mapping[str, str]]] = {
    "warp": ("hybrid warp", "II-C", {}),
    "dynamic": (
        "hybrid dynamic",
        "equation 1",
        {"release-jitter-seen": "no run delays a multiprocessor's last warp longer"},
    ),
    "hybrid": (
        "hybrid waves",
        "equation 2",
        {"waves-seen": "no run has more waves, fuller ones or longer start gaps"},
    ),
    "planned": (  # equation 2 with waves from launch and occupancy
        "hybrid planned waves",
        "VI-D",
        {
            "first-gaps-seen": "no warp of a wave begins later after the one before",
            "whole-waves": "a wave begins when the one before has ended",
        },
    ),
    "rounds": (  # of blocks
        "hybrid rounds",
        "VI-D",
        {"block-delays-seen": "no block waits longer, no block's warps begin further apart"},
    ),
    "profile": (  # what a warp on the worst path exceeds with a stated probability
        "hybrid profile",
        "VI-D",
        {
            "independent-transitions": "times of transitions are independent, and distributed as "
            "observed"
        },
    ),
}
"""Of each figure: the method, the place in the paper, and what it rests on besides the others."""


def claim_of(estimate: HybridEstimate, figure: str, cycles: int) -> TimingClaim:
    """The claim of one of the figures, an estimate at best."""
    method, place, rests_on = _FIGURES[figure]
    assumptions = (*_common_assumptions(estimate), *starmap(_doubtful, rests_on.items()))
    citations = [Citation(PAPER, place)]
    if figure == "profile":
        citations.append(Citation(PROFILES, "execution-time profiles"))
    return TimingClaim(cycles, Guarantee.ESTIMATE, method, assumptions, tuple(citations))


def claim_estimates(estimate: HybridEstimate) -> dict[str, TimingClaim | Contradiction]:
    """Z_warp, Z_dynamic and Z_hybrid with what each rests on, unless the traces exceed it."""
    warp = claim_of(estimate, "warp", estimate.warp_wcet)
    return {
        "warp": _against(warp, estimate.observations.longest_warp),
        "dynamic": against_runs(estimate, claim_of(estimate, "dynamic", estimate.dynamic)),
        "hybrid": against_runs(estimate, claim_of(estimate, "hybrid", estimate.hybrid)),
    }


def against_runs(estimate: HybridEstimate, claim: TimingClaim) -> TimingClaim | Contradiction:
    """The claim about whole runs of the launch that was traced, unless a traced one took longer."""
    return _against(claim, estimate.concurrency.high_water_mark)


def _against(claim: TimingClaim, observed: int) -> TimingClaim | Contradiction:
    if claim.cycles >= observed:
        return claim
    return Contradiction(claim.cycles, observed, claim.method, claim.citations)


def _common_assumptions(estimate: HybridEstimate) -> tuple[Assumption, ...]:
    coverage = estimate.coverage
    missing = coverage.transitions - coverage.seen
    assumptions = [
        _doubtful("worst-times-seen", "each transition's longest possible time was observed"),
        _doubtful("counts-seen", "no warp iterates a loop or takes a transition more often"),
    ]
    loops = len(coverage.never_iterated)
    unseen = [plural(missing, "transition")] if missing else []
    unseen += [f"{plural(loops, 'loop')} (going round)"] if loops else []
    if unseen:
        text = f"no input takes what was never observed: {' and '.join(unseen)}"
        assumptions.append(_doubtful("paths-seen", text))
    return tuple(assumptions)


def _doubtful(key: str, text: str) -> Assumption:
    return Assumption(key, text, AssumptionState.DOUBTFUL, "the traces")
