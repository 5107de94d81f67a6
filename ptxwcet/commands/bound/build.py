"""Converts the analysis to the report: gathers, counts and names, and computes no bound.

A row has everything that decides a verdict: cycles, guarantees, assumptions. So cached bounds are
judged in the same way as new ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TypeVar

from ptxwcet.bounds.analysed import AnalysedPiece, KernelAnalysis
from ptxwcet.bounds.explanation import BoundExplanation, explain_safe
from ptxwcet.bounds.launch_bound import LaunchBound
from ptxwcet.bounds.methods import SAFE, SCHEDULED, all_methods
from ptxwcet.bounds.outcome import BlockBound, SectionBound
from ptxwcet.bounds.roofline import Roofline
from ptxwcet.claims import Assumption, AssumptionState, Guarantee, Refusal, TimingClaim
from ptxwcet.commands.bound.explanation import explanation_row, launch_line_rows, path_rows
from ptxwcet.commands.bound.loop_text import loop_place, reason_text, total_texts
from ptxwcet.commands.bound.report import (
    AssumptionRow,
    BoundedKernel,
    BoundRow,
    BudgetRow,
    CertificateRow,
    LaunchRow,
    LineRow,
    LoopRow,
    OccupancyRow,
    Report,
    RooflineRow,
    SectionRow,
    WarpRow,
    assumption_rows,
    citation_texts,
)
from ptxwcet.commands.bound.study import FileAnswer
from ptxwcet.flow.walk.path import PathLoop, largest_bounds, loop_entries
from ptxwcet.ir.kernel import Kernel
from ptxwcet.opened.budgets import Checks
from ptxwcet.report.head import kernel_head, kernel_report, row_like
from ptxwcet.report.source_lines import SourceLines, place
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.rounding import microseconds_of, percent_of
from ptxwcet.timing.demand import initiations_by_instruction

_COSTLIEST_LINES = 5

Row = TypeVar("Row")

_LEAST_OF_A_TYPE = 2**15 - 1
"""Iterations from which on the reason mentions that only a type limits them."""
_LARGEST_STEP = 1024


def build_report(
    answer: FileAnswer,
    *,
    explain: bool = False,
    source: str | None = None,
    checks: Checks | None = None,
) -> Report:
    """Returns the report of a run.

    ``explain``: with the lines that pay the bound. ``source`` is the path of the CUDA source unless
    it is in the folder of the PTX file; ``checks`` has the budget for the bounds.
    """
    sources = SourceLines(answer.path, source) if explain else None
    return kernel_report(Report, answer, partial(bounded_row, sources, checks))


def bounded_row(
    sources: SourceLines | None, checks: Checks | None, analysis: KernelAnalysis
) -> BoundedKernel:
    """Returns the row of a bounded kernel; with ``sources`` it has the lines that pay the bound."""
    worst = analysis.worst
    explained = _explain(analysis)
    claim = worst.bound.claim
    titles = {method.name: method.title for method in all_methods()}
    titles[SCHEDULED] = "known schedule"
    order = sorted(worst.outcomes, key=lambda name: name != worst.reported)
    bounds = tuple(_bound_row(worst, name, titles[name]) for name in order)
    lower = next((bound.cycles for bound in bounds if bound.method == "lower"), None)
    pessimism = percent_of(claim.cycles - lower, lower) if lower else None
    bounded = BoundedKernel(
        *kernel_head(analysis.kernel, analysis.launch),
        analysis.launch.warps,
        bound_cycles=claim.cycles,
        microseconds=microseconds_of(claim.cycles, analysis.machine.clock_mhz),
        guarantee=claim.guarantee.value,
        assumptions=assumption_rows(claim),
        bounds=bounds,
        largest_pessimism_percent=pessimism,
        block_ranges=len(analysis.pieces),
        worst_block_first=worst.paths.first,
        worst_block_last=worst.paths.last,
        warps=_warp_rows(worst),
        sections=tuple(_section_row(analysis.kernel, section) for section in _safe(worst).sections),
        loops=_loop_rows(analysis),
        costliest_lines=_line_rows(analysis),
        worst_path=() if isinstance(explained, Refusal) else path_rows(analysis, explained),
        explanation=None
        if sources is None or isinstance(explained, Refusal)
        else explanation_row(analysis, explained, sources),
        not_explained=explained.reason if isinstance(explained, Refusal) else "",
        launch=_launch_row(analysis, analysis.launch_bound, sources)
        if isinstance(analysis.launch_bound, LaunchBound)
        else None,
        launch_not_bounded=analysis.launch_bound.reason
        if isinstance(analysis.launch_bound, Refusal)
        else "",
        roofline=None
        if analysis.roofline is None
        else _roofline_row(analysis.roofline, analysis.machine.clock_mhz),
    )
    return bounded if checks is None else with_verdict(bounded, checks, analysis.machine.clock_mhz)


def _launch_row(
    analysis: KernelAnalysis, launched: LaunchBound, sources: SourceLines | None
) -> LaunchRow:
    claim, residency = launched.claim, launched.residency
    return row_like(
        LaunchRow,
        *(claim, launched.bound, launched, residency),
        microseconds=microseconds_of(claim.cycles, analysis.machine.clock_mhz),
        least_resident=residency.least,
        most_resident=residency.most,
        assumptions=assumption_rows(claim),
        lines=None if sources is None else launch_line_rows(analysis, launched, sources),
        citations=citation_texts(claim),
        occupancy=_occupancy_row(analysis, launched),
    )


def _occupancy_row(analysis: KernelAnalysis, launched: LaunchBound) -> OccupancyRow:
    residency, block = launched.residency, launched.block
    spills = block.spills
    return OccupancyRow(
        residency.percent(launched.bound.resident_blocks),
        residency.least_percent,
        residency.most_percent,
        block.registers,
        None if spills is None else spills.stored_bytes,
        None if spills is None else spills.loaded_bytes,
        spills is not None and analysis.kernel.code is None,
    )


def _roofline_row(roofline: Roofline, clock_mhz: int) -> RooflineRow:
    is_traffic = roofline.memory_cycles == roofline.traffic_cycles
    return row_like(
        RooflineRow,
        roofline,
        microseconds=microseconds_of(roofline.cycles, clock_mhz),
        guarantee=Guarantee.ESTIMATE,
        memory_of="traffic" if is_traffic else "arrays",
    )


def _explain(row: KernelAnalysis) -> BoundExplanation | Refusal:
    try:
        return explain_safe(row.worst.analysis)
    except PtxwcetError as error:
        return Refusal(error.diagnostics[0].message)


def _safe(piece: AnalysedPiece) -> BlockBound:
    """Returns the first method's answer: the one that has sections, and is always given."""
    outcome = piece.outcomes[SAFE.name]
    assert isinstance(outcome, BlockBound)
    return outcome


