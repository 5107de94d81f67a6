"""``ptxwcet compare OLD NEW``: the bounds of two versions, and what pays their difference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from ptxwcet.cli import options
from ptxwcet.cli.command import Command
from ptxwcet.cli.output import echo, echo_json, finish
from ptxwcet.cli.paths import STANDARD_INPUT, split_kernel
from ptxwcet.cli.requests import request_from
from ptxwcet.commands.bound.build import build_report
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.commands.compare.report import Result, results_of
from ptxwcet.commands.compare.report import compare as compare_results
from ptxwcet.commands.compare.text import render_difference
from ptxwcet.report.head import refusals
from ptxwcet.support.diagnostics import Diagnostic


@click.command(
    cls=Command,
    example="ptxwcet compare old.ptx new.ptx --block 256 --grid 16 --param n=4096",
)
@options.version_options
@options.gpu_options
@options.report_options
def compare(old: str, new: str, kernels: tuple[str, ...], form: str, **given: Any) -> int:
    """Compare two versions of a kernel, OLD and NEW: bounds, loops, assumptions, and what pays.

    A version is a FILE or FILE:KERNEL. Both are bounded with the same launch on the same machine,
    each linked with the files of --link.
    Kernels of one name are compared; what is left, with each other in their order. The difference
    of two bounds of a block is shared out to parts, op classes and source lines, which are found
    again by their text.

    Exit code: 0 compared, whichever is better; 1 a kernel is refused; 2 usage.
    """
    if old == new == STANDARD_INPUT:
        raise click.UsageError("standard input can be read once: give a file for the other version")
    if all(split_kernel(one)[1] for one in (old, new)):
        options.refuse_idle("names kernels, and so do OLD and NEW: leave one out", "kernels")
    (before, old_said), (now, new_said) = (_results(one, kernels, given) for one in (old, new))
    report = compare_results((old, new), before, now, are_versions=True)
    if form == "json":
        echo_json(report)
    else:
        echo(render_difference(report), nl=False)
    return finish(
        [*old_said, *new_said], is_partial=any(row.paid is not None for row in report.kernels)
    )


def _results(
    version: str, kernels: tuple[str, ...], given: dict[str, Any]
) -> tuple[Sequence[Result], list[Diagnostic]]:
    """The bounds of a version, and why kernels are refused."""
    path, kernel = split_kernel(version)
    request = request_from(path, kernels if kernel is None else (kernel,), **given)
    answer = bound_file(request)
    report = build_report(answer, explain=True, source=request.source)
    return tuple(results_of(report)), refusals(answer, report.kernels)
