"""The report of checks as text for people: a table, and the problems of failed checks."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

from ptxwcet.commands.check.report import CheckedKernel, CheckReport, Outcome, bound_of
from ptxwcet.opened.cuda_text import cuda_place
from ptxwcet.report.columns import text_table
from ptxwcet.report.head import DiagnosticRow, Refused
from ptxwcet.support.explanations import explanations
from ptxwcet.support.printable import plural, printable, printable_line


def render_check_text(report: CheckReport) -> str:
    """Returns the table of all checks, the problems of failed ones, and the counts."""
    lines = [f"{report.tool} {report.version}  {printable_line(report.plan)}", ""]
    lines += text_table(report.checks)
    for check in report.checks:
        if check.problems:
            head = f"{check.outcome} {check.name} (check {check.check})"
            lines += ["", printable_line(head), *map(problem_text, check.problems)]
    return "\n".join([*lines, "", summary(report)]) + "\n"


def summary(report: CheckReport) -> str:
    """Returns how many checks ended how."""
    text = f"{plural(len(report.checks), 'check')}: {report.passed} passed"
    for count, what in ((report.failed, "failed"), (report.refused, "refused")):
        text += f", {count} {what}" if count else ""
    return text


def problem_text(problem: DiagnosticRow) -> str:
    """Returns a problem with place, notes and help; Diagnostic.render has the same format."""
    place = "" if problem.file is None else f"{problem.file}:{problem.line}:{problem.column}: "
    lines = [f"  {place}{problem.severity}[{problem.code}]: {problem.message}"]
    lines += [f"    note: {note}" for note in problem.notes]
    if problem.help is not None:
        lines.append(f"    help: {problem.help}")
    return "\n".join(map(printable_line, lines))


# --- In the words of others -----------------------------------------------------------------------
# Formats for other tools: SARIF 2.1.0 (OASIS) for code scanning, JUnit XML, and workflow commands
# of GitHub Actions, which are annotations.


_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_ELEMENTS = {Outcome.FAILED.value: "failure", Outcome.REFUSED.value: "error"}
_PROPERTIES = ("of", "cycles", "microseconds", "guarantee")
_OF_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_OF_PROPERTIES = _OF_DATA | {":": "%3A", ",": "%2C"}


def sarif_log(report: CheckReport) -> dict[str, Any]:
    """Returns the log: a result for each problem, at its place and at its check in the plan."""
    codes = sorted({problem.code for check in report.checks for problem in check.problems})
    driver = {
        "name": report.tool,
        "version": report.version,
        "rules": [_rule(code) for code in codes],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [
            _result(report, check, number, codes)
            for check in report.checks
            for number in range(len(check.problems))
        ],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(code: str) -> dict[str, Any]:
    explanation = explanations()[code]
    return {
        "id": code,
        "shortDescription": {"text": explanation.title},
        "fullDescription": {"text": explanation.cause},
        "help": {"text": explanation.remedy},
    }


def _result(
    report: CheckReport, check: CheckedKernel, number: int, codes: list[str]
) -> dict[str, Any]:
    """SARIF's result for the problem of a check with this number."""
    problem = check.problems[number]
    plan = _location(report.plan, check.line, None)
    place = _place(problem)
    own = plan if place is None else _location(*place)
    # Stable while lines move and cycles change: it identifies the problem and the check.
    earlier = [problem.code for problem in check.problems[:number]].count(problem.code)
    key = "\n".join((problem.code, str(earlier), check.file, check.name)).encode("utf-8", "replace")
    return {
        "ruleId": problem.code,
        "ruleIndex": codes.index(problem.code),
        "level": problem.severity,  # error, warning, note: SARIF's words
        "message": {"text": printable(f"{check.name}: {_told(problem)}")},
        "locations": [own],
        "relatedLocations": [plan | {"message": {"text": f"check {check.check}"}}],
        "partialFingerprints": {"ptxwcetCheck/v1": hashlib.sha256(key).hexdigest()},
    }


def _place(problem: DiagnosticRow) -> tuple[str, int | None, int | None] | None:
    """Returns the place of a problem: in the CUDA source that its place is from, else as it is."""
    if problem.file is None or problem.line is None or problem.column is None:
        return None
    own = (problem.file, problem.line, problem.column)
    return cuda_place(*own) or own


def _location(path: str, line: int | None, column: int | None) -> dict[str, Any]:
    where = Path(path)
    uri = (
        where.as_uri() if where.is_absolute() else quote(where.as_posix(), errors="surrogateescape")
    )
    physical: dict[str, Any] = {"artifactLocation": {"uri": uri}}
    if line is not None:
        physical["region"] = {"startLine": line} | (
            {} if column is None else {"startColumn": column}
        )
    return {"physicalLocation": physical}


def junit_xml(report: CheckReport) -> str:
    """Returns the XML: a failed check is a failure, a refused one an error; properties of a case
    are its bound. It has no times, so equal runs give equal text. Characters that XML lacks are
    shown as in printable_line.
    """
    counts = {
        "name": printable_line(report.plan),
        "tests": str(len(report.checks)),
        "failures": str(report.failed),
        "errors": str(report.refused),
    }
    root = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(root, "testsuite", counts)
    for check in report.checks:
        names = {"classname": printable_line(check.file), "name": printable_line(check.name)}
        case = ElementTree.SubElement(suite, "testcase", names)
        if not isinstance(check.answer, Refused):
            held = ElementTree.SubElement(case, "properties")
            for name, value in zip(_PROPERTIES, bound_of(check.answer), strict=True):
                ElementTree.SubElement(held, "property", {"name": name, "value": str(value)})
        if check.problems:
            first = check.problems[0]
            about = {"type": first.code, "message": printable_line(first.message)}
            what = ElementTree.SubElement(case, _ELEMENTS[check.outcome], about)
            what.text = "\n".join(map(problem_text, check.problems))
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, "unicode")}\n'


def github_commands(report: CheckReport) -> str:
    """Returns a line ``::error file=...`` for each problem, then how many checks ended how.

    Problems without a place in an input are shown at their check in the plan.
    """
    lines = [_command(report, row, problem) for row in report.checks for problem in row.problems]
    return "\n".join([*lines, summary(report)]) + "\n"


def _command(report: CheckReport, check: CheckedKernel, problem: DiagnosticRow) -> str:
    place: dict[str, object] = {"file": report.plan, "line": check.line}
    if (own := _place(problem)) is not None:
        place = dict(zip(("file", "line", "col"), own, strict=True))
    title = printable_line(f"{problem.code} {check.name}")
    properties = ",".join(
        f"{key}={_escaped(str(value), _OF_PROPERTIES)}"
        for key, value in (place | {"title": title}).items()
        if value is not None
    )
    message = _escaped(printable(_told(problem)), _OF_DATA)
    return f"::error {properties}::{message}"


def _escaped(text: str, table: dict[str, str]) -> str:
    return text.translate({ord(one): code for one, code in table.items()})


def _told(problem: DiagnosticRow) -> str:
    """Returns a problem with its notes and help, a line each."""
    lines = [problem.message, *problem.notes]
    return "\n".join([*lines, *([] if problem.help is None else [f"help: {problem.help}"])])
