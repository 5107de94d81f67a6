"""From a kernel to its bound as a formula of one of its parameters.

The paths for the whole range come in pieces on which counts are affine functions of a number s; the
bound of each kind of piece is solved in s, and the largest at each value of the parameter counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ptxwcet.bounds.analysis import analyse_block
from ptxwcet.bounds.envelope import upper_envelope
from ptxwcet.bounds.formula import Formula, formula_of, largest, value_at
from ptxwcet.bounds.parametric import Progression, Range, Unsettled, carried, solve
from ptxwcet.bounds.safe import bound_safe
from ptxwcet.claims import Assumption, AssumptionState, Guarantee, TimingClaim
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
from ptxwcet.timing.cost import UNKNOWN_OPCODES, InstructionCosts
from ptxwcet.timing.programs import build_workload

# Single values whose bound is compared with a formula on inexact paths, the largest: each costs a
# path extraction. The formula is safe without.
_MOST_COMPARED = 16


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
    largest of them, reached at ``largest_at``.
    """

    kernel: Kernel
    launch: Launch
    parameter: OpenParameter
    formula: Formula
    claim: TimingClaim
    largest_at: int


def analyse_symbolic(
    kernel: Kernel,
    launch: Launch,
    machine: Machine,
    facts: StatedFacts,
    parameter: OpenParameter,
    *,
    unknown_at_worst: bool = False,
) -> SymbolicBound:
    """SAFE of any one block of a launch as a formula of a parameter, of which it has a range.

    Raises PtxwcetError with every reason for a refusal, PW543 if there is no formula. Cost:
    independent of the width of the range.
    """
    job = _Job(kernel, launch, machine, facts, parameter, unknown_at_worst=unknown_at_worst)
    return job.bound()


def _no_formula(kernel: Kernel, parameter: OpenParameter, reason: str) -> PtxwcetError:
    return PtxwcetError(
        Diagnostic(
            "PW543",
            f"no formula in {parameter.shown} for kernel {kernel.name}: {reason}",
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
        self._kernel, self._machine = kernel, machine
        self._launch = _without(launch, parameter)
        self._parameter = parameter
        self._followed = with_variable_registers(kernel)
        variables = {*launch.parameter_bytes, *launch.constants}
        self._given = decisive_variables(self._followed, variables)
        self._cfg, self._forest = build_flow(kernel, launch)
        self._meetings = tuple(compute_postdominators(self._cfg).immediate)
        self._placed = place_facts(kernel, self._cfg, self._forest, facts)
        self._costs = InstructionCosts(machine, launch.threads, unknown_at_worst=unknown_at_worst)
        self._claims: list[TimingClaim] = []
        self._with_range = launch

    def bound(self) -> SymbolicBound:
        """The answer. Raises PtxwcetError (PW543) without a formula."""
        if self._placed.totals:
            names = ", ".join(dict.fromkeys(total.source for total in self._placed.totals))
            raise _no_formula(
                self._kernel, self._parameter, f"{names} limits what a warp does in a whole run"
            )
        try:
            progressions = self._solve()
            formula = formula_of(progressions)
        except Unsettled as unsettled:
            raise _no_formula(self._kernel, self._parameter, unsettled.reason) from None
        cycles, place = largest(progressions)
        claim = replace(self._claim(), cycles=cycles)
        return SymbolicBound(self._kernel, self._launch, self._parameter, formula, claim, place)

    def _solve(self) -> tuple[Progression, ...]:
        """The bound over the whole range, each number of it once. Raises Unsettled.

        Pieces whose paths are the same functions of s have the same bound: it is solved once.
        """
        parameter = self._parameter
        out: list[Progression] = []
        open_places: set[int] = set()
        for pieces in _alike(self._paths()):
            longest = max(pieces, key=lambda piece: piece.count)
            solved = solve(partial(self._bound, longest.paths), longest.count)
            for piece in pieces:
                out += carried(solved, Range(piece.first, piece.step, piece.count))
            if not all(is_exact(warp.nodes) for warp in longest.paths.warps):
                places = (longest.count // 2, longest.count - 1)
                open_places |= {longest.first + longest.step * s for s in places}
        found = upper_envelope(out, parameter.low, parameter.high)
        self._compare(found, sorted(open_places)[-_MOST_COMPARED:])
        return found

    def _paths(self) -> tuple[SymbolicPaths, ...]:
        found = extract_symbolic(
            self._followed,
            self._cfg,
            self._forest,
            self._meetings,
            self._with_range,
            self._placed,
            self._parameter.name,
        )
        if found is None:
            raise Unsettled("its paths are of too many kinds in this range")
        return found

    def _compare(self, found: Sequence[Progression], places: Sequence[int]) -> None:
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
            if max(self._bound(piece, 0) for piece in paths) < value_at(found, place):
                raise Unsettled("its paths are known less exactly for a range than for one value")

    def _bound(self, paths: BlockPaths, s: int) -> int:
        """SAFE of a block that executes the paths, for a value of their symbol."""
        workload = build_workload(
            paths.warps,
            self._kernel,
            self._cfg,
            self._costs,
            self._machine.scoreboard,
            parameter=s,
        )
        unknown = (UNKNOWN_OPCODES,) if self._costs.charged_unknown else ()
        facts = fact_assumptions(paths, self._placed, self._launch, self._given)
        assumed = (*unknown, *facts)
        claim = bound_safe(analyse_block(workload, self._machine, assumed)).claim
        self._claims.append(claim)
        return claim.cycles

    def _claim(self) -> TimingClaim:
        """What holds of every number of the range, with cycles left to fill in."""
        parameter = self._parameter
        in_range = Assumption(
            "parameter-in-range",
            f"{parameter.shown} lies in {parameter.low}..{parameter.high}",
            AssumptionState.ASSUMED,
            "--symbolic",
        )
        first = self._claims[0]
        assumptions = dict.fromkeys(one for claim in self._claims for one in claim.assumptions)
        guarantee = Guarantee.weakest(claim.guarantee for claim in self._claims)
        return replace(first, guarantee=guarantee, assumptions=(*assumptions, in_range))


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
    """The paths of any block index: where they are taken does not matter."""
    return replace(paths, first=(0, 0, 0), last=(0, 0, 0))