def _bound_row(piece: AnalysedPiece, name: str, title: str) -> BoundRow:
    outcome = piece.outcomes[name]
    if isinstance(outcome, BlockBound):
        claim = outcome.claim
        cited = citation_texts(claim)
        return BoundRow(name, title, outcome.cycles, claim.guarantee.value, cited, outcome.note)
    return BoundRow(name, title, None, None, (), outcome.reason)


def _warp_rows(piece: AnalysedPiece) -> tuple[WarpRow, ...]:
    return tuple(
        WarpRow(
            *(path.warps, section.length_cycles, section.profile.execution_cycles),
            section.waits_behind_units,
        )
        for path, section in zip(piece.paths.warps, piece.analysis.uncut, strict=True)
    )


def _section_row(kernel: Kernel, section: SectionBound) -> SectionRow:
    origin = section.barrier_origin
    if origin is None:
        return SectionRow(section.multiplicity, section.cycles, "end of the kernel")
    return SectionRow(section.multiplicity, section.cycles, place(kernel, origin))


def _loop_rows(analysis: KernelAnalysis) -> tuple[LoopRow, ...]:
    paths = [warp.nodes for piece in analysis.pieces for warp in piece.paths.warps]
    most = largest_bounds(paths)
    certificates: dict[int, dict[CertificateRow, None]] = {}
    for entry in chain.from_iterable(map(loop_entries, paths)):
        if entry.proof is not None:
            # imported here: few loops have a certificate
            from ptxwcet.commands.bound.certificate_rows import certificate_row

            reported = certificate_row(entry.proof, entry.iterations.base, analysis.cfg)
            certificates.setdefault(entry.loop, {})[reported] = None
    loop_rows = []
    for loop in analysis.forest.loops:
        entry_or_none = most.get(loop.id)
        if entry_or_none is None:
            continue
        loop_rows.append(
            LoopRow(
                analysis.cfg.name(loop.header),
                loop_place(analysis.flow, loop),
                entry_or_none.iterations.base,
                entry_or_none.obtained,
                _reason(analysis, entry_or_none),
                tuple(certificates.get(loop.id, ())),
            )
        )
    return tuple(loop_rows)


