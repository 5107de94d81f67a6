"""Compares bounds with executions: paths and times within the claims, for inputs of a launch.

For each input the kernel is executed; every warp's path must be one of the extracted paths of its
block, the simulated time of the executed path at most the safe bound of that block, and runs of the
whole grid (:mod:`ptxwcet.validate.grid_study`) at most the bound of the launch. Inputs are those of
a launch file, or adversarial data, chosen repeatedly around the best ones. Values are those at
which arithmetic goes wrong and loops run long: 0, 1, -1, small numbers, indices of the arrays,
powers of two and their neighbours, the ends of the type. Random numbers are from NumPy's
``RandomState``, so that a seed means the same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ptxwcet.bounds.analysed import AnalysedPiece, KernelAnalysis, PreparedPiece
from ptxwcet.bounds.outcome import BlockBound
from ptxwcet.commands.run.study import diagnostics_of, emulated, prepare_executed, read_launch
from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.launch import Argument, EmulatedLaunch, EmulatorOptions, Execution
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
from ptxwcet.support.records import dataclass
from ptxwcet.validate.cases import Run
from ptxwcet.validate.containment import Departure, find_departure, length
from ptxwcet.validate.grid_study import GridValidation, validate_grid

MOST_ATTACKED = 200_000
"""The warp-instructions of a run on adversarial data, after which it is left out."""

_ENDLESS = "PW411"
Array = np.ndarray[Any, np.dtype[Any]]
KINDS = ("own", "small", "tiny", "indices", "edges", "ends", "one", "random")
_AGAIN = 0.6  # the share of draws in which the best data so far are changed, not replaced
MOST_STEPS = 1_000_000
"""The most basic blocks executed by the warps of a block that are compared individually."""


@dataclass(frozen=True, slots=True)
class ExecutedRow:
    """A kind of blocks of one execution: its longest run against the safe bound of its block.

    ``blocks`` counts the blocks with the same execution. ``safe_cycles`` is the bound of the range
    of block indices whose paths contain the executed ones, None without such a range.
    """

    blocks: int
    longest_cycles: int
    by: str
    safe_cycles: int | None


@dataclass(frozen=True, slots=True)
class InputValidation:
    """One input: its executions, and every contradiction (PW535, PW538) or finding.

    ``grid`` are the runs of all blocks together, None where the launch's bound does not apply to
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
    """Validates the bound of a launch by executions: of the file's own input first, then of others.

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
    """Returns the launch of a request and the analysis of its kernel. Raises PtxwcetError."""
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
    """Compares one execution with the analysis of its launch; ``seed`` is for random choices.

    Raises PtxwcetError for an impossible execution, PW411 after ``most_instructions``.
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
            holding = None  # There is no bound for runs that the facts exclude.
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
        """Returns whether a warp exceeds the facts in its run, which is reported."""
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
"""The remedy for a path that no stated fact explains."""


def _remedy(analysis: KernelAnalysis) -> str:
    """Returns the remedy for an unexpected path."""
    facts, arrays = analysis.facts, analysis.launch.arrays
    stated = facts.loop_bounds or facts.never or facts.exclusive or facts.uniform
    if not stated and not arrays:
        return BUG
    of_arrays = [array.source for array in arrays.values()]
    placed = (*facts.loop_sources.values(), *facts.branch_sources.values())
    sources = dict.fromkeys((*placed, *of_arrays))
    names = f" ({', '.join(sources)})" if sources else ""
    return (
        f"check the facts that were given{names}: one of them may be wrong; if none is, this is a "
        "bug of ptxwcet: please report the kernel and its launch"
    )


def safe_cycles(piece: AnalysedPiece) -> int:
    """Returns the safe bound of a range of block indices."""
    outcome = piece.outcomes["safe"]
    assert isinstance(outcome, BlockBound)
    return outcome.cycles


