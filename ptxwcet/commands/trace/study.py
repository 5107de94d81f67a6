"""Traces of the launches of a kernel on the simulated machine: the entry point of the library.

>>> from ptxwcet.opened.request import Request
>>> from ptxwcet.commands.trace.study import TraceOptions, trace_launch
>>> request = Request("samples/saxpy.ptx", launch_file="samples/launches/saxpy.toml")
>>> traced = trace_launch(request, TraceOptions("lrr"))
>>> len(traced.trace)
64
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ptxwcet.bounds.grid_plan import (
    GridPlan,
    TracedKernel,
    block_points,
    build_grid_workload,
    known_paths,
    plan_grid,
)
from ptxwcet.bounds.occupancy import WaveSchedule
from ptxwcet.bounds.wishes import ANY_GRID, GridWishes
from ptxwcet.commands.run.study import execute_recorded, open_launch
from ptxwcet.emulator.executed_paths import executed_warps
from ptxwcet.emulator.launch import Progress
from ptxwcet.emulator.launch_model import LaunchFile, is_random
from ptxwcet.flow.facts.placing import place_facts
from ptxwcet.flow.graph.cfg import build_cfg
from ptxwcet.flow.graph.dominance import compute_postdominators
from ptxwcet.flow.graph.inlining import inline_calls
from ptxwcet.flow.launch import Launch
from ptxwcet.flow.paths.call_variables import followed
from ptxwcet.flow.paths.extraction import extract_ranges
from ptxwcet.ir.kernel import Kernel, Module
from ptxwcet.machine.loader import load_machine
from ptxwcet.machine.model import Machine
from ptxwcet.opened.opening import digest_of, open_request, read_module, state_facts
from ptxwcet.opened.request import MOST_INSTRUCTIONS, Request
from ptxwcet.pipeline import build_flow
from ptxwcet.simulator.grid import GridOptions, GridRun, GridShape, GridWorkload
from ptxwcet.simulator.policies import Jitter, Policy, find_policy
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.support.source import SourceFile
from ptxwcet.timing.launch_costs import LaunchCosts
from ptxwcet.trace.events import END, Ipoint, TimedTrace, TraceOrigin

MOST_EVENTS = 30_000_000
"""The default limit of traced events of all runs together: about 2 GB of memory."""

TraceProgress = Callable[[int, int, int], None]
"""Called now and then with the blocks traced, the blocks of all runs, and the warp instructions."""


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """The options of a trace.

    ``runs``: run k adds k to the seeds of the launch file's random arrays, and to ``seed`` for the
    random policy and for jitter. ``grid``: the stated SMs and residency. ``execute``: the launch is
    executed even if path analysis finds one path for every warp; an execution ends after
    ``max_instructions``.
    """

    policy: str
    grid: GridWishes = ANY_GRID
    runs: int = 1
    seed: int = 0
    jitter_percent: int = 0
    most_events: int = MOST_EVENTS
    execute: bool = False
    max_instructions: int = MOST_INSTRUCTIONS


@dataclass(frozen=True, slots=True)
class TracedLaunch:
    """The trace of all runs, their statistics, and the distribution of the grid over the GPU.

    ``is_executed``: the paths are those of the inputs; else path analysis found one path for each
    warp, which holds for every input.
    """

    launch: LaunchFile
    machine: Machine
    plan: GridPlan
    trace: TimedTrace
    runs: tuple[GridRun, ...]
    is_executed: bool


def trace_kernel(
    request: Request, options: TraceOptions, progress: TraceProgress | None = None
) -> TimedTrace:
    """Returns only the trace; see :func:`trace_launch`."""
    return trace_launch(request, options, progress).trace


def trace_launch(
    request: Request, options: TraceOptions, progress: TraceProgress | None = None
) -> TracedLaunch:
    """Times a launch, block by block, on several SMs: of a launch file, or stated by the request if
    its paths are known without data.

    Raises PtxwcetError: problems of the inputs; findings of the executions; PW315, PW316
    (occupancy); PW426 (contradicting registers); PW690 (too many events); PW691 (several runs that
    would be the same); PW692 (no instructions). Cost: as the executions, and about a scan over the
    warps of an SM for each issued instruction.
    """
    machine = load_machine(request.machine, request.memory_latency_cycles)
    policy = find_policy(options.policy)
    Jitter(options.jitter_percent)  # refused before any work
    module = read_module(request)
    launch, facts = _launch_of(request, module)
    _require_variety(launch, policy, options)
    if not launch.kernel.instructions:
        message = (
            f"kernel {launch.kernel.readable} has no instructions, so there is nothing to trace"
        )
        raise PtxwcetError.of("PW692", message, launch.kernel.span, help="trace another kernel")
    plan = plan_grid(launch, module, machine, options.grid)
    paths = LaunchPaths(request, module, launch, facts, machine, options.max_instructions)
    if not options.execute:
        paths.analyse(is_all=request.launch_file is None)
    report = _Report(progress, options.runs, math.prod(launch.grid))
    runs = _trace_runs(paths, plan.shape, policy, options, report)
    digest = digest_of(request)
    origin = TraceOrigin(launch.kernel.name, digest, f"simulator {policy.value}")
    trace = _join(runs, origin, paths.traced)
    return TracedLaunch(launch, machine, plan, trace, runs, paths.known is None)


def _launch_of(request: Request, module: Module) -> tuple[LaunchFile, Launch]:
    """Returns the launch of a launch file; without one it has no arguments to run it with."""
    if request.launch_file is not None:
        return open_launch(request, module)
    opened = open_request(request, module)
    kernel, *others = opened.kernels
    facts = opened.launch_not_bounded(kernel)
    if others or facts.grid is None:
        message = "a trace is of one kernel and all blocks of its grid"
        names = ", ".join(kernel.readable for kernel in opened.kernels)
        raise PtxwcetError.of("PW427", message, help=f"give --grid SIZE, and -k for one of {names}")
    said = SourceFile(request.path, "")
    return LaunchFile(said, kernel, facts.block, facts.grid, {}, (), (), ()), facts


def plan_launch(request: Request, grid: GridWishes = ANY_GRID) -> WaveSchedule:
    """Returns the waves of a launch from its launch file, the occupancy and ``grid``; nothing runs.

    Raises PtxwcetError: problems of the inputs, PW315, PW316 (occupancy). Cost: reading the files.
    """
    machine = load_machine(request.machine, request.memory_latency_cycles)
    module = read_module(request)
    launch, _ = open_launch(request, module)
    return plan_grid(launch, module, machine, grid).waves


def _varies(policy: Policy, options: TraceOptions) -> bool:
    """Returns whether two runs of the same paths may take different times."""
    return options.jitter_percent > 0 or policy is Policy.RANDOM


def _require_variety(launch: LaunchFile, policy: Policy, options: TraceOptions) -> None:
    if options.runs == 1 or _varies(policy, options) or any(map(is_random, launch.arguments)):
        return
    raise same_runs(launch, options.runs, "trace with --jitter or --policy random")


def same_runs(launch: LaunchFile, runs: int, otherwise: str) -> PtxwcetError:
    """Returns PW691: no part of the runs of a launch is random."""
    return PtxwcetError.of(
        "PW691",
        f"{runs} runs of {launch.file.name} would all be the same",
        help='give the launch file an array with a seed (init = "uniform" or "integers"), '
        f"or {otherwise}",
    )


class LaunchPaths:
    """The source of the workload of each run: an execution, or path analysis for all runs."""

    def __init__(
        self,
        request: Request,
        module: Module,
        launch: LaunchFile,
        facts: Launch,
        machine: Machine,
        max_instructions: int = MOST_INSTRUCTIONS,
    ) -> None:
        self._request, self._module, self._launch = request, module, launch
        self._facts, self._machine = facts, machine
        self._max_instructions = max_instructions
        self.traced = self._timed(inline_calls(launch.kernel, module))
        self._meetings = compute_postdominators(self.traced.cfg).immediate
        self.known: GridWorkload | None = None

    def analyse(self, *, is_all: bool = False) -> None:
        """Sets ``known`` if path analysis finds exactly one path for every warp.

        ``is_all``: there is nothing to execute, so raises PtxwcetError if it does not.
        """
        kernel, launch = self.traced.kernel, self._facts
        stated = state_facts(self._request, self._module).of_kernel(kernel.name)
        try:
            flow = build_flow(kernel, launch)
            ranges = extract_ranges(followed(flow), launch, place_facts(flow, stated))
        except PtxwcetError:
            if is_all:
                raise
            return  # it needs the inputs; the execution reports the kernel's problems too
        paths = known_paths(ranges, self._launch.grid)
        if paths is not None:
            self.known = build_grid_workload(paths, self.traced)
        elif is_all:
            message = f"what warps of kernel {kernel.readable} execute depends on data"
            remedy = "give a launch file, whose data it is executed on: --launch"
            raise PtxwcetError.of("PW427", message, kernel.span, help=remedy)

    def workload(self, number: int, progress: Progress | None = None) -> GridWorkload:
        """Returns the paths on the inputs of this number. Raises PtxwcetError, as its run."""
        if self.known is not None:
            return self.known
        execution = execute_recorded(
            self._module,
            self._launch.reseeded(number),
            progress,
            max_instructions=self._max_instructions,
        )
        launched = executed_warps(execution, self.traced.cfg, self._meetings)
        return build_grid_workload(launched, self.traced)

    def _timed(self, kernel: Kernel) -> TracedKernel:
        at_worst = self._request.unknown_at_worst
        costs = LaunchCosts(kernel, self._facts, self._machine, unknown_at_worst=at_worst)
        return TracedKernel(kernel, build_cfg(kernel), costs, self._machine.scoreboard)


def _trace_runs(
    paths: LaunchPaths, shape: GridShape, policy: Policy, options: TraceOptions, report: _Report
) -> tuple[GridRun, ...]:
    # imported here: the compiled code is loaded only for simulations
    from ptxwcet.simulator.grid_engine import require_room, simulate_grid

    runs: list[GridRun] = []
    left = options.most_events
    for number in range(options.runs):
        seed = options.seed + number
        jitter = Jitter(options.jitter_percent, seed)
        how = GridOptions(policy, seed, jitter, left, report.simulating)
        if runs and paths.known is not None and not _varies(policy, options):
            require_room(len(runs[0].cycle), left)
            runs.append(runs[0])
        else:
            runs.append(simulate_grid(paths.workload(number, report.executing), shape, how))
        left -= len(runs[-1].cycle)
        report.next_run(runs[-1].instructions)
    return tuple(runs)


class _Report:
    """Turns the blocks of executions and simulations into one count over all runs."""

    def __init__(self, progress: TraceProgress | None, runs: int, blocks: int) -> None:
        self._progress = progress
        self._blocks, self._all = blocks, runs * blocks
        self._before = self._instructions = self._executed = 0

    def executing(self, done: int, blocks: int, instructions: int) -> None:
        """Shows the progress of an execution, which counts for one half of its blocks."""
        self._executed = instructions
        self._show(done // 2, instructions)

    def simulating(self, done: int, blocks: int, instructions: int) -> None:
        """Shows a simulation's progress: the second half, or all if blocks were not executed."""
        shown = (blocks + done) // 2 if self._executed else done
        self._show(shown, max(self._executed, instructions))

    def next_run(self, instructions: int) -> None:
        """Counts a run as complete, and begins with the next."""
        self._show(self._blocks, instructions)
        self._before += self._blocks
        self._instructions += instructions
        self._executed = 0

    def _show(self, done: int, instructions: int) -> None:
        if self._progress is not None:
            self._progress(self._before + done, self._all, self._instructions + instructions)


def _join(runs: Sequence[GridRun], origin: TraceOrigin, traced: TracedKernel) -> TimedTrace:
    blocks, instructions = traced.cfg.blocks, traced.kernel.instructions
    points = [
        Ipoint(traced.cfg.name(block), instructions[blocks[block].start].span.line)
        for block in block_points(traced.cfg)
    ]
    return TimedTrace(
        origin,
        (*points, END),
        np.concatenate([run.point for run in runs]),
        np.concatenate([run.sm for run in runs]),
        np.concatenate([run.warp for run in runs]),
        np.concatenate([run.cycle for run in runs]),
        np.cumsum([0, *(len(run.cycle) for run in runs[:-1])], dtype=np.int64),
    )
