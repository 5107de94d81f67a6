"""A report of checks as workflow commands of GitHub Actions: an annotation for each problem."""

from __future__ import annotations

from ptxwcet.commands.check.report import CheckedKernel, CheckReport
from ptxwcet.commands.check.text import summary
from ptxwcet.report.head import DiagnosticRow
from ptxwcet.support.printable import printable, printable_line

_OF_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_OF_PROPERTIES = _OF_DATA | {":": "%3A", ",": "%2C"}


def github_commands(report: CheckReport) -> str:
    """A line ``::error file=...`` for each problem, then how many checks ended how.

    Problems without a place in an input are shown at their check in the plan.
    """
    lines = [_command(report, row, one) for row in report.checks for one in row.problems]
    return "\n".join([*lines, summary(report)]) + "\n"


def _command(report: CheckReport, check: CheckedKernel, problem: DiagnosticRow) -> str:
    place: dict[str, object] = {"file": report.plan, "line": check.line}
    if problem.file is not None:
        place = {"file": problem.file, "line": problem.line, "col": problem.column}
    title = printable_line(f"{problem.code} {check.name}")
    properties = ",".join(
        f"{key}={_escaped(str(value), _OF_PROPERTIES)}"
        for key, value in (place | {"title": title}).items()
        if value is not None
    )
    text = [problem.message, *problem.notes]
    text += [] if problem.help is None else [f"help: {problem.help}"]
    message = _escaped(printable("\n".join(text)), _OF_DATA)
    return f"::error {properties}::{message}"


def _escaped(text: str, table: dict[str, str]) -> str:
    return text.translate({ord(one): code for one, code in table.items()})
