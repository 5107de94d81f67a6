"""Parametric bounds: the bound of a kernel as a formula of one of its parameters.

>>> from ptxwcet.api import Request
>>> from ptxwcet.symbolic import bound_symbolic
>>> request = Request("samples/saxpy.ptx", block="256", grid="1")
>>> answer = bound_symbolic(request, "n=1..4096")  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ptxwcet.api import (
    RefusedKernel,
    Request,
    build_launch,
    cuda_parameter_names,
    file_digest,
    select_kernels,
    state_facts,
    with_launch_file,
)
from ptxwcet.bounds.analysis import analyse_block
from ptxwcet.bounds.envelope import upper_envelope
from ptxwcet.bounds.formula import Formula, formula_of, largest
from ptxwcet.bounds.parametric import Progression, Range, Unsettled, solve
from ptxwcet.bounds.safe import bound_safe
from ptxwcet.claims import Assumption, AssumptionState, Guarantee, TimingClaim
from ptxwcet.flow.dominance import compute_postdominators
from ptxwcet.flow.extraction import SymbolicPaths, extract_symbolic
from ptxwcet.flow.fact_assumptions import fact_assumptions
from ptxwcet.flow.facts import Launch
from ptxwcet.flow.inlining import inline_calls
from ptxwcet.flow.parameters import find_parameter, parse_parameters
from ptxwcet.flow.paths import BlockPaths
from ptxwcet.flow.placing import place_facts
from ptxwcet.flow.stated import FactSource, ParameterFact, StatedFacts
from ptxwcet.ir.kernel import Kernel
from ptxwcet.machine.loader import load_machine
from ptxwcet.machine.model import Machine
from ptxwcet.pipeline import build_flow, require_known_opcodes
from ptxwcet.ptx.parser import parse_module
from ptxwcet.ptx.reading import read_source
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.timing.cost import UNKNOWN_OPCODES, InstructionCosts
from ptxwcet.timing.programs import build_workload


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


@dataclass(frozen=True, slots=True)
class SymbolicAnswer:
    """The answer for each kernel asked for, in file order."""

    path: str
    sha256: str
    machine: Machine
    kernels: tuple[SymbolicBound | RefusedKernel, ...]

    @property
    def bounded(self) -> tuple[SymbolicBound, ...]:
        """The kernels that have a formula."""
        return tuple(row for row in self.kernels if isinstance(row, SymbolicBound))

    @property
    def refused(self) -> tuple[RefusedKernel, ...]:
        """The kernels that have none."""
        return tuple(row for row in self.kernels if isinstance(row, RefusedKernel))


def bound_symbolic(request: Request, symbolic: str) -> SymbolicAnswer:
    """SAFE of each requested kernel as a formula of the parameter that ``symbolic`` names.

    ``symbolic`` is ``n=1..4096``, or ``n`` if its range is stated elsewhere. The formula has the
    value of :func:`ptxwcet.api.bound_file` at every number of the range. Raises PtxwcetError for
    input that concerns no single kernel. Cost: independent of the width of the range.
    """
    machine = load_machine(request.machine, request.memory_latency_cycles)
    module = parse_module(read_source(request.path))
    facts = state_facts(request, module)
    request = with_launch_file(request, module, facts)
    rows: list[SymbolicBound | RefusedKernel] = []
    for kernel in select_kernels(module.kernels, request.kernels, request.path):
        try:
            own = facts.of_kernel(kernel.name)
            launch, parameter = _open_parameter(kernel, request, own, symbolic)
            job = _Job(
                inline_calls(kernel, module),
                launch,
                machine,
                own,
                parameter,
                unknown_at_worst=request.unknown_at_worst,
            )
            rows.append(job.bound())
        except PtxwcetError as error:
            rows.append(RefusedKernel(kernel, error.diagnostics))
    return SymbolicAnswer(request.path, file_digest(request.path), machine, tuple(rows))


# --- the parameter --------------------------------------------------------------------------------


def _open_parameter(
    kernel: Kernel, request: Request, facts: StatedFacts, symbolic: str
) -> tuple[Launch, OpenParameter]:
    """The launch, and its parameter with the range that all sources allow."""
    shown, separator, _ = (part.strip() for part in symbolic.partition("="))
    source = FactSource(f"--symbolic {symbolic}")
    names = cuda_parameter_names(kernel, request)
    found = find_parameter(kernel, ParameterFact(shown, "", source), names)
    if found.is_array or found.type.startswith("f"):
        raise PtxwcetError(
            Diagnostic(
                "PW541",
                f"{source.name}: {found.name} is not an integer (.{found.type})",
                kernel.span,
                help="a bound is a formula of one integer parameter",
            )
        )
    if separator:
        (fact,) = parse_parameters((symbolic,))
        facts = replace(
            facts, parameters=(*facts.parameters, ParameterFact(fact.name, fact.text, source))
        )
    launch = build_launch(kernel, request, facts)
    if found.name in launch.parameters:
        raise _has_a_value(kernel, source, f"{found.name} = {launch.parameters[found.name]}")
    if found.name not in launch.ranges:
        raise PtxwcetError(
            Diagnostic(
                "PW540",
                f"the range of parameter {shown} is not known",
                kernel.span,
                help=f"say for which values the formula is to hold: --symbolic {shown}=1..4096",
            )
        )
    shown = found.name if shown.isdigit() else shown
    return launch, OpenParameter(found.name, shown, *launch.ranges[found.name])


def _has_a_value(kernel: Kernel, source: FactSource, value: str) -> PtxwcetError:
    return PtxwcetError(
        Diagnostic(
            "PW542",
            f"{source.name}: the parameter has one value only, {value}",
            kernel.span,
            help="leave out its --param, or --symbolic; a range has two numbers: 1..4096",
        )
    )


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


# --- the formula ----------------------------------------------------------------------------------


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
        self._cfg, forest = build_flow(kernel, launch)
        self._placed = place_facts(kernel, self._cfg, forest, facts)
        self._costs = InstructionCosts(machine, launch.threads, unknown_at_worst=unknown_at_worst)
        self._claims: list[TimingClaim] = []
        postdominators = tuple(compute_postdominators(self._cfg).immediate)
        pieces = extract_symbolic(
            kernel, self._cfg, forest, postdominators, launch, self._placed, parameter.name
        )
        if pieces is None:
            raise _no_formula(kernel, parameter, "its paths are of too many kinds in this range")
        self._pieces = pieces

    def bound(self) -> SymbolicBound:
        """The answer. Raises PtxwcetError (PW543) without a formula."""
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
        alike: dict[tuple[BlockPaths, ...], list[SymbolicPaths]] = {}
        for piece in self._pieces:
            # two values tell one affine count from another
            key = tuple(_anywhere(piece.at(s)) for s in range(min(2, piece.count)))
            alike.setdefault(key, []).append(piece)
        out: list[Progression] = []
        for pieces in alike.values():
            longest = max(pieces, key=lambda piece: piece.count)
            solved = solve(partial(self._bound, longest.paths), longest.count)
            out += (found for piece in pieces for found in _placed_in(piece, solved))
        return upper_envelope(out, self._parameter.low, self._parameter.high)

    def _bound(self, paths: BlockPaths, s: int) -> int:
        """SAFE of a block that executes the paths, for a value of their symbol."""
        workload = build_workload(
            paths.warps, self._kernel, self._cfg, self._costs, self._machine.scoreboard, s
        )
        unknown = (UNKNOWN_OPCODES,) if self._costs.charged_unknown else ()
        assumed = (*unknown, *fact_assumptions(paths, self._placed, self._launch))
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


def _anywhere(paths: BlockPaths) -> BlockPaths:
    """The paths of any block index: where they are taken does not matter."""
    return replace(paths, first=(0, 0, 0), last=(0, 0, 0))


def _placed_in(piece: SymbolicPaths, solved: Sequence[Progression]) -> Iterator[Progression]:
    """What was solved for s as functions of the parameter, where the piece has such numbers."""
    for one in solved:
        numbers = one.numbers
        count = min(numbers.count, -(-(piece.count - numbers.first) // numbers.step))
        if count > 0:
            first = piece.first + piece.step * numbers.first
            placed = Range(first, piece.step * numbers.step, count)
            yield Progression(placed, one.base, one.slope)
