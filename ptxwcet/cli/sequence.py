"""``ptxwcet sequence FILE``: launches one after the other."""

from __future__ import annotations

import click

from ptxwcet.claims import Guarantee
from ptxwcet.cli import options
from ptxwcet.cli.command import Command
from ptxwcet.cli.output import echo, echo_json, finish, is_quiet
from ptxwcet.cli.paths import SequenceInput
from ptxwcet.report.sequence_model import build_sequence_report, render_sequence_text
from ptxwcet.studies.budgets import Budget
from ptxwcet.studies.launch_sequence import bound_sequence
from ptxwcet.support.diagnostics import Diagnostic


@click.command(cls=Command, example="ptxwcet sequence frame.toml --budget 40000000")
@click.argument("file", type=SequenceInput())
@options.MACHINE_FILE
@options.MEMORY_LATENCY
@options.SMS
@options.report_options
@options.BUDGET
def sequence(
    file: str,
    machine: str,
    mem_latency: int | None,
    sms: int | None,
    form: str,
    budget: Budget | None,
) -> int:
    """Bound launches one after the other, in one stream that has the GPU to itself.

    FILE is TOML with a table [[launch]] for each (docs/sequences.md). Exit code: 0 bounded; 1 a
    launch is refused, or the sum is over the budget; 2 usage.
    """
    bound = bound_sequence(file, machine, mem_latency, sms)
    report = build_sequence_report(bound)
    if form == "json":
        echo_json(report)
    elif is_quiet():
        echo(f"{file} {report.cycles} {Guarantee(report.guarantee).value}")
    else:
        echo(render_sequence_text(report), nl=False)
    if budget is None or report.cycles <= budget.cycles(bound.machine.clock_mhz):
        return finish([])
    message = f"the bound of {report.cycles} cycles is over the budget of {budget.text}"
    return finish([Diagnostic("PW520", message)])
