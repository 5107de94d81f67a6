"""``ptxwcet report FILE``: makes one HTML page of the bounds of its kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ptxwcet.cli import options
from ptxwcet.cli.command import CommandGroup
from ptxwcet.cli.made import command_line, page_time
from ptxwcet.cli.output import echo, finish
from ptxwcet.support.extras import require_extra
from ptxwcet.support.whole_files import write_text


@click.command(
    cls=CommandGroup,
    needs=("report",),
    example="ptxwcet report kernel.ptx --block 256 --grid 16 --param n=4096 -o report.html",
)
@options.analysis_options
@options.gpu_options
@options.option("output", "Write the page to this .html file.", required=True)
@click.option(
    "--simulate/--no-simulate",
    "draws_runs",
    default=True,
    help="Run the block on the simulated machine, for pictures and curves.  [default: simulate]",
)
def report(output: Path, draws_runs: bool, **given: Any) -> int:
    """Write a page about the bounds of the kernels in FILE: one file, which loads nothing.

    It has the bounds and what they rest on, source, PTX and graph with the cycles of each line,
    memory accesses, loops, a warp's phases, a run's beginning, and how the bound grows. What is
    refused is said where it would stand. Exit code: 0 all bounded; 1 a kernel refused, the page
    says why; 2 usage.
    """
    # imported here: other commands need neither this extra nor matplotlib
    from ptxwcet.commands.page.render import render_page
    from ptxwcet.commands.page.report import build_page
    from ptxwcet.commands.page.study import reasons, study_kernels
    from ptxwcet.opened.opening import files_of
    from ptxwcet.report.page.parts import Made

    if draws_runs:
        require_extra("sim", "ptxwcet report without --no-simulate")
    request = options.request_from(**given)
    answer = study_kernels(request, draws_runs=draws_runs)
    made = Made(command_line(), page_time(), files_of(request, answer))
    page = build_page(answer, request.source, made)
    write_text(output, render_page(page), "PW233")
    refused = [reason for row in answer.answered for reason in reasons(row)]
    refused += [diagnostic for row in answer.refused for diagnostic in row.diagnostics]
    bounded = sum(kernel.bounded is not None for kernel in page.kernels)
    echo(f"{output}: {bounded} of {len(answer.kernels)} kernels bounded")
    return finish([*refused, *page.failures], is_partial=bool(bounded))
