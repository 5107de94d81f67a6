"""``ptxwcet trace FILE --launch L --out T``: time every basic block of a launch on several SMs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from ptxwcet.cli.output import echo, echo_json
from ptxwcet.cli.paths import (
    INPUT_FILE,
    LAUNCH_FILE,
    MACHINE,
    OUTPUT_FILE,
    PTX_FILE,
    GuardedCommand,
)
from ptxwcet.cli.progress import ProgressLine
from ptxwcet.compose.grid_plan import GridWishes
from ptxwcet.machine.loader import DEFAULT_MACHINE
from ptxwcet.studies.launch_run import MOST_INSTRUCTIONS
from ptxwcet.studies.launch_trace import MOST_EVENTS, TracedLaunch, TraceOptions, trace_launch
from ptxwcet.studies.request import Request

_SUFFIXES = (".csv", ".npz")


@click.command(cls=GuardedCommand)
@click.argument("file", type=PTX_FILE)
@click.option(
    "--launch", "launch_file", type=LAUNCH_FILE, required=True, help="Launch file: what to run."
)
@click.option(
    "--out",
    type=OUTPUT_FILE,
    required=True,
    help="Write the trace: .csv (text) or .npz (columns, much smaller and faster).",
)
@click.option(
    "--policy",
    required=True,
    help="Warp scheduler: lrr, gto, gty, oldest, youngest, random.",
)
@click.option(
    "--runs",
    type=click.IntRange(1, 100_000),
    default=1,
    show_default=True,
    help="Trace so many inputs: the launch file's, then others with other seeds.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**62),
    default=0,
    show_default=True,
    help="Of the random policy and of jitter, in the first run; the others count on.",
)
@click.option(
    "--jitter",
    type=int,
    default=0,
    show_default=True,
    metavar="PERCENT",
    help="Shorten each initiation and latency at random by up to so much.",
)
@click.option(
    "--sms", type=click.IntRange(1, 1024), help="SMs of the GPU.  [default: the machine's]"
)
@click.option(
    "--registers",
    type=click.IntRange(1, 1024),
    help="Registers of a thread, as ptxas -v says.  [default: launch file, .maxnreg, no limit]",
)
@click.option(
    "--resident-blocks",
    type=click.IntRange(1, 1024),
    help="Blocks that an SM holds.  [default: computed from the machine's limits]",
)
@click.option(
    "--launch-gap",
    type=click.IntRange(0, 10**9),
    default=0,
    show_default=True,
    metavar="CYCLES",
    help="Cycles between the starts of two blocks.",
)
@click.option(
    "--max-events",
    type=click.IntRange(min=1),
    default=MOST_EVENTS,
    show_default=True,
    help="Refuse longer traces (about 60 bytes of memory an event).",
)
@click.option(
    "--execute",
    is_flag=True,
    help="Execute the launch even if its paths are known without.",
)
@click.option(
    "--max-instructions",
    type=click.IntRange(min=1),
    default=MOST_INSTRUCTIONS,
    show_default=True,
    help="Give up an execution after so many warp-instructions.",
)
@click.option(
    "--machine",
    type=MACHINE,
    default=DEFAULT_MACHINE,
    show_default=True,
    help="Machine file: a name (ptxwcet machine list) or a path.",
)
@click.option(
    "--mem-latency", type=int, help="Global-memory latency in cycles.  [default: the machine's]"
)
@click.option(
    "--on-unknown",
    type=click.Choice(["refuse", "worst"]),
    default="refuse",
    show_default=True,
    help="An opcode without a row: refuse, or charge the machine's slowest row.",
)
@click.option(
    "--source",
    type=INPUT_FILE,
    help="CUDA source that names the parameters.  [default: the .cu beside FILE]",
)
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True
)
def trace(
    file: str,
    launch_file: str,
    out: Path,
    machine: str,
    mem_latency: int | None,
    on_unknown: str,
    source: str | None,
    form: str,
    **options: Any,
) -> int:
    """Time a launch on a simulated GPU, and write when each warp entered each basic block.

    The launch is executed, unless path analysis knows the one path of every warp without.

    The times are runs of the model machine, not bounds (docs/tracing.md). Exit code: 0 the trace
    was written; 1 refused; 2 usage.
    """
    # here: formats are loaded by the commands that use them
    from ptxwcet.trace.files import write_trace

    if out.suffix not in _SUFFIXES:
        raise click.BadParameter(f"'{out}' should end in .csv or .npz", param_hint="'--out'")
    request = Request(
        file,
        source=source,
        machine=machine,
        memory_latency_cycles=mem_latency,
        unknown_at_worst=on_unknown == "worst",
        launch_file=launch_file,
    )
    with ProgressLine() as line:
        traced = trace_launch(request, _options(**options), line.show)
    write_trace(traced.trace, out)
    if form == "json":
        echo_json(_plain(traced, out))
    else:
        echo("\n".join(_lines(traced, out)))
    return 0


def _options(
    policy: str,
    runs: int,
    seed: int,
    jitter: int,
    sms: int | None,
    registers: int | None,
    resident_blocks: int | None,
    launch_gap: int,
    max_events: int,
    execute: bool,
    max_instructions: int,
) -> TraceOptions:
    wishes = GridWishes(sms, resident_blocks, registers, launch_gap)
    return TraceOptions(policy, wishes, runs, seed, jitter, max_events, execute, max_instructions)


def _lines(traced: TracedLaunch, out: Path) -> Iterator[str]:
    launch, plan = traced.launch, traced.plan
    shape, waves = plan.shape, plan.waves
    block, grid = ("x".join(map(str, size)) for size in (launch.block, launch.grid))
    yield f"kernel     {launch.kernel.readable}, block {block}, grid {grid}"
    recorder = traced.trace.origin.recorder
    yield f"machine    {traced.machine.name}, {_count(shape.sms, 'SM')}; {recorder}"
    occupancy = plan.occupancy
    held = (
        f"{_count(occupancy.resident_blocks, 'block')}, {_count(occupancy.resident_warps, 'warp')}"
    )
    limits = ", ".join(
        f"{row.resource} {'any' if row.blocks is None else row.blocks}" for row in occupancy.limits
    )
    yield f"an SM      holds {held}, limited by {' and '.join(occupancy.limited_by)} ({limits})"
    yield (
        f"waves      {waves.waves} of at most {_count(waves.blocks_per_wave, 'block')} and "
        f"{_count(waves.warps_per_wave, 'warp')} an SM"
    )
    seen = "executed" if traced.is_executed else "known without execution, the same for every input"
    yield f"paths      {seen}"
    longest = max(run.cycles for run in traced.runs)
    runs = _count(len(traced.runs), "run")
    yield f"trace      {len(traced.trace):,} events of {runs} in {out}; longest {longest:,} cycles"
    for assumption in plan.assumptions:
        yield f"assumed    {assumption.text} [{assumption.source}]"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _plain(traced: TracedLaunch, out: Path) -> dict[str, Any]:
    launch, plan = traced.launch, traced.plan
    shape, waves = plan.shape, plan.waves
    occupancy = plan.occupancy
    return {
        "schema": 1,
        "kernel": launch.kernel.name,
        "readable": launch.kernel.readable,
        "sha256": traced.trace.origin.sha256,
        "block": launch.block,
        "grid": launch.grid,
        "machine": traced.machine.name,
        "recorder": traced.trace.origin.recorder,
        "sms": shape.sms,
        "launch_gap_cycles": shape.launch_gap_cycles,
        "resident_blocks": occupancy.resident_blocks,
        "resident_warps": occupancy.resident_warps,
        "limits": {row.resource: row.blocks for row in occupancy.limits},
        "executed": traced.is_executed,
        "waves": waves.waves,
        "warps_per_wave": waves.warps_per_wave,
        "trace": str(out),
        "events": len(traced.trace),
        "runs": [{"cycles": run.cycles, "instructions": run.instructions} for run in traced.runs],
        "guarantee": "observed",
        "assumptions": [
            {"key": row.key, "text": row.text, "source": row.source} for row in plan.assumptions
        ],
    }
