"""Compares the bound of a launch with runs of its executed grid on the grid simulator.

The runs execute the paths of the executed blocks, on the SMs of the bound, with numbers of resident
blocks for which it holds, under several policies. No run may be longer than the bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.bounds.grid_plan import TracedKernel, build_grid_workload
from ptxwcet.bounds.launch_bound import LaunchBound
from ptxwcet.claims import Refusal
from ptxwcet.emulator.executed_paths import executed_warps
from ptxwcet.emulator.launch import Execution
from ptxwcet.flow.graph.cfg import build_cfg
from ptxwcet.flow.graph.dominance import compute_postdominators
from ptxwcet.machine.assumptions import CLAIMS, PATH_KEEPS_UP
from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.grid import GridOptions, GridShape, GridWorkload
from ptxwcet.simulator.policies import Jitter, Policy
from ptxwcet.support.diagnostics import Diagnostic
from ptxwcet.support.records import dataclass
from ptxwcet.timing.launch_costs import LaunchCosts
from ptxwcet.validate.cases import Run
from ptxwcet.warp.segments import has_mbarrier

MOST_INSTRUCTIONS = 4_000_000
"""The most warp-instructions of a run grid: some seconds for all its runs, and 240 MB at most."""

MOST_RESIDENCIES = 4
"""The most numbers of resident blocks that are run; of more, the ends and some others."""

_FOR_ENDS_ALONE = 400_000
"""The warp-instructions above which only the ends are run."""


@dataclass(frozen=True, slots=True)
class GridValidation:
    """The runs of a whole grid against the bound of its launch.

    ``residents`` are the numbers of resident blocks that were run, of ``possible`` ones that
    differ. ``bound_cycles`` and ``longest_cycles`` are those of the launch without its overhead,
    which nothing simulates. ``skipped`` gives the reason if nothing was run; it is empty otherwise.
    """

    sms: int = 0
    residents: tuple[int, ...] = ()
    possible: int = 0
    runs: int = 0
    bound_cycles: int = 0
    longest_cycles: int = 0
    by: str = ""
    skipped: str = ""
    diagnostics: tuple[Diagnostic, ...] = ()


def validate_grid(
    analysis: KernelAnalysis,
    execution: Execution,
    seed: int,
    most_instructions: int = MOST_INSTRUCTIONS,
) -> GridValidation:
    """Compares the executed grid with the launch's bound; ``seed`` is that of random choices.

    A grid of more than ``most_instructions`` is not run. Raises PtxwcetError for what cannot be
    timed or deadlocks. Cost: a run for each policy and number of resident blocks.
    """
    launched = analysis.launch_bound
    if launched is None:
        return GridValidation(skipped="the grid is not known")
    if isinstance(launched, Refusal):
        return GridValidation(skipped=f"the launch has no bound: {launched.reason}")
    kept = any(map(analysis.machine.states, CLAIMS.keys() - {PATH_KEEPS_UP}))
    if kept or launched.block.arrays:
        return GridValidation(
            skipped="what a cache keeps counts in the bound, and is not simulated"
        )
    classes = [c for piece in analysis.pieces for c in piece.analysis.workload.classes]
    if any(has_mbarrier(c.program.body) for c in classes):
        return GridValidation(skipped="how often warps ask mbarriers in vain is not in the runs")
    if execution.warp_instructions > most_instructions:
        return GridValidation(skipped=f"more than {most_instructions:,} warp-instructions")
    possible = distinct_residencies(launched)
    few = 2 if execution.warp_instructions > _FOR_ENDS_ALONE else MOST_RESIDENCIES
    chosen = _spread(possible, few)
    checked = GridValidation(
        launched.sms, chosen, len(possible), bound_cycles=bound_without_overhead(launched)
    )
    workload = executed_workload(analysis, execution)
    for resident in chosen:
        for run in plan(seed):
            cycles = run_grid(analysis, workload, launched.sms, resident, run)
            by = f"{run}, {resident} resident block{'s' * (resident > 1)} an SM"
            checked = _noted(checked, cycles, by)
    if checked.longest_cycles <= checked.bound_cycles:
        return checked
    return replace(checked, diagnostics=(_contradiction(analysis, launched, checked),))


def plan(seed: int) -> Iterator[Run]:
    """Yields the runs of a grid with one number of resident blocks."""
    yield from (Run(policy) for policy in (Policy.LRR, Policy.GTO, Policy.YOUNGEST))
    yield Run(Policy.RANDOM, seed)
    yield Run(Policy.RANDOM, seed, Jitter(50, seed))


def bound_without_overhead(launched: LaunchBound) -> int:
    """Returns the bound from the start of the first block to the end of the last one."""
    return launched.claim.cycles - launched.overhead_cycles


def distinct_residencies(launched: LaunchBound) -> tuple[int, ...]:
    """Returns the resident-block numbers of the bound whose runs differ.

    The simulator deals blocks out in turn: no SM holds more than its share.
    """
    share = -(-launched.blocks // launched.sms)
    least, most = (min(n, share) for n in (launched.residency.least, launched.residency.most))
    return tuple(range(least, most + 1))


def executed_workload(analysis: KernelAnalysis, execution: Execution) -> GridWorkload:
    """Returns the executed programs of every warp of every block, for the grid simulator.

    Raises PtxwcetError (PW402, PW403).
    """
    kernel, machine = execution.kernel, analysis.machine
    cfg = build_cfg(kernel)
    meetings = compute_postdominators(cfg).immediate
    costs = LaunchCosts(kernel, analysis.launch, machine)
    traced = TracedKernel(kernel, cfg, costs, machine.scoreboard)
    return build_grid_workload(executed_warps(execution, cfg, meetings), traced)


def run_grid(
    analysis: KernelAnalysis,
    workload: GridWorkload,
    sms: int,
    resident: int,
    run: Run,
) -> int:
    """Returns the length of a run of a grid. Raises PtxwcetError (PW532: deadlock)."""
    # Imported here: its compiled code is loaded only for a simulation.
    from ptxwcet.simulator.grid_engine import simulate_grid

    machine = analysis.machine
    gap = 0 if machine.dispatch is None else machine.dispatch.gap_cycles.value
    shape = GridShape(sms, resident, SmConfiguration.of(machine), gap)
    return simulate_grid(workload, shape, GridOptions(run.policy, run.seed, run.jitter)).cycles


def _spread(numbers: tuple[int, ...], most: int) -> tuple[int, ...]:
    """Returns both ends and some between, evenly; all, if they are at most ``most``."""
    if len(numbers) <= most:
        return numbers
    last = len(numbers) - 1
    return tuple(numbers[place * last // (most - 1)] for place in range(most))


def _noted(study: GridValidation, cycles: int, by: str) -> GridValidation:
    study = replace(study, runs=study.runs + 1)
    return study if cycles <= study.longest_cycles else replace(study, longest_cycles=cycles, by=by)


def _contradiction(
    analysis: KernelAnalysis, launched: LaunchBound, study: GridValidation
) -> Diagnostic:
    return Diagnostic(
        "PW535",
        f"a bound is contradicted: the launch of kernel {analysis.kernel.readable}, "
        f"{launched.blocks:,} blocks on {study.sms} SM{'s' * (study.sms > 1)}: "
        f"{study.longest_cycles} cycles executed ({study.by}), its bound is {study.bound_cycles}",
    )
