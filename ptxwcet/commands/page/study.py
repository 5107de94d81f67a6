"""All content of a kernel's page: one opened request, one analysis, and everything derived from it.

>>> from ptxwcet.commands.page.study import study_kernels
>>> from ptxwcet.opened.request import Request
>>> request = Request("samples/vector_add.ptx", block="256", grid="4", parameters=("n=1000",))
>>> (study,) = study_kernels(request, draws_runs=False).answered
>>> [(point.at, point.cycles["safe"]) for point in study.over_warps.points]
[(1, 472), (2, 499), (4, 553), (8, 661)]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeVar

from ptxwcet.bounds.analysed import AnalysedPiece, KernelAnalysis, PreparedKernel, PreparedPiece
from ptxwcet.bounds.analysis import BlockAnalysis, analyse_block
from ptxwcet.bounds.explanation import BoundExplanation, explain_safe
from ptxwcet.bounds.methods import METHODS, SAFE
from ptxwcet.bounds.outcome import Outcome
from ptxwcet.claims import Refusal
from ptxwcet.commands.cfg.study import DescribedKernel, describe_kernel
from ptxwcet.commands.memory.study import StudiedAccesses
from ptxwcet.commands.simulate.study import KernelSimulation, SimulationOptions, simulate_piece
from ptxwcet.flow.graph.cfg import BlockId, ControlFlowGraph, Edge
from ptxwcet.flow.graph.control_flow import ControlFlow
from ptxwcet.flow.graph.divergence import DivergentSet, StandingEdges, select_divergent_edges
from ptxwcet.flow.paths.dot import NO_NOTES
from ptxwcet.flow.walk.path import visits
from ptxwcet.ir.kernel import Kernel
from ptxwcet.machine.loader import load_machine
from ptxwcet.machine.model import Machine
from ptxwcet.memory.analysis import KernelAccesses
from ptxwcet.opened.opening import Answer, Opened, find_named_policy, open_request, refuse
from ptxwcet.opened.request import Request
from ptxwcet.opened.whole_launch import Wishes, with_launch_bound
from ptxwcet.pipeline import analyse_kernel, analyse_prepared, on_machine
from ptxwcet.simulator.policies import Jitter, find_policy
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.timing.launch_costs import kernel_accesses
from ptxwcet.warp.program import BlockWorkload, WarpClass
from ptxwcet.warp.segments import has_join

_GANTT_EVENTS = 160
_GANTT_SCHEDULER = "gto"

Reasons = tuple[Diagnostic, ...]
"""The reasons why a part is missing."""

_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class KernelStudy:
    """The analyses of a kernel; each part is its result, or the reasons why there is none.

    ``kernel`` has calls inlined. ``explained`` are the cycles of the safe bound, ``worst_edges``
    the edges of the graph that warps of the worst block take, ``beginning`` the first issues of a
    run, ``over_warps`` and ``over_latency`` the growth of the bound.
    """

    kernel: Kernel
    analysis: KernelAnalysis | Reasons
    explained: BoundExplanation | Reasons
    flow: DescribedKernel | Reasons
    divergent: StandingEdges | Reasons
    worst_edges: frozenset[Edge]
    accesses: StudiedAccesses | Reasons
    beginning: KernelSimulation | Reasons
    over_warps: Curve
    over_latency: Curve


def reasons(study: KernelStudy) -> Reasons:
    """Returns why a kernel is not bounded; empty if it is."""
    return () if isinstance(study.analysis, KernelAnalysis) else study.analysis


def study_kernels(request: Request, *, draws_runs: bool = True) -> Answer[KernelStudy]:
    """Studies each requested kernel, also kernels without a bound.

    ``draws_runs``: with runs on the simulated machine. Raises PtxwcetError for input that concerns
    no single kernel. Cost: a dozen bounds and two dozen runs a kernel.
    """
    machine = load_machine(request.machine, request.memory_latency_cycles)
    study = _Study(open_request(request), machine, Wishes(request), draws_runs)
    return Answer(request.path, study.opened.sha256, machine, study.opened.each(study.of))


@dataclass(frozen=True, slots=True)
class _Study:
    opened: Opened
    machine: Machine
    wishes: Wishes
    draws_runs: bool

    def of(self, kernel: Kernel) -> KernelStudy:
        """Studies a kernel. Raises PtxwcetError for one that cannot even be read."""
        whole = self.opened.whole(kernel)
        attempt = partial(_attempt, whole)
        flow = attempt(lambda: describe_kernel(kernel, self.opened, self.opened.launch_of(kernel)))
        if isinstance(flow, tuple):
            flow = attempt(lambda: DescribedKernel(ControlFlow.of(whole), NO_NOTES, {}))
        graph = flow
        divergent: StandingEdges | Reasons = ()
        if isinstance(graph, DescribedKernel):
            every = DivergentSet.COMPLETE
            divergent = attempt(lambda: select_divergent_edges(graph.flow, every))
        analysis = attempt(lambda: self._analysed(kernel, whole))
        if isinstance(analysis, tuple):
            accesses = attempt(lambda: self._accesses(kernel, whole, None, None))
            nothing = Curve((), {}, "there is no bound")
            return KernelStudy(
                *(whole, analysis, analysis, flow, divergent, frozenset(), accesses, analysis),
                *(nothing, nothing),
            )
        bound = analysis
        explained = attempt(lambda: explain_safe(bound.worst.analysis))
        explanation = explained if isinstance(explained, BoundExplanation) else None
        accesses = attempt(lambda: self._accesses(kernel, whole, bound, explanation))
        beginning: KernelSimulation | Reasons = ()
        if self.draws_runs:
            beginning = attempt(
                lambda: simulate_analysed(
                    bound, bound.worst, _GANTT_SCHEDULER, events=_GANTT_EVENTS
                )
            )
        over_latency = curve_over_latency(
            bound,
            lambda latency: load_machine(self.opened.request.machine, latency),
            accesses.accesses if isinstance(accesses, StudiedAccesses) else None,
            unknown_at_worst=self.opened.request.unknown_at_worst,
            draws_runs=self.draws_runs,
        )
        over_warps = curve_over_warps(bound, draws_runs=self.draws_runs)
        return KernelStudy(
            *(whole, bound, explained, flow, divergent, worst_edges(bound), accesses, beginning),
            *(over_warps, over_latency),
        )

    def _analysed(self, kernel: Kernel, whole: Kernel) -> KernelAnalysis:
        opened = self.opened
        analysis = analyse_kernel(
            whole,
            opened.launch_of(kernel),
            self.machine,
            opened.facts_of(kernel),
            unknown_at_worst=opened.request.unknown_at_worst,
            policy=find_named_policy(opened.request),
            method=opened.request.method,
        )
        return with_launch_bound(analysis, opened.module, opened.said_by_file, self.wishes)

    def _accesses(
        self,
        kernel: Kernel,
        whole: Kernel,
        row: KernelAnalysis | None,
        explained: BoundExplanation | None,
    ) -> StudiedAccesses:
        launch = self.opened.launch_of(kernel) if row is None else row.launch
        found = kernel_accesses(whole, launch)
        if explained is None:
            return StudiedAccesses(whole, launch, found, {}, None)
        paid = {index: one.total for index, one in explained.paid.items()}
        return StudiedAccesses(whole, launch, found, paid, explained.cycles)


def worst_edges(analysis: KernelAnalysis) -> frozenset[Edge]:
    """Returns the edges that warps of the worst block take, and those that they may take."""
    taken: set[Edge] = set()
    cfg = analysis.cfg
    for warp in analysis.worst.paths.warps:
        for number, jumps in visits(warp.nodes):
            block = BlockId(number)
            taken |= {(block, follower) for follower in _followers(cfg, block, jumps)}
    return frozenset(taken)


def _followers(cfg: ControlFlowGraph, block: BlockId, jumps: bool | None) -> set[BlockId]:
    ways = set(cfg.successors[block])
    if len(ways) < 2 or jumps is None:
        return ways
    return ways & {cfg.taken[block] if jumps else cfg.fallthrough[block]}


def _attempt(kernel: Kernel, find: Callable[[], _Found]) -> _Found | Reasons:
    """Returns the result of ``find``, or the reasons why it refuses; other parts are unaffected."""
    try:
        return find()
    except Exception as error:
        return refuse(kernel, error).diagnostics


# --- How the bound of a block grows: with its warps, and with the latency of the memory -----------
# The curves also have the other methods' bounds and runs under two schedulers, at each point. Paths
# are not extracted again: warps execute the same as in the analysed block.


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
    """Points in ascending order; ``missing`` has the reasons for gaps of methods and schedulers.

    ``refused`` is the reason why there is no curve.
    """

    points: tuple[CurvePoint, ...]
    missing: Mapping[str, str]
    refused: str = ""


def curve_over_warps(bound: KernelAnalysis, *, draws_runs: bool) -> Curve:
    """Returns the curve of the first 1, 2, 4, ... warps of the worst block.

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
    if any(has_join(op_class.program.body) for op_class in whole.workload.classes):
        counts = []  # a subset of the warps would wait for the others
    return _curve((*counts, total), at, draws_runs=draws_runs)


def curve_over_latency(
    bound: KernelAnalysis,
    machine_of: Callable[[int], Machine],
    accesses: KernelAccesses | None,
    *,
    unknown_at_worst: bool,
    draws_runs: bool,
) -> Curve:
    """Returns the curve of the block over the memory latency, up to twice the machine's.

    ``machine_of`` gives the machine of a latency. Cost: as :func:`curve_over_warps`.
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
    """Returns the warps with the lowest numbers of a block, each with its program."""
    kept = (
        WarpClass(op_class.program, tuple(warp for warp in op_class.warps if warp < count))
        for op_class in workload.classes
    )
    return replace(workload, classes=tuple(one for one in kept if one.warps))


def simulate_analysed(
    bound: KernelAnalysis,
    piece: AnalysedPiece,
    policy: str,
    workload: BlockWorkload | None = None,
    events: int = 0,
) -> KernelSimulation:
    """Returns a run of an analysed block, or of a ``workload`` in its place.

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
