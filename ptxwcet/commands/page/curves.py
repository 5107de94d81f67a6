"""How the bound of a block grows: with its warps, and with the latency of the memory.

Beside it the other methods' answers and runs under two schedulers, at each point. Nothing is walked
again: warps execute what they execute in the block that was analysed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from ptxwcet.bounds.analysed import AnalysedPiece, KernelAnalysis, PreparedKernel, PreparedPiece
from ptxwcet.bounds.analysis import BlockAnalysis, analyse_block
from ptxwcet.bounds.methods import METHODS, SAFE
from ptxwcet.bounds.outcome import Outcome
from ptxwcet.claims import Refusal
from ptxwcet.commands.simulate.study import KernelSimulation, SimulationOptions, simulate_piece
from ptxwcet.machine.model import Machine
from ptxwcet.memory.analysis import KernelAccesses
from ptxwcet.pipeline import analyse_prepared, on_machine
from ptxwcet.simulator.policies import Jitter, find_policy
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.warp.program import BlockWorkload, WarpClass
from ptxwcet.warp.segments import has_join

SCHEDULERS = ("lrr", "gto")
"""Those under which a block is run at each point."""

_QUARTERS = (1, 2, 4, 6, 8)
"""Latencies, in quarters of the machine's own."""
_MOST_STEPS = 10_000_000
"""Instructions of a run that are issued one by one: a second or less."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Cycles of a block, by method and by scheduler, at one place of the axis."""

    at: int
    cycles: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Curve:
    """Points in ascending order; ``missing`` says why a method or scheduler has none somewhere.

    ``refused`` says why there is no curve.
    """

    points: tuple[CurvePoint, ...]
    missing: Mapping[str, str]
    refused: str = ""


def curve_over_warps(bound: KernelAnalysis, *, draws_runs: bool) -> Curve:
    """The first 1, 2, 4, ... warps of the worst block alone.

    Cost: a bound and, with ``draws_runs``, a run a scheduler for each point.
    """
    whole = bound.worst.analysis

    def at(count: int) -> _Block:
        workload = first_warps(whole.workload, count)
        analysis = analyse_block(
            workload, whole.machine, whole.assumptions, is_nominal=whole.is_nominal
        )
        outcomes = {method.name: method.evaluate(analysis) for method in METHODS}
        return _Block(bound, bound.worst, analysis, outcomes)

    total = whole.workload.warp_count
    counts = [1 << power for power in range(total.bit_length()) if 1 << power < total]
    if any(has_join(one.program.body) for one in whole.workload.classes):
        counts = []  # a part of the warps would wait for the others
    return _curve((*counts, total), at, draws_runs=draws_runs)


def curve_over_latency(
    bound: KernelAnalysis,
    machine_of: Callable[[int], Machine],
    accesses: KernelAccesses | None,
    *,
    unknown_at_worst: bool,
    draws_runs: bool,
) -> Curve:
    """The block on machines that differ in the latency of the memory, up to twice their own.

    ``machine_of`` gives the machine of a latency. Cost: that of :func:`curve_over_warps`.
    """
    if bound.leaves_out:
        return Curve((), {}, "the bound leaves out some of the facts that are stated")

    def at(latency: int) -> _Block:
        analysis = bound
        if latency != bound.machine.memory_latency_cycles:
            machine = machine_of(latency)
            prepared = on_machine(bound, machine, accesses, unknown_at_worst=unknown_at_worst)
            analysis = analyse_prepared(prepared)
        return _Block(analysis, analysis.worst, analysis.worst.analysis, analysis.worst.outcomes)

    own = bound.machine.memory_latency_cycles
    latencies = sorted({max(1, own * part // 4) for part in _QUARTERS})
    return _curve(latencies, at, draws_runs=draws_runs)


def first_warps(workload: BlockWorkload, count: int) -> BlockWorkload:
    """The warps with the lowest numbers of a block, each with its program."""
    kept = (
        WarpClass(one.program, tuple(warp for warp in one.warps if warp < count))
        for one in workload.classes
    )
    return replace(workload, classes=tuple(one for one in kept if one.warps))


def simulate_analysed(
    bound: KernelAnalysis,
    piece: AnalysedPiece,
    policy: str,
    workload: BlockWorkload | None = None,
    events: int = 0,
) -> KernelSimulation:
    """A run of an analysed block, or of a ``workload`` in its place.

    Raises PtxwcetError (PW532, PW533, PW545, PW547).
    """
    run = PreparedPiece(
        piece.paths, workload or piece.analysis.workload, (), piece.analysis.is_nominal
    )
    prepared = PreparedKernel(bound.flow, bound.launch, bound.machine, (run,), bound.facts)
    options = SimulationOptions(policy, events=events, limit=_MOST_STEPS)
    return simulate_piece(prepared, run, find_policy(policy), Jitter(0, 0), options)


@dataclass(frozen=True, slots=True)
class _Block:
    """A block at one point of a curve: whose, and the answers of the methods."""

    row: KernelAnalysis
    piece: AnalysedPiece
    analysis: BlockAnalysis
    outcomes: Mapping[str, Outcome]

    def run(self, policy: str) -> int:
        return simulate_analysed(self.row, self.piece, policy, self.analysis.workload).run.cycles


def _curve(places: Iterable[int], at: Callable[[int], _Block], *, draws_runs: bool) -> Curve:
    points = []
    missing: dict[str, str] = {}
    for place in places:
        cycles: dict[str, int] = {}
        try:
            block = at(place)
        except PtxwcetError as error:
            missing.setdefault(SAFE.name, error.diagnostics[0].message)
            continue
        for method in METHODS:
            outcome = block.outcomes[method.name]
            if isinstance(outcome, Refusal):
                missing.setdefault(method.name, outcome.reason)
            else:
                cycles[method.name] = outcome.cycles
        for policy in SCHEDULERS if draws_runs else ():
            try:
                cycles[policy] = block.run(policy)
            except PtxwcetError as error:
                missing.setdefault(policy, error.diagnostics[0].message)
        points.append(CurvePoint(place, cycles))
    return Curve(tuple(points), missing)
