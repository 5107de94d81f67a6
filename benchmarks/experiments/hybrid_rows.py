"""What the hybrid experiment finds of a kernel: a row, from its runs to the estimates."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from experiments.hybrid_kernels import HybridKernel, module_of
from experiments.hybrid_runs import SMS, Run, Store
from ptxwcet.bounds.occupancy import WaveSchedule
from ptxwcet.commands.run.study import read_launch
from ptxwcet.machine.loader import load_machine
from ptxwcet.methods.hybrid.study import HybridAnswer, HybridRequest, plan_waves, study_trace
from ptxwcet.opened.request import Request
from ptxwcet.support.installation import describe_sources
from ptxwcet.support.whole_files import write_text
from ptxwcet.validate.inputs import validate_inputs

EXCEEDANCE = 1e-6
"""Probability for which the quantile of a warp's time is given."""


@dataclass(frozen=True, slots=True)
class Row:
    """A kernel of the experiment; times in cycles.

    ``marks`` are the high-water marks of single runs, ``kinds`` what their inputs were like,
    ``traces`` how many runs differed. ``waves`` (Omega), ``warps_per_wave`` (phi) and ``start_gap``
    (Delta) are those found in the traces, ``planned_...`` those of launch, occupancy and first
    waves, which give the estimate ``planned``. ``likely_warp`` is exceeded by the worst path with
    probability EXCEEDANCE if its transitions are independent. Shares are of Z_warp. ``safe_block``
    bounds a block that is alone, ``block_alone`` is the longest run of one.
    """

    name: str
    marks: tuple[int, ...]
    kinds: tuple[str, ...]
    traces: int
    events: int
    blocks: int
    resident_blocks: int
    high_water_mark: int
    longest_warp: int
    longest_block: int
    warp: int
    likely_warp: int
    dynamic: int
    hybrid: int
    release_jitter: int
    waves: int
    warps_per_wave: int
    start_gap: int
    planned_waves: int
    planned_warps: int
    planned_gap: int
    planned: int
    transitions: int
    transitions_seen: int
    loop_share: float
    barrier_share: float
    safe_block: int
    block_alone: int


def over(estimate: int, mark: int) -> float:
    """How far an estimate lies above a high-water mark, in percent."""
    return 100 * estimate / mark - 100


def kept_study(store: Store, kernel: HybridKernel, runs: Sequence[Run]) -> Row:
    """The analysis of these runs: the one in the store, if it was made of them by this code."""
    key = hashlib.sha256(f"{describe_sources()} {runs}".encode()).hexdigest()
    path = store.place(kernel) / "row.json"
    if path.exists():
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["key"] == key:
            return read_row(kept["row"])
    row = study(store, kernel, runs)
    write_text(path, json.dumps({"key": key, "row": asdict(row)}), "PW233")
    return row


def read_row(fields: dict[str, Any]) -> Row:
    """The row that ``asdict`` gave, from JSON."""
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()
    }
    return Row(**values)


def study(store: Store, kernel: HybridKernel, runs: Sequence[Run]) -> Row:
    """Analyses the runs of a kernel. Cost: 150 bytes for each event, and the static bound."""
    trace = store.join(kernel, runs)
    request = HybridRequest(kernel.request(kernel.launch), str(trace), exceedances=(EXCEEDANCE,))
    answer = study_trace(request)
    trace.unlink()
    estimate, concurrency = answer.estimate, answer.estimate.concurrency
    schedule = planned_schedule(kernel, runs[0].resident_blocks)
    planned = plan_waves(estimate, schedule)
    (likely,) = answer.quantiles
    outer = max(estimate.shares.loops.values(), default=0)
    return Row(
        name=kernel.name,
        marks=tuple(run.high_water_mark for run in runs),
        kinds=tuple(run.kind for run in runs),
        traces=estimate.runs,
        events=sum(run.events for run in runs),
        blocks=schedule.blocks,
        resident_blocks=schedule.resident_blocks,
        high_water_mark=concurrency.high_water_mark,
        longest_warp=estimate.observations.longest_warp,
        longest_block=max(run.longest_block for run in runs),
        warp=estimate.warp_wcet,
        likely_warp=likely.cycles,
        dynamic=estimate.dynamic,
        hybrid=estimate.hybrid,
        release_jitter=concurrency.worst_jitter,
        waves=concurrency.waves.waves,
        warps_per_wave=concurrency.waves.warps_per_wave,
        start_gap=concurrency.waves.start_gap,
        planned_waves=schedule.waves,
        planned_warps=schedule.warps_per_wave,
        planned_gap=planned.start_gap,
        planned=planned.cycles,
        transitions=estimate.coverage.transitions,
        transitions_seen=estimate.coverage.seen,
        loop_share=outer / estimate.warp_wcet,
        barrier_share=estimate.shares.barriers / estimate.warp_wcet,
        safe_block=safe_cycles(answer),
        block_alone=longest_alone(kernel),
    )


def planned_schedule(kernel: HybridKernel, resident_blocks: int) -> WaveSchedule:
    """The waves that launch and occupancy give."""
    launch = read_launch(str(kernel.launch), module_of(kernel.path), Request(str(kernel.path)))
    warps = -(-math.prod(launch.block) // 32)
    return WaveSchedule(math.prod(launch.grid), SMS, resident_blocks, warps)


def safe_cycles(answer: HybridAnswer) -> int:
    """The safe bound of a block that has its multiprocessor for itself."""
    assert answer.static.claim is not None, answer.static.refusal
    return answer.static.claim.cycles


def longest_alone(kernel: HybridKernel) -> int:
    """The longest run of such a block, among those that the launch's own input executes.

    Each is run under five policies, and checked against its bound.
    """
    request = kernel.request(kernel.launch)
    machine = load_machine(request.machine, request.memory_latency_cycles)
    (result,) = validate_inputs(request, module_of(kernel.path), machine, 1)
    assert not result.diagnostics, [row.render() for row in result.diagnostics]
    return max(row.longest_cycles for row in result.rows)
