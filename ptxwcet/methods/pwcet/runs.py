"""Draws execution times: runs of a launch on the simulated machine, at random.

Random in a run are its inputs (the seeds of the launch file's arrays are advanced), the warp
schedulers, the reduction of each latency and initiation, and the distance of block starts. The time
of a run is that of Equation 1 of [E]: from the first start on an SM to the last end on one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from ptxwcet.bounds.grid_plan import plan_grid
from ptxwcet.bounds.wishes import GridWishes
from ptxwcet.claims import Assumption, Guarantee
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.commands.run.study import open_launch
from ptxwcet.commands.trace.study import LaunchPaths, same_runs
from ptxwcet.emulator.launch_model import LaunchFile, is_random
from ptxwcet.flow.launch import Launch
from ptxwcet.machine.loader import load_machine
from ptxwcet.machine.model import Machine
from ptxwcet.opened.opening import RefusedKernel, read_module
from ptxwcet.opened.request import Request
from ptxwcet.simulator.grid import GridOptions, GridShape, GridWorkload
from ptxwcet.simulator.policies import Jitter, Policy, find_policy, mix
from ptxwcet.support.records import dataclass
from ptxwcet.trace.measurements import ClockPairs, Condition, times_of_pairs

RunProgress = Callable[[int, int], None]
"""A function called after each run with the completed runs and all runs of all launches."""


@dataclass(frozen=True, slots=True)
class DrawOptions:
    """The options of drawing; ``sms``, ``resident_blocks`` and ``registers`` as in
    :class:`GridWishes`.

    ``inputs``: the number of different executed inputs, which the runs use in turn. ``launch_gap``:
    the most cycles between the starts of two blocks; each run draws its own.
    """

    runs: int
    inputs: int
    policy: str
    jitter_percent: int = 0
    launch_gap_cycles: int = 0
    sms: int | None = None
    resident_blocks: int | None = None
    registers: int | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class SafeBound:
    """A bound of every run of a launch, in cycles; ``reason`` explains it, or its absence."""

    cycles: int | None
    guarantee: Guarantee | None
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class DrawnCondition:
    """The runs of one launch file: the condition has the name of the file.

    ``executed_inputs``: the number of different executed inputs (1 if none is random).
    """

    condition: Condition
    machine: Machine
    shape: GridShape
    executed_inputs: int
    bound: SafeBound
    assumptions: tuple[Assumption, ...]


def draw_runs(
    request: Request, options: DrawOptions, progress: RunProgress | None = None
) -> DrawnCondition:
    """Draws the runs of the request's launch file, and bounds them where the kernel is bounded.

    Raises PtxwcetError: problems of the inputs, findings of the executions, PW691 (all runs would
    be the same), PW315, PW316 (occupancy). Cost: an execution for each input, a simulation for each
    run.
    """
    machine = load_machine(request.machine, request.memory_latency_cycles)
    policy = find_policy(options.policy)
    Jitter(options.jitter_percent)
    module = read_module(request)
    launch, _ = open_launch(request, module)
    inputs = _different_inputs(launch, policy, options)
    wishes = GridWishes(options.sms, options.resident_blocks, options.registers)
    plan = plan_grid(launch, module, machine, wishes)
    shape = plan.shape
    sizes = Launch(launch.block, launch.grid)
    paths = LaunchPaths(request, module, launch, sizes, machine)
    workloads = [paths.workload(number) for number in range(inputs)]
    times = _simulate(workloads, shape, policy, options, progress)
    assert request.launch_file is not None, "open_launch refuses a request without one"
    return DrawnCondition(
        Condition(Path(request.launch_file).stem, *times),
        machine,
        shape,
        inputs,
        _bound(request, launch, shape, options),
        plan.assumptions,
    )


def _different_inputs(launch: LaunchFile, policy: Policy, options: DrawOptions) -> int:
    has_inputs = any(is_random(argument) for argument in launch.arguments)
    varies = options.jitter_percent or options.launch_gap_cycles or policy is Policy.RANDOM
    if not has_inputs and not varies and options.runs > 1:
        otherwise = "draw with --jitter, --launch-gap or --policy random"
        raise same_runs(launch, options.runs, otherwise)
    return min(options.inputs, options.runs) if has_inputs else 1


def _simulate(
    workloads: list[GridWorkload],
    shape: GridShape,
    policy: Policy,
    options: DrawOptions,
    progress: RunProgress | None,
) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], int]:
    # Imported here: its compiled code is loaded only for a simulation.
    from ptxwcet.simulator.grid_engine import simulate_grid

    columns: tuple[list[int], list[int], list[int]] = ([], [], [])
    for number in range(options.runs):
        seed = mix(options.seed, number, 0) >> 2
        gap = mix(options.seed, number, 1) % (options.launch_gap_cycles + 1)
        how = GridOptions(policy, seed, Jitter(options.jitter_percent, seed))
        run = simulate_grid(
            workloads[number % len(workloads)], replace(shape, launch_gap_cycles=gap), how
        )
        for sm in np.unique(run.blocks.sm):
            on_it = run.blocks.sm == sm
            columns[0].append(number)
            columns[1].append(int(run.blocks.start[on_it].min()))
            columns[2].append(int(run.blocks.end[on_it].max()))
        if progress is not None:
            progress(number + 1, options.runs)
    run_column, start, end = columns
    return times_of_pairs(
        ClockPairs(
            np.asarray(run_column, np.intp),
            np.asarray(start, np.uint64),
            np.asarray(end, np.uint64),
            64,
        )
    )


def _bound(
    request: Request, launch: LaunchFile, shape: GridShape, options: DrawOptions
) -> SafeBound:
    """Returns SAFE of a block times the waves, plus all gaps before: for one resident block per SM.

    With blocks given to free SMs in order, the first ``j m`` of them on m SMs have ended after j
    times the longest block and as many gaps: by induction over j.
    """
    blocks = math.prod(launch.grid)
    waves = -(-blocks // shape.sms)
    if shape.resident_blocks > 1 and blocks > shape.sms:
        reason = (
            f"no bound: up to {shape.resident_blocks} blocks share an SM, and SAFE bounds a block "
            "that is alone on it"
        )
        return SafeBound(None, None, reason)
    asked = replace(request, kernels=(launch.kernel.name,), method="safe", policy=None)
    bounded = bound_file(asked).kernels[0]
    if isinstance(bounded, RefusedKernel):
        return SafeBound(None, None, f"no bound: {bounded.diagnostics[0].message}")
    claim = bounded.worst.bound.claim
    gaps = blocks * options.launch_gap_cycles
    reason = f"SAFE of a block, {claim.cycles:,} cycles, times {waves} wave"
    reason += ("s" if waves > 1 else "") + (f", plus {gaps:,} cycles of gaps" if gaps else "")
    return SafeBound(waves * claim.cycles + gaps, claim.guarantee, reason)
