"""From a kernel to its bound as a formula of one of its parameters.

The paths for the whole range come in pieces on which counts are affine functions of a number s; the
bound of each kind of piece is solved in s, and the largest at each value of the parameter counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.bounds.analysis import BlockAnalysis, analyse_block
from ptxwcet.bounds.formula import (
    Formula,
    formula_of,
    largest,
    side_by_side,
    upper_envelope,
    value_at,
)
from ptxwcet.bounds.grid import BlockKind
from ptxwcet.bounds.grid_demand import block_kind
from ptxwcet.bounds.launch_bound import LaunchRules, kinds_of_blocks
from ptxwcet.bounds.memory_servers import memory_alone, memory_demand
from ptxwcet.bounds.parametric import Progression, Range, Unsettled, carried, solve
from ptxwcet.bounds.safe import bound_before_memory
from ptxwcet.claims import Assumption, AssumptionState, Guarantee, Refusal, TimingClaim
from ptxwcet.flow.facts.assumptions import fact_assumptions
from ptxwcet.flow.facts.placing import place_facts
from ptxwcet.flow.facts.stated import StatedFacts
from ptxwcet.flow.graph.dominance import compute_postdominators
from ptxwcet.flow.launch import Launch
from ptxwcet.flow.paths.call_variables import with_variable_registers
from ptxwcet.flow.paths.extraction import SymbolicPaths, extract_paths, extract_symbolic
from ptxwcet.flow.values.slicing import decisive_variables
from ptxwcet.flow.walk.path import BlockPaths, is_exact
from ptxwcet.ir.kernel import Kernel
from ptxwcet.machine.model import Machine
from ptxwcet.pipeline import build_flow, require_known_opcodes
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.timing.launch_costs import LaunchCosts
from ptxwcet.timing.programs import build_workload

# Single values whose bound is compared with a formula on inexact paths, the largest: each costs a
# path extraction. The formula is safe without.
_MOST_COMPARED = 16
# Figures of a block that the bound of a launch takes.
_FIGURES = ("slack_cycles", "work_cycles", "busiest_cycles", "sectors", "outside_sectors")


@dataclass(frozen=True, slots=True)
class OpenParameter:
    """The parameter that stays open: PTX name, what the user calls it, its smallest and largest."""

    name: str
    shown: str
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class SymbolicBound:
    """A kernel's bound as a function of a parameter.

    ``launch`` says everything else. ``claim`` is for each value in the range; its cycles are the
    largest of them, reached at ``largest_at``. ``launched`` is the bound of the whole launch, or
    why there is no formula for it; None without a grid.
    """

    kernel: Kernel
    launch: Launch
    parameter: OpenParameter
    formula: Formula
    claim: TimingClaim
    largest_at: int
    launched: LaunchFormula | Refusal | None = None


@dataclass(frozen=True, slots=True)
class LaunchFormula:
    """The bound of a launch as a function of a parameter, or of the number of its blocks.

    ``claim`` is for each value in the range, its cycles are the largest, at ``largest_at``.
    """

    formula: Formula
    claim: TimingClaim
    largest_at: int

    @staticmethod
    def of(
        values: Sequence[Progression], divisor: int, claim: Callable[[int], TimingClaim]
    ) -> LaunchFormula:
        """The formula of the values, in parts of a cycle. Raises Unsettled."""
        parts, place = largest(values)
        return LaunchFormula(formula_of(values, divisor), claim(-(-parts // divisor)), place)


def analyse_symbolic(
    kernel: Kernel,
    launch: Launch,
    machine: Machine,
    facts: StatedFacts,
    parameter: OpenParameter,
    *,
    unknown_at_worst: bool = False,
    rules: LaunchRules | Refusal | None = None,
) -> SymbolicBound:
    """SAFE of any one block of a launch as a formula of a parameter, of which it has a range.

    With ``rules`` and a grid also the bound of the launch. Raises PtxwcetError with every reason
    for a refusal, PW543 if there is no formula. Cost: independent of the width of the range.
    """
    job = _Job(kernel, launch, machine, facts, parameter, unknown_at_worst=unknown_at_worst)
    bound = job.bound()
    if launch.grid is None or rules is None:
        return bound
    if isinstance(rules, Refusal):
        return replace(bound, launched=rules)
    return replace(bound, launched=job.bound_of_launch(math.prod(launch.grid), rules))


def analyse_symbolic_blocks(
    bound: KernelAnalysis, blocks: OpenParameter, rules: LaunchRules | Refusal
) -> SymbolicBound:
    """The bound of launches of any grid as a formula of the number of its blocks.

    ``bound`` is the analysis for any grid: all blocks have the largest slack and the largest work
    of any. Raises PtxwcetError (PW543) without a formula, PW404. Cost: independent of the range.
    """
    if isinstance(rules, Refusal):
        raise _no_formula(bound.kernel, blocks, rules.reason)
    (kind,) = kinds_of_blocks([(piece.analysis, None) for piece in bound.pieces], (1, 1, 1))
    numbers = Range(blocks.low, 1, blocks.high - blocks.low + 1)
    divisor = rules.dispatch.memory.divisor
    values: list[Progression] = []
    block = bound.worst.bound.claim
    assumptions = [one for piece in bound.pieces for one in piece.analysis.assumptions]
    try:
        for some in numbers.residues(rules.dispatch.sms):
            solved = solve(partial(_bound_of_many, rules, kind, some), some.count)
            values += carried(solved, some)
        launched = LaunchFormula.of(values, divisor, lambda most: rules.claim(most, assumptions))
        of_block = formula_of((Progression(numbers, block.cycles, 0),))
    except Unsettled as unsettled:
        raise _no_formula(bound.kernel, blocks, unsettled.reason) from None
    return SymbolicBound(bound.kernel, bound.launch, blocks, of_block, block, blocks.low, launched)


def _bound_of_many(rules: LaunchRules, kind: BlockKind, counts: Range, u: int) -> int:
    """The bound, in parts of a cycle, of as many blocks as the ``u``-th number of ``counts``."""
    return rules.of_blocks_alike(replace(kind, count=counts.first + counts.step * u))


def _no_formula(kernel: Kernel, parameter: OpenParameter, reason: str) -> PtxwcetError:
    return PtxwcetError(
        Diagnostic(
            "PW543",
            f"no formula in {parameter.shown} for kernel {kernel.readable}: {reason}",
            kernel.span,
            notes=(f"asked for {parameter.low} <= {parameter.shown} <= {parameter.high}",),
            help="ask for a smaller range, or bound single values: "
            f"--param {parameter.shown}=VALUE",
        )
    )


class _Job:
    """One kernel's formula: its paths for the whole range, and the bound on each kind of them."""

    def __init__(
        self,
        kernel: Kernel,
        launch: Launch,
        machine: Machine,
        facts: StatedFacts,
        parameter: OpenParameter,
        *,
        unknown_at_worst: bool,
    ) -> None:
        require_known_opcodes(kernel, unknown_at_worst=unknown_at_worst)
        self._kernel, self._machine, self._memory = kernel, machine, memory_alone(machine)
        self._launch = _without(launch, parameter)
        self._parameter = parameter
        self._followed = with_variable_registers(kernel)
        variables = {*launch.parameter_bytes, *launch.constants}
        self._given = decisive_variables(self._followed, variables)
        self._cfg, self._forest = build_flow(kernel, launch)
        self._meetings = tuple(compute_postdominators(self._cfg).immediate)
        self._placed = place_facts(kernel, self._cfg, self._forest, facts)
        self._costs = LaunchCosts(kernel, launch, machine, unknown_at_worst=unknown_at_worst)
        self._claims: list[TimingClaim] = []
        self._block_assumptions: dict[Assumption, None] = {}
        self._with_range = launch
        self._shares_units = False

    def bound(self) -> SymbolicBound:
        """The bound of a block as a formula. Raises PtxwcetError (PW543) without one."""
        if self._placed.totals:
            names = ", ".join(dict.fromkeys(total.source for total in self._placed.totals))
            raise _no_formula(
                self._kernel, self._parameter, f"{names} limits what a warp does in a whole run"
            )
        try:
            progressions = self._solve()
            formula = formula_of(progressions, self._memory.divisor)
        except Unsettled as unsettled:
            raise _no_formula(self._kernel, self._parameter, unsettled.reason) from None
        parts, place = largest(progressions)
        claim = replace(self._claim(), cycles=-(-parts // self._memory.divisor))
        return SymbolicBound(self._kernel, self._launch, self._parameter, formula, claim, place)

    def bound_of_launch(self, blocks: int, rules: LaunchRules) -> LaunchFormula | Refusal:
        """The bound of a launch of so many blocks, after that of a block; or why there is none.

        At each value of the parameter all blocks have the largest of each figure that any has that
        has the value.
        """
        low, high = self._parameter.low, self._parameter.high
        values: list[Progression] = []
        try:
            functions = [self._largest(partial(self._figure, figure)) for figure in _FIGURES]
            if self._shares_units:
                functions[2] = functions[1]  # no sub-core counts by itself
            for numbers, lines in side_by_side(functions, low, high):

                def parts(s: int, lines: Sequence[tuple[int, int]] = lines) -> int:
                    slack, work, busiest, *served = (base + slope * s for base, slope in lines)
                    kind = BlockKind(blocks, slack, work, busiest, True, *served)
                    return rules.of_blocks_alike(kind)

                values += carried(solve(parts, numbers.count), numbers)
            divisor = rules.dispatch.memory.divisor
            return LaunchFormula.of(values, divisor, lambda most: self._launch_claim(rules, most))
        except Unsettled as unsettled:
            return Refusal(f"no formula in {self._parameter.shown}: {unsettled.reason}")
        except PtxwcetError as error:
            return Refusal(error.diagnostics[0].message)

    def _launch_claim(self, rules: LaunchRules, cycles: int) -> TimingClaim:
        rests_on = [*self._block_assumptions, self._in_range()]
        return rules.claim(cycles, rests_on)

    def _largest(self, value: Callable[[BlockPaths, int], int]) -> tuple[Progression, ...]:
        """The largest value of any piece, over the whole range. Raises Unsettled."""
        out: list[Progression] = []
        for pieces in self._kinds:
            longest = max(pieces, key=lambda piece: piece.count)
            solved = solve(partial(value, longest.paths), longest.count)
            for piece in pieces:
                out += carried(solved, Range(piece.first, piece.step, piece.count))
        return upper_envelope(out, self._parameter.low, self._parameter.high)

    def _figure(self, name: str, paths: BlockPaths, s: int) -> int:
        """A figure of a block that executes the paths, for a value of their symbol; 0 for None."""
        kind = block_kind(self._analysis(paths, s), 1)
        self._shares_units |= kind.busiest_cycles is None
        figure: int | None = getattr(kind, name)
        return figure or 0

    def _solve(self) -> tuple[Progression, ...]:
        """The bound over the whole range in parts of a cycle, each number once. Raises Unsettled.

        Pieces whose paths are the same functions of s have the same bound: it is solved once.
        """
        parameter = self._parameter
        out: list[Progression] = []
        open_places: set[int] = set()
        for pieces in self._kinds:
            longest = max(pieces, key=lambda piece: piece.count)
            solved = solve(partial(self._bound, longest.paths), longest.count)
            for piece in pieces:
                out += carried(solved, Range(piece.first, piece.step, piece.count))
            if not all(is_exact(warp.nodes) for warp in longest.paths.warps):
                places = (longest.count // 2, longest.count - 1)
                open_places |= {longest.first + longest.step * s for s in places}
        envelope = upper_envelope(out, parameter.low, parameter.high)
        self._compare(envelope, sorted(open_places)[-_MOST_COMPARED:])
        return envelope

    @cached_property
    def _kinds(self) -> tuple[tuple[SymbolicPaths, ...], ...]:
        """Pieces of the range whose paths are the same functions of s. Raises Unsettled."""
        paths = extract_symbolic(
            self._followed,
            self._cfg,
            self._forest,
            self._meetings,
            self._with_range,
            self._placed,
            self._parameter.name,
        )
        if paths is None:
            raise Unsettled("its paths are of too many kinds in this range")
        return tuple(map(tuple, _alike(paths)))

    def _compare(self, envelope: Sequence[Progression], places: Sequence[int]) -> None:
        """Raises Unsettled if the bound for a single value is smaller at some place.

        Paths of which every count is exact are those of the single values. Others may be coarser
        for a range: inner counts that depend on an outer counter and on the parameter are taken
        between their extremes. The difference grows with the parameter.
        """
        for place in places:
            values = {**self._launch.parameters, self._parameter.name: place}
            launch = replace(self._launch, parameters=values)
            paths = extract_paths(
                self._followed, self._cfg, self._forest, self._meetings, launch, self._placed
            )
            each, divisor = max(self._bound(piece, 0) for piece in paths), self._memory.divisor
            if -(-each // divisor) < -(-value_at(envelope, place) // divisor):
                raise Unsettled("its paths are known less exactly for a range than for one value")

    def _bound(self, paths: BlockPaths, s: int) -> int:
        """SAFE of a block that executes the paths, for a value of their symbol.

        In parts of a cycle (:class:`ptxwcet.bounds.grid.MemoryServer`): all of them are affine.
        """
        analysis = self._analysis(paths, s)
        found = bound_before_memory(analysis)
        self._claims.append(found.claim)
        return self._memory.parts(found.cycles, memory_demand(analysis).sectors)

    def _analysis(self, paths: BlockPaths, s: int) -> BlockAnalysis:
        """The block that executes the paths, for a value of their symbol."""
        workload = build_workload(
            paths.warps,
            self._kernel,
            self._cfg,
            self._costs,
            self._machine.scoreboard,
            parameter=s,
        )
        costs = self._costs.assumptions
        may_abort = bool(self._cfg.aborts)
        facts = fact_assumptions(
            *(paths, self._placed, self._launch, self._given),
            kernel=self._kernel,
            may_abort=may_abort,
        )
        analysis = analyse_block(workload, self._machine, (*costs, *facts))
        self._block_assumptions.update(dict.fromkeys(analysis.assumptions))
        return analysis

    def _claim(self) -> TimingClaim:
        """What holds of every number of the range, with cycles left to fill in."""
        first = self._claims[0]
        assumptions = dict.fromkeys(one for claim in self._claims for one in claim.assumptions)
        guarantee = Guarantee.weakest(claim.guarantee for claim in self._claims)
        return replace(first, guarantee=guarantee, assumptions=(*assumptions, self._in_range()))

    def _in_range(self) -> Assumption:
        parameter = self._parameter
        return Assumption(
            "parameter-in-range",
            f"{parameter.shown} lies in {parameter.low}..{parameter.high}",
            AssumptionState.ASSUMED,
            "--symbolic",
        )


def _without(launch: Launch, parameter: OpenParameter) -> Launch:
    """The launch with nothing said about the parameter."""
    ranges = {name: row for name, row in launch.ranges.items() if name != parameter.name}
    return replace(launch, ranges=ranges)


def _alike(pieces: Sequence[SymbolicPaths]) -> Iterable[Sequence[SymbolicPaths]]:
    """Pieces whose paths are the same functions of s: two values tell affine counts apart."""
    alike: dict[tuple[BlockPaths, ...], list[SymbolicPaths]] = {}
    for piece in pieces:
        key = tuple(_anywhere(piece.at(s)) for s in range(min(2, piece.count)))
        alike.setdefault(key, []).append(piece)
    return alike.values()


def _anywhere(paths: BlockPaths) -> BlockPaths:
    """The paths as those of block (0, 0, 0), to be compared without the blocks that take them."""
    return replace(paths, first=(0, 0, 0), last=(0, 0, 0))
