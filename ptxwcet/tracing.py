"""Tracing the launches of a kernel on the simulated machine: the library's front door.

>>> from ptxwcet.api import Request
>>> from ptxwcet.tracing import TraceOptions, trace_launch
>>> request = Request("samples/saxpy.ptx", launch_file="samples/launches/saxpy.toml")
>>> traced = trace_launch(request, TraceOptions("lrr", sms=2))
>>> len(traced.trace)  # doctest: +SKIP
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ptxwcet.api import Request, file_digest
from ptxwcet.claims import Assumption, AssumptionState
from ptxwcet.compose.grid_workload import TracedKernel, block_points, build_grid_workload
from ptxwcet.compose.occupancy import (
    BlockResources,
    Occupancy,
    OccupancyLimit,
    compute_occupancy,
    missing_rules,
)
from ptxwcet.compose.waves import WaveSchedule, schedule_waves
from ptxwcet.emulator.executed_paths import executed_warps
from ptxwcet.emulator.launch import Execution
from ptxwcet.emulator.launch_model import LaunchFile, is_random
from ptxwcet.emulator.layout import shared_bytes
from ptxwcet.execution import execute_recorded, open_launch
from ptxwcet.flow.cfg import build_cfg
from ptxwcet.flow.dominance import compute_postdominators
from ptxwcet.flow.inlining import inline_calls
from ptxwcet.ir.kernel import Module
from ptxwcet.machine.loader import load_machine
from ptxwcet.machine.model import Machine
from ptxwcet.ptx.parser import parse_module
from ptxwcet.ptx.reading import read_source
from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.grid import GridOptions, GridRun, GridShape
from ptxwcet.simulator.policies import Jitter, Policy, find_policy
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.timing.cost import InstructionCosts
from ptxwcet.trace.events import END, Ipoint, TimedTrace, TraceOrigin

MOST_EVENTS = 30_000_000
"""Events of all runs together that are traced unless told otherwise: about 2 GB of memory."""

TraceProgress = Callable[[int, int, int], None]
"""Called now and then with the blocks traced, the blocks of all runs, and the warp instructions."""


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """How to trace. None: as the machine file, the launch file or ``.maxnreg`` says.

    ``runs``: run k has the seeds of the launch file's random arrays moved on k times, and ``seed``
    + k for the random policy and for jitter. ``launch_gap_cycles`` lie between the starts of two
    blocks.
    """

    policy: str
    sms: int | None = None
    resident_blocks: int | None = None
    registers: int | None = None
    runs: int = 1
    seed: int = 0
    jitter_percent: int = 0
    launch_gap_cycles: int = 0
    most_events: int = MOST_EVENTS


@dataclass(frozen=True, slots=True)
class TracedLaunch:
    """The trace of all runs, one row of ``runs`` each, and on what it was made.

    ``assumptions`` are those of occupancy and dispatch: the shape of the grid's run depends on
    them.
    """

    launch: LaunchFile
    machine: Machine
    trace: TimedTrace
    runs: tuple[GridRun, ...]
    shape: GridShape
    occupancy: Occupancy
    waves: WaveSchedule
    assumptions: tuple[Assumption, ...]


def trace_kernel(
    request: Request, options: TraceOptions, progress: TraceProgress | None = None
) -> TimedTrace:
    """The trace alone; see :func:`trace_launch`."""
    return trace_launch(request, options, progress).trace


def trace_launch(
    request: Request, options: TraceOptions, progress: TraceProgress | None = None
) -> TracedLaunch:
    """Executes the launch of a launch file and times it, block by block, on several SMs.

    Raises PtxwcetError: problems of the inputs; findings of the executions; PW315, PW316
    (occupancy); PW426 (contradicting registers); PW690 (too many events); PW691 (several runs that
    would be the same). Cost: that of the executions, and about a scan over the warps of an SM for
    each issued instruction.
    """
    machine = load_machine(request.machine, request.memory_latency_cycles)
    policy = find_policy(options.policy)
    jitter = Jitter(options.jitter_percent, options.seed)
    module = parse_module(read_source(request.path))
    launch, _ = open_launch(request, module)
    _require_variety(launch, policy, options)
    occupancy, assumptions = launch_occupancy(launch, module, machine, options)
    shape, of_shape = grid_shape(machine, occupancy, options)
    blocks = math.prod(launch.grid)
    report = _Report(progress, options.runs * blocks)
    runs: list[GridRun] = []
    left = options.most_events
    traced = None
    for number in range(options.runs):
        seeds = replace(jitter, seed=options.seed + number)
        execution = execute_recorded(module, launch.reseeded(number), report.executing)
        if traced is None:
            traced = timed_kernel(execution, launch, machine, request)
        how = GridOptions(policy, options.seed + number, seeds, left, report.simulating)
        runs.append(_simulate(execution, traced, shape, how))
        left -= len(runs[-1].cycle)
        report.next_run(blocks)
    assert traced is not None, "there is at least one run"
    origin = TraceOrigin(launch.kernel.name, file_digest(request.path), f"simulator {policy.value}")
    return TracedLaunch(
        launch,
        machine,
        _join(runs, origin, traced),
        tuple(runs),
        shape,
        occupancy,
        schedule_waves(blocks, shape.sms, occupancy),
        (*assumptions, *of_shape),
    )


# --- what limits the grid -------------------------------------------------------------------------


def _require_variety(launch: LaunchFile, policy: Policy, options: TraceOptions) -> None:
    random = options.jitter_percent > 0 or policy is Policy.RANDOM
    if options.runs == 1 or random or any(is_random(row) for row in launch.arguments):
        return
    raise PtxwcetError(
        Diagnostic(
            "PW691",
            f"{options.runs} runs of {launch.file.name} would all be the same",
            help='give the launch file an array with a seed (init = "uniform" or "integers"), '
            "or trace with --jitter or --policy random",
        )
    )


def launch_occupancy(
    launch: LaunchFile, module: Module, machine: Machine, options: TraceOptions
) -> tuple[Occupancy, tuple[Assumption, ...]]:
    """How many blocks of the launch an SM holds. Raises PtxwcetError (PW315, PW316, PW426)."""
    threads = math.prod(launch.block)
    if options.resident_blocks is not None:
        given = options.resident_blocks
        warps = -(-threads // machine.warp_size)
        occupancy = Occupancy(given, warps, (OccupancyLimit("--resident-blocks", given),))
        text = f"an SM holds {given} blocks of this launch at a time"
        return occupancy, (_assumed("resident-blocks", text, "--resident-blocks"),)
    registers, source = _registers(launch, options)
    shared = shared_bytes(inline_calls(launch.kernel, module), module, launch.dynamic_shared_bytes)
    occupancy = compute_occupancy(BlockResources(threads, shared, registers, source), machine)
    return occupancy, occupancy.assumptions


def _registers(launch: LaunchFile, options: TraceOptions) -> tuple[int | None, str]:
    """Registers of a thread, and who says it: the option, the launch file or ``.maxnreg``."""
    given, written = options.registers, launch.registers_per_thread
    if given is not None and written is not None and given != written:
        place = launch.place("registers_per_thread")
        raise PtxwcetError(
            Diagnostic(
                "PW426",
                f"--registers {given} contradicts {place}, which says {written}",
                help="leave one of them out, or let both say the same",
            )
        )
    if given is not None:
        return given, "--registers"
    if written is not None:
        return written, launch.place("registers_per_thread")
    for directive in launch.kernel.performance:
        if directive.keyword == ".maxnreg":
            return directive.values[0], f".maxnreg of kernel {launch.kernel.name}"
    return None, ""


def grid_shape(
    machine: Machine, occupancy: Occupancy, options: TraceOptions
) -> tuple[GridShape, tuple[Assumption, ...]]:
    """The SMs of a run and what was assumed for them. Raises PtxwcetError."""
    if options.sms is not None:
        sms, source = options.sms, "--sms"
    elif machine.occupancy is not None:
        sms, source = machine.occupancy.sms.value, machine.occupancy.sms.source
    else:
        raise missing_rules(machine)
    gap = options.launch_gap_cycles
    rows = [_assumed("sms", f"the GPU has {sms} SM{'s' if sms > 1 else ''}", source)]
    if gap:
        text = f"between the starts of two blocks lie at least {gap} cycles"
        rows.append(_assumed("launch-gap", text, "--launch-gap"))
    shape = GridShape(sms, occupancy.resident_blocks, SmConfiguration.of(machine), gap)
    return shape, tuple(rows)


def _assumed(key: str, text: str, source: str) -> Assumption:
    return Assumption(key, text, AssumptionState.ASSUMED, source)


# --- one run after another ------------------------------------------------------------------------


class _Report:
    """Turns the blocks of executions and simulations into one count over all runs."""

    def __init__(self, progress: TraceProgress | None, all_blocks: int) -> None:
        self._progress = progress
        self._all = all_blocks
        self._before = 0
        self._instructions = 0
        self._executed = 0

    def executing(self, done: int, blocks: int, instructions: int) -> None:
        """An execution counts for one half of its blocks."""
        self._executed = instructions
        self._show(self._before + done // 2)

    def simulating(self, done: int, blocks: int) -> None:
        """A simulation counts for the other half."""
        self._show(self._before + (blocks + done) // 2)

    def next_run(self, blocks: int) -> None:
        """A run is over."""
        self._before += blocks
        self._instructions += self._executed
        self._executed = 0

    def _show(self, done: int) -> None:
        if self._progress is not None:
            self._progress(done, self._all, self._instructions + self._executed)


def timed_kernel(
    execution: Execution, launch: LaunchFile, machine: Machine, request: Request
) -> TracedKernel:
    """The executed kernel and its costs, which all runs share."""
    threads = math.prod(launch.block)
    costs = InstructionCosts(machine, threads, unknown_at_worst=request.unknown_at_worst)
    cfg = build_cfg(execution.kernel)
    return TracedKernel(execution.kernel, cfg, costs, machine.scoreboard)


def _simulate(
    execution: Execution, traced: TracedKernel, shape: GridShape, options: GridOptions
) -> GridRun:
    # here: its compiled code is loaded only when something is simulated
    from ptxwcet.simulator.grid_engine import simulate_grid

    meetings = compute_postdominators(traced.cfg).immediate
    executed = executed_warps(execution, traced.cfg, meetings)
    return simulate_grid(build_grid_workload(executed, traced), shape, options)


def _join(runs: list[GridRun], origin: TraceOrigin, traced: TracedKernel) -> TimedTrace:
    lengths = [len(run.cycle) for run in runs]
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
        np.cumsum([0, *lengths[:-1]], dtype=np.int64),
    )
