"""``ptxwcet validate tool``: the built-in checks, as a summary for a certification dossier."""

from __future__ import annotations

import click

from ptxwcet.cli import options
from ptxwcet.cli.command import Command
from ptxwcet.cli.output import echo, echo_json
from ptxwcet.support.diagnostics import Diagnostic, render_all
from ptxwcet.validate.path_selftest import run_path_selftest
from ptxwcet.validate.selftest import build_selftest_report, run_selftest, selftest_lines

_MOST_SHOWN = 3


@click.command(
    "tool",
    cls=Command,
    needs=("sim",),
    example="ptxwcet validate tool --cases 240 --format json -o selftest.json",
)
@options.option(
    "seconds",
    "Seconds for random cases, without those for the known ones and for compiling.",
    type=click.FloatRange(min=0),
    default=45.0,
)
@options.option(
    "cases",
    "Exactly so many random cases, whatever the time: the summary can be reproduced.",
    type=click.IntRange(min=0),
)
@options.option("seed", "Of the random cases.", default=1)
@options.report_options
def validate_tool(seconds: float, cases: int | None, seed: int, form: str) -> int:
    """Check bounds, profiles and simulators against each other on known and random blocks.

    To every seventh random block comes a random grid, run whole on several SMs against its bound.

    A few fixed and random kernels are parsed, bounded and executed on adversarial data as well:
    every executed path must be an analysed one (PW538), its time within the bound (PW535).

    The summary depends on the installed files, the seed and the number of cases alone. Exit code: 0
    nothing violated; 1 something was, with a witness, or no random case was run.
    """
    if cases is not None:
        options.refuse_idle(
            "ends random cases, whose number --cases says: leave one out", "seconds"
        )
    summary = run_selftest(seed, seconds=seconds, cases=cases)
    paths = run_path_selftest(seed)
    report = build_selftest_report(summary, paths)
    if form == "json":
        echo_json(report)
    else:
        echo("\n".join(selftest_lines(report)))
    diagnostics = [witness.diagnostic() for witness in summary.witnesses]
    violations = summary.grids.violations[:_MOST_SHOWN]
    diagnostics += [Diagnostic("PW535", f"a bound is contradicted: {v}") for v in violations]
    diagnostics += paths.diagnostics
    if diagnostics:
        echo(render_all(diagnostics), err=True)
    return 0 if report.passed else 1
