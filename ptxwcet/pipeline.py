"""The main job on one screen: from a kernel to the bound of one of its blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import TYPE_CHECKING

from ptxwcet.bounds.analysed import AnalysedPiece, KernelAnalysis, PreparedKernel, PreparedPiece
from ptxwcet.bounds.analysis import BlockAnalysis, analyse_block
from ptxwcet.bounds.launch_bound import count_blocks
from ptxwcet.bounds.methods import SAFE, SCHEDULED, all_methods
from ptxwcet.bounds.outcome import BlockBound, Outcome
from ptxwcet.claims import Refusal
from ptxwcet.flow.facts.assumptions import fact_assumptions, rests_on_user
from ptxwcet.flow.facts.placing import place_facts
from ptxwcet.flow.facts.stated import NO_FACTS, StatedFacts
from ptxwcet.flow.facts.totals import totals_in_force
from ptxwcet.flow.flow_graph import FlowGraph, Kept, Work
from ptxwcet.flow.graph.control_flow import ControlFlow, OnFlow, irreducible_diagnostics
from ptxwcet.flow.launch import Launch, PlacedFacts, check_launch
from ptxwcet.flow.paths.call_variables import followed, with_variable_registers
from ptxwcet.flow.paths.diagnostics import ContradictedFacts, OpenDecision, is_for_want_of_knowledge
from ptxwcet.flow.paths.extraction import extract_on, flow_graph, merge_equal
from ptxwcet.flow.values.slicing import decisive_variables
from ptxwcet.flow.walk.path import BlockPaths, is_exact
from ptxwcet.ir.kernel import Kernel
from ptxwcet.machine.architectures import require_architecture
from ptxwcet.machine.model import Machine
from ptxwcet.memory.analysis import KernelAccesses, analyse_accesses
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.timing.launch_costs import LaunchCosts
from ptxwcet.timing.programs import build_workload
from ptxwcet.warp.segments import NotStaticError

if TYPE_CHECKING:
    from ptxwcet.simulator.policies import Policy

_MOST_TRIAL_VISITS = 10_000
"""Block visits of all walks on trial, for which some facts are left out: a second or two. To begin
one counts as a visit of each block. None may have more than half of what is left.
"""
_APART = "PW502"
"""Warps come to barriers in different ways: without ranges of arrays they may be walked alike."""


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
    require_architecture(kernel, machine)
    require_known_opcodes(kernel, unknown_at_worst=unknown_at_worst)
    flow = build_flow(kernel, launch)
    placed = place_facts(flow, facts)
    preparation = _Preparation(flow, launch, machine, unknown_at_worst)
    try:
        return preparation.prepared(launch, placed)
    except PtxwcetError as error:
        raise _advised(error, preparation, launch, placed) from None


def refusals_behind(
    kernel: Kernel,
    launch: Launch,
    machine: Machine,
    placed: PlacedFacts,
    *,
    unknown_at_worst: bool = False,
) -> tuple[Diagnostic, ...]:
    """Why there is no bound though these facts, at places of the kernel's graph, give the paths.

    Cost: that of a bound.
    """
    flow = build_flow(kernel, launch)
    preparation = _Preparation(flow, launch, machine, unknown_at_worst)
    try:
        require_known_opcodes(kernel, unknown_at_worst=unknown_at_worst)
        analyse_prepared(preparation.prepared(launch, placed))
    except PtxwcetError as error:
        return error.diagnostics
    return ()


@dataclass(slots=True)
class _Preparation(OnFlow):
    """A kernel in which facts have been placed, and its launch as it is stated.

    ``trials`` counts the effort of walks on trial, ``visits`` the blocks that they visited;
    ``excluded`` is what all facts together exclude of the launch, ``of_graph`` what all walks have
    found out of the kernel alone.
    """

    flow: ControlFlow
    stated: Launch
    machine: Machine
    unknown_at_worst: bool
    visits: int = 0
    excluded: tuple[str, ...] = ()
    trials: Work = field(default_factory=lambda: Work.part(4))
    of_graph: Kept = field(default_factory=Kept)
    known_accesses: KernelAccesses | None = None

    def prepared(
        self, launch: Launch, placed: PlacedFacts, *, is_trial: bool = False
    ) -> PreparedKernel:
        """What the warps execute under some facts; on trial, if that is not too much.

        Raises PtxwcetError.
        """
        graph, extracted = self.walked(launch, placed, is_trial=is_trial)
        if not is_trial:
            self.excluded = graph.work.excluded
            if launch.ranges and not self.excluded and any(map(rests_on_user, extracted)):
                self.excluded = tuple(self.excluded_ends(launch, placed))
        counts = count_blocks(extracted, launch)
        accesses = None if self.machine.memory is None else self.accesses(graph)
        pieces = tuple(
            self.piece(paths, launch, placed, counts.get(paths.warps), accesses)
            for paths in merge_equal(list(extracted))
        )
        return PreparedKernel(self.flow, launch, self.machine, pieces, placed)

    def walked(
        self, launch: Launch, placed: PlacedFacts, *, is_trial: bool
    ) -> tuple[FlowGraph, tuple[BlockPaths, ...]]:
        """The paths under some facts, and the graph that they were found on."""
        graph = flow_graph(followed(self.flow), launch, self.of_graph)
        if is_trial:
            graph.work.limit(self.trials, (_MOST_TRIAL_VISITS - self.visits) // 2)
        try:
            return graph, extract_on(graph, launch, placed)
        finally:
            self.visits += len(self.cfg.blocks) + graph.work.visits if is_trial else 0

    def excluded_ends(self, launch: Launch, placed: PlacedFacts) -> Iterator[str]:
        """The ends of ranges that what is said of loops and branches excludes, in words."""
        for name, ends in launch.ranges.items():
            others = {other: row for other, row in launch.ranges.items() if other != name}
            for end in ends:
                values = {**launch.parameters, name: end}
                single = replace(launch, parameters=values, ranges=others)
                try:
                    self.walked(single, placed, is_trial=True)
                except ContradictedFacts as contradicted:
                    why = contradicted.diagnostics[0].message
                    yield f"{launch.name_of(name)}={end} and perhaps others ({why})"
                except PtxwcetError:
                    continue

    def accesses(self, graph: FlowGraph) -> KernelAccesses:
        """Those of the launch as it is stated: what is left out on trial is so to walk another
        way, and still known of accesses.
        """
        if self.known_accesses is None:
            self.known_accesses = analyse_accesses(graph, self.stated)
        return self.known_accesses

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
        given = decisive_variables(
            with_variable_registers(kernel), {*launch.parameter_bytes, *launch.constants}
        )
        at_worst = self.unknown_at_worst
        stated = self.stated
        costs = LaunchCosts(kernel, stated, machine, unknown_at_worst=at_worst, accesses=accesses)
        is_single = not launch.ranges and launch.parameters == stated.parameters
        exist = is_single and (launch.grid is not None or paths.first == (0, 0, 0))
        totals = totals_in_force(self.flow, paths, placed.totals, exist=exist)
        workload = build_workload(
            paths.warps, kernel, self.cfg, costs, machine.scoreboard, totals=totals
        )
        given = tuple(dict.fromkeys((*given, *costs.given)))
        ranges = {**launch.ranges, **{name: stated.ranges[name] for name in costs.ranged}}
        known = replace(launch, ranges=ranges)
        excluded = tuple(dict.fromkeys((*self.excluded, *paths.excluded)))
        paths = replace(paths, excluded=excluded)
        may_abort = bool(self.cfg.aborts)
        rests_on = fact_assumptions(
            paths, placed, known, given, totals, kernel=kernel, may_abort=may_abort
        )
        assumptions = (*costs.assumptions, *rests_on)
        return PreparedPiece(paths, workload, assumptions, costs.is_nominal, count)


def build_flow(kernel: Kernel, launch: Launch) -> ControlFlow:
    """The control flow of a kernel that such a launch is legal for.

    Raises PtxwcetError: PW211, PW212 (launch), PW201, PW231 (loops).
    """
    check_launch(launch, kernel)
    flow = ControlFlow.of(kernel)
    if not flow.forest.is_reducible:
        raise PtxwcetError(irreducible_diagnostics(flow))
    return flow


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
    require_architecture(kernel, machine)
    require_known_opcodes(kernel, unknown_at_worst=unknown_at_worst)
    flow = build_flow(kernel, launch)
    placed = place_facts(flow, facts)
    preparation = _Preparation(flow, launch, machine, unknown_at_worst)
    best: KernelAnalysis | None = None
    problem: PtxwcetError | None = None
    try:
        prepared = preparation.prepared(launch, placed)
        best = analyse_prepared(prepared, policy=policy, method=method)
    except PtxwcetError as error:
        are_apart = all(one.code == _APART for one in error.diagnostics)
        if not ((are_apart and launch.arrays) or is_for_want_of_knowledge(error.diagnostics)):
            raise
        problem = error
        if are_apart and method == SAFE.name:
            with suppress(PtxwcetError):
                prepared = preparation.prepared(replace(launch, arrays={}), placed)
                analysis = analyse_prepared(prepared, policy=policy)
                best = replace(analysis, launch=launch, facts=placed, leaves_out=True)
    if method == SAFE.name and not (best is not None and _is_known(best)):
        best = _least(preparation, placed, best, policy)
    if best is None:
        assert problem is not None
        raise _advised(problem, preparation, launch, placed)
    return best


def _advised(
    error: PtxwcetError, preparation: _Preparation, launch: Launch, facts: PlacedFacts
) -> PtxwcetError:
    # here: only of a refusal it is asked what would settle it
    from ptxwcet.flow.paths.advice import advised

    return advised(error, preparation.flow, launch, facts, preparation.of_graph)


def _is_known(analysis: KernelAnalysis) -> bool:
    """Whether each warp has a single known path: no fewer facts can lead to a lower bound."""
    warps = (warp for piece in analysis.pieces for warp in piece.paths.warps)
    return len(analysis.pieces) == 1 and all(is_exact(warp.nodes) for warp in warps)


def _least(
    preparation: _Preparation,
    facts: PlacedFacts,
    best: KernelAnalysis | None,
    policy: Policy | None,
) -> KernelAnalysis | None:
    """The analysis with the least bound: with all facts, or with some of them left out.

    More facts rarely raise a bound then: not all ways to leave some out are tried. Where a branch
    is open without some facts it is so without more.
    """
    # here: what one known path bounds is not bounded again
    from ptxwcet.flow.facts.fewer import fewer_facts

    stated, kernel = preparation.stated, preparation.kernel
    named = {*stated.parameters, *stated.ranges, *stated.parameter_bytes, *stated.constants}
    decisive = decisive_variables(with_variable_registers(kernel), named)
    found = [] if best is None else [best]
    needed: list[frozenset[int]] = []
    for fewer in fewer_facts(stated, facts, decisive):
        if preparation.visits >= _MOST_TRIAL_VISITS:
            break
        if any(one <= fewer.without for one in needed):
            continue
        try:
            prepared = preparation.prepared(*fewer.stated, is_trial=True)
            analysis = analyse_prepared(prepared, policy=policy, known=found)
        except OpenDecision:
            needed.append(fewer.without)
        except PtxwcetError:
            continue
        else:
            found.append(replace(analysis, launch=stated, facts=facts, leaves_out=True))
    if not found:
        return None
    best = min(found, key=lambda one: one.worst.bound.cycles)
    return replace(best, others=_other_pieces(best, found)) if stated.grid is not None else best


def _other_pieces(
    best: KernelAnalysis, found: Sequence[KernelAnalysis]
) -> tuple[tuple[AnalysedPiece, ...], ...]:
    """The pieces of other analyses that may be better for a launch: what differs is kept once."""
    kept: dict[tuple[object, ...], tuple[AnalysedPiece, ...]] = {}
    for one in (best, *found):
        key = tuple((piece.paths.warps, piece.count) for piece in one.pieces)
        kept.setdefault(key, one.pieces)
    return tuple(kept.values())[1:]


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
    launch = bound.launch
    preparation = _Preparation(bound.flow, launch, machine, unknown_at_worst)
    charged = accesses if machine.memory is not None else None
    pieces = tuple(
        preparation.piece(piece.paths, launch, bound.facts, piece.count, charged)
        for piece in bound.pieces
    )
    return PreparedKernel(bound.flow, launch, machine, pieces, bound.facts)


def analyse_prepared(
    prepared: PreparedKernel,
    *,
    policy: Policy | None = None,
    method: str = SAFE.name,
    known: Sequence[KernelAnalysis] = (),
) -> KernelAnalysis:
    """Bounds what the warps of a prepared kernel execute; options as in :func:`analyse_kernel`.

    ``known`` are analyses on the same machine, whose blocks may execute the same.
    """
    kernel, machine = prepared.kernel, prepared.machine
    analysed = [piece.analysis for one in known for piece in one.pieces]
    pieces = []
    for piece in prepared.pieces:
        nominal = piece.is_nominal
        alike = next((one for one in analysed if one.workload == piece.workload), None)
        try:
            analysis = (
                analyse_block(piece.workload, machine, piece.assumptions, is_nominal=nominal)
                if alike is None
                else replace(alike, assumptions=piece.assumptions, is_nominal=nominal)
            )
        except NotStaticError as error:
            span = kernel.instructions[error.origin].span
            raise PtxwcetError([replace(one, span=span) for one in error.diagnostics]) from None
        outcomes = {known.name: known.evaluate(analysis) for known in all_methods()}
        if policy is not None:
            outcomes[SCHEDULED] = _evaluate_schedule(analysis, policy, is_nominal=nominal)
        _require_answer(kernel, outcomes, method)
        pieces.append(AnalysedPiece(piece.paths, analysis, outcomes, method, piece.count))
    launch, facts = prepared.launch, prepared.facts
    return KernelAnalysis(prepared.flow, launch, machine, tuple(pieces), facts)


def _evaluate_schedule(analysis: BlockAnalysis, policy: Policy, *, is_nominal: bool) -> Outcome:
    """The run under a known policy, as a method's answer."""
    # here: its compiled code is loaded only when it is asked for
    from ptxwcet.simulator.engine import claim_schedule

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
