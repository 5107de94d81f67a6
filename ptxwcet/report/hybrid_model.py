"""The report of a hybrid analysis as plain data, and how it is made. Schema number 1.

``hybrid-schema-1.json`` describes its JSON.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptxwcet import __version__
from ptxwcet.claims import Refusal
from ptxwcet.flow.loops import LoopId, describe_block
from ptxwcet.hybrid.observations import TransitionTimes
from ptxwcet.hybrid_study import HybridAnswer
from ptxwcet.report.build import diagnostic_row
from ptxwcet.report.model import AssumptionRow, DiagnosticRow
from ptxwcet.report.places import place

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class TraceRow:
    """What was traced; ``file`` is empty for a trace made here. ``clock`` is the unit of times."""

    file: str
    recorder: str
    clock: str
    runs: int
    multiprocessors: int
    warps: int
    events: int


@dataclass(frozen=True, slots=True)
class EstimateRow:
    """An estimate and by how much it exceeds the high-water mark."""

    cycles: int
    difference_percent: float
    guarantee: str
    method: str
    citations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WavesRow:
    """Equation 2: ``waves`` (Omega), ``warps_per_wave`` (phi), ``start_gap`` (Delta)."""

    waves: int
    warps_per_wave: int
    start_gap: int
    cycles: int
    difference_percent: float


@dataclass(frozen=True, slots=True)
class RoundsRow:
    """Rounds of blocks that wait at most ``block_wait``, their warps beginning at most
    ``block_skew`` apart."""

    rounds: int
    block_wait: int
    block_skew: int
    cycles: int
    difference_percent: float


@dataclass(frozen=True, slots=True)
class JitterRow:
    """Release jitter of a multiprocessor's last warp (delta)."""

    multiprocessor: int
    cycles: int


@dataclass(frozen=True, slots=True)
class QuantileRow:
    """A warp on the worst path exceeds ``cycles`` with at most this probability."""

    exceedance: float
    cycles: int


@dataclass(frozen=True, slots=True)
class TransitionRow:
    """A transition as observed, and its part of the warp-specific WCET."""

    source: str
    target: str
    place: str
    is_divergent: bool
    has_barrier: bool
    count: int
    best: int
    mean: float
    worst: int
    most_in_a_warp: int
    on_worst_path: int
    share_percent: float


@dataclass(frozen=True, slots=True)
class LoopRow:
    """A loop with the most iterations after one entry: transitions that go back to its beginning.

    ``unseen_static``: the static analysis allows more executions of the body than were seen, so
    many; None if not, or if it does not know.
    """

    header: str
    place: str
    most_iterations: int
    most_entries: int
    cycles: int
    share_percent: float
    unseen_static: int | None


@dataclass(frozen=True, slots=True)
class UnseenRow:
    """A transition that no warp made, though one came to its source."""

    source: str
    target: str
    place: str


@dataclass(frozen=True, slots=True)
class CoverageRow:
    """Transitions and ipoints that were seen; see ``hybrid.coverage``."""

    transitions: int
    seen: int
    divergent: int
    divergent_seen: int
    unseen: tuple[UnseenRow, ...]
    unreached: tuple[str, ...]
    never_iterated: tuple[str, ...]
    hidden_loops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StaticRow:
    """The safe bound of one block on a machine; ``cycles`` None: refused, with the reason."""

    machine: str
    cycles: int | None
    guarantee: str | None
    refusal: DiagnosticRow | None


