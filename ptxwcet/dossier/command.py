"""``ptxwcet report dossier FILE``: what an assessor asks for, as page and data."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ptxwcet.cli import options
from ptxwcet.cli.command import Command
from ptxwcet.cli.made import command_line, page_time
from ptxwcet.cli.output import echo, finish, json_text
from ptxwcet.cli.paths import LAUNCH_FILE, InputFile, OutputFileOrFolder
from ptxwcet.opened.budgets import Budget, Checks, required_guarantee
from ptxwcet.opened.request import Request
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.extras import require_extra
from ptxwcet.support.input_files import MOST_DATA_BYTES, read_text
from ptxwcet.support.whole_files import write_text

if TYPE_CHECKING:
    from ptxwcet.dossier.report import DossierReport, SelfTestPart
    from ptxwcet.opened.opening import ReadFile
    from ptxwcet.validate.selftest import SelfTestReport

_NAMES = {"html": "dossier.html", "json": "dossier.json"}
_CASES = 240
_SEED = 1
_NONE = "none"


@click.command(
    "dossier",
    cls=Command,
    example="ptxwcet report dossier kernel.ptx --block 256 --grid 16 --param n=4096 "
    "--selftest selftest.json -o dossier.html",
)
@options.analysis_options
@options.gpu_options
@options.of("budget", "require")
@options.option(
    "output",
    "Write to this file, or into this folder: dossier.html and dossier.json.",
    required=True,
    type=OutputFileOrFolder(*_NAMES.values()),
)
@options.option(
    "form",
    "Only this form.  [default: json for a file .json, html for others, both in a folder]",
    type=click.Choice(["html", "json"]),
)
@click.option(
    "--selftest",
    type=InputFile(unless=lambda text: text == _NONE),
    metavar="FILE|none",
    help="Put in this result of ptxwcet validate tool --format json, or none, and say so.  "
    "[default: run the self-test]",
)
@options.option(
    "cases",
    "Random cases of the self-test that is run.",
    type=click.IntRange(min=1),
    default=_CASES,
)
def report_dossier(
    output: Path,
    form: str | None,
    budget: Budget | None,
    require: str | None,
    selftest: str | None,
    cases: int,
    **given: Any,
) -> int:
    """Write a dossier about the bounds of the kernels in FILE: what an assessor asks for.

    It has what is claimed, the assumptions with state and evidence, the certificates of loops,
    checked again, the self-test, what the long attacks found, limits of the method, versions,
    inputs with their SHA-256, and the command. The HTML page loads nothing and prints well; the
    JSON needs no extra (ptxwcet explain schema dossier).

    Exit code: 0 all kernels bounded and all checks passed; 1 a kernel is refused or a check failed,
    the dossier says which; 2 usage.
    """
    if selftest is not None:
        options.refuse_idle("is of the self-test that is run, and none is", "cases")
    targets = _targets(output, form)
    if "html" in targets:
        require_extra("report", "ptxwcet report dossier without --format json")
    if selftest is None:
        require_extra("sim", "ptxwcet report dossier without --selftest")
    saved = None if selftest in (None, _NONE) else _saved_self_test(selftest)
    checks = Checks(budget, required_guarantee(budget, require))
    report, diagnostics = _dossier(
        options.request_from(**given),
        checks,
        lambda: saved or _self_test(0 if selftest == _NONE else cases),
    )
    for kind, path in targets.items():
        write_text(path, _rendered(report, kind), "PW233")
        echo(f"{path}: {report.outcome}")
    return finish(diagnostics, is_partial=any(row.status == "bounded" for row in report.kernels))


def _targets(output: Path, form: str | None) -> Mapping[str, Path]:
    """Which form goes to which file."""
    if output.is_dir():
        return {kind: output / name for kind, name in _NAMES.items() if form in (None, kind)}
    return {form or ("json" if output.suffix == ".json" else "html"): output}


def _dossier(
    request: Request, checks: Checks, self_test: Callable[[], SelfTestPart]
) -> tuple[DossierReport, list[Diagnostic]]:
    """The dossier, and what is wrong with it; the self-test is done when the input was read."""
    # here: what is wrong with the command line is said before anything is loaded that computes
    from ptxwcet.commands.bound.build import build_report
    from ptxwcet.commands.bound.study import bound_file
    from ptxwcet.dossier.report import Circumstances, build_dossier, failed_checks
    from ptxwcet.opened.opening import files_of, read_module
    from ptxwcet.report.head import refusals

    module = read_module(request)
    answer = bound_file(request, module)
    report = build_report(answer, source=request.source, checks=checks)
    failed = [one for row in answer.answered for one in checks.failed_row(row)]
    files = (*files_of(request, answer), *_launch_data(request))
    made = Circumstances(command_line(), page_time(), files)
    dossier_report = build_dossier(report, module, answer.machine, self_test(), made, failed)
    diagnostics = refusals(answer, report.kernels) + failed
    own = failed_checks(dossier_report.kernels, dossier_report.self_test)
    diagnostics += [Diagnostic("PW590", text) for text in own]
    return dossier_report, diagnostics


def _launch_data(request: Request) -> list[ReadFile]:
    """The files that a launch file names."""
    from ptxwcet.opened.opening import ReadFile

    if request.launch_file is None:
        return []
    _, *named = LAUNCH_FILE.reads(request.launch_file)
    return [ReadFile.of("launch data", str(path)) for path in named if path.is_file()]


def _rendered(found: DossierReport, kind: str) -> str:
    if kind == "json":
        return json_text(found) + "\n"
    # here: an extra, which only the page needs
    from ptxwcet.dossier.page import render_dossier

    return render_dossier(found)


def _saved_self_test(path: str) -> SelfTestPart:
    """The part on a self-test that was saved. Raises PtxwcetError (PW591)."""
    from ptxwcet.dossier.report import FileRow, SelfTestPart
    from ptxwcet.opened.opening import ReadFile
    from ptxwcet.validate.selftest import differences_from

    result = _read_selftest(path)
    file = ReadFile.of("self-test", path)
    row = FileRow(file.what, file.name, file.sha256)
    return SelfTestPart("read", row, tuple(differences_from(result)), result)


def _self_test(cases: int) -> SelfTestPart:
    """The part on a self-test run here with so many random cases; with 0 there is none."""
    from ptxwcet.dossier.report import SelfTestPart

    if not cases:
        return SelfTestPart("none", None, (), None)
    from ptxwcet.validate.path_selftest import run_path_selftest
    from ptxwcet.validate.selftest import build_selftest_report, run_selftest

    result = build_selftest_report(run_selftest(_SEED, cases=cases), run_path_selftest(_SEED))
    return SelfTestPart("run", None, (), result)


def _read_selftest(path: str) -> SelfTestReport:
    """The report of a self-test in a file. Raises PtxwcetError (PW591)."""
    from ptxwcet.report.reading import read_as
    from ptxwcet.validate.selftest import SelfTestReport

    try:
        return read_as(SelfTestReport, json.loads(read_text(path, MOST_DATA_BYTES)))
    except (OSError, ValueError, RecursionError) as error:
        message = f"'{path}' is no result of a self-test: {error}"
        remedy = f"give what ptxwcet validate tool --format json -o {path} wrote"
        raise PtxwcetError(Diagnostic("PW591", message, help=remedy)) from None
