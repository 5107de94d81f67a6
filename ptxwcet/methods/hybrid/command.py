"""``ptxwcet hybrid FILE``: WCET estimates from timed traces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ptxwcet.cli import options
from ptxwcet.cli.command import Command
from ptxwcet.cli.graphviz import GRAPH_FILE, write_graph
from ptxwcet.cli.output import show
from ptxwcet.cli.paths import INPUT_FILE
from ptxwcet.cli.progress import ProgressLine
from ptxwcet.commands.trace.study import TraceOptions
from ptxwcet.methods.hybrid.picture import draw_ipg
from ptxwcet.methods.hybrid.report import build_hybrid_report
from ptxwcet.methods.hybrid.study import EXCEEDANCES, HybridRequest, study_trace
from ptxwcet.methods.hybrid.text import render_hybrid_text
from ptxwcet.support.extras import require_extra
from ptxwcet.trace.files import write_trace

_OF_A_TRACE_MADE_HERE = ("policy", "runs", "seed", "jitter", "save")
_OF_THE_GPU = ("sms", "resident_blocks", "registers")


@click.command(
    cls=Command,
    needs=("ilp",),
    example="ptxwcet hybrid kernel.ptx --launch launch.toml --policy gto --runs 20 --jitter 10",
)
@options.analysis_options
@click.option(
    "--trace", type=INPUT_FILE, help="Timed trace (.csv or .npz).  [default: trace --launch here]"
)
@options.policy("Traced here: warp scheduler (lrr, gto, ...).")
@options.of("sms", "resident_blocks", "registers")
@options.option("runs", "Traced here: runs, with other seeds each.  [default: 1]")
@options.option("seed", "Traced here: of policy and jitter.")
@options.option("jitter", "Traced here: shorten timings at random by up to so much.")
@options.option("save", "Traced here: write the trace.")
@options.option(
    "probabilities", "With which a warp's time exceeds a quantile.  [default: 1e-3, 1e-6, 1e-9]"
)
@options.option(
    "picture",
    "Draw the graph of ipoints with its times: a .dot, .svg, .png or .pdf.",
    type=GRAPH_FILE,
)
@options.report_options
def hybrid(
    trace: str | None,
    probabilities: tuple[float, ...],
    picture: Path | None,
    form: str,
    **others: Any,
) -> int:
    """Estimate the WCET of the kernel of a timed trace (Betts and Donaldson, ECRTS 2013).

    Prints the kernel's row of their Table II: high-water mark, warp-specific WCET, and what both
    ways to account for concurrency make of it. Launch facts are for the static bound beside it.

    Exit code: 0 estimated; 1 trace or launch refused; 2 usage.
    """
    given = {key: others.pop(key) for key in (*_OF_A_TRACE_MADE_HERE, *_OF_THE_GPU)}
    request = options.request_from(**others)
    _check_use(trace, request.launch_file, given["policy"])
    if trace is None:
        options.refuse_idle_seed(given["policy"], given["jitter"])
    save = given.pop("save")
    grid = options.grid_of(given)
    tracing = None
    if trace is None:
        runs, seed, jitter = given["runs"] or 1, given["seed"] or 0, given["jitter"] or 0
        tracing = TraceOptions(given["policy"], grid, runs, seed, jitter)
        require_extra("sim", "tracing a launch here")
    levels = probabilities or EXCEEDANCES
    asked = HybridRequest(request, trace, tracing, levels, grid)
    with ProgressLine() as progress:
        answer = study_trace(asked, progress.show)
    if save is not None:
        write_trace(answer.trace, save)
    if picture is not None:
        write_graph(draw_ipg(answer), picture, "write the text to a FILE.dot")
    report = build_hybrid_report(answer)
    show(form, report, render_hybrid_text)
    return 0


def _check_use(trace: str | None, launch_file: str | None, policy: str | None) -> None:
    if trace is not None:
        why = "concerns a trace made here: it excludes --trace"
        options.refuse_idle(why, *_OF_A_TRACE_MADE_HERE)
        if launch_file is None:
            options.refuse_idle("says how waves are planned: give --launch, too", *_OF_THE_GPU)
    elif launch_file is None:
        raise click.UsageError("give --trace FILE, or --launch FILE to trace here")
    elif policy is None:
        raise click.UsageError("to trace here, name a warp scheduler: --policy lrr, gto, ...")
