"""``ptxwcet check [PLAN]``: checks all kernels of a project against their budgets."""

from __future__ import annotations

import os
from pathlib import Path

import click

from ptxwcet.cli import options
from ptxwcet.cli.command import Command
from ptxwcet.cli.output import echo, echo_json, is_quiet
from ptxwcet.cli.paths import PlanInput
from ptxwcet.cli.progress import ProgressLine
from ptxwcet.commands.check.report import CheckReport, run_plan
from ptxwcet.commands.check.study import PLAN, read_plan
from ptxwcet.commands.check.text import github_commands, junit_xml, render_check_text, sarif_log


@click.command(cls=Command, forks=True, example="ptxwcet check ptxwcet.toml --workers 2")
@click.argument("plan", type=PlanInput(), default=PLAN)
@options.workers("Processes that work at once; the output does not depend on it")
@options.option(
    "cache",
    "Keep answers there, and take those that are kept: what did not change is not analysed.",
)
@options.report_options_of("text", "json", "sarif", "junit", "github")
def check(plan: str, workers: int | None, cache: Path | None, form: str) -> int:
    """Bound all kernels that PLAN names, and hold them against their budgets.

    PLAN, ptxwcet.toml if it is left out, is TOML with a table [[check]] for each launch
    (docs/guide/ci.md).

    Exit code: 0 all passed; 1 a kernel is over its budget, of a weaker guarantee than required, or
    refused; 2 usage, a plan with mistakes, or answers that cannot be kept in --cache.
    """
    read = read_plan(plan, cache)
    with ProgressLine("checks") as progress:
        report = run_plan(read, workers or os.cpu_count() or 1, progress.show, cache)
    _show(report, form)
    return 0 if report.passed == len(report.checks) else 1


def _show(report: CheckReport, form: str) -> None:
    match form:
        case "json":
            echo_json(report)
        case "sarif":
            echo_json(sarif_log(report))
        case "junit":
            echo(junit_xml(report), nl=False)
        case "github":
            echo(github_commands(report), nl=False)
        case _ if is_quiet():
            for checked in report.checks:
                if checked.problems:
                    echo(f"{checked.outcome} {checked.name}: {checked.problems[0].message}")
        case _:
            echo(render_check_text(report), nl=False)
