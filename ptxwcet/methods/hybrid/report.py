"""The report of a hybrid analysis as plain data, and how it is made. Schema number 1."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from ptxwcet.claims import Guarantee, Refusal, TimingClaim
from ptxwcet.commands.bound.report import AssumptionRow
from ptxwcet.flow.graph.control_flow import describe_block
from ptxwcet.flow.graph.loops import LoopId
from ptxwcet.methods.hybrid.concurrency import JitterRow, WaveParameters
from ptxwcet.methods.hybrid.estimate import Contradiction
from ptxwcet.methods.hybrid.ipg import Transition
from ptxwcet.methods.hybrid.observations import LoopCounts, TransitionTimes
from ptxwcet.methods.hybrid.study import HybridAnswer
from ptxwcet.report.head import DiagnosticRow, FileHead, diagnostic_row, report_head, row_like
from ptxwcet.report.source_lines import place
from ptxwcet.support.records import dataclass


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
    """An estimate and by how much it exceeds the high-water mark.

    ``is_below_observed``: a traced run (of Z_warp, a warp) took longer; ``guarantee`` is then null.
    """

    cycles: int
    difference_percent: float
    guarantee: Annotated[str, Guarantee] | None
    is_below_observed: bool
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
    guarantee: Annotated[str, Guarantee] | None
    is_below_observed: bool


@dataclass(frozen=True, slots=True)
class RoundsRow:
    """Rounds of blocks that wait at most ``block_wait``, their warps beginning at most
    ``block_skew`` apart."""

    rounds: int
    block_wait: int
    block_skew: int
    cycles: int
    difference_percent: float
    guarantee: Annotated[str, Guarantee] | None
    is_below_observed: bool


@dataclass(frozen=True, slots=True)
class QuantileRow:
    """A warp on the worst path exceeds ``cycles`` with at most this probability.

    ``is_below_observed``: a traced warp took longer.
    """

    exceedance: float
    cycles: int
    guarantee: Annotated[str, Guarantee]
    is_below_observed: bool


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
    """Transitions and ipoints that were seen; see ``Coverage``.

    What the static analysis excludes for the launch facts given is left out of ``unseen``,
    ``unreached`` and ``never_iterated``; ``excluded`` counts such transitions.
    """

    transitions: int
    seen: int
    excluded: int
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
    guarantee: Annotated[str, Guarantee] | None
    refusal: DiagnosticRow | None


@dataclass(frozen=True, slots=True)
class HybridReport(FileHead):
    """Everything about one hybrid analysis; times in the unit of the trace's clock."""

    trace: TraceRow
    kernel: str
    readable: str
    high_water_mark: int
    longest_warp: int
    warp: EstimateRow
    dynamic: EstimateRow
    hybrid: EstimateRow
    is_proved_optimum: bool
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
    estimate = answer.estimate
    tree = estimate.tree
    barriers = estimate.shares.barriers
    rests_on = dict.fromkeys(a for claim in _all_claims(answer) for a in claim.assumptions)
    return HybridReport(
        *report_head(),
        answer.path,
        answer.sha256,
        trace=_trace(answer),
        kernel=answer.kernel.name,
        readable=answer.kernel.readable,
        high_water_mark=estimate.concurrency.high_water_mark,
        longest_warp=estimate.observations.longest_warp,
        warp=_estimate(answer, "warp"),
        dynamic=_estimate(answer, "dynamic"),
        hybrid=_estimate(answer, "hybrid"),
        is_proved_optimum=estimate.path.is_proved_optimum,
        tree_cycles=None if isinstance(tree, Refusal) else tree,
        tree_refusal=tree.reason if isinstance(tree, Refusal) else None,
        waves=_wave_row(answer, estimate.concurrency.waves, answer.claims["hybrid"]),
        planned_waves=_planned(answer),
        planned_rounds=_rounds(answer),
        release_jitter=estimate.concurrency.release_jitter,
        quantiles=_quantiles(answer),
        static=_static(answer),
        barrier_cycles=barriers,
        barrier_share_percent=_percent(barriers, estimate.warp_wcet),
        loops=tuple(_loop(answer, seen) for seen in estimate.observations.loops),
        transitions=tuple(_transition(answer, row) for row in estimate.observations.transitions),
        coverage=_coverage(answer),
        dropped_constraints=tuple(row.name for row in estimate.broken),
        assumptions=tuple(AssumptionRow(a.key, a.text, a.state.value, a.source) for a in rests_on),
    )


def _trace(answer: HybridAnswer) -> TraceRow:
    multiprocessors = len(np.unique(answer.trace.sm))
    sources = (answer.trace.origin, answer.estimate)
    return row_like(TraceRow, *sources, file=answer.trace_file, multiprocessors=multiprocessors)


def _quantiles(answer: HybridAnswer) -> tuple[QuantileRow, ...]:
    return tuple(
        QuantileRow(
            row.exceedance,
            row.claim.cycles,
            row.claim.guarantee.value,
            row.claim.cycles < answer.estimate.observations.longest_warp,
        )
        for row in answer.quantiles
    )


def _all_claims(answer: HybridAnswer) -> list[TimingClaim]:
    plan = answer.planned
    figures = [*answer.claims.values(), *(row.claim for row in answer.quantiles)]
    figures += [] if plan is None else [one for one in (plan.waves, plan.rounds) if one is not None]
    return [one for one in figures if isinstance(one, TimingClaim)]


def _figure(
    answer: HybridAnswer, claim: TimingClaim | Contradiction
) -> tuple[int, float, str | None, bool]:
    """Cycles, how far above the high-water mark (percent of it), guarantee, is it contradicted."""
    seen = answer.estimate.concurrency.high_water_mark
    guarantee = None if isinstance(claim, Contradiction) else claim.guarantee.value
    excess = _percent(claim.cycles - seen, seen)
    return claim.cycles, excess, guarantee, isinstance(claim, Contradiction)


