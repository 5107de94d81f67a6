"""``ptxwcet simulate launch FILE --launch L -o T``: records when the blocks of a launch begin."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from ptxwcet.cli import options
from ptxwcet.cli.command import Command
from ptxwcet.cli.output import echo, echo_json
from ptxwcet.cli.paths import OutputFile
from ptxwcet.cli.progress import ProgressLine
from ptxwcet.commands.trace.study import MOST_EVENTS, TracedLaunch, TraceOptions, trace_launch
from ptxwcet.opened.request import request_of
from ptxwcet.support.printable import plural


@click.command(
    "launch",
    cls=Command,
    needs=("sim",),
    example="ptxwcet simulate launch kernel.ptx --launch launch.toml --policy gto -o trace.csv",
)
@options.FILE_ON_DISK
@options.of("kernel", "link", "launch", "block", "grid", "params")
@options.option(
    "output",
    "Write the trace: .csv (text) or .npz (columns, much smaller and faster).",
    required=True,
    type=OutputFile(".csv", ".npz"),
)
@options.policy(required=True)
@options.option(
    "runs", "Trace so many inputs: the launch file's, then others with other seeds.", default=1
)
@options.option(
    "seed", "Of the random policy and of jitter, in the first run; the others count on.", default=0
)
@options.option("jitter", default=0)
@options.of("sms", "registers", "resident_blocks")
@options.option("launch_gap", "Cycles between the starts of two blocks.", default=0)
@options.option(
    "events",
    "Events to record; longer traces are refused (about 60 bytes of memory an event).",
    type=click.IntRange(min=1),
    default=MOST_EVENTS,
)
@options.option("executed", "Execute the launch even if its paths are known without.")
@options.of("max_instructions")
@options.machine_options
@options.of("cuda_source")
@options.format_option("text", "json")
def simulate_launch(
    file: str,
    launch: str | None,
    output: Path,
    form: str,
    **given: Any,
) -> int:
    """Time a launch on a simulated GPU, and write when each warp entered each basic block.

    The launch is executed, unless path analysis knows the one path of every warp without: then
    --block and --grid will do for --launch.

    The times are runs of the model machine, not bounds (docs/guide/run.md). Exit code: 0 the trace
    was written; 1 refused; 2 usage.
    """
    # imported here: only commands that use a format load it
    from ptxwcet.trace.files import write_trace

    options.refuse_idle_seed(given["policy"], given["jitter"])
    if launch is None:
        options.refuse_idle("executes the inputs of a launch file: give --launch", "executed")
        options.refuse_idle("is of an execution: give --launch", "max_instructions")
    tracing = TraceOptions(
        grid=options.grid_of(given),
        jitter_percent=given.pop("jitter"),
        most_events=given.pop("events"),
        execute=given.pop("executed"),
        **{name: given.pop(name) for name in ("policy", "runs", "seed", "max_instructions")},
    )
    request = request_of(file, {**given, "launch": launch})
    with ProgressLine() as line:
        traced = trace_launch(request, tracing, line.show)
    write_trace(traced.trace, output)
    if form == "json":
        echo_json(_plain(traced, output))
    else:
        echo("\n".join(_lines(traced, output)))
    return 0


def _lines(traced: TracedLaunch, out: Path) -> Iterator[str]:
    launch, plan = traced.launch, traced.plan
    shape, waves = plan.shape, plan.waves
    block, grid = ("x".join(map(str, size)) for size in (launch.block, launch.grid))
    yield f"kernel     {launch.kernel.readable}, block {block}, grid {grid}"
    recorder = traced.trace.origin.recorder
    yield f"machine    {traced.machine.name}, {plural(shape.sms, 'SM')}; {recorder}"
    occupancy = plan.occupancy
    held = (
        f"{plural(occupancy.resident_blocks, 'block')}, {plural(occupancy.resident_warps, 'warp')}"
    )
    limits = ", ".join(
        f"{row.resource} {'any' if row.blocks is None else row.blocks}" for row in occupancy.limits
    )
    yield f"an SM      holds {held}, limited by {' and '.join(occupancy.limited_by)} ({limits})"
    yield (
        f"waves      {waves.waves} of at most {plural(waves.blocks_per_wave, 'block')} and "
        f"{plural(waves.warps_per_wave, 'warp')} an SM"
    )
    longest = max(traced.runs, key=lambda run: run.cycles)
    yield (
        f"occupancy  {_percent(traced, occupancy.resident_warps):g} %, achieved "
        f"{_percent(traced, longest.active_warps):g} % on average while an SM has blocks"
    )
    seen = "executed" if traced.is_executed else "known without execution, the same for every input"
    yield f"paths      {seen}"
    runs = plural(len(traced.runs), "run")
    events = f"{len(traced.trace):,} events of {runs}"
    yield f"trace      {events} in {out}; longest {longest.cycles:,} cycles"
    for assumption in plan.assumptions:
        yield f"assumed    {assumption.text} [{assumption.source}]"


def _percent(traced: TracedLaunch, warps: float) -> float:
    """Returns the warps of an SM in per cent of its capacity."""
    most = traced.machine.limits.threads_per_sm // traced.machine.warp_size
    return round(100 * warps / most, 2)


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
        "occupancy_percent": _percent(traced, occupancy.resident_warps),
        "limits": {limit.resource: limit.blocks for limit in occupancy.limits},
        "executed": traced.is_executed,
        "waves": waves.waves,
        "warps_per_wave": waves.warps_per_wave,
        "trace": str(out),
        "events": len(traced.trace),
        "runs": [
            {
                "cycles": run.cycles,
                "instructions": run.instructions,
                "achieved_occupancy_percent": _percent(traced, run.active_warps),
            }
            for run in traced.runs
        ],
        "guarantee": "observed",
        "assumptions": [
            {"key": fact.key, "text": fact.text, "source": fact.source} for fact in plan.assumptions
        ],
    }
