"""``ptxwcet FILE ...`` (``ptxwcet bound FILE ...``): the main job."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from ptxwcet.bounds.methods import SAFE_NAME, names_to_report
from ptxwcet.claims import Refusal
from ptxwcet.cli import completion, options
from ptxwcet.cli.command import Command
from ptxwcet.cli.output import echo, echo_json, finish, is_quiet
from ptxwcet.cli.paths import STANDARD_INPUT, expand_patterns
from ptxwcet.cli.progress import ProgressLine
from ptxwcet.compose.wishes import GridWishes
from ptxwcet.machine.loader import DEFAULT_MACHINE
from ptxwcet.ptx.reading import read_stream
from ptxwcet.studies.budgets import Budget, Checks, required_guarantee
from ptxwcet.studies.containers import Compilation, needs_tool, ptx_text
from ptxwcet.studies.request import Request
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.extras import require_extra

if TYPE_CHECKING:
    from ptxwcet.report.model import Report
    from ptxwcet.report.symbolic_model import SymbolicReport
    from ptxwcet.report.text import Extent
    from ptxwcet.studies.block_bound import FileAnswer


def _known_method(_: click.Context, option: click.Parameter, name: str) -> str:
    known = names_to_report()
    if name not in known:
        raise click.BadParameter(f"'{name}' is none of {', '.join(known)}", param=option)
    return name


@click.command(cls=Command, example="ptxwcet kernel.ptx --block 256 --grid 16 --param n=4096")
@options.analysis_options_of_files
@options.gpu_options
@options.report_options
@options.BUDGET
@click.option(
    "--budget-of",
    type=click.Choice(["block", "kernel"]),
    help="Whose bound the budget is for.  [default: the kernel's with a grid, else the block's]",
)
@options.REQUIRE
@options.policy("Known warp scheduler: adds the method scheduled (lrr, gto, ...).")
@click.option(
    "--method",
    metavar="NAME",
    default=SAFE_NAME,
    callback=_known_method,
    shell_complete=completion.methods,
    show_default=True,
    help="What to report as the bound: safe, scheduled (needs --policy), or another package's.",
)
@click.option(
    "--executed",
    is_flag=True,
    help="Run the launch file's inputs and bound the paths that they take: an estimate.",
)
@click.option("--details", is_flag=True, help="Print all that is known of each kernel.")
@click.option("--explain", is_flag=True, help="Show which lines pay the bound of method safe.")
@click.option(
    "--symbolic",
    metavar="NAME=LEAST..MOST",
    help="Leave an integer parameter open: the safe bound as a formula, for a range of values.",
)
def bound(
    files: tuple[str, ...],
    form: str,
    budget: Budget | None,
    budget_of: str | None,
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
        _refuse_beside_symbolic(name for name, value in others.items() if value)
    if budget is None:
        options.refuse_idle("says whose bound --budget is for: give that, too", "budget_of")
    if form == "json" or is_quiet():
        options.refuse_idle("is of the text: leave --quiet and --format json out", "details")
    if policy is not None:
        require_extra("sim", "--policy")
    paths = expand_patterns(files)
    # here: what is wrong with the command line is said before anything is loaded that computes
    from ptxwcet.report.text import Extent

    extent = Extent.DETAILS if details else Extent.SCREEN
    checks = Checks(budget, budget_of, required_guarantee(budget, require))
    shown: list[_Shown] = []
    for path in paths:
        try:
            request = request_from(path, **given)
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
    diagnostics = [one for row in shown for one in row.diagnostics]
    return finish(diagnostics, is_partial=any(row.is_partial for row in shown))


@dataclass(frozen=True, slots=True)
class _Shown:
    """What came of one file: its report, its text (empty if only diagnostics are left to say)."""

    report: Report | SymbolicReport | None
    text: str
    diagnostics: Sequence[Diagnostic]
    is_partial: bool  # whether a kernel of it was answered


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
    from ptxwcet.report.build import build_report
    from ptxwcet.report.text import Extent
    from ptxwcet.studies.block_bound import bound_file

    answer = _bound_executed(request) if executed else bound_file(request)
    failures: list[Diagnostic] = []
    report = build_report(answer, failures, explain=explain, source=request.source, checks=checks)
    text = _text_of(answer, report, failures, Extent.LINE if is_quiet() else extent)
    diagnostics = [one for row in answer.refused for one in row.diagnostics] + failures
    for analysis in answer.answered:
        diagnostics += checks.failed_row(analysis)
    return _Shown(report, text, diagnostics, is_partial=bool(answer.answered))


def _text_of(answer: FileAnswer, report: Report, failures: list[Diagnostic], extent: Extent) -> str:
    """The text; nothing for one kernel that is refused, of which the diagnostics say all."""
    from ptxwcet.report.text import Extent, render_text

    is_refusal = len(answer.kernels) == 1 and answer.refused and extent is not Extent.LINE
    return "" if is_refusal else render_text(report, failures, extent)


def _refuse_beside_symbolic(names: Iterable[str]) -> None:
    for name in names:
        raise click.UsageError(f"--symbolic gives a formula of method safe: it excludes {name}")


def _symbolic(request: Request, symbolic: str, checks: Checks) -> _Shown:
    """The bounds of a file as formulas; the checks are of the largest bound in the range."""
    # here: only loaded when a formula is asked for
    from ptxwcet.report.symbolic_model import build_symbolic_report
    from ptxwcet.report.symbolic_text import render_symbolic_text
    from ptxwcet.studies.formula import bound_symbolic

    answer = bound_symbolic(request, symbolic)
    failures: list[Diagnostic] = []
    report = build_symbolic_report(answer, failures)
    is_refusal = len(answer.kernels) == 1 and answer.refused
    text = "" if is_refusal else render_symbolic_text(report, failures)
    diagnostics = [one for row in answer.refused for one in row.diagnostics] + failures
    for formula in answer.answered:
        launched = formula.launched
        launch = launched if launched is None or isinstance(launched, Refusal) else launched.claim
        kernel, clock_mhz = formula.kernel, answer.machine.clock_mhz
        diagnostics += checks.failed(kernel.readable, kernel.span, formula.claim, launch, clock_mhz)
    return _Shown(report, text, diagnostics, is_partial=bool(answer.answered))


def _bound_executed(request: Request) -> FileAnswer:
    # here: the emulator is loaded only when something is executed
    from ptxwcet.studies.executed_bound import bound_executed

    with ProgressLine() as progress:
        return bound_executed(request, progress.show)


def request_from(
    file: str,
    kernels: tuple[str, ...],
    block: str | None,
    grid: str | None,
    parameters: tuple[str, ...],
    source: str | None,
    loop_bounds: tuple[str, ...],
    launch_file: str | None,
    facts_file: str | None,
    machine: str = DEFAULT_MACHINE,
    mem_latency: int | None = None,
    on_unknown: str = "refuse",
    sms: int | None = None,
    resident_blocks: int | None = None,
    registers: int | None = None,
    ptxas_info: str | None = None,
    ask_ptxas: bool = False,
    co_runner: str | None = None,
    arch: str | None = None,
    nvcc_options: str | None = None,
) -> Request:
    """The shared options as a request; a command without a machine leaves out the last ones.

    PTX on standard input (``-``) is read here, CUDA source compiled and a binary opened. Raises
    PtxwcetError: PW112 (no PTX), PW120 and PW121 (none made or found).
    """
    if sum((registers is not None, ptxas_info is not None, ask_ptxas)) > 1:
        raise click.UsageError(
            "--registers, --ptxas-info and --ask-ptxas each say the registers: give one of them"
        )
    text = None
    if file == STANDARD_INPUT:
        read = read_stream(sys.stdin.buffer, "<stdin>")
        file, text = read.name, read.text
    elif needs_tool(file):
        if nvcc_options and not file.lower().endswith(".cu"):
            raise click.UsageError(
                "--nvcc-options is for CUDA source: a binary is compiled already"
            )
        compilation = Compilation(arch, tuple(_split(nvcc_options or "")))
        text = ptx_text(file, compilation, kernels)
    if (arch or nvcc_options) and not needs_tool(file):
        raise click.UsageError(
            "--arch and --nvcc-options are for CUDA source and binaries: PTX is compiled already"
        )
    return Request(
        file,
        kernels,
        block,
        grid,
        parameters,
        source,
        loop_bounds,
        machine,
        mem_latency,
        on_unknown == "worst",
        launch_file=launch_file,
        facts_file=facts_file,
        text=text,
        gpu=GridWishes(sms, resident_blocks, registers, co_runner=co_runner),
        ptxas_info=ptxas_info,
        asks_ptxas=ask_ptxas,
    )


def _split(text: str) -> list[str]:
    """Options as a shell would part them."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise click.UsageError(f"--nvcc-options: {error}") from None
