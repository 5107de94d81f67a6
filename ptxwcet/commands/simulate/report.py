"""The report of simulated runs as plain data, and its construction. Schema number 1."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Annotated, Literal

from ptxwcet.claims import Guarantee
from ptxwcet.commands.simulate.study import KernelSimulation, SimulationAnswer
from ptxwcet.report.head import (
    BlockHead,
    KernelHead,
    MachineHead,
    Refused,
    kernel_head,
    kernel_report,
    row_like,
)
from ptxwcet.report.source_lines import place
from ptxwcet.simulator.run import Stalls, WarpRun
from ptxwcet.support.records import dataclass


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
class SimulatedKernel(BlockHead):
    """The run of a block. Cycles; ``issue_utilisation_percent`` of the SM's issue slots.

    ``stepped`` of the ``instructions`` were simulated one by one, the others skipped as exact
    repetitions. ``is_resolved``: the analysis left decisions open, which were taken for this run.
    """

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
class RunReport(MachineHead):
    """Everything about one simulation."""

    kernels: tuple[SimulatedKernel | Refused, ...]


def build_run_report(answer: SimulationAnswer) -> RunReport:
    """Returns the report of a simulation."""
    return kernel_report(RunReport, answer, partial(_simulated, answer.machine.clock_mhz))


def _simulated(clock_mhz: int, simulation: KernelSimulation) -> SimulatedKernel:
    run, launch = simulation.run, simulation.prepared.launch
    return row_like(
        SimulatedKernel,
        *(KernelHead(*kernel_head(simulation.prepared.kernel, launch)), run, simulation),
        warp_count=len(run.warps),
        jitter_percent=run.jitter.percent,
        microseconds=round(run.cycles / clock_mhz, 3),
        guarantee=Guarantee.OBSERVED,
        issue_utilisation_percent=round(100 * run.issue_utilisation, 2),
        block_ranges=len(simulation.prepared.pieces),
        all_warps=_total(run.warps),
        warps=tuple(WarpStalls(w.warp, w.end_cycle, _total([w])) for w in run.warps),
        sections=_sections(simulation),
    )


def _total(warps: Iterable[WarpRun]) -> StallRow:
    warps = list(warps)
    stalls = sum((warp.stalls for warp in warps), Stalls())
    drain = sum(warp.drain_cycles for warp in warps)
    finished = sum(warp.finished_cycles for warp in warps)
    return row_like(StallRow, stalls, drain=drain, finished=finished)


def _sections(simulation: KernelSimulation) -> tuple[SectionStalls, ...]:
    stalls: dict[int | None, Stalls] = {}
    executions: dict[int | None, int] = {}
    for warp in simulation.run.warps:
        for section in warp.sections:
            stalls[section.after] = stalls.get(section.after, Stalls()) + section.stalls
            executions[section.after] = executions.get(section.after, 0) + section.executions
    ordered = sorted(stalls, key=lambda after: -1 if after is None else after)
    kernel = simulation.prepared.kernel
    return tuple(
        SectionStalls(
            "start" if after is None else place(kernel, after),
            executions[after],
            row_like(StallRow, stalls[after]),
        )
        for after in ordered
    )
