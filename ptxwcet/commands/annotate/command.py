"""``ptxwcet annotate FILE``: lists the code with the cycles of each line and their cause."""

from __future__ import annotations

from typing import Any

import click

from ptxwcet.cli import options
from ptxwcet.cli.command import CommandGroup
from ptxwcet.cli.output import finish, show
from ptxwcet.commands.annotate.report import build_annotation
from ptxwcet.commands.annotate.study import explain_file
from ptxwcet.commands.annotate.text import render_annotation_text
from ptxwcet.report.head import refusals


@click.command(
    cls=CommandGroup,
    example="ptxwcet annotate kernel.ptx --block 256 --grid 16 --param n=4096",
)
@options.analysis_options
@options.gpu_options
@click.option("--ptx", "wants_ptx", is_flag=True, help="List PTX, even where its source is there.")
@options.option(
    "at",
    "Only these parts, each with its sum: lines of the source, kernel.cu:20-35, or a region "
    "that is marked in it.  [default: all lines, and the sums of marked regions]",
)
@options.report_options
def annotate(wants_ptx: bool, at: tuple[str, ...], form: str, **given: Any) -> int:
    """List the code of the kernels in FILE, with what each line pays of the bound and why.

    The code is the CUDA source if the PTX has line numbers (nvcc -lineinfo) and the source lies
    beside it or is named, else PTX. All lines add up to the bound of a block, and with a grid to
    that of the launch in a column of its own.

    Exit code: 0 shown; 1 a kernel is refused; 2 usage.
    """
    request = options.request_from(**given)
    named = tuple(place for row in at for place in row.split(",") if place)
    if at and not named:
        raise click.UsageError("--at without a place")
    answer = explain_file(request, named)
    report = build_annotation(answer, source=request.source, wants_ptx=wants_ptx, only=bool(at))
    show(form, report, render_annotation_text)
    return finish(refusals(answer, report.kernels), is_partial=bool(answer.answered))
