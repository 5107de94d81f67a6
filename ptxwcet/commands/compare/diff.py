"""``ptxwcet diff OLD NEW``: what changed between two results."""

from __future__ import annotations

import re
from fractions import Fraction

import click

from ptxwcet.cli import options
from ptxwcet.cli.command import Command
from ptxwcet.cli.output import echo, echo_json, finish, is_quiet
from ptxwcet.cli.paths import InputFile
from ptxwcet.commands.compare.report import compare, read_results
from ptxwcet.commands.compare.text import render_difference
from ptxwcet.support.diagnostics import Diagnostic

_PERCENT = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ?%?", re.ASCII)


def _threshold(_: click.Context, option: click.Parameter, text: str) -> Fraction:
    found = _PERCENT.fullmatch(text.strip())
    if found is None:
        raise click.BadParameter(f"{text!r} is no percentage, for example 2%", param=option)
    return Fraction(found[1])


@click.command(cls=Command, example="ptxwcet diff old.json new.json --threshold 2%")
@click.argument("old", type=InputFile())
@click.argument("new", type=InputFile())
@click.option(
    "--threshold",
    default="0%",
    show_default=True,
    callback=_threshold,
    metavar="PERCENT",
    help="Fail only if a bound grew by more.",
)
@options.report_options
def diff(old: str, new: str, threshold: Fraction, form: str) -> int:
    """Compare two results, of --format json: bounds, loops, assumptions, costliest lines.

    OLD and NEW are what ptxwcet FILE or ptxwcet check wrote.

    Exit code: 0 nothing is worse; 1 a bound of a block or a launch grew by more than the threshold,
    is lost, or has a weaker guarantee; 2 usage, or a file that is no result.
    """
    report = compare((old, new), read_results(old), read_results(new), threshold)
    if form == "json":
        echo_json(report)
    elif not is_quiet():
        echo(render_difference(report), nl=False)
    worse = [(row, reason) for row in report.kernels for reason in row.worse]
    return finish([Diagnostic("PW523", f"kernel {row.kernel}: {why}") for row, why in worse])
