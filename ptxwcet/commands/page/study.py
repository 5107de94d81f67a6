"""Everything that the page of a kernel shows: one opening, one analysis, and what follows from it.

>>> from ptxwcet.commands.page.study import study_kernels
>>> from ptxwcet.opened.request import Request
>>> request = Request("samples/vector_add.ptx", block="256", grid="4", parameters=("n=1000",))
>>> (study,) = study_kernels(request, draws_runs=False).answered
>>> [(point.at, point.cycles["safe"]) for point in study.over_warps.points]
[(1, 472), (2, 499), (4, 553), (8, 661)]
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.bounds.explanation import BoundExplanation, explain_safe
from ptxwcet.commands.cfg.study import DescribedKernel, describe_kernel
from ptxwcet.commands.memory.study import StudiedAccesses
from ptxwcet.commands.page.curves import (
    Curve,
    curve_over_latency,
    curve_over_warps,
    simulate_analysed,
)
from ptxwcet.commands.simulate.study import KernelSimulation
from ptxwcet.flow.graph.cfg import BlockId, ControlFlowGraph, Edge
from ptxwcet.flow.graph.control_flow import ControlFlow
from ptxwcet.flow.graph.divergence import DivergentSet, StandingEdges, select_divergent_edges
from ptxwcet.flow.paths.dot import NO_NOTES
from ptxwcet.flow.walk.path import visits
from ptxwcet.ir.kernel import Kernel
from ptxwcet.machine.loader import load_machine
from ptxwcet.machine.model import Machine
from ptxwcet.opened.opening import Answer, Opened, find_named_policy, open_request, refuse
from ptxwcet.opened.request import Request
from ptxwcet.opened.whole_launch import Wishes, with_launch_bound
from ptxwcet.pipeline import analyse_kernel
from ptxwcet.support.diagnostics import Diagnostic
from ptxwcet.support.records import dataclass
from ptxwcet.timing.launch_costs import kernel_accesses

_GANTT_EVENTS = 160
_GANTT_SCHEDULER = "gto"

Reasons = tuple[Diagnostic, ...]
"""Why there is no such thing."""

_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class KernelStudy:
    """What is known of a kernel; each part is there, or the reasons why it is not.

    ``kernel`` has functions in the place of their calls. ``explained`` are the cycles of the safe
    bound, ``worst_edges`` the edges of the graph that warps of the worst block take, ``beginning``
    a run's first issues, ``over_warps`` and ``over_latency`` how the bound grows.
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
    """Why a kernel is not bounded; empty if it is."""
    return () if isinstance(study.analysis, KernelAnalysis) else study.analysis


def study_kernels(request: Request, *, draws_runs: bool = True) -> Answer[KernelStudy]:
    """Studies each requested kernel, also those that are not bounded.

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
            flow = attempt(lambda: _plain_graph(whole))
        graph = flow
        divergent = attempt(lambda: _divergent(graph)) if isinstance(graph, DescribedKernel) else ()
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


def worst_edges(row: KernelAnalysis) -> frozenset[Edge]:
    """The edges that warps of the worst block take, and those that they may take."""
    taken: set[Edge] = set()
    cfg = row.cfg
    for warp in row.worst.paths.warps:
        for number, jumps in visits(warp.nodes):
            block = BlockId(number)
            taken |= {(block, one) for one in _followers(cfg, block, jumps)}
    return frozenset(taken)


def _followers(cfg: ControlFlowGraph, block: BlockId, jumps: bool | None) -> set[BlockId]:
    ways = set(cfg.successors[block])
    if len(ways) < 2 or jumps is None:
        return ways
    return ways & {cfg.taken[block] if jumps else cfg.fallthrough[block]}


def _plain_graph(kernel: Kernel) -> DescribedKernel:
    """The graph of a kernel without a launch. Raises PtxwcetError (PW231)."""
    return DescribedKernel(ControlFlow.of(kernel), NO_NOTES, {})


def _divergent(flow: DescribedKernel) -> StandingEdges:
    """The divergent edges of a graph. Raises PtxwcetError (PW234) if they are too many."""
    return select_divergent_edges(flow.flow, DivergentSet.COMPLETE)


def _attempt(kernel: Kernel, find: Callable[[], _Found]) -> _Found | Reasons:
    """What ``find`` returns, or the reasons why it refuses, which cost no other part."""
    try:
        return find()
    except Exception as error:
        return refuse(kernel, error).diagnostics
