"""The main job on one screen: from a kernel to the bound of one of its blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ptxwcet.bounds.analysis import BlockAnalysis, analyse_block
from ptxwcet.bounds.methods import SAFE, all_methods
from ptxwcet.bounds.names import SCHEDULED
from ptxwcet.bounds.outcome import BlockBound, Outcome
from ptxwcet.claims import Refusal
from ptxwcet.compose.analysed import AnalysedPiece, KernelAnalysis, PreparedKernel, PreparedPiece
from ptxwcet.compose.launch_bound import count_blocks
from ptxwcet.flow.facts.assumptions import fact_assumptions
from ptxwcet.flow.facts.fewer import fewer_facts
from ptxwcet.flow.facts.placing import place_facts
from ptxwcet.flow.facts.stated import NO_FACTS, StatedFacts
from ptxwcet.flow.facts.totals import totals_in_force
from ptxwcet.flow.flow_graph import FlowGraph
from ptxwcet.flow.graph.cfg import ControlFlowGraph, build_cfg
from ptxwcet.flow.graph.dominance import compute_dominators, compute_postdominators
from ptxwcet.flow.graph.loops import LoopForest, find_loops, irreducible_diagnostics
from ptxwcet.flow.launch import Launch, PlacedFacts, check_launch
from ptxwcet.flow.paths.advice import advised
from ptxwcet.flow.paths.call_variables import with_variable_registers
from ptxwcet.flow.paths.diagnostics import is_for_want_of_knowledge
from ptxwcet.flow.paths.extraction import extract_on, flow_graph
from ptxwcet.flow.paths.pieces import merge_equal
from ptxwcet.flow.values.slicing import decisive_variables
from ptxwcet.flow.walk.path import BlockPaths, is_exact
from ptxwcet.ir.kernel import Kernel
from ptxwcet.machine.model import Machine
from ptxwcet.memory.analysis import KernelAccesses, analyse_accesses
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.timing.launch_costs import LaunchCosts
from ptxwcet.timing.programs import build_workload

if TYPE_CHECKING:
    from ptxwcet.simulator.policies import Policy

_MOST_TRIAL_VISITS = 10_000
"""Block visits of all walks on trial, for which some facts are left out: a second or two."""


def prepare_kernel(
    kernel: Kernel,
    launch: Launch,
    machine: Machine,
    facts: StatedFacts = NO_FACTS,
    *,
    unknown_at_worst: bool = False,
) -> PreparedKernel:
    """Finds what every warp of any block of a launch executes.

    Raises PtxwcetError with every reason for a refusal. Cost: independent of trip counts.
    """
    require_known_opcodes(kernel, unknown_at_worst=unknown_at_worst)
    cfg, forest = build_flow(kernel, launch)
    placed = place_facts(kernel, cfg, forest, facts)
    preparation = _Preparation(kernel, cfg, forest, machine, unknown_at_worst)
    try:
        return preparation.prepared(launch, placed)
    except PtxwcetError as error:
        raise advised(error, kernel, cfg, forest, launch, placed) from None


@dataclass(slots=True)
class _Preparation:
    """A kernel in which facts have been placed; ``visits`` counts blocks visited on trial,
    ``analysed`` are the accesses of launches so far.
    """

    kernel: Kernel
    cfg: ControlFlowGraph
    forest: LoopForest
    machine: Machine
    unknown_at_worst: bool
    visits: int = 0
    analysed: list[tuple[Launch, KernelAccesses]] = field(default_factory=list)

    def prepared(
        self, launch: Launch, placed: PlacedFacts, *, is_trial: bool = False
    ) -> PreparedKernel:
        """What the warps execute under some facts; on trial, if that is not too much.

        Raises PtxwcetError.
        """
        followed = with_variable_registers(self.kernel)
        meetings = tuple(compute_postdominators(self.cfg).immediate)
        graph = flow_graph(followed, self.cfg, self.forest, meetings, launch)
        graph.work.most_visits = _MOST_TRIAL_VISITS - self.visits if is_trial else None
        try:
            extracted = list(extract_on(graph, launch, placed))
        finally:
            self.visits += graph.work.visits if is_trial else 0
        counts = count_blocks(extracted, launch)
        accesses = None if self.machine.memory is None else self.accesses(graph, launch)
        pieces = tuple(
            self.piece(paths, launch, placed, counts.get(paths.warps), accesses)
            for paths in merge_equal(extracted)
        )
        return PreparedKernel(
            self.kernel, self.cfg, self.forest, launch, self.machine, pieces, placed
        )

    def accesses(self, graph: FlowGraph, launch: Launch) -> KernelAccesses:
        """Those of a launch. Where the size of the grid is left out on trial, that is to walk
        another way: for accesses it is still known.
        """
        for other, accesses in self.analysed:
            if launch in (other, replace(other, grid=None)):
                return accesses
        self.analysed.append((launch, analyse_accesses(graph, launch)))
        return self.analysed[-1][1]

    def piece(
        self,
        paths: BlockPaths,
        launch: Launch,
        placed: PlacedFacts,
        count: int | None,
        accesses: KernelAccesses | None,
    ) -> PreparedPiece:
        """What the warps of some blocks execute, and how long each instruction of it takes."""
        kernel, machine = self.kernel, self.machine
        followed = with_variable_registers(kernel)
        given = decisive_variables(followed, {*launch.parameter_bytes, *launch.constants})
        at_worst = self.unknown_at_worst
        costs = LaunchCosts(kernel, launch, machine, unknown_at_worst=at_worst, accesses=accesses)
        exist = not launch.ranges and (launch.grid is not None or paths.first == (0, 0, 0))
        totals = totals_in_force(kernel, self.cfg, paths, placed.totals, exist=exist)
        workload = build_workload(
            paths.warps, kernel, self.cfg, costs, machine.scoreboard, totals=totals
        )
        given = tuple(dict.fromkeys((*given, *costs.given)))
        may_abort = bool(self.cfg.aborts)
        rests_on = fact_assumptions(paths, placed, launch, given, totals, may_abort=may_abort)
        assumptions = (*costs.assumptions, *rests_on)
        return PreparedPiece(paths, workload, assumptions, costs.is_nominal, count)


def build_flow(kernel: Kernel, launch: Launch) -> tuple[ControlFlowGraph, LoopForest]:
    """The graph and the loops of a kernel that such a launch is legal for.

    Raises PtxwcetError: PW211, PW212 (launch), PW201, PW231 (loops).
    """
    check_launch(launch, kernel)
    cfg = build_cfg(kernel)
    forest = find_loops(cfg, compute_dominators(cfg))
    if not forest.is_reducible:
        raise PtxwcetError(irreducible_diagnostics(kernel, cfg, forest))
    return cfg, forest


def analyse_kernel(
    kernel: Kernel,
    launch: Launch,
    machine: Machine,
    facts: StatedFacts = NO_FACTS,
    *,
    unknown_at_worst: bool = False,
    policy: Policy | None = None,
    method: str = SAFE.name,
) -> KernelAnalysis:
    """Bounds the execution time of any one block of a launch.

    With a ``policy`` the method ``scheduled`` answers too; ``method`` names the one that is
    reported. Raises PtxwcetError with every reason for a refusal. Cost: independent of trip counts,
    but for a known schedule that never repeats.
    """
    require_known_opcodes(kernel, unknown_at_worst=unknown_at_worst)
    cfg, forest = build_flow(kernel, launch)
    placed = place_facts(kernel, cfg, forest, facts)
    preparation = _Preparation(kernel, cfg, forest, machine, unknown_at_worst)
    best: KernelAnalysis | None = None
    problem: PtxwcetError | None = None
    try:
        prepared = preparation.prepared(launch, placed)
        best = analyse_prepared(prepared, policy=policy, method=method)
    except PtxwcetError as error:
        if not is_for_want_of_knowledge(error.diagnostics):
            raise
        problem = error
    if method == SAFE.name and not (best is not None and _is_known(best)):
        best = _least(preparation, (launch, placed), best, policy)
    if best is None:
        assert problem is not None
        raise advised(problem, kernel, cfg, forest, launch, placed)
    return best


def _is_known(analysis: KernelAnalysis) -> bool:
    """Whether each warp has a single known path: no fewer facts can lead to a lower bound."""
    warps = (warp for piece in analysis.pieces for warp in piece.paths.warps)
    return len(analysis.pieces) == 1 and all(is_exact(warp.nodes) for warp in warps)


def _least(
    preparation: _Preparation,
    stated: tuple[Launch, PlacedFacts],
    best: KernelAnalysis | None,
    policy: Policy | None,
) -> KernelAnalysis | None:
    """The analysis with the least bound: with all facts, or with some of them left out.

    More facts rarely raise a bound then: not all ways to leave some out are tried.
    """
    for launch, placed in fewer_facts(*stated):
        if preparation.visits >= _MOST_TRIAL_VISITS:
            break
        try:
            analysis = analyse_prepared(
                preparation.prepared(launch, placed, is_trial=True), policy=policy
            )
        except PtxwcetError:
            continue
        if best is None or analysis.worst.bound.cycles < best.worst.bound.cycles:
            whole = () if best is None else best.of_launch
            best = replace(analysis, launch=stated[0], facts=stated[1], with_all_facts=whole)
    return best


def on_machine(
    bound: KernelAnalysis,
    machine: Machine,
    accesses: KernelAccesses | None,
    *,
    unknown_at_worst: bool = False,
) -> PreparedKernel:
    """What the paths of an analysed kernel take on another machine: nothing is walked again.

    ``accesses`` are those of the kernel, which machines need that charge them. Raises
    PtxwcetError (PW401 to PW403). Cost: linear in the paths.
    """
    preparation = _Preparation(bound.kernel, bound.cfg, bound.forest, machine, unknown_at_worst)
    charged = accesses if machine.memory is not None else None
    pieces = tuple(
        preparation.piece(piece.paths, bound.launch, bound.facts, piece.count, charged)
        for piece in bound.pieces
    )
    return PreparedKernel(
        bound.kernel, bound.cfg, bound.forest, bound.launch, machine, pieces, bound.facts
    )


def analyse_prepared(
    prepared: PreparedKernel, *, policy: Policy | None = None, method: str = SAFE.name
) -> KernelAnalysis:
    """Bounds what the warps of a prepared kernel execute; options as in :func:`analyse_kernel`."""
    kernel, machine = prepared.kernel, prepared.machine
    pieces = []
    for piece in prepared.pieces:
        nominal = piece.is_nominal
        analysis = analyse_block(piece.workload, machine, piece.assumptions, is_nominal=nominal)
        outcomes = {known.name: known.evaluate(analysis) for known in all_methods()}
        if policy is not None:
            outcomes[SCHEDULED] = _evaluate_schedule(analysis, policy, is_nominal=nominal)
        _require_answer(kernel, outcomes, method)
        pieces.append(AnalysedPiece(piece.paths, analysis, outcomes, method, piece.count))
    cfg, forest = prepared.cfg, prepared.forest
    launch, facts = prepared.launch, prepared.facts
    return KernelAnalysis(kernel, cfg, forest, launch, machine, tuple(pieces), facts)


def _evaluate_schedule(analysis: BlockAnalysis, policy: Policy, *, is_nominal: bool) -> Outcome:
    """The run under a known policy, as a method's answer."""
    # here: its compiled code is loaded only when it is asked for
    from ptxwcet.simulator.scheduled import claim_schedule

    found = claim_schedule(
        analysis.workload, analysis.machine, policy, analysis.assumptions, is_nominal=is_nominal
    )
    if isinstance(found, Refusal):
        return found
    return BlockBound(SCHEDULED, found.claim, (), found.note)


def _require_answer(kernel: Kernel, outcomes: Mapping[str, Outcome], method: str) -> None:
    outcome = outcomes[method]
    if isinstance(outcome, Refusal):
        raise PtxwcetError(
            Diagnostic(
                "PW536",
                f"method {method} gives no bound for kernel {kernel.readable}: {outcome.reason}",
                kernel.span,
                help="the method safe answers for every kernel that can be analysed",
            )
        )


def require_known_opcodes(kernel: Kernel, *, unknown_at_worst: bool) -> None:
    """Raises PtxwcetError (PW401) with every unknown opcode, unless they are charged at worst."""
    unknown = [one for one in kernel.instructions if not one.is_known]
    if unknown and not unknown_at_worst:
        raise PtxwcetError(
            Diagnostic(
                "PW401",
                f"opcode {instruction.mnemonic} is not known",
                instruction.span,
                help="add a row to the opcode table, or charge the slowest row of the machine: "
                "--on-unknown worst",
            )
            for instruction in unknown
        )
