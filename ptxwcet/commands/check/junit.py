"""A report of checks as JUnit XML: a test case for each check."""

from __future__ import annotations

from xml.etree import ElementTree

from ptxwcet.commands.check.report import CheckReport, Outcome
from ptxwcet.commands.check.text import problem_text
from ptxwcet.support.printable import printable_line

_ELEMENTS = {Outcome.FAILED.value: "failure", Outcome.REFUSED.value: "error"}


def junit_xml(report: CheckReport) -> str:
    """The XML: a check that failed is a failure, one that is refused an error. No times: it is the
    same for each run. Characters that XML has not are shown as printable_line does.
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
        if check.problems:
            first = check.problems[0]
            about = {"type": first.code, "message": printable_line(first.message)}
            what = ElementTree.SubElement(case, _ELEMENTS[check.outcome], about)
            what.text = "\n".join(map(problem_text, check.problems))
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, "unicode")}\n'
