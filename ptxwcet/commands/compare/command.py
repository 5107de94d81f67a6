"""``ptxwcet compare OLD NEW``: compares two versions of a kernel, or two results."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import click

from ptxwcet.cli import options
from ptxwcet.cli.command import Command
from ptxwcet.cli.output import finish, is_quiet, show
from ptxwcet.cli.paths import STANDARD_INPUT, split_kernel
from ptxwcet.commands.compare.report import (
    Result,
    bounded_version,
    compare_results,
    is_result,
    read_results,
)
from ptxwcet.commands.compare.text import render_difference
from ptxwcet.support.diagnostics import Diagnostic

_PERCENT = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ?%?", re.ASCII)
_OF_VERSIONS = options.names_of(options.version_options, options.gpu_options)[2:]


def _threshold(_: click.Context, option: click.Parameter, text: str) -> Fraction:
    found = _PERCENT.fullmatch(text.strip())
    if found is None:
        raise click.BadParameter(f"{text!r} is no percentage, for example 2%", param=option)
    return Fraction(found[1])


@click.command(
    cls=Command,
    example="ptxwcet compare old.ptx new.ptx --block 256 --grid 16 --param n=4096",
)
@options.version_options
@options.gpu_options
@click.option(
    "--threshold",
    default="0%",
    show_default=True,
    callback=_threshold,
    metavar="PERCENT",
    help="Of two results: fail only if a bound grew by more.",
)
@options.report_options
def compare(
    old: str,
    new: str,
    kernel: tuple[str, ...],
    threshold: Fraction,
    form: str,
    **given: Any,
) -> int:
    """Compare two versions of a kernel, OLD and NEW: bounds, loops, assumptions, and what pays.

    A version is a FILE or FILE:KERNEL. Both are bounded with the same launch on the same machine,
    each linked with the files of --link.
    Kernels of one name are compared; what is left, with each other in their order. The difference
    of two bounds of a block is shared out to parts, op classes and source lines, which are found
    again by their text.

    OLD and NEW may be results instead: JSON that ptxwcet FILE or ptxwcet check wrote.

    Exit code: 0 compared, whichever is better; 1 a kernel is refused, or of two results the bound
    of the launch (without a grid, that of a block) grew by more than the threshold, is lost, or has
    a weaker guarantee; 2 usage, or a file that is no result.
    """
    results = [is_result(one) for one in (old, new)]
    if any(results):
        if not all(results):
            raise click.UsageError("a result is compared with a result, a version with a version")
        return _compare_results(old, new, threshold, form)
    options.refuse_idle("is of two results (--format json): leave it out", "threshold")
    if old == new == STANDARD_INPUT:
        raise click.UsageError("standard input can be read once: give a file for the other version")
    if all(split_kernel(one)[1] for one in (old, new)):
        options.refuse_idle("names kernels, and so do OLD and NEW: leave one out", "kernel")
    (before, old_said), (now, new_said) = (_results(one, kernel, given) for one in (old, new))
    report = compare_results((old, new), before, now, are_versions=True)
    show(form, report, render_difference)
    return finish(
        [*old_said, *new_said], is_partial=any(row.paid is not None for row in report.kernels)
    )


def _compare_results(old: str, new: str, threshold: Fraction, form: str) -> int:
    options.refuse_idle("says how to bound, and OLD and NEW are results", *_OF_VERSIONS)
    report = compare_results((old, new), read_results(old), read_results(new), threshold)
    if form == "json" or not is_quiet():
        show(form, report, render_difference)
    worse = [(row, reason) for row in report.kernels for reason in row.worse]
    return finish([Diagnostic("PW523", f"kernel {row.kernel}: {why}") for row, why in worse])


def _results(
    version: str, kernels: tuple[str, ...], given: dict[str, Any]
) -> tuple[Sequence[Result], list[Diagnostic]]:
    """Returns the bounds of a version, and why kernels are refused."""
    path, kernel = split_kernel(version)
    return bounded_version(
        options.request_from(path, kernel=kernels if kernel is None else (kernel,), **given)
    )