def _reason(analysis: KernelAnalysis, entry: PathLoop) -> str:
    """Returns why a loop's bound holds or its source, and the totals stated for a warp's run."""
    reason = reason_text(entry, analysis.facts)
    if entry.proof is not None and _is_all_of_a_type(entry.iterations.base):
        block = analysis.cfg.name(analysis.forest.loops[entry.loop].header)
        reason += f"; no more than a type limits: if data say less, --loop-bound {block}=ITERATIONS"
    return "; ".join((reason, *total_texts(entry.loop, analysis.facts)))


def _is_all_of_a_type(count: int) -> bool:
    """Returns whether a counter would count this far if it took all values of a type, by a step."""
    if count < _LEAST_OF_A_TYPE:
        return False
    steps = ((bits, round(2**bits / count)) for bits in (15, 16, 31, 32, 63, 64))
    return any(
        1 <= step <= _LARGEST_STEP and abs(count * step - 2**bits) <= step for bits, step in steps
    )


def _line_rows(row: KernelAnalysis) -> tuple[LineRow, ...]:
    shares: Counter[str] = Counter()
    by_instruction = initiations_by_instruction(row.worst.analysis.workload)
    for index, cycles in by_instruction.items():
        shares[place(row.kernel, index)] += cycles
    total = sum(shares.values())
    ordered = sorted(shares.items(), key=lambda item: (-item[1], item[0]))
    return tuple(
        LineRow(where, cycles, round(100 * cycles / total, 2))
        for where, cycles in ordered[:_COSTLIEST_LINES]
    )


def with_verdict(row: BoundedKernel, checks: Checks, clock_mhz: int) -> BoundedKernel:
    """Returns the row with its verdict on the budget, if any, at the clock of its machine."""
    judged = checks.judge(*_claims(row), clock_mhz)
    if judged is None:
        return row
    guarantee = None if judged.claim is None else judged.claim.guarantee.value
    of, verdict = judged.of, judged.verdict.value
    return replace(row, budget=BudgetRow(judged.budget.text, judged.cycles, of, verdict, guarantee))


def failed_of(row: BoundedKernel, checks: Checks, clock_mhz: int) -> list[Diagnostic]:
    """Returns PW520, PW521 and PW522 for a row, without a place: rows have no kernel's place."""
    return checks.failed(row.readable, None, *_claims(row), clock_mhz)


def _claims(row: BoundedKernel) -> tuple[TimingClaim, TimingClaim | Refusal | None]:
    """Returns the claims of block and launch: a Refusal without a bound, None without a launch."""
    block = _claim(row.bound_cycles, row.guarantee, row.bounds[0].method, row.assumptions)
    launch = row.launch
    if launch is not None:
        return block, _claim(launch.cycles, launch.guarantee, launch.form, launch.assumptions)
    return block, Refusal(row.launch_not_bounded) if row.launch_not_bounded else None


def _claim(
    cycles: int, guarantee: str, method: str, assumptions: Iterable[AssumptionRow]
) -> TimingClaim:
    stated = (Assumption(a.key, a.text, AssumptionState(a.state), a.source) for a in assumptions)
    return TimingClaim(cycles, Guarantee(guarantee), method, tuple(stated))