@dataclass(frozen=True, slots=True)
class HybridReport:
    """Everything about one hybrid analysis; times in the unit of the trace's clock."""

    schema: int
    tool: str
    version: str
    file: str
    sha256: str
    trace: TraceRow
    kernel: str
    high_water_mark: int
    longest_warp: int
    warp: EstimateRow
    dynamic: EstimateRow
    hybrid: EstimateRow
    is_exact: bool
    tree_cycles: int | None
    tree_refusal: str | None
    waves: WavesRow
    planned_waves: WavesRow | None
    planned_rounds: RoundsRow | None
    release_jitter: tuple[JitterRow, ...]
    quantiles: tuple[QuantileRow, ...]
    static: StaticRow
    barrier_cycles: int
    barrier_share_percent: float
    loops: tuple[LoopRow, ...]
    transitions: tuple[TransitionRow, ...]
    coverage: CoverageRow
    dropped_constraints: tuple[str, ...]
    assumptions: tuple[AssumptionRow, ...]


def build_hybrid_report(answer: HybridAnswer) -> HybridReport:
    """The report of an analysis; deterministic for equal input."""
    estimate, origin = answer.estimate, answer.trace.origin
    tree = estimate.tree
    barriers = estimate.shares.all_barriers
    rests_on = dict.fromkeys(a for claim in answer.claims.values() for a in claim.assumptions)
    return HybridReport(
        schema=SCHEMA,
        tool="ptxwcet",
        version=__version__,
        file=answer.path,
        sha256=answer.sha256,
        trace=TraceRow(
            answer.trace_file,
            origin.recorder,
            origin.clock,
            estimate.runs,
            len(np.unique(answer.trace.sm)),
            estimate.warps,
            estimate.events,
        ),
        kernel=answer.kernel.name,
        high_water_mark=estimate.concurrency.high_water_mark,
        longest_warp=estimate.observations.longest_warp,
        warp=_estimate(answer, "warp"),
        dynamic=_estimate(answer, "dynamic"),
        hybrid=_estimate(answer, "hybrid"),
        is_exact=estimate.path.is_exact,
        tree_cycles=None if isinstance(tree, Refusal) else tree,
        tree_refusal=tree.reason if isinstance(tree, Refusal) else None,
        waves=_waves(answer),
        planned_waves=_planned(answer),
        planned_rounds=_rounds(answer),
        release_jitter=tuple(
            JitterRow(row.sm, row.cycles) for row in estimate.concurrency.release_jitter
        ),
        quantiles=tuple(QuantileRow(row.exceedance, row.cycles) for row in answer.quantiles),
        static=_static(answer),
        barrier_cycles=barriers,
        barrier_share_percent=_percent(barriers, estimate.warp_wcet),
        loops=_loops(answer),
        transitions=tuple(_transition(answer, row) for row in estimate.observations.transitions),
        coverage=_coverage(answer),
        dropped_constraints=tuple(row.name for row in estimate.broken),
        assumptions=tuple(AssumptionRow(a.key, a.text, a.state.value, a.source) for a in rests_on),
    )


def _estimate(answer: HybridAnswer, name: str) -> EstimateRow:
    claim = answer.claims[name]
    return EstimateRow(
        claim.cycles,
        _excess(answer, claim.cycles),
        claim.guarantee.value,
        claim.method,
        tuple(f"{one.paper}, {one.place}" for one in claim.citations),
    )


def _excess(answer: HybridAnswer, cycles: int) -> float:
    """By how much, in percent of the high-water mark."""
    seen = answer.estimate.concurrency.high_water_mark
    return _percent(cycles - seen, seen)


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 2) if whole else 0.0


def _waves(answer: HybridAnswer) -> WavesRow:
    seen = answer.estimate.concurrency.waves
    cycles = answer.estimate.hybrid
    return WavesRow(
        seen.waves, seen.warps_per_wave, seen.start_gap, cycles, _excess(answer, cycles)
    )


def _planned(answer: HybridAnswer) -> WavesRow | None:
    plan = answer.planned
    if plan is None:
        return None
    schedule = plan.schedule
    excess = _excess(answer, plan.cycles)
    return WavesRow(schedule.waves, schedule.warps_per_wave, plan.start_gap, plan.cycles, excess)


