"""Tracing the launches of a kernel on the simulated machine: the library's front door.

>>> from ptxwcet.api import Request
>>> from ptxwcet.tracing import TraceOptions, trace_launch
>>> request = Request("samples/saxpy.ptx", launch_file="samples/launches/saxpy.toml")
>>> traced = trace_launch(request, TraceOptions("lrr"))
>>> len(traced.trace)  # doctest: +SKIP
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ptxwcet.api import Request, file_digest, state_facts
from ptxwcet.compose.grid_plan import ANY_GRID, GridPlan, GridWishes, plan_grid
from ptxwcet.compose.grid_workload import (
    TracedKernel,
    block_points,
    build_grid_workload,
    known_paths,
)
from ptxwcet.compose.waves import WaveSchedule
from ptxwcet.emulator.executed_paths import executed_warps
from ptxwcet.emulator.launch_model import LaunchFile, is_random
from ptxwcet.execution import execute_recorded, open_launch
from ptxwcet.flow.cfg import build_cfg
from ptxwcet.flow.dominance import compute_postdominators
from ptxwcet.flow.facts import Launch
from ptxwcet.flow.inlining import inline_calls
from ptxwcet.ir.kernel import Kernel, Module
from ptxwcet.machine.loader import load_machine
from ptxwcet.machine.model import Machine
from ptxwcet.pipeline import prepare_kernel
from ptxwcet.ptx.parser import parse_module
from ptxwcet.ptx.reading import read_source
from ptxwcet.simulator.grid import GridOptions, GridRun, GridShape, GridWorkload
from ptxwcet.simulator.policies import Jitter, Policy, find_policy
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.timing.cost import InstructionCosts
from ptxwcet.trace.events import END, Ipoint, TimedTrace, TraceOrigin

MOST_EVENTS = 30_000_000
"""Events of all runs together that are traced unless told otherwise: about 2 GB of memory."""

TraceProgress = Callable[[int, int, int], None]
"""Called now and then with the blocks traced, the blocks of all runs, and the warp instructions
executed."""


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """How to trace.

    ``runs``: run k has the seeds of the launch file's random arrays moved on k times, and ``seed``
    + k for the random policy and for jitter. ``grid``: what is said of SMs and residency.
    ``execute``: the launch is executed even where path analysis knows the one path of every warp.
    """

    policy: str
    grid: GridWishes = ANY_GRID
    runs: int = 1
    seed: int = 0
    jitter_percent: int = 0
    most_events: int = MOST_EVENTS
    execute: bool = False


@dataclass(frozen=True, slots=True)
class TracedLaunch:
    """The trace of all runs, what each run was, and how the grid shared the GPU.

    ``is_executed``: the paths are those that the inputs took; else they are the only ones that path
    analysis found, and so those of every input.
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
    """The trace alone; see :func:`trace_launch`."""
    return trace_launch(request, options, progress).trace


def trace_launch(
    request: Request, options: TraceOptions, progress: TraceProgress | None = None
) -> TracedLaunch:
    """Times the launch of a launch file, block by block, on several SMs.

    Raises PtxwcetError: problems of the inputs; findings of the executions; PW315, PW316
    (occupancy); PW426 (contradicting registers); PW690 (too many events); PW691 (several runs that
    would be the same). Cost: that of the executions, and about a scan over the warps of an SM for
    each issued instruction.
    """
    machine = load_machine(request.machine, request.memory_latency_cycles)
    policy = find_policy(options.policy)
    jitter = Jitter(options.jitter_percent, options.seed)
    module = parse_module(read_source(request.path))
    launch, facts = open_launch(request, module)
    varies = jitter.percent > 0 or policy is Policy.RANDOM
    if options.runs > 1 and not varies:
        _require_variety(launch, options.runs)
    plan = plan_grid(launch, module, machine, options.grid)
    paths = _Paths(request, module, launch, facts, machine)
    if not options.execute:
        paths.analyse()
    report = _Report(progress, options.runs, math.prod(launch.grid))
    runs: list[GridRun] = []
    left = options.most_events
    for number in range(options.runs):
        how = GridOptions(
            policy,
            options.seed + number,
            replace(jitter, seed=options.seed + number),
            left,
            report.simulating,
        )
        same = runs and paths.known is not None and not varies
        runs.append(_again(runs[0], left) if same else paths.run(number, plan.shape, how, report))
        left -= len(runs[-1].cycle)
        report.next_run()
    digest = file_digest(request.path)
    origin = TraceOrigin(launch.kernel.name, digest, f"simulator {policy.value}")
    trace = _join(runs, origin, paths.traced)
    return TracedLaunch(launch, machine, plan, trace, tuple(runs), paths.known is None)


