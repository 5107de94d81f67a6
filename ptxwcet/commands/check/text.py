"""The report of a plan of checks as text for people: a table, and why what did not pass did not."""

from __future__ import annotations

from ptxwcet.commands.bound.launch_text import time_text
from ptxwcet.commands.bound.report import BoundedKernel
from ptxwcet.commands.check.report import CheckedKernel, CheckReport, Outcome
from ptxwcet.opened.budgets import BLOCK, KERNEL
from ptxwcet.report.head import DiagnosticRow, Refused
from ptxwcet.support.printable import aligned, plural, printable_line

_HEADS = ("", "kernel", "launch", "machine", "bound", "", "budget", "claim")
_NUMBERS = (4, 5)  # columns to the right


def render_check_text(report: CheckReport) -> str:
    """The table of all checks, then the problems of those that did not pass, then their number."""
    lines = [f"{report.tool} {report.version}  {printable_line(report.plan)}", ""]
    lines += aligned([_HEADS, *(_cells(row) for row in report.checks)], _NUMBERS)
    for check in report.checks:
        if check.problems:
            lines += ["", printable_line(_headline(check)), *map(problem_text, check.problems)]
    return "\n".join([*lines, "", summary(report)]) + "\n"


def summary(report: CheckReport) -> str:
    """How many checks ended how."""
    text = f"{plural(len(report.checks), 'check')}: {report.passed} passed"
    for count, what in ((report.failed, "failed"), (report.refused, "refused")):
        text += f", {count} {what}" if count else ""
    return text


def problem_text(row: DiagnosticRow) -> str:
    """A problem with its place, notes and help; see Diagnostic.render, which has the text, too."""
    place = "" if row.file is None else f"{row.file}:{row.line}:{row.column}: "
    lines = [f"  {place}{row.severity}[{row.code}]: {row.message}"]
    lines += [f"    note: {note}" for note in row.notes]
    if row.help is not None:
        lines.append(f"    help: {row.help}")
    return "\n".join(map(printable_line, lines))


def _headline(row: CheckedKernel) -> str:
    return f"{row.outcome} {row.name} (check {row.check})"


def _cells(check: CheckedKernel) -> tuple[str, ...]:
    answer = check.answer
    shown = "ok" if check.outcome == Outcome.PASSED.value else check.outcome.upper()
    head = (shown, answer.readable or check.file, check.launch, check.machine)
    if isinstance(answer, Refused):
        return (*map(printable_line, head), "", "", f"[{answer.diagnostics[0].code}]", "")
    budget, (of, cycles, time, guarantee) = answer.budget, bound_of(answer)
    what = "" if budget is None else f"{budget.verdict} {budget.budget}"
    cells = (f"{cycles:,} a block" if of == BLOCK else f"{cycles:,}", time_text(time))
    return (*map(printable_line, head), *cells, what, guarantee)


def bound_of(answer: BoundedKernel) -> tuple[str, int, float, str]:
    """The bound that a check is about: of what it is, cycles, microseconds, and its guarantee."""
    launch, budget = answer.launch, answer.budget
    if launch is None or (budget is not None and budget.of == BLOCK):
        return BLOCK, answer.bound_cycles, answer.microseconds, answer.guarantee
    return KERNEL, launch.cycles, launch.microseconds, launch.guarantee