def _rounds(answer: HybridAnswer) -> RoundsRow | None:
    plan = answer.planned
    if plan is None:
        return None
    cycles = plan.rounds_cycles
    delays, excess = plan.delays, _excess(answer, cycles)
    return RoundsRow(plan.schedule.waves, delays.wait, delays.skew, cycles, excess)


def _static(answer: HybridAnswer) -> StaticRow:
    static = answer.static
    claim, refusal = static.claim, static.refusal
    return StaticRow(
        static.machine,
        None if claim is None else claim.cycles,
        None if claim is None else claim.guarantee.value,
        None if refusal is None else diagnostic_row(refusal),
    )


def _transition(answer: HybridAnswer, row: TransitionTimes) -> TransitionRow:
    estimate = answer.estimate
    transition = estimate.ipg.transitions[row.number]
    taken = estimate.path.counts.get(row.number, 0)
    return TransitionRow(
        source=_label(answer, transition.source),
        target=_label(answer, transition.target),
        place=_place(answer, transition.source),
        is_divergent=not transition.is_ordinary,
        has_barrier=not estimate.waiting.isdisjoint(transition.passed),
        count=row.count,
        best=row.best,
        mean=round(row.mean, 2),
        worst=row.worst,
        most_in_a_warp=row.most_count,
        on_worst_path=taken,
        share_percent=_percent(taken * row.worst, estimate.warp_wcet),
    )


def _label(answer: HybridAnswer, point: int) -> str:
    return answer.estimate.ipg.placement.ipoints[point].label


def _place(answer: HybridAnswer, point: int) -> str:
    """The source line of the first instruction behind an ipoint; empty for the end."""
    block = answer.cfg.blocks[answer.estimate.ipg.placement.blocks[point]]
    return place(answer.kernel, block.start) if block.start < block.end else ""


def _loops(answer: HybridAnswer) -> tuple[LoopRow, ...]:
    estimate = answer.estimate
    rows = []
    for seen in estimate.observations.loops:
        header = answer.cfg.blocks[seen.loop.header]
        cycles = estimate.shares.loops[seen.loop.id]
        rows.append(
            LoopRow(
                answer.cfg.name(seen.loop.header),
                place(answer.kernel, header.start),
                seen.most_iterations,
                seen.most_entries,
                cycles,
                _percent(cycles, estimate.warp_wcet),
                _unseen_iterations(answer, seen.loop.id, seen.most_iterations),
            )
        )
    return tuple(rows)


def _unseen_iterations(answer: HybridAnswer, loop: LoopId, seen: int) -> int | None:
    """Body executions that the static analysis allows beyond those seen.

    A loop that tests at its header executes the body as often as it goes back, any other once more.
    """
    allowed = answer.static.iterations.get(loop)
    if allowed is None:
        return None
    known = answer.forest.loops[loop]
    tests_first = known.header not in known.latches and any(
        source == known.header for source, _ in known.exits
    )
    missing = allowed - seen - (not tests_first)
    return missing if missing > 0 else None


def _coverage(answer: HybridAnswer) -> CoverageRow:
    coverage, ipg = answer.estimate.coverage, answer.estimate.ipg
    unseen = (ipg.transitions[number] for number in coverage.unseen)
    return CoverageRow(
        coverage.transitions,
        coverage.seen,
        coverage.divergent,
        coverage.divergent_seen,
        tuple(
            UnseenRow(_label(answer, t.source), _label(answer, t.target), _place(answer, t.source))
            for t in unseen
        ),
        tuple(_described(answer, ipg.placement.blocks[p]) for p in coverage.unreached),
        tuple(_loop_name(answer, loop) for loop in coverage.never_iterated),
        tuple(_loop_name(answer, loop) for loop in ipg.hidden_loops),
    )


def _loop_name(answer: HybridAnswer, loop: LoopId) -> str:
    return _described(answer, answer.forest.loops[loop].header)


def _described(answer: HybridAnswer, block: int) -> str:
    return describe_block(answer.kernel, answer.cfg, answer.cfg.blocks[block].id)