def plan_waves(request: Request, options: TraceOptions) -> WaveSchedule:
    """The waves of a launch from its launch file, the occupancy and ``options``; nothing runs.

    Raises PtxwcetError: problems of the inputs, PW315, PW316 (occupancy). Cost: reading the files.
    """
    machine = load_machine(request.machine, request.memory_latency_cycles)
    module = parse_module(read_source(request.path))
    launch, _ = open_launch(request, module)
    return plan_grid(launch, module, machine, options.grid).waves


def _require_variety(launch: LaunchFile, runs: int) -> None:
    if any(is_random(row) for row in launch.arguments):
        return
    raise PtxwcetError(
        Diagnostic(
            "PW691",
            f"{runs} runs of {launch.file.name} would all be the same",
            help='give the launch file an array with a seed (init = "uniform" or "integers"), '
            "or trace with --jitter or --policy random",
        )
    )


class _Paths:
    """Where the workload of each run comes from: an execution, or path analysis for all runs."""

    def __init__(
        self,
        request: Request,
        module: Module,
        launch: LaunchFile,
        facts: Launch,
        machine: Machine,
    ) -> None:
        self._request, self._module, self._launch = request, module, launch
        self._facts, self._machine = facts, machine
        self.traced = self._timed(inline_calls(launch.kernel, module))
        self._meetings = compute_postdominators(self.traced.cfg).immediate
        self.known: GridWorkload | None = None

    def analyse(self) -> None:
        """Sets ``known`` if path analysis finds exactly one path for every warp."""
        kernel = self.traced.kernel
        stated = state_facts(self._request, self._module).of_kernel(kernel.name)
        try:
            prepared = prepare_kernel(kernel, self._facts, self._machine, stated)
        except PtxwcetError:
            return  # it needs the inputs; what is wrong with the kernel its execution tells too
        launched = known_paths([piece.paths for piece in prepared.pieces], self._launch.grid)
        if launched is not None:
            self.known = build_grid_workload(launched, self.traced)

    def run(self, number: int, shape: GridShape, options: GridOptions, report: _Report) -> GridRun:
        """One run on the inputs of that number."""
        # here: its compiled code is loaded only when something is simulated
        from ptxwcet.simulator.grid_engine import simulate_grid

        workload = self.known
        if workload is None:
            launch = self._launch.reseeded(number)
            execution = execute_recorded(self._module, launch, report.executing)
            launched = executed_warps(execution, self.traced.cfg, self._meetings)
            workload = build_grid_workload(launched, self.traced)
        return simulate_grid(workload, shape, options)

    def _timed(self, kernel: Kernel) -> TracedKernel:
        at_worst = self._request.unknown_at_worst
        costs = InstructionCosts(self._machine, self._facts.threads, unknown_at_worst=at_worst)
        return TracedKernel(kernel, build_cfg(kernel), costs, self._machine.scoreboard)


def _again(run: GridRun, most_events: int) -> GridRun:
    """The same run once more, within the events that are left."""
    # here: it is loaded when something has been simulated
    from ptxwcet.simulator.grid_engine import require_room

    require_room(len(run.cycle), most_events)
    return run


class _Report:
    """Turns the blocks of executions and simulations into one count over all runs."""

    def __init__(self, progress: TraceProgress | None, runs: int, blocks: int) -> None:
        self._progress = progress
        self._blocks, self._all = blocks, runs * blocks
        self._before = self._instructions = self._executed = 0

    def executing(self, done: int, blocks: int, instructions: int) -> None:
        """An execution counts for one half of its blocks."""
        self._executed = instructions
        self._show(self._before + done // 2)

    def simulating(self, done: int, blocks: int) -> None:
        """A simulation counts for the other half."""
        self._show(self._before + (blocks + done) // 2)

    def next_run(self) -> None:
        """A run is over."""
        self._before += self._blocks
        self._instructions += self._executed
        self._executed = 0
        self._show(self._before)

    def _show(self, done: int) -> None:
        if self._progress is not None:
            self._progress(done, self._all, self._instructions + self._executed)


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
