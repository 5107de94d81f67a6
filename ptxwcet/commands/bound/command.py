"""``ptxwcet FILE ...`` (``ptxwcet bound FILE ...``): bounds kernels, the main command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from ptxwcet.bounds.methods import METHODS, SAFE_NAME, names_to_report
from ptxwcet.claims import Refusal
from ptxwcet.cli import options
from ptxwcet.cli.command import Command
from ptxwcet.cli.output import echo, echo_json, finish, is_quiet
from ptxwcet.cli.paths import expand_patterns
from ptxwcet.cli.progress import ProgressLine
from ptxwcet.opened.budgets import Budget, Checks, required_guarantee
from ptxwcet.opened.request import Request
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.extras import require_extra
from ptxwcet.support.records import dataclass

if TYPE_CHECKING:
    from ptxwcet.commands.bound.report import Report
    from ptxwcet.commands.bound.study import FileAnswer
    from ptxwcet.commands.bound.symbolic import SymbolicReport
    from ptxwcet.commands.bound.text import Extent, Rendered

_OWN = ", ".join(one.name for one in METHODS if one.is_for_report)


def _known_method(_: click.Context, option: click.Parameter, name: str) -> str:
    known = names_to_report()
    if name not in known:
        raise click.BadParameter(f"'{name}' is none of {', '.join(known)}", param=option)
    return name


@click.command(cls=Command, example="ptxwcet kernel.ptx --block 256 --grid 16 --param n=4096")
@options.analysis_options_of_files
@options.gpu_options
@options.report_options
@options.of("budget", "require")
@options.policy("Known warp scheduler: adds the method scheduled (lrr, gto, ...).")
@options.option(
    "method",
    f"What to report as the bound: {_OWN}, scheduled (needs --policy), or another package's.",
    callback=_known_method,
    shell_complete=options.completed(names_to_report),
)
@options.option(
    "executed", "Run the launch file's inputs and bound the paths that they take: an estimate."
)
@click.option("--details", is_flag=True, help="Print all that is known of each kernel.")
@click.option("--explain", is_flag=True, help="Charge each cycle of the safe bound to a line.")
@options.option(
    "symbolic",
    "Leave an integer parameter open: the safe bound as a formula, for a range of values.",
)
def bound(
    files: tuple[str, ...],
    form: str,
    budget: Budget | None,
    require: str | None,
    policy: str | None,
    method: str,
    executed: bool,
    details: bool,
    explain: bool,
    symbolic: str | None,
    **given: Any,
) -> int:
    """Bound the execution time of each kernel in FILES.

    The bound is that of one thread block; with --grid (or --launch) also of the whole launch.

    A FILE is PTX, CUDA source (nvcc compiles it, --arch says for what), a binary that holds PTX
    (cuobjdump opens it), a folder or pattern (kernels/*.ptx) of PTX, or - for standard input. JSON
    of several files is an array of reports.

    Exit code: 0 all bounded; 1 a kernel refused, over the budget or below the guarantee; 2 usage.
    """
    if symbolic is not None:
        others = {
            "--policy": policy,
            f"--method {method}": method != SAFE_NAME,
            "--executed": executed,
            "--explain": explain,
            "--details": details,
        }
        for name, value in others.items():
            if value:
                formula = "--symbolic gives a formula of method safe"
                raise click.UsageError(f"{formula}: it excludes {name}")
    if form == "json" or is_quiet():
        options.refuse_idle("is of the text: leave --quiet and --format json out", "details")
    if policy is not None:
        require_extra("sim", "--policy")
    paths = expand_patterns(files)
    # imported here: errors of the command line are reported before analyses are loaded
    from ptxwcet.commands.bound.text import Extent

    extent = Extent.DETAILS if details else Extent.SCREEN
    checks = Checks(budget, required_guarantee(budget, require))
    shown: list[_Shown] = []
    for path in paths:
        try:
            request = options.request_from(path, **given)
            request = replace(request, policy=policy, method=method)
            shown.append(
                _bounded(request, checks, executed=executed, explain=explain, extent=extent)
                if symbolic is None
                else _symbolic(request, symbolic, checks)
            )
        except PtxwcetError as error:
            if len(paths) == 1:
                raise
            shown.append(_Shown(None, "", error.diagnostics, is_partial=False))
    _show(shown, is_json=form == "json")
    diagnostics = [diagnostic for row in shown for diagnostic in row.diagnostics]
    return finish(diagnostics, is_partial=any(row.is_partial for row in shown))


@dataclass(frozen=True, slots=True)
class _Shown:
    """The result for one file: its report and its text (empty if diagnostics are sufficient)."""

    report: Report | SymbolicReport | None
    text: str
    diagnostics: Sequence[Diagnostic]
    is_partial: bool  # whether one of its kernels was answered


def _show(shown: Sequence[_Shown], *, is_json: bool) -> None:
    if is_json:
        reports = [row.report for row in shown if row.report is not None]
        echo_json(reports[0] if len(shown) == 1 else reports)
        return
    texts = [row.text for row in shown if row.text]
    if texts:
        echo(("" if is_quiet() else "\n").join(texts), nl=False)


def _bounded(
    request: Request,
    checks: Checks,
    *,
    executed: bool,
    explain: bool,
    extent: Extent,
) -> _Shown:
    from ptxwcet.commands.bound.build import build_report
    from ptxwcet.commands.bound.study import bound_file
    from ptxwcet.commands.bound.text import Extent
    from ptxwcet.report.head import refusals

    answer = _bound_executed(request) if executed else bound_file(request)
    report = build_report(answer, explain=explain, source=request.source, checks=checks)
    shown = _text_of(answer, report, Extent.LINE if is_quiet() else extent)
    diagnostics = [*refusals(answer, report.kernels), *shown.failures]
    for analysis in answer.answered:
        diagnostics += checks.failed_row(analysis)
    return _Shown(report, shown.text, diagnostics, is_partial=bool(answer.answered))


def _text_of(answer: FileAnswer, report: Report, extent: Extent) -> Rendered:
    """Returns the text; none for one refused kernel, which the diagnostics describe."""
    from ptxwcet.commands.bound.text import Extent, Rendered, render_text

    is_refusal = len(answer.kernels) == 1 and answer.refused and extent is not Extent.LINE
    return Rendered("") if is_refusal else render_text(report, extent)


def _symbolic(request: Request, symbolic: str, checks: Checks) -> _Shown:
    """Returns the bounds of a file as formulas; checks apply to the largest bound of the range."""
    # imported here: only formulas need these
    from ptxwcet.commands.bound.formula import bound_symbolic
    from ptxwcet.commands.bound.symbolic import build_symbolic_report
    from ptxwcet.commands.bound.symbolic_text import render_symbolic_text
    from ptxwcet.commands.bound.text import Rendered
    from ptxwcet.report.head import refusals

    answer = bound_symbolic(request, symbolic)
    report = build_symbolic_report(answer)
    is_refusal = len(answer.kernels) == 1 and answer.refused
    shown = Rendered("") if is_refusal else render_symbolic_text(report)
    diagnostics = [*refusals(answer, report.kernels), *shown.failures]
    for formula in answer.answered:
        launched = formula.launch_formula
        launch = launched if launched is None or isinstance(launched, Refusal) else launched.claim
        kernel, clock_mhz = formula.kernel, answer.machine.clock_mhz
        diagnostics += checks.failed(kernel.readable, kernel.span, formula.claim, launch, clock_mhz)
    return _Shown(report, shown.text, diagnostics, is_partial=bool(answer.answered))


def _bound_executed(request: Request) -> FileAnswer:
    # imported here: only ``--executed`` needs the emulator
    from ptxwcet.commands.bound.executed import bound_executed

    with ProgressLine() as progress:
        return bound_executed(request, progress.show)
