"""Performs the whole hybrid analysis of a kernel, from its trace to the estimates ([B])."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import starmap

from ptxwcet.claims import Assumption, AssumptionState, Citation, Guarantee, Refusal, TimingClaim
from ptxwcet.flow.graph.cfg import BlockId, ControlFlowGraph
from ptxwcet.flow.graph.dominance import compute_postdominators
from ptxwcet.flow.graph.loops import LoopForest
from ptxwcet.ir.kernel import Kernel
from ptxwcet.methods.hybrid.concurrency import (
    BlockDelays,
    Concurrency,
    dynamic_estimate,
    hybrid_estimate,
    observe_blocks,
    observe_concurrency,
)
from ptxwcet.methods.hybrid.ipet import (
    CountConstraint,
    WorstCounts,
    enumerate_paths,
    holding,
    loop_constraints,
    side_constraints,
    tree_wcet,
)
from ptxwcet.methods.hybrid.ipg import Ipg, build_ipg, place_ipoints
from ptxwcet.methods.hybrid.observations import (
    Coverage,
    Observations,
    TimeShares,
    barrier_blocks,
    measure_coverage,
    observe,
    share_time,
)
from ptxwcet.methods.hybrid.slicing import slice_trace
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.printable import plural
from ptxwcet.support.records import dataclass
from ptxwcet.trace.events import TimedTrace


@dataclass(frozen=True, slots=True)
class BlockPlaces:
    """The traced launch: warps of a block, and blocks that the GPU holds at a time."""

    warps_per_block: int
    places: int


@dataclass(frozen=True, slots=True)
class HybridEstimate:
    """The results of the traces of one kernel. Times are in units of the trace's clock.

    ``path`` holds the counts that give the warp-specific WCET (Z_warp); ``tree`` the WCET by the
    tree, without limits on counts other than loop bounds. ``broken`` are constraints that observed
    warps violate; they were left out. ``delays`` is None if the launch is unknown. ``waiting`` are
    the blocks with a barrier. ``runs`` and ``warps`` count the traced ones.
    """

    ipg: Ipg
    observations: Observations
    path: WorstCounts
    tree: int | Refusal
    broken: tuple[CountConstraint, ...]
    concurrency: Concurrency
    delays: BlockDelays | None
    coverage: Coverage
    shares: TimeShares
    waiting: frozenset[BlockId]
    runs: int
    warps: int
    events: int

    @property
    def warp_wcet(self) -> int:
        """Z_warp: the longest path of one warp."""
        return self.path.cycles

    @property
    def dynamic(self) -> int:
        """Z_dynamic: Z_warp after the largest release jitter (equation 1)."""
        return dynamic_estimate(self.warp_wcet, self.concurrency)

    @property
    def hybrid(self) -> int:
        """Z_hybrid: one wave of warps after another (equation 2)."""
        return hybrid_estimate(self.warp_wcet, self.concurrency.waves)


def estimate_kernel(
    kernel: Kernel,
    cfg: ControlFlowGraph,
    forest: LoopForest,
    trace: TimedTrace,
    path: str,
    sha256: str,
    places: BlockPlaces | None = None,
) -> HybridEstimate:
    """Estimates the WCET of a kernel from a trace of it, read from ``path``.

    ``kernel`` is the traced one, calls inlined; ``sha256`` is the digest of its PTX file;
    ``places`` describes the dispatch of the traced launch, if known. Raises
    PtxwcetError: the trace is of another kernel (PW607, PW612) or its events are wrong (PW605,
    PW606, PW608, PW610); PW234; PW613 if there is no worst path. Cost: linear in the events, some
    150 bytes each, then that of integer programs of the size of the graph.
    """
    placement = place_ipoints(trace, path, kernel, cfg, sha256)
    ipg = build_ipg(cfg, forest, compute_postdominators(cfg), placement)
    traces = slice_trace(trace, path, ipg)
    observations = observe(ipg, traces)
    worst = {t.number: t.worst for t in observations.transitions}
    constraints = (
        *loop_constraints(observations.loops, cfg),
        *side_constraints(ipg, cfg),
    )
    kept, broken = holding(constraints, observations.kinds)
    most = {t.number: t.most_count for t in observations.transitions}
    worst_path = enumerate_paths(ipg, worst, kept, most)
    if isinstance(worst_path, Refusal):
        message = f"kernel {kernel.readable} has no estimate: {worst_path.reason}"
        raise PtxwcetError.of("PW613", message, kernel.span)
    waiting = barrier_blocks(cfg)
    return HybridEstimate(
        ipg,
        observations,
        worst_path,
        tree_wcet(ipg, worst, observations.loops),
        broken,
        observe_concurrency(traces),
        None if places is None else observe_blocks(traces, places.warps_per_block, places.places),
        measure_coverage(ipg, observations),
        share_time(ipg, waiting, worst, worst_path.counts),
        waiting,
        len(trace.runs),
        traces.warps,
        len(trace),
    )


PAPER = "A. Betts, A. Donaldson: Estimating the WCET of GPU-Accelerated Applications (ECRTS 2013)"
PROFILES = "G. Bernat, A. Colin, S. Petters: WCET Analysis of Probabilistic Systems (RTSS 2002)"


@dataclass(frozen=True, slots=True)
class Contradiction:
    """The contradiction of a figure by its own traces: it claims nothing.

    ``observed`` is the observed time: the high-water mark, for Z_warp the longest warp.
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
"""The method of each figure, its place in the paper, and its further assumptions."""


def claim_of(estimate: HybridEstimate, figure: str, cycles: int) -> TimingClaim:
    """Returns the claim of one of the figures, an estimate at best."""
    method, place, rests_on = _FIGURES[figure]
    assumptions = (*_common_assumptions(estimate), *starmap(_doubtful, rests_on.items()))
    citations = [Citation(PAPER, place)]
    if figure == "profile":
        citations.append(Citation(PROFILES, "execution-time profiles"))
    return TimingClaim(cycles, Guarantee.ESTIMATE, method, assumptions, tuple(citations))


def claim_estimates(estimate: HybridEstimate) -> dict[str, TimingClaim | Contradiction]:
    """Returns Z_warp, Z_dynamic and Z_hybrid with assumptions, unless the traces exceed them."""
    warp = claim_of(estimate, "warp", estimate.warp_wcet)
    return {
        "warp": _against(warp, estimate.observations.longest_warp),
        "dynamic": against_runs(estimate, claim_of(estimate, "dynamic", estimate.dynamic)),
        "hybrid": against_runs(estimate, claim_of(estimate, "hybrid", estimate.hybrid)),
    }


def against_runs(estimate: HybridEstimate, claim: TimingClaim) -> TimingClaim | Contradiction:
    """Returns the claim on whole runs of the traced launch, unless a traced run took longer."""
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
