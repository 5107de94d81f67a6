"""A report of checks as SARIF 2.1.0 (OASIS): what did not pass, for code scanning."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ptxwcet.commands.check.report import CheckedKernel, CheckReport
from ptxwcet.support.explanations import explanations
from ptxwcet.support.printable import printable

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif_log(report: CheckReport) -> dict[str, Any]:
    """The log: a result for each problem, at its place in the PTX, beside its check in the plan."""
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
    known = explanations()[code]
    return {
        "id": code,
        "shortDescription": {"text": known.title},
        "fullDescription": {"text": known.cause},
        "help": {"text": known.remedy},
    }


def _result(
    report: CheckReport, check: CheckedKernel, number: int, codes: list[str]
) -> dict[str, Any]:
    """SARIF's result for the problem of a check with this number."""
    problem = check.problems[number]
    text = [f"{check.name}: {problem.message}", *problem.notes]
    text += [] if problem.help is None else [f"help: {problem.help}"]
    plan = _location(report.plan, check.line, None)
    own = plan if problem.file is None else _location(problem.file, problem.line, problem.column)
    # the same while lines move and cycles change: what is wrong with which check
    earlier = [one.code for one in check.problems[:number]].count(problem.code)
    key = "\n".join((problem.code, str(earlier), check.file, check.name)).encode("utf-8", "replace")
    return {
        "ruleId": problem.code,
        "ruleIndex": codes.index(problem.code),
        "level": problem.severity,  # error, warning, note: the words are SARIF's
        "message": {"text": printable("\n".join(text))},
        "locations": [own],
        "relatedLocations": [plan | {"message": {"text": f"check {check.check}"}}],
        "partialFingerprints": {"ptxwcetCheck/v1": hashlib.sha256(key).hexdigest()},
    }


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
