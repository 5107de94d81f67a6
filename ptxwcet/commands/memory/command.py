"""``ptxwcet memory FILE``: prints the transactions of each memory access, and their cause."""

from __future__ import annotations

from typing import Any

import click

from ptxwcet.cli import options
from ptxwcet.cli.command import Command
from ptxwcet.cli.output import finish, show
from ptxwcet.commands.memory.report import build_memory_report, render_memory_text
from ptxwcet.commands.memory.study import study_accesses
from ptxwcet.report.head import refusals


@click.command(cls=Command, example="ptxwcet memory kernel.ptx --block 32x8 --param n=1024")
@options.analysis_options
@options.report_options
def memory(form: str, **given: Any) -> int:
    """Show what each access of the kernels of FILE takes of memory: sectors, bank conflicts, why.

    Nothing is run. What is said holds for every warp of every block; "<=" is the most that it may
    be where something is not known. Exit code: 0 shown; 1 a kernel is refused; 2 usage.
    """
    request = options.request_from(**given)
    answer = study_accesses(request)
    report = build_memory_report(answer, request.source)
    show(form, report, render_memory_text)
    return finish(refusals(answer, report.kernels), is_partial=bool(answer.answered))
