"""The report of simulated runs as plain data, and how it is made from them. Schema number 1."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final, Literal

from ptxwcet.claims import Guarantee
from ptxwcet.report.build import name_rows, refused_row, row_or_refusal
from ptxwcet.report.model import MachineRow, Refused
from ptxwcet.report.places import place
from ptxwcet.simulator.run import Stalls, WarpRun
from ptxwcet.studies.opening import RefusedKernel
from ptxwcet.studies.simulated_run import KernelSimulation, SimulationAnswer
from ptxwcet.support.diagnostics import Diagnostic
from ptxwcet.support.version import VERSION

SCHEMA: Final = 1


@dataclass(frozen=True, slots=True)
class StallRow:
    """Cycles of warps by what they did or waited for; ``drain`` and ``finished`` after issuing."""

    issued: int
    dependency: int
    unit_busy: int
    issue_slot: int
    barrier: int
    branch: int
    drain: int = 0
    finished: int = 0


@dataclass(frozen=True, slots=True)
class WarpStalls:
    """One warp, from the block's first to its last cycle."""

    warp: int
    end_cycle: int
    cycles: StallRow


@dataclass(frozen=True, slots=True)
class SectionStalls:
    """Code between barriers, over all warps; ``begins`` names the barrier that it follows."""

    begins: str
    executions: int
    cycles: StallRow


@dataclass(frozen=True, slots=True)
class SimulatedKernel:
    """The run of a block. Cycles; ``issue_utilisation_percent`` of the SM's issue slots.

    ``stepped`` of the ``instructions`` were simulated one by one, the others skipped as exact
    repetitions. ``is_resolved``: the analysis left decisions open, which were taken for this run.
    """

    kernel: str
    readable: str
    block: tuple[int, int, int]
    grid: tuple[int, int, int] | None
    parameters: tuple[tuple[str, int | float], ...]
    parameter_names: tuple[tuple[str, str], ...]
    warp_count: int
    policy: str
    seed: int
    jitter_percent: int
    is_resolved: bool
    cycles: int
    microseconds: float
    guarantee: Annotated[str, Guarantee]
    instructions: int
    stepped: int
    issue_utilisation_percent: float
    block_ranges: int
    all_warps: StallRow
    warps: tuple[WarpStalls, ...]
    sections: tuple[SectionStalls, ...]
    status: Literal["simulated"] = "simulated"


@dataclass(frozen=True, slots=True)
class RunReport:
    """Everything about one simulation."""

    schema: Literal[1]
    tool: str
    version: str
    file: str
    sha256: str
    machine: MachineRow
    kernels: tuple[SimulatedKernel | Refused, ...]


def build_run_report(
    answer: SimulationAnswer, failures: list[Diagnostic] | None = None
) -> RunReport:
    """The report of a simulation; deterministic for equal input.

    An internal error in a kernel's row makes a refusal of the row and is added to ``failures``.
    """
    machine = answer.machine
    return RunReport(
        SCHEMA,
        "ptxwcet",
        VERSION,
        answer.path,
        answer.sha256,
        MachineRow(
            machine.name,
            machine.description,
            machine.memory_latency_cycles,
            machine.clock_mhz,
            (),
        ),
        tuple(
            refused_row(row)
            if isinstance(row, RefusedKernel)
            else row_or_refusal(
                row.prepared.kernel, partial(_simulated, row, machine.clock_mhz), failures
            )
            for row in answer.kernels
        ),
    )


def _simulated(row: KernelSimulation, clock_mhz: int) -> SimulatedKernel:
    run, launch = row.run, row.prepared.launch
    return SimulatedKernel(
        kernel=row.prepared.kernel.name,
        readable=row.prepared.kernel.readable,
        block=launch.block,
        grid=launch.grid,
        parameters=tuple(sorted(launch.parameters.items())),
        parameter_names=name_rows(launch),
        warp_count=len(run.warps),
        policy=run.policy.value,
        seed=run.seed,
        jitter_percent=run.jitter.percent,
        is_resolved=row.is_resolved,
        cycles=run.cycles,
        microseconds=round(run.cycles / clock_mhz, 3),
        guarantee=Guarantee.OBSERVED.value,
        instructions=run.instructions,
        stepped=run.stepped,
        issue_utilisation_percent=round(100 * run.issue_utilisation, 2),
        block_ranges=len(row.prepared.pieces),
        all_warps=_total(run.warps),
        warps=tuple(WarpStalls(w.warp, w.end_cycle, _total([w])) for w in run.warps),
        sections=_sections(row),
    )


def _row(stalls: Stalls, drain: int = 0, finished: int = 0) -> StallRow:
    return StallRow(
        stalls.issued,
        stalls.dependency,
        stalls.unit_busy,
        stalls.issue_slot,
        stalls.barrier,
        stalls.branch,
        drain,
        finished,
    )


def _total(warps: Iterable[WarpRun]) -> StallRow:
    warps = list(warps)
    stalls = sum((warp.stalls for warp in warps), Stalls())
    drain = sum(warp.drain_cycles for warp in warps)
    return _row(stalls, drain, sum(warp.finished_cycles for warp in warps))


def _sections(row: KernelSimulation) -> tuple[SectionStalls, ...]:
    stalls: dict[int | None, Stalls] = {}
    executions: dict[int | None, int] = {}
    for warp in row.run.warps:
        for section in warp.sections:
            stalls[section.after] = stalls.get(section.after, Stalls()) + section.stalls
            executions[section.after] = executions.get(section.after, 0) + section.executions
    ordered = sorted(stalls, key=lambda after: -1 if after is None else after)
    kernel = row.prepared.kernel
    return tuple(
        SectionStalls(
            "start" if after is None else place(kernel, after),
            executions[after],
            _row(stalls[after]),
        )
        for after in ordered
    )
