"""``ptxwcet what-if``: bounds a kernel on machines with other figures."""

from __future__ import annotations

from typing import Any

import click

from ptxwcet.cli import options
from ptxwcet.cli.command import Command
from ptxwcet.cli.output import finish, show
from ptxwcet.commands.what_if.report import build_what_if_report, render_what_if_text
from ptxwcet.commands.what_if.study import bound_variants
from ptxwcet.report.head import refusals


@click.command(
    "what-if",
    cls=Command,
    example="ptxwcet what-if kernel.ptx --block 256 --grid 16 --param n=4096 "
    "--set fma.latency=2 --set memory.latency=100..400:100",
)
@options.analysis_options
@options.gpu_options
@click.option(
    "--set",
    "changes",
    multiple=True,
    required=True,
    metavar="WHAT=N",
    help="A figure of the machine in cycles: fp32_fma.latency=2, load.initiation=1..4, "
    "memory.latency=100..400:50.",
)
@options.report_options
def what_if(changes: tuple[str, ...], form: str, **given: Any) -> int:
    """Show how the bounds of FILE change with single figures of the machine.

    WHAT is an op class (ptxwcet machine), a part of such names (fma, load), or memory; then
    .latency or .initiation. Each number of a range A..B:STEP is a row, each change stands alone.
    The bounds are those of machines that need not exist.

    Exit code: 0 shown; 1 a kernel is refused; 2 usage.
    """
    answer = bound_variants(options.request_from(**given), changes)
    report = build_what_if_report(answer)
    show(form, report, render_what_if_text)
    return finish(refusals(answer, report.kernels), is_partial=bool(answer.answered))