def _holding(
    pieces: Sequence[AnalysedPiece], paths: BlockPaths
) -> tuple[AnalysedPiece | None, list[Departure]]:
    """Returns the least-bounded analysed blocks that allow the paths; else all departures."""
    steps = sum(len(warp.warps) * length(warp.nodes) for warp in paths.warps)
    if steps > MOST_STEPS:
        message = f"{steps:,} executed basic blocks of a block: too many to compare"
        raise PtxwcetError(Diagnostic("PW539", message, help="give a smaller launch"))
    departures: list[Departure] = []
    for piece in sorted(pieces, key=safe_cycles):
        of_warp = {warp: path.nodes for path in piece.paths.warps for warp in path.warps}
        pairs = dict.fromkeys((of_warp[w], path.nodes) for path in paths.warps for w in path.warps)
        left = [d for d in (find_departure(*pair) for pair in pairs) if d is not None]
        if not left:
            return piece, []
        departures += left
    return None, departures


# --- attacks --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PathAttack:
    """The executions on adversarial data: the number compared, and the number left out.

    Left out are runs with a finding (an address outside of all arrays, a data race) and runs of
    more than :data:`MOST_ATTACKED` instructions. ``own`` and ``longest`` are the warp-instructions
    of the launch file's own input and of the longest run. ``refusal`` explains a missing attack.
    """

    compared: int = 0
    left_out: int = 0
    own: int = 0
    longest: int = 0
    diagnostics: tuple[Diagnostic, ...] = ()
    refusal: str = ""


def attack_paths(
    request: Request, module: Module, machine: Machine, attacks: int, seed: int = 1
) -> PathAttack:
    """Attacks the analysed paths of a launch with data chosen to iterate loops often.

    Scalars stay as in the launch file, arrays are generated (AdversarialData), repeatedly from
    those with the longest runs. Facts of the user may concern the data: with such there is no
    attack. Raises PtxwcetError as :func:`validate_inputs`. Cost: the executions.
    """
    launch, analysis = analysed_launch(request, module, machine, "--attack")
    return attack_analysis(analysis, module, emulated(launch), attacks, seed)


def attack_analysis(
    analysis: KernelAnalysis, module: Module, launch: EmulatedLaunch, attacks: int, seed: int
) -> PathAttack:
    """Performs :func:`attack_paths` on an existing analysis."""
    facts = analysis.facts
    on_data = facts.loop_bounds or facts.never or facts.exclusive or facts.uniform or facts.totals
    if on_data or analysis.launch.arrays:
        return PathAttack(refusal="facts were given, which may be true of some data alone")
    data = AdversarialData(launch.arguments, seed)
    contradictions: dict[str, Diagnostic] = {}
    compared = own = longest = 0
    for number in range(attacks):
        arguments = launch.arguments if number == 0 else data.draw()
        run = _attacked(analysis, module, replace(launch, arguments=_copied(arguments)), number)
        if run is None:
            continue
        compared += 1
        data.note(arguments, run.warp_instructions)
        own = run.warp_instructions if number == 0 else own
        longest = max(longest, run.warp_instructions)
        contradictions.update({str(d): d for d in run.diagnostics})
    return PathAttack(compared, attacks - compared, own, longest, tuple(contradictions.values()))


def _copied(arguments: tuple[Argument, ...]) -> tuple[Argument, ...]:
    """Returns arguments whose arrays a run may write to."""
    return tuple(a if isinstance(a, int | float | bytes) else a.copy() for a in arguments)


