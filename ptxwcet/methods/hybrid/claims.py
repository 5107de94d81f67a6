"""What each estimate of the hybrid analysis claims, and what it rests on."""

from __future__ import annotations

from dataclasses import dataclass

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


def claim_estimates(estimate: HybridEstimate) -> dict[str, TimingClaim | Contradiction]:
    """Z_warp, Z_dynamic and Z_hybrid with what each rests on; all are estimates at best."""
    jitter = _doubtful("release-jitter-seen", "no run delays a multiprocessor's last warp longer")
    waves = _doubtful("waves-seen", "no run has more waves, fuller ones or longer start gaps")
    mark = estimate.concurrency.high_water_mark
    warp = _claim(estimate, "hybrid warp", estimate.warp_wcet, (), "II-C")
    dynamic = _claim(estimate, "hybrid dynamic", estimate.dynamic, (jitter,), "equation 1")
    hybrid = _claim(estimate, "hybrid waves", estimate.hybrid, (waves,), "equation 2")
    return {
        "warp": _against(warp, estimate.observations.longest_warp),
        "dynamic": _against(dynamic, mark),
        "hybrid": _against(hybrid, mark),
    }


def claim_planned(estimate: HybridEstimate, cycles: int) -> TimingClaim:
    """Equation 2 with waves from launch and occupancy."""
    gaps = _doubtful("first-gaps-seen", "no warp of a wave begins later after the one before")
    whole = _doubtful("whole-waves", "a wave begins when the one before has ended")
    return _claim(estimate, "hybrid planned waves", cycles, (gaps, whole), "VI-D")


def claim_rounds(estimate: HybridEstimate, cycles: int) -> TimingClaim:
    """The claim of an estimate by rounds of blocks."""
    delays = _doubtful(
        "block-delays-seen", "no block waits longer, no block's warps begin further apart"
    )
    return _claim(estimate, "hybrid rounds", cycles, (delays,), "VI-D")


def against_runs(estimate: HybridEstimate, claim: TimingClaim) -> TimingClaim | Contradiction:
    """The claim about whole runs of the launch that was traced, unless a traced one took longer."""
    return _against(claim, estimate.concurrency.high_water_mark)


def _against(claim: TimingClaim, observed: int) -> TimingClaim | Contradiction:
    if claim.cycles >= observed:
        return claim
    return Contradiction(claim.cycles, observed, claim.method, claim.citations)


def claim_quantile(estimate: HybridEstimate, cycles: int) -> TimingClaim:
    """The time that a warp on the worst path exceeds with a stated probability."""
    text = "times of transitions are independent, and distributed as observed"
    independent = _doubtful("independent-transitions", text)
    claim = _claim(estimate, "hybrid profile", cycles, (independent,), "VI-D")
    return TimingClaim(
        claim.cycles,
        claim.guarantee,
        claim.method,
        claim.assumptions,
        (*claim.citations, Citation(PROFILES, "execution-time profiles")),
    )


def _claim(
    estimate: HybridEstimate,
    method: str,
    cycles: int,
    rests_on: tuple[Assumption, ...],
    place: str,
) -> TimingClaim:
    assumptions = (*_common_assumptions(estimate), *rests_on)
    citations = (Citation(PAPER, place),)
    return TimingClaim(cycles, Guarantee.ESTIMATE, method, assumptions, citations)


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
