"""Parametric bounds: the bound of a kernel as a formula of one of its parameters.

>>> from ptxwcet.opened.request import Request
>>> from ptxwcet.commands.bound.formula import bound_symbolic
>>> request = Request("samples/saxpy.ptx", block="256", grid="1")
>>> answer = bound_symbolic(request, "n=1..4096")
>>> [row.formula.at(1000) for row in answer.answered]
[1745]

The paths for the whole range come in pieces on which counts are affine functions of a number s; the
bound of each kind of piece is solved in s, and the largest at each value of the parameter counts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property, partial

from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.bounds.analysis import BlockAnalysis, analyse_block
from ptxwcet.bounds.carve_out import require_grid
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
from ptxwcet.bounds.launch_bound import LaunchRules, kinds_of_blocks, launch_rules
from ptxwcet.bounds.memory_servers import memory_alone, memory_demand
from ptxwcet.bounds.parametric import Progression, Range, Unsettled, carried, solve
from ptxwcet.bounds.safe import bound_before_memory
from ptxwcet.bounds.wishes import ANY_GRID
from ptxwcet.claims import Assumption, AssumptionState, Guarantee, Refusal, TimingClaim
from ptxwcet.flow.facts.assumptions import fact_assumptions
from ptxwcet.flow.facts.parameters import find_parameter, parse_parameters
from ptxwcet.flow.facts.placing import place_facts
from ptxwcet.flow.facts.stated import FactSource, ParameterFact, StatedFacts
from ptxwcet.flow.launch import Launch
from ptxwcet.flow.paths.call_variables import followed
from ptxwcet.flow.paths.extraction import SymbolicPaths, extract_paths, extract_symbolic
from ptxwcet.flow.values.slicing import decisive_variables
from ptxwcet.flow.walk.path import BlockPaths, is_exact
from ptxwcet.ir.kernel import Kernel
from ptxwcet.machine.loader import load_machine
from ptxwcet.machine.model import Machine
from ptxwcet.opened.cuda_text import cuda_names
from ptxwcet.opened.opening import Answer, Opened, open_request, require_uses
from ptxwcet.opened.request import Request
from ptxwcet.opened.whole_launch import Wishes, launched_block
from ptxwcet.pipeline import analyse_kernel, build_flow, require_known_opcodes
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.timing.launch_costs import LaunchCosts
from ptxwcet.timing.programs import build_workload

# The number of single values whose bound is compared with a formula on inexact paths, from the
# largest: each costs a path extraction. The formula is safe without this comparison.
_MOST_COMPARED = 16
_POLLS = "of a launch whose warps poll mbarriers the bound has a part in proportion to its length"
# The figures of a block in the bound of a launch.
_FIGURES = ("slack_cycles", "work_cycles", "busiest_cycles", "sectors", "outside_sectors")


@dataclass(frozen=True, slots=True)
class OpenParameter:
    """The open parameter: its PTX name, its name for the user, its smallest and largest value."""

    name: str
    shown: str
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class SymbolicBound:
    """The bound of a kernel as a function of a parameter.

    ``launch`` has all other values. ``claim`` holds for each value in the range; its cycles are the
    largest of them, reached at ``largest_at``. ``launch_formula`` bounds the launch, or is the
    reason why there is no formula for it; None without a grid.
    """

    kernel: Kernel
    launch: Launch
    parameter: OpenParameter
    formula: Formula
    claim: TimingClaim
    largest_at: int
    launch_formula: LaunchFormula | Refusal | None = None


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
        """Returns the formula of the values, in parts of a cycle. Raises Unsettled."""
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
    """Bounds any block of a launch by SAFE, as a formula of a parameter with a range.

    With ``rules`` and a grid also the bound of the launch. Raises PtxwcetError with every reason
    for a refusal, PW543 if there is no formula. Cost: independent of the width of the range.
    """
    job = _Job(kernel, launch, machine, facts, parameter, unknown_at_worst=unknown_at_worst)
    bound = job.bound()
    if launch.grid is None or rules is None:
        return bound
    if isinstance(rules, Refusal):
        return replace(bound, launch_formula=rules)
    return replace(bound, launch_formula=job.bound_of_launch(math.prod(launch.grid), rules))


def analyse_symbolic_blocks(
    bound: KernelAnalysis, blocks: OpenParameter, rules: LaunchRules | Refusal
) -> SymbolicBound:
    """Returns the bound of launches of any grid as a formula of the number of its blocks.

    ``bound`` is the analysis for any grid: all blocks have the largest slack and the largest work
    of any. Raises PtxwcetError (PW543) without a formula, PW404. Cost: independent of the range.
    """
    if isinstance(rules, Refusal):
        raise _no_formula(bound.kernel, blocks, rules.reason)
    (kind,) = kinds_of_blocks([(piece.analysis, None) for piece in bound.pieces], (1, 1, 1))
    if kind.polling:
        raise _no_formula(bound.kernel, blocks, _POLLS)
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
    """Returns the bound, in parts of a cycle, for the ``u``-th number of blocks in ``counts``."""
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
        flow = build_flow(kernel, launch)
        self._cfg, self._followed = flow.cfg, followed(flow)
        variables = {*launch.parameter_bytes, *launch.constants}
        self._given = decisive_variables(self._followed.kernel, variables)
        self._placed = place_facts(flow, facts)
        self._costs = LaunchCosts(kernel, launch, machine, unknown_at_worst=unknown_at_worst)
        self._claims: list[TimingClaim] = []
        self._block_assumptions: dict[Assumption, None] = {}
        self._with_range = launch
        self._shares_units = False

    def bound(self) -> SymbolicBound:
        """Returns the bound of a block as a formula. Raises PtxwcetError (PW543) without one."""
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
        """Returns the bound of a launch of some blocks, computed after :meth:`bound`, or a Refusal.

        At each value of the parameter every figure of all blocks is the largest of any block at
        this value.
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
                    sectors, outside = served
                    kind = BlockKind(blocks, slack, work, busiest, (), sectors, outside)
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
        """Returns the largest value of any piece, over the whole range. Raises Unsettled."""
        out: list[Progression] = []
        for pieces in self._kinds:
            longest = max(pieces, key=lambda piece: piece.count)
            solved = solve(partial(value, longest.paths), longest.count)
            for piece in pieces:
                out += carried(solved, Range(piece.first, piece.step, piece.count))
        return upper_envelope(out, self._parameter.low, self._parameter.high)

    def _figure(self, name: str, paths: BlockPaths, s: int) -> int:
        """Returns a figure of a block with these paths, for a value of their symbol; 0 for None."""
        kind = block_kind(self._analysis(paths, s), 1)
        if kind.polling:
            raise Unsettled(_POLLS)
        self._shares_units |= kind.busiest_cycles is None
        figure: int | None = getattr(kind, name)
        return figure or 0

    def _solve(self) -> tuple[Progression, ...]:
        """Returns the bound over the range in parts of a cycle, each number once. Raises Unsettled.

        Pieces whose paths are the same functions of s have the same bound, which is solved once.
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
            self._followed, self._with_range, self._placed, self._parameter.name
        )
        if paths is None:
            raise Unsettled("its paths are of too many kinds in this range")
        return tuple(map(tuple, _alike(paths)))

    def _compare(self, envelope: Sequence[Progression], places: Sequence[int]) -> None:
        """Raises Unsettled if the bound for a single value is smaller at some place.

        Paths whose counts are all exact are the paths of the single values. Others may be coarser
        for a range: inner counts that depend on an outer counter and on the parameter are taken
        between their extremes. The difference grows with the parameter.
        """
        for place in places:
            values = {**self._launch.parameters, self._parameter.name: place}
            launch = replace(self._launch, parameters=values)
            paths = extract_paths(self._followed, launch, self._placed)
            each, divisor = max(self._bound(piece, 0) for piece in paths), self._memory.divisor
            if -(-each // divisor) < -(-value_at(envelope, place) // divisor):
                raise Unsettled("its paths are known less exactly for a range than for one value")

    def _bound(self, paths: BlockPaths, s: int) -> int:
        """Returns SAFE of a block with these paths, for a value of their symbol.

        The unit is parts of a cycle (:class:`ptxwcet.bounds.grid.MemoryServer`): all are affine.
        """
        analysis = self._analysis(paths, s)
        bounded = bound_before_memory(analysis)
        self._claims.append(bounded.claim)
        return self._memory.parts(bounded.cycles, memory_demand(analysis).sectors)

    def _analysis(self, paths: BlockPaths, s: int) -> BlockAnalysis:
        """Returns the block that executes the paths, for a value of their symbol."""
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
        """Returns the claim for every number of the range, with cycles to be filled in later."""
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
    """Returns the launch without statements about the parameter."""
    ranges = {name: row for name, row in launch.ranges.items() if name != parameter.name}
    return replace(launch, ranges=ranges)


def _alike(pieces: Sequence[SymbolicPaths]) -> Iterable[Sequence[SymbolicPaths]]:
    """Returns pieces grouped by their functions of s: two values tell affine counts apart."""
    alike: dict[tuple[BlockPaths, ...], list[SymbolicPaths]] = {}
    for piece in pieces:
        key = tuple(_anywhere(piece.at(s)) for s in range(min(2, piece.count)))
        alike.setdefault(key, []).append(piece)
    return alike.values()


def _anywhere(paths: BlockPaths) -> BlockPaths:
    """Returns the paths as paths of block (0, 0, 0), so that comparisons ignore their blocks."""
    return replace(paths, first=(0, 0, 0), last=(0, 0, 0))


_BLOCKS = "blocks"
_MOST_BLOCKS = (2**31 - 1) * 65535 * 65535

SymbolicAnswer = Answer[SymbolicBound]
"""The formulas of the kernels of a file."""


def bound_symbolic(request: Request, symbolic: str) -> SymbolicAnswer:
    """Bounds each requested kernel by SAFE as a formula of the parameter that ``symbolic`` names.

    ``symbolic`` is ``n=1..4096``, or ``n`` if its range is stated elsewhere; ``blocks=1..4096`` is
    the number of blocks of the grid. The formula of a block has the value of
    :func:`ptxwcet.commands.bound.study.bound_file` at every number of the range; a smaller one
    where the paths of one value are less exact, and a larger one where the transactions of an
    access depend on the parameter. With a grid, or for blocks, the launch has a formula too, which
    may be above the bound of a single value. Raises PtxwcetError for input that concerns no single
    kernel. Cost: independent of the width of the range.
    """
    machine = load_machine(request.machine, request.memory_latency_cycles)
    # The number of blocks may be open: then options of the GPU are valid without a grid.
    opened = open_request(replace(request, gpu=ANY_GRID, ptxas_info=None, asks_ptxas=False))
    wishes = Wishes(request)

    def formula(kernel: Kernel) -> SymbolicBound:
        whole, facts = opened.whole(kernel), opened.facts_of(kernel)

        def rules(launch: Launch) -> LaunchRules | Refusal:
            said = wishes.of(kernel)
            parts = opened.module, opened.said_by_file, said
            return launch_rules(launched_block(whole, launch, *parts), machine, said)

        blocks = _open_blocks(kernel, opened, symbolic)
        if blocks is not None:
            launch = opened.launch_of(kernel)
            worst = request.unknown_at_worst
            analysis = analyse_kernel(whole, launch, machine, facts, unknown_at_worst=worst)
            return analyse_symbolic_blocks(analysis, blocks, rules(launch))
        launch, parameter = _open_parameter(kernel, opened, symbolic)
        require_grid(launch, kernel.span)
        require_uses(request, has_grid=launch.grid is not None)
        return analyse_symbolic(
            whole,
            launch,
            machine,
            facts,
            parameter,
            unknown_at_worst=request.unknown_at_worst,
            rules=None if launch.grid is None else rules(launch),
        )

    return Answer(request.path, opened.sha256, machine, opened.each(formula))


# --- the parameter --------------------------------------------------------------------------------


def _open_blocks(kernel: Kernel, opened: Opened, symbolic: str) -> OpenParameter | None:
    """Returns the number of blocks with its range; None if a parameter is meant.

    Raises PtxwcetError: PW213 (no range), PW542 (the grid is given).
    """
    name, _, text = (part.strip() for part in symbolic.partition("="))
    if name != _BLOCKS or _BLOCKS in opened.names_of(kernel).values():
        return None
    match = re.fullmatch(r"(\d+) *\.\. *(\d+)", text)
    low, high = (0, 0) if match is None else (int(match[1]), int(match[2]))
    if not 1 <= low <= high <= _MOST_BLOCKS:
        raise PtxwcetError(
            Diagnostic(
                "PW213",
                f"--symbolic {symbolic}: a range of numbers of blocks is wanted",
                help="for example --symbolic blocks=1..4096",
            )
        )
    if opened.grid is not None:
        said = f"the grid is {opened.grid}"
        raise _has_a_value(kernel, FactSource(f"--symbolic {symbolic}"), said)
    return OpenParameter(_BLOCKS, _BLOCKS, low, high)


def _open_parameter(kernel: Kernel, opened: Opened, symbolic: str) -> tuple[Launch, OpenParameter]:
    """Returns the launch, and its parameter with the range that all sources allow."""
    shown, separator, _ = (part.strip() for part in symbolic.partition("="))
    source = FactSource(f"--symbolic {symbolic}")
    names, facts = cuda_names(kernel, opened.request), opened.facts_of(kernel)
    parameter = find_parameter(kernel, ParameterFact(shown, "", source), names)
    if parameter.is_array or parameter.type.startswith("f"):
        raise PtxwcetError(
            Diagnostic(
                "PW541",
                f"{source.name}: {shown} is not an integer (.{parameter.type})",
                kernel.span,
                help="a bound is a formula of one integer parameter",
            )
        )
    if separator:
        (fact,) = parse_parameters((symbolic,))
        facts = replace(
            facts, parameters=(*facts.parameters, ParameterFact(fact.name, fact.stated, source))
        )
    launch = opened.launch_of(kernel, facts)
    if parameter.name in launch.parameters:
        raise _has_a_value(kernel, source, f"{shown} = {launch.parameters[parameter.name]}")
    if parameter.name not in launch.ranges:
        raise PtxwcetError(
            Diagnostic(
                "PW540",
                f"the range of parameter {shown} is not known",
                kernel.span,
                help=f"say for which values the formula is to hold: --symbolic {shown}=1..4096",
            )
        )
    shown = launch.name_of(parameter.name) if shown.isdigit() else shown
    return launch, OpenParameter(parameter.name, shown, *launch.ranges[parameter.name])


def _has_a_value(kernel: Kernel, source: FactSource, value: str) -> PtxwcetError:
    return PtxwcetError(
        Diagnostic(
            "PW542",
            f"{source.name}: the parameter has one value only, {value}",
            kernel.span,
            help="leave out its --param, or --symbolic; a range has two numbers: 1..4096",
        )
    )
