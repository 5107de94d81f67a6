"""``ptxwcet report FILE``: the bounds of its kernels as one HTML page."""

from __future__ import annotations

import os
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from ptxwcet.cli import options
from ptxwcet.cli.bound import request_from
from ptxwcet.cli.command import Command
from ptxwcet.cli.output import echo, finish
from ptxwcet.support.diagnostics import Diagnostic
from ptxwcet.support.whole_files import write_text


@click.command(
    cls=Command,
    example="ptxwcet report kernel.ptx --block 256 --grid 16 --param n=4096 -o report.html",
)
@options.analysis_options
@options.gpu_options
@options.written_to("Write the page to this .html file.", required=True)
@click.option(
    "--runs/--no-runs",
    "draws_runs",
    default=True,
    help="Run the block on the simulated machine, for pictures and curves.  [default: runs]",
)
def report(output: Path, draws_runs: bool, **given: Any) -> int:
    """Write a page about the bounds of the kernels in FILE: one file, which loads nothing.

    It has the bounds and what they rest on, source, PTX and graph with the cycles of each line,
    memory accesses, loops, a warp's phases, a run's beginning, and how the bound grows. What is
    refused is said where it would stand. Exit code: 0 all bounded; 1 a kernel refused, the page
    says why; 2 usage.
    """
    # here: an extra, and matplotlib, are no matter for other commands
    from ptxwcet.report.page.model import build_page
    from ptxwcet.report.page.render import render_page, require_page_libraries
    from ptxwcet.studies.kernel_page import files_of, reasons, study_kernels

    require_page_libraries()
    request = request_from(**given)
    answer = study_kernels(request, draws_runs=draws_runs)
    failures: list[Diagnostic] = []
    files = files_of(request, answer)
    page = build_page(answer, files, request.source, _command_line(), _now(), failures)
    write_text(output, render_page(page), "PW233")
    refused = [one for row in answer.answered for one in reasons(row)]
    refused += [one for row in answer.refused for one in row.diagnostics]
    bounded = sum(one.bounded is not None for one in page.kernels)
    echo(f"{output}: {bounded} of {len(answer.kernels)} kernels bounded")
    return finish([*refused, *failures], is_partial=bool(bounded))


def _command_line() -> str:
    """The command as it was given, options in the order of their definition."""
    context = click.get_current_context()
    words = ["ptxwcet", context.command.name or ""]
    for parameter in context.command.params:
        name = parameter.name or ""
        if context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        value = context.params.get(name)
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(parameter, click.Argument):
                words.append(str(one))
            elif isinstance(one, bool):
                words.append((parameter.opts if one else parameter.secondary_opts)[0])
            elif one is not None:
                words += [parameter.opts[-1], str(one)]
    return shlex.join(words)


def _now() -> datetime:
    """The time, or that of SOURCE_DATE_EPOCH: with it, equal input gives equal bytes."""
    stated = os.environ.get("SOURCE_DATE_EPOCH", "")
    return datetime.fromtimestamp(int(stated), UTC) if stated.isdecimal() else datetime.now(UTC)
