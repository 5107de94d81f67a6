"""``ptxwcet sequence FILE``: bounds several launches in a row."""

from __future__ import annotations

import click

from ptxwcet.claims import Guarantee
from ptxwcet.cli import options
from ptxwcet.cli.command import Command
from ptxwcet.cli.output import echo, echo_json, finish, is_quiet
from ptxwcet.cli.paths import SequenceInput
from ptxwcet.commands.sequence.report import build_sequence_report, render_sequence_text
from ptxwcet.commands.sequence.study import bound_sequence
from ptxwcet.opened.budgets import Budget, required_guarantee, too_weak
from ptxwcet.support.diagnostics import Diagnostic


@click.command(cls=Command, example="ptxwcet sequence frame.toml --budget 40000000")
@click.argument("file", type=SequenceInput())
@options.of("machine", "memory_latency", "sms")
@options.report_options
@options.of("budget", "require")
def sequence(
    file: str,
    machine: str,
    memory_latency: int | None,
    sms: int | None,
    form: str,
    budget: Budget | None,
    require: str | None,
) -> int:
    """Bound launches one after the other, in one stream that has the GPU to itself.

    FILE is TOML with a table [[launch]] for each (docs/guide/deadline.md). Exit code: 0 bounded; 1
    a launch is refused, or the sum is over the budget or of too weak a guarantee; 2 usage.
    """
    if budget is not None and budget.of is not None:
        raise click.UsageError("--budget is of the whole sequence: say a time alone")
    bound = bound_sequence(file, machine, memory_latency, sms)
    report = build_sequence_report(bound)
    if form == "json":
        echo_json(report)
    elif is_quiet():
        echo(f"{file} {report.cycles} {Guarantee(report.guarantee).value}")
    else:
        echo(render_sequence_text(report), nl=False)
    failed = [too_weak(bound.claim, required_guarantee(budget, require), file)]
    if budget is not None and report.cycles > budget.cycles(bound.machine.clock_mhz):
        told = budget.exceeded_by("the bound", report.cycles, bound.machine.clock_mhz)
        failed.append(Diagnostic("PW520", told))
    return finish([one for one in failed if one is not None])
