"""How the report of a hybrid analysis is made."""

from __future__ import annotations

import numpy as np

from ptxwcet.claims import Refusal, TimingClaim
from ptxwcet.commands.bound.report import AssumptionRow
from ptxwcet.flow.graph.control_flow import describe_block
from ptxwcet.flow.graph.loops import LoopId
from ptxwcet.methods.hybrid.claims import Contradiction
from ptxwcet.methods.hybrid.concurrency import WaveParameters
from ptxwcet.methods.hybrid.ipg import Transition
from ptxwcet.methods.hybrid.observations import TransitionTimes
from ptxwcet.methods.hybrid.rows import (
    CoverageRow,
    EstimateRow,
    HybridReport,
    JitterRow,
    LoopRow,
    QuantileRow,
    RoundsRow,
    StaticRow,
    TraceRow,
    TransitionRow,
    UnseenRow,
    WavesRow,
)
from ptxwcet.methods.hybrid.study import HybridAnswer
from ptxwcet.report.head import diagnostic_row, report_head
from ptxwcet.report.source_lines import place


def build_hybrid_report(answer: HybridAnswer) -> HybridReport:
    """The report of an analysis; deterministic for equal input."""
    estimate = answer.estimate
    tree = estimate.tree
    barriers = estimate.shares.all_barriers
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
        waves=_waves(answer),
        planned_waves=_planned(answer),
        planned_rounds=_rounds(answer),
        release_jitter=_jitter(answer),
        quantiles=_quantiles(answer),
        static=_static(answer),
        barrier_cycles=barriers,
        barrier_share_percent=_percent(barriers, estimate.warp_wcet),
        loops=_loops(answer),
        transitions=tuple(_transition(answer, row) for row in estimate.observations.transitions),
        coverage=_coverage(answer),
        dropped_constraints=tuple(row.name for row in estimate.broken),
        assumptions=tuple(AssumptionRow(a.key, a.text, a.state.value, a.source) for a in rests_on),
    )


def _trace(answer: HybridAnswer) -> TraceRow:
    estimate, origin = answer.estimate, answer.trace.origin
    return TraceRow(
        answer.trace_file,
        origin.recorder,
        origin.clock,
        estimate.runs,
        len(np.unique(answer.trace.sm)),
        estimate.warps,
        estimate.events,
    )


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


def _jitter(answer: HybridAnswer) -> tuple[JitterRow, ...]:
    rows = answer.estimate.concurrency.release_jitter
    return tuple(JitterRow(row.sm, row.cycles) for row in rows)


def _all_claims(answer: HybridAnswer) -> list[TimingClaim]:
    plan = answer.planned
    figures = [*answer.claims.values(), *(row.claim for row in answer.quantiles)]
    figures += [] if plan is None else [one for one in (plan.waves, plan.rounds) if one is not None]
    return [one for one in figures if isinstance(one, TimingClaim)]


def _guarantee(claim: TimingClaim | Contradiction) -> tuple[str | None, bool]:
    """The guarantee, and whether the traces contradict the figure."""
    if isinstance(claim, Contradiction):
        return None, True
    return claim.guarantee.value, False


def _estimate(answer: HybridAnswer, name: str) -> EstimateRow:
    claim = answer.claims[name]
    return EstimateRow(
        claim.cycles,
        _excess(answer, claim.cycles),
        *_guarantee(claim),
        claim.method,
        tuple(f"{one.paper}, {one.place}" for one in claim.citations),
    )


def _excess(answer: HybridAnswer, cycles: int) -> float:
    """How far an estimate lies above the high-water mark, in percent of it."""
    seen = answer.estimate.concurrency.high_water_mark
    return _percent(cycles - seen, seen)


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 2) if whole else 0.0


def _waves(answer: HybridAnswer) -> WavesRow:
    return _wave_row(answer, answer.estimate.concurrency.waves, answer.claims["hybrid"])


def _wave_row(
    answer: HybridAnswer, row: WaveParameters, claim: TimingClaim | Contradiction
) -> WavesRow:
    return WavesRow(
        row.waves,
        row.warps_per_wave,
        row.start_gap,
        claim.cycles,
        _excess(answer, claim.cycles),
        *_guarantee(claim),
    )


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
        plan.rounds.cycles,
        _excess(answer, plan.rounds.cycles),
        *_guarantee(plan.rounds),
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
    return TransitionRow(
        source=_label(answer, transition.source),
        target=_label(answer, transition.target),
        place=_place(answer, transition.source),
        is_divergent=not transition.is_ordinary,
        has_barrier=not estimate.waiting.isdisjoint(transition.passed),
        count=times.count,
        best=times.best,
        mean=round(times.mean, 2),
        worst=times.worst,
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


def _loops(answer: HybridAnswer) -> tuple[LoopRow, ...]:
    estimate = answer.estimate
    loop_rows = []
    for seen in estimate.observations.loops:
        header = answer.cfg.blocks[seen.loop.header]
        cycles = estimate.shares.loops[seen.loop.id]
        loop_rows.append(
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
    return tuple(loop_rows)


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
    return CoverageRow(
        coverage.transitions,
        coverage.seen,
        coverage.transitions - max(ordinary, coverage.seen),
        coverage.divergent,
        coverage.divergent_seen,
        tuple(
            UnseenRow(_label(answer, t.source), _label(answer, t.target), _place(answer, t.source))
            for t in possible
        ),
        tuple(
            _described(answer, block)
            for block in (ipg.placement.blocks[point] for point in coverage.unreached)
            if _executes(answer, block)
        ),
        tuple(
            _loop_name(answer, loop)
            for loop in coverage.never_iterated
            # else its row says what the static analysis allows
            if loop not in answer.static.iterations
            and _executes(answer, answer.forest.loops[loop].header)
        ),
        tuple(_loop_name(answer, loop) for loop in ipg.hidden_loops),
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
