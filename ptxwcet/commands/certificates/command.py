"""``ptxwcet validate certificates REPORT FILE``: checks the certificates of a report again."""

from __future__ import annotations

import json

import click

from ptxwcet.cli import options
from ptxwcet.cli.command import Command
from ptxwcet.cli.output import echo, echo_json
from ptxwcet.cli.paths import InputFile
from ptxwcet.commands.bound.report import Report
from ptxwcet.commands.certificates.report import NoReport, recheck
from ptxwcet.flow.certificates.checker import Verdict
from ptxwcet.opened.opening import read_module
from ptxwcet.opened.request import Request
from ptxwcet.report.reading import read_as
from ptxwcet.support.input_files import MOST_TEXT_BYTES, read_text


@click.command(
    "certificates",
    cls=Command,
    example="ptxwcet validate certificates report.json kernel.ptx",
)
@click.argument("report", type=InputFile())
@click.argument("file", type=InputFile())
@options.of("link")
@options.report_options
def validate_certificates(report: str, file: str, link: tuple[str, ...], form: str) -> int:
    """Check the certificates of loop bounds in REPORT, a JSON report, against the PTX of FILE.

    Each is confirmed by the solver alone, without the search that found it; what the report says is
    known at the entry of a loop is taken as given. Exit code: 0 all are confirmed; 1 one is not; 2
    usage.
    """
    try:
        data = json.loads(read_text(report, MOST_TEXT_BYTES))
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"'{report}' is no JSON: {error}") from None
    verdicts: list[dict[str, str]] = []
    try:
        rows = read_as(Report, data)  # data of another shape are not read
        for checked in recheck(rows, read_module(Request(file, links=link))):
            row = {one: getattr(checked, one) for one in ("kernel", "readable", "block")}
            verdicts.append({**row, "verdict": checked.verdict.value})
            if form == "text":
                echo(f"{checked.readable} {checked.block}: {checked.verdict.value}")
    except ValueError as error:
        what = "" if isinstance(error, NoReport) else "no report of this file with certificates: "
        raise click.BadParameter(f"{what}{error}") from None
    refused = sum(row["verdict"] != Verdict.CONFIRMED.value for row in verdicts)
    if form == "json":
        echo_json(verdicts)
    else:
        echo(f"{len(verdicts)} certificates, {refused} not confirmed")
    return int(refused > 0)