def _attacked(
    analysis: KernelAnalysis, module: Module, launch: EmulatedLaunch, seed: int
) -> InputValidation | None:
    """Performs one run on adversarial data; returns None for an inconclusive one.

    A run that does not end within :data:`MOST_ATTACKED` instructions contradicts the bound if the
    bound has no room for so many.
    """
    try:
        run = validate_input(analysis, module, launch, seed, most_instructions=MOST_ATTACKED)
    except PtxwcetError as error:
        grid = launch.grid[0] * launch.grid[1] * launch.grid[2]
        room = safe_cycles(max(analysis.pieces, key=safe_cycles))
        if error.diagnostics[0].code != _ENDLESS:
            return None
        if room * analysis.machine.schedulers_per_sm * grid >= MOST_ATTACKED:
            return None
        message = (
            f"kernel {analysis.kernel.readable}: a run executes more than {MOST_ATTACKED:,} warp "
            f"instructions; {grid:,} blocks of {room:,} cycles have no room for so many"
        )
        place = Diagnostic("PW538", message, error.diagnostics[0].span, help=BUG)
        return InputValidation((), 0, MOST_ATTACKED, (place,))
    return run if run.rows else None


class AdversarialData:
    """A search over the arrays of a launch: :meth:`draw` gives data, :meth:`note` takes the length
    of a run on them. Scalars and aggregates, which are facts of the launch, stay.
    """

    def __init__(self, arguments: Sequence[Argument], seed: int) -> None:
        self._arguments = tuple(arguments)
        self._random = np.random.RandomState(seed)
        self._best = self._arguments
        self._score = -1
        self._sizes = [a.size for a in self._arguments if isinstance(a, np.ndarray)]

    def draw(self) -> tuple[Argument, ...]:
        """Returns other data: all arrays anew, or one of the best so far changed. Linear."""
        chooser = self._random
        places = [i for i, a in enumerate(self._arguments) if isinstance(a, np.ndarray)]
        if not places:
            return self._arguments
        drawn = list(self._arguments)
        if self._score >= 0 and chooser.random_sample() < _AGAIN:
            drawn = list(self._best)
            places = [places[chooser.randint(len(places))]]
        for place in places:
            own = drawn[place]
            assert isinstance(own, np.ndarray)
            drawn[place] = self._changed(own, whole=len(places) > 1)
        return tuple(drawn)

    def note(self, arguments: tuple[Argument, ...], score: int) -> None:
        """Records how many instructions a run on these data executed."""
        if score > self._score:
            self._best, self._score = arguments, score

    def _changed(self, own: Array, *, whole: bool) -> Array:
        """Returns new content for an array, or for some of its elements."""
        drawn = self._drawn(own)
        if whole or self._random.random_sample() < 0.5:
            return drawn
        kept = self._random.random_sample(own.shape) < 0.75
        return np.where(kept, own, drawn)

    def _drawn(self, own: Array) -> Array:
        chooser = self._random
        kind = KINDS[chooser.randint(len(KINDS))]
        if kind == "own":
            return own.copy()
        if own.dtype.kind == "f":
            return self._chosen([0.0, 1.0, -1.0, 0.5, 2.0, 100.0, -1e-3, 1e4], own)
        bits = 8 * own.dtype.itemsize
        raw: Array
        if kind == "small":
            raw = np.asarray(chooser.randint(0, 48, own.shape))
        elif kind == "tiny":
            return self._chosen([0, 0, 1, 1, 2, 3, -1, 7, 8, 15, 16], own)
        elif kind == "indices":
            raw = np.asarray(chooser.randint(0, max(min(self._sizes), 1), own.shape))
        elif kind == "edges":
            return self._chosen([(1 << i) + j for i in range(bits - 1) for j in (-1, 0, 1)], own)
        elif kind == "ends":
            top = (1 << (bits - 1)) - 1
            return self._chosen([end - i for end in (top, -1) for i in range(8)], own)
        elif kind == "one":
            raw = np.full(own.shape, chooser.randint(0, 64), np.int64)
        else:
            raw = np.frombuffer(chooser.bytes(8 * own.size), np.int64).reshape(own.shape)
        changed: Array = raw.astype(own.dtype)  # modulo the width of the type
        return changed

    def _chosen(self, values: Sequence[float], own: Array) -> Array:
        """Returns one of the values for each element of an array."""
        places = np.asarray(self._random.randint(0, len(values), own.shape))
        chosen: Array = np.asarray(values)[places].astype(own.dtype)
        return chosen
