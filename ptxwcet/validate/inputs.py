"""Bounds against executions: for inputs of a launch, paths and times within what is claimed.

For each input the kernel is executed; every warp's path must be one of those that path extraction
found for its block, the simulated time of what was executed at most the safe bound of that block,
and runs of the whole grid (:mod:`ptxwcet.validate.grid_study`) at most that of the launch.
Inputs are those of a launch file; :mod:`ptxwcet.validate.launches` makes up others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ptxwcet.bounds.analysed import AnalysedPiece, KernelAnalysis, PreparedPiece
from ptxwcet.bounds.outcome import BlockBound
from ptxwcet.commands.run.study import diagnostics_of, emulated, prepare_executed, read_launch
from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.launch import EmulatedLaunch, EmulatorOptions, Execution
from ptxwcet.emulator.launch_model import LaunchFile
from ptxwcet.flow.facts.totals import count_visits
from ptxwcet.flow.walk.path import BlockPaths
from ptxwcet.ir.kernel import Module
from ptxwcet.machine.model import Machine
from ptxwcet.opened.opening import open_request
from ptxwcet.opened.request import MOST_INSTRUCTIONS, Request
from ptxwcet.opened.whole_launch import Wishes, with_launch_bound
from ptxwcet.pipeline import analyse_kernel
from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.engine import Simulator
from ptxwcet.simulator.policies import Jitter, Policy
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.validate.containment import Departure, find_departure, length
from ptxwcet.validate.grid_study import GridValidation, validate_grid
from ptxwcet.validate.plans import Run

MOST_STEPS = 1_000_000
"""Basic blocks that the warps of a block may have executed to be compared one by one."""


@dataclass(frozen=True, slots=True)
class ExecutedRow:
    """A kind of blocks of one execution: its longest run against the safe bound of its block.

    ``blocks`` counts the blocks that executed the same. ``safe_cycles`` is the bound of the range
    of block indices whose paths hold what was executed, None if none does.
    """

    blocks: int
    longest_cycles: int
    by: str
    safe_cycles: int | None


@dataclass(frozen=True, slots=True)
class InputValidation:
    """One input: what was executed, and every contradiction (PW535, PW538) or finding.

    ``grid`` are the runs of all blocks together, None where the bound of the launch says nothing of
    them: without one, or where paths or facts are contradicted already.
    """

    rows: tuple[ExecutedRow, ...]
    runs: int
    warp_instructions: int
    diagnostics: tuple[Diagnostic, ...]
    grid: GridValidation | None = None


def validate_inputs(
    request: Request, module: Module, machine: Machine, inputs: int
) -> Iterator[InputValidation]:
    """Validates the bound of a launch by executions: the file's own input first, then others.

    The other inputs have other seeds in the arrays that have one. Raises PtxwcetError: PW427
    without a launch file, problems of the inputs, a kernel without a static bound. Cost: that of
    the executions; a run for each policy and kind of block.
    """
    launch, analysis = analysed_launch(request, module, machine, "--inputs")
    for number in range(inputs):
        yield validate_input(analysis, module, emulated(launch.reseeded(number)), number)


def analysed_launch(
    request: Request, module: Module, machine: Machine, option: str
) -> tuple[LaunchFile, KernelAnalysis]:
    """The launch of a request and the analysis of its kernel. Raises PtxwcetError."""
    if request.launch_file is None:
        raise PtxwcetError(
            Diagnostic("PW427", f"{option} without a launch file", help="give --launch")
        )
    launch = read_launch(request.launch_file, module, request)
    opened = open_request(request, module)
    analysis = analyse_kernel(
        opened.whole(launch.kernel),
        opened.launch_of(launch.kernel),
        machine,
        opened.facts_of(launch.kernel),
        unknown_at_worst=request.unknown_at_worst,
    )
    return launch, with_launch_bound(analysis, opened.module, opened.said_by_file, Wishes(request))


def validate_input(
    analysis: KernelAnalysis,
    module: Module,
    launch: EmulatedLaunch,
    seed: int,
    *,
    most_instructions: int = MOST_INSTRUCTIONS,
) -> InputValidation:
    """One execution against the analysis of its launch; ``seed`` is that of random choices.

    Raises PtxwcetError for what cannot be executed, PW411 after ``most_instructions``.
    """
    options = EmulatorOptions(most_instructions, record_paths=True)
    execution = execute(analysis.kernel, module, launch, options=options)
    diagnostics = [*diagnostics_of(execution, launch.block, launch.grid)]
    if not execution.is_complete:
        return InputValidation((), 0, execution.warp_instructions, tuple(diagnostics))
    checker = _Checker(analysis, execution, seed)
    prepared = prepare_executed(execution, analysis.launch, analysis.machine)
    kinds = tuple(checker.check(piece) for piece in prepared.pieces)
    diagnostics += checker.diagnostics
    grid = None
    if analysis.launch_bound is not None and not diagnostics:
        grid = validate_grid(analysis, execution, seed)
        diagnostics += grid.diagnostics
    return InputValidation(
        kinds, checker.runs, execution.warp_instructions, tuple(diagnostics), grid
    )


class _Checker:
    def __init__(self, analysis: KernelAnalysis, execution: Execution, seed: int) -> None:
        self._analysis = analysis
        self._execution = execution
        self._plan = (
            *(Run(policy) for policy in (Policy.LRR, Policy.GTO, Policy.YOUNGEST)),
            Run(Policy.RANDOM, seed),
            Run(Policy.LRR, 0, Jitter(50, seed)),
        )
        self.runs = 0
        self.diagnostics: list[Diagnostic] = []

    def check(self, piece: PreparedPiece) -> ExecutedRow:
        """Checks a kind of blocks: paths against the analysed ones, runs against the bound."""
        holding, departures = _holding(self._analysis.pieces, piece.paths)
        if holding is None:
            self._report_path(piece.paths, departures)
        if self._exceeds_totals(piece.paths):
            holding = None  # there is no bound for what the facts exclude
        simulator = Simulator(piece.workload, SmConfiguration.of(self._analysis.machine))
        longest, by = max(
            ((run.cycles(simulator), str(run)) for run in self._plan), key=lambda timed: timed[0]
        )
        self.runs += len(self._plan)
        safe = None if holding is None else safe_cycles(holding)
        if safe is not None and longest > safe:
            self.diagnostics.append(
                Diagnostic(
                    "PW535",
                    f"a bound is contradicted: kernel {self._analysis.kernel.readable}, block "
                    f"{piece.paths.first}: {longest} cycles executed ({by}), SAFE is {safe}",
                )
            )
        return ExecutedRow(piece.count or 0, longest, by, safe)

    def _exceeds_totals(self, paths: BlockPaths) -> bool:
        """Whether a warp does more in its run than facts say, which is reported."""
        exceeded = []
        for total in self._analysis.facts.totals:
            made = max(count_visits(warp.nodes, total.visits)[1] for warp in paths.warps)
            if made > total.most:
                kernel = self._analysis.kernel.readable
                message = (
                    f"a fact is contradicted: {total.source} says at most {total.most:,} "
                    f"{total.what} in a run of a warp; in kernel {kernel}, block {paths.first}, "
                    f"a warp made {made:,}"
                )
                exceeded.append(Diagnostic("PW546", message, help="correct the fact"))
        self.diagnostics += exceeded
        return bool(exceeded)

    def _report_path(self, paths: BlockPaths, departures: Sequence[Departure]) -> None:
        furthest = max(departures, key=lambda departure: departure.position)
        kernel, cfg = self._execution.kernel, self._analysis.cfg
        where, span = "at its end", None
        if furthest.step is not None:
            block = furthest.step.block
            where = f"at {cfg.name(cfg.blocks[block].id)}"
            span = kernel.instructions[cfg.blocks[block].start].span
        self.diagnostics.append(
            Diagnostic(
                "PW538",
                f"kernel {kernel.readable}, block {paths.first}: an executed path leaves the "
                f"analysed ones after {furthest.position} basic blocks, {where}",
                span,
                help=_remedy(self._analysis),
            )
        )


BUG = "this is a bug of ptxwcet: please report the kernel and its launch"
"""What to do about a path that nothing that was stated explains."""


def _remedy(analysis: KernelAnalysis) -> str:
    """What to do about a path that was not expected."""
    facts, arrays = analysis.facts, analysis.launch.arrays
    stated = facts.loop_bounds or facts.never or facts.exclusive or facts.uniform
    if not stated and not arrays:
        return BUG
    of_arrays = [row.source for row in arrays.values()]
    placed = (*facts.loop_sources.values(), *facts.branch_sources.values())
    sources = dict.fromkeys((*placed, *of_arrays))
    names = f" ({', '.join(sources)})" if sources else ""
    return (
        f"check the facts that were given{names}: one of them may be wrong; if none is, this is a "
        "bug of ptxwcet: please report the kernel and its launch"
    )


def safe_cycles(piece: AnalysedPiece) -> int:
    """The safe bound of a range of block indices."""
    outcome = piece.outcomes["safe"]
    assert isinstance(outcome, BlockBound)
    return outcome.cycles


def _holding(
    pieces: Sequence[AnalysedPiece], paths: BlockPaths
) -> tuple[AnalysedPiece | None, list[Departure]]:
    """The analysed blocks with the least bound that allow the paths; else how far each goes."""
    steps = sum(len(warp.warps) * length(warp.nodes) for warp in paths.warps)
    if steps > MOST_STEPS:
        message = f"{steps:,} executed basic blocks of a block: too many to compare"
        raise PtxwcetError(Diagnostic("PW539", message, help="give a smaller launch"))
    departures: list[Departure] = []
    for piece in sorted(pieces, key=safe_cycles):
        of_warp = {warp: path.nodes for path in piece.paths.warps for warp in path.warps}
        pairs = dict.fromkeys((of_warp[w], path.nodes) for path in paths.warps for w in path.warps)
        left = [row for row in (find_departure(*pair) for pair in pairs) if row is not None]
        if not left:
            return piece, []
        departures += left
    return None, departures