def _estimate(answer: HybridAnswer, name: str) -> EstimateRow:
    claim = answer.claims[name]
    citations = tuple(f"{one.paper}, {one.place}" for one in claim.citations)
    return EstimateRow(*_figure(answer, claim), claim.method, citations)


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 2) if whole else 0.0


def _wave_row(
    answer: HybridAnswer, row: WaveParameters, claim: TimingClaim | Contradiction
) -> WavesRow:
    return WavesRow(row.waves, row.warps_per_wave, row.start_gap, *_figure(answer, claim))


def _planned(answer: HybridAnswer) -> WavesRow | None:
    plan = answer.planned
    if plan is None:
        return None
    schedule = plan.schedule
    waves = WaveParameters(schedule.waves, schedule.warps_per_wave, plan.start_gap)
    return _wave_row(answer, waves, plan.waves)


def _rounds(answer: HybridAnswer) -> RoundsRow | None:
    plan = answer.planned
    if plan is None or plan.delays is None or plan.rounds is None:
        return None
    return RoundsRow(
        plan.schedule.waves,
        plan.delays.wait,
        plan.delays.skew,
        *_figure(answer, plan.rounds),
    )


def _static(answer: HybridAnswer) -> StaticRow:
    static = answer.static
    claim, refusal = static.claim, static.refusal
    return StaticRow(
        static.machine,
        None if claim is None else claim.cycles,
        None if claim is None else claim.guarantee.value,
        None if refusal is None else diagnostic_row(refusal),
    )


def _transition(answer: HybridAnswer, times: TransitionTimes) -> TransitionRow:
    estimate = answer.estimate
    transition = estimate.ipg.transitions[times.number]
    taken = estimate.path.counts.get(times.number, 0)
    return row_like(
        TransitionRow,
        times,
        source=_label(answer, transition.source),
        target=_label(answer, transition.target),
        place=_place(answer, transition.source),
        is_divergent=not transition.is_ordinary,
        has_barrier=not estimate.waiting.isdisjoint(transition.passed),
        mean=round(times.mean, 2),
        most_in_a_warp=times.most_count,
        on_worst_path=taken,
        share_percent=_percent(taken * times.worst, estimate.warp_wcet),
    )


def _label(answer: HybridAnswer, point: int) -> str:
    return answer.estimate.ipg.placement.ipoints[point].label


def _place(answer: HybridAnswer, point: int) -> str:
    """The source line of the first instruction behind an ipoint; empty for the end."""
    block = answer.cfg.blocks[answer.estimate.ipg.placement.blocks[point]]
    return place(answer.kernel, block.start) if block.start < block.end else ""


def _loop(answer: HybridAnswer, seen: LoopCounts) -> LoopRow:
    cycles = answer.estimate.shares.loops[seen.loop.id]
    return LoopRow(
        answer.cfg.name(seen.loop.header),
        place(answer.kernel, answer.cfg.blocks[seen.loop.header].start),
        seen.most_iterations,
        seen.most_entries,
        cycles,
        _percent(cycles, answer.estimate.warp_wcet),
        _unseen_iterations(answer, seen.loop.id, seen.most_iterations),
    )


def _unseen_iterations(answer: HybridAnswer, loop: LoopId, seen: int) -> int | None:
    """Body executions that the static analysis allows beyond those seen.

    A loop that tests at its header executes the body as often as it goes back, any other once more.
    """
    allowed = answer.static.iterations.get(loop)
    if allowed is None:
        return None
    natural_loop = answer.forest.loops[loop]
    tests_first = natural_loop.header not in natural_loop.latches and any(
        source == natural_loop.header for source, _ in natural_loop.exits
    )
    missing = allowed - seen - (not tests_first)
    return missing if missing > 0 else None


def _coverage(answer: HybridAnswer) -> CoverageRow:
    coverage, ipg = answer.estimate.coverage, answer.estimate.ipg
    possible = [t for t in map(ipg.transitions.__getitem__, coverage.unseen) if _may(answer, t)]
    ordinary = sum(t.is_ordinary and _may(answer, t) for t in ipg.transitions)
    return row_like(
        CoverageRow,
        coverage,
        excluded=coverage.transitions - max(ordinary, coverage.seen),
        unseen=tuple(
            UnseenRow(_label(answer, t.source), _label(answer, t.target), _place(answer, t.source))
            for t in possible
        ),
        unreached=tuple(
            _described(answer, block)
            for block in (ipg.placement.blocks[point] for point in coverage.unreached)
            if _executes(answer, block)
        ),
        never_iterated=tuple(
            _loop_name(answer, loop)
            for loop in coverage.never_iterated
            # else its row says what the static analysis allows
            if loop not in answer.static.iterations
            and _executes(answer, answer.forest.loops[loop].header)
        ),
        hidden_loops=tuple(_loop_name(answer, loop) for loop in ipg.hidden_loops),
    )


def _may(answer: HybridAnswer, transition: Transition) -> bool:
    """Whether, as far as the static analysis knows, a warp can execute both ends."""
    blocks = answer.estimate.ipg.placement.blocks
    ends = (blocks[transition.source], blocks[transition.target])
    return all(_executes(answer, block) for block in ends)


def _executes(answer: HybridAnswer, block: int) -> bool:
    known = answer.static.blocks
    return not known or block in known or block == answer.cfg.exit


def _loop_name(answer: HybridAnswer, loop: LoopId) -> str:
    return _described(answer, answer.forest.loops[loop].header)


def _described(answer: HybridAnswer, block: int) -> str:
    return describe_block(answer.kernel, answer.cfg, answer.cfg.blocks[block].id)
