"""``ptxwcet simulate FILE``: runs a block on the simulated machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ptxwcet.cli import options
from ptxwcet.cli.command import CommandGroup
from ptxwcet.cli.output import echo, echo_json, finish
from ptxwcet.cli.paths import OUTPUT_FILE, PICTURES, OutputFile
from ptxwcet.commands.simulate.chrome_trace import render_trace
from ptxwcet.commands.simulate.picture import draw_gantt
from ptxwcet.commands.simulate.report import build_run_report
from ptxwcet.commands.simulate.study import KernelSimulation, SimulationOptions, simulate_file
from ptxwcet.commands.simulate.text import render_run_text
from ptxwcet.report.head import refusals
from ptxwcet.support.extras import require_extra
from ptxwcet.support.whole_files import write_text

_TIMELINE_EVENTS = 200_000
_DRAWN_EVENTS = 200


@click.command(
    cls=CommandGroup,
    needs=("sim",),
    example="ptxwcet simulate kernel.ptx --block 256 --grid 16 --param n=4096 --policy gto",
)
@options.analysis_options
@options.policy("Warp scheduler: lrr, gto, gty, oldest, youngest, random.  [default: each]")
@options.option("seed", "Of the random policy and of jitter.", default=0)
@options.option("jitter", default=0)
@click.option(
    "--path-seed",
    type=click.IntRange(0, 2**62),
    help="Take decisions that are open at random, by this seed.  [default: first, longest]",
)
@click.option(
    "--timeline",
    type=OUTPUT_FILE,
    help="Write the run in Chrome's trace event format (ui.perfetto.dev opens it).",
)
@options.option("picture", "Draw the run's beginning: a .png or .svg.", type=OutputFile(*PICTURES))
@options.option(
    "events", f"Issues to record.  [default: {_TIMELINE_EVENTS:,}; to draw {_DRAWN_EVENTS}]"
)
@options.option(
    "max_instructions",
    "Give up after so many instructions that were issued one by one.",
    default=2_000_000_000,
)
@options.option("executed", "Simulate the paths that the launch file's inputs take.")
@options.report_options
def simulate(
    policy: str | None,
    seed: int,
    jitter: int,
    path_seed: int | None,
    timeline: Path | None,
    picture: Path | None,
    events: int | None,
    max_instructions: int,
    executed: bool,
    form: str,
    **given: Any,
) -> int:
    """Run one thread block of each kernel in FILE on the simulated machine.

    What is printed is one run, not a bound: cycles, use of the issue slots, and where each warp's
    cycles went; without --policy the cycles of one run under each. Exit code: 0 all were run; 1 a
    kernel refused; 2 usage.
    """
    if picture is not None:
        require_extra("report", "--picture")
    if policy is not None:
        options.refuse_idle_seed(policy, jitter)
    elif timeline is not None or picture is not None:
        raise click.UsageError("a timeline shows one run: choose the scheduler with --policy")
    if timeline is None and picture is None:
        options.refuse_idle("says how many to record: give --timeline or --picture, too", "events")
    if executed:
        options.refuse_idle("takes open decisions: --executed leaves none", "path_seed")
    recorded = 0
    if timeline is not None or picture is not None:
        recorded = events or (_TIMELINE_EVENTS if timeline is not None else _DRAWN_EVENTS)
    chosen = SimulationOptions(
        policy, seed, jitter, recorded, max_instructions, path_seed, executed
    )
    answer = simulate_file(options.request_from(**given), chosen)
    if recorded and len(answer.answered) > 1:
        names = ", ".join(row.prepared.kernel.readable for row in answer.answered)
        raise click.UsageError(f"a timeline shows one kernel: choose with -k among {names}")
    report = build_run_report(answer)
    single = len(answer.kernels) == 1 and answer.refused
    if form == "json":
        echo_json(report)
    elif not single:
        echo(render_run_text(report), nl=False)
    for simulation in answer.answered:
        _write_pictures(simulation, timeline, picture, events or _DRAWN_EVENTS)
    return finish(refusals(answer, report.kernels), is_partial=bool(answer.answered))


def _write_pictures(
    simulated: KernelSimulation, timeline: Path | None, picture: Path | None, most_drawn: int
) -> None:
    if timeline is not None:
        write_text(timeline, render_trace(simulated), "PW233")
    if picture is not None:
        draw_gantt(simulated.beginning(most_drawn), picture)
