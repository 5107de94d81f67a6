"""``ptxwcet FILE`` (``ptxwcet bound FILE``): the main job."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import click

from ptxwcet.claims import Guarantee, TimingClaim
from ptxwcet.cli.options import analysis_options
from ptxwcet.cli.output import echo, finish
from ptxwcet.cli.paths import GuardedCommand
from ptxwcet.cli.progress import ProgressLine
from ptxwcet.ir.kernel import Kernel
from ptxwcet.machine.loader import DEFAULT_MACHINE
from ptxwcet.report.build import build_report
from ptxwcet.report.json_format import render_json
from ptxwcet.report.text import render_text
from ptxwcet.studies.block_bound import FileAnswer, bound_file
from ptxwcet.studies.request import Request
from ptxwcet.support.diagnostics import Diagnostic


@click.command(cls=GuardedCommand)
@analysis_options
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True
)
@click.option("--budget", type=click.IntRange(min=0), help="Fail if a bound exceeds these cycles.")
@click.option(
    "--require",
    type=click.Choice([Guarantee.SAFE_BOUND.value, Guarantee.ESTIMATE.value]),
    default=Guarantee.ESTIMATE.value,
    show_default=True,
    help="Fail if a bound has a weaker guarantee.",
)
@click.option("--policy", help="Known warp scheduler: adds the method scheduled (lrr, gto, ...).")
@click.option(
    "--method",
    type=click.Choice(["safe", "scheduled"]),
    default="safe",
    show_default=True,
    help="What to report as the bound.",
)
@click.option(
    "--executed",
    is_flag=True,
    help="Run the launch file's inputs and bound the paths that they take: an estimate.",
)
@click.option("--explain", is_flag=True, help="Show which lines pay the bound of method safe.")
@click.option(
    "--symbolic",
    metavar="NAME=LEAST..MOST",
    help="Leave an integer parameter open: the safe bound as a formula, for a range of values.",
)
def bound(
    form: str,
    budget: int | None,
    require: str,
    policy: str | None,
    method: str,
    executed: bool,
    explain: bool,
    symbolic: str | None,
    **options: Any,
) -> int:
    """Bound the execution time of one thread block of each kernel in FILE.

    Exit code: 0 all bounded; 1 a kernel refused, over the budget or below the guarantee; 2 usage.
    """
    request = replace(request_from(**options), policy=policy, method=method)
    if symbolic is not None:
        others = {
            "--policy": policy,
            "--method scheduled": method == "scheduled",
            "--executed": executed,
            "--explain": explain,
        }
        _refuse_beside_symbolic(name for name, given in others.items() if given)
        return _answer_symbolic(request, symbolic, form, (budget, Guarantee(require)))
    answer = _bound_executed(request) if executed else bound_file(request)
    failures: list[Diagnostic] = []
    report = build_report(answer, failures, explain=explain, source=request.source)
    single = len(answer.kernels) == 1 and answer.refused
    if form == "json" or not single:
        shown = render_json(report) if form == "json" else render_text(report, failures)
        echo(shown, nl=False)
    diagnostics = [one for row in answer.refused for one in row.diagnostics] + failures
    for row in answer.answered:
        diagnostics += _failed_checks(row.kernel, row.worst.bound.claim, budget, Guarantee(require))
    return finish(diagnostics, is_partial=bool(answer.answered))


def _refuse_beside_symbolic(names: Iterable[str]) -> None:
    for name in names:
        raise click.UsageError(f"--symbolic gives a formula of method safe: it excludes {name}")


def _answer_symbolic(
    request: Request, symbolic: str, form: str, checks: tuple[int | None, Guarantee]
) -> int:
    """Prints formulas; the checks are of the largest bound in the range."""
    # here: only loaded when a formula is asked for
    from ptxwcet.report.symbolic_model import build_symbolic_report
    from ptxwcet.report.symbolic_text import render_symbolic_text
    from ptxwcet.studies.formula import bound_symbolic

    answer = bound_symbolic(request, symbolic)
    failures: list[Diagnostic] = []
    report = build_symbolic_report(answer, failures)
    single = len(answer.kernels) == 1 and answer.refused
    if form == "json" or not single:
        is_json = form == "json"
        shown = render_json(report) if is_json else render_symbolic_text(report, failures)
        echo(shown, nl=False)
    diagnostics = [one for row in answer.refused for one in row.diagnostics] + failures
    for row in answer.answered:
        diagnostics += _failed_checks(row.kernel, row.claim, *checks)
    return finish(diagnostics, is_partial=bool(answer.answered))


def _bound_executed(request: Request) -> FileAnswer:
    # here: the emulator is loaded only when something is executed
    from ptxwcet.studies.launch_run import bound_executed

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
) -> Request:
    """The shared options as a request; a command without a machine leaves out the last ones."""
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
    )


def _failed_checks(
    kernel: Kernel, claim: TimingClaim, budget: int | None, required: Guarantee
) -> list[Diagnostic]:
    failed = []
    if budget is not None and claim.cycles > budget:
        failed.append(
            Diagnostic(
                "PW520",
                f"kernel {kernel.readable}: the bound of {claim.cycles} cycles is over the "
                f"budget of {budget}",
            )
        )
    if claim.guarantee.rank > required.rank:
        failed.append(
            Diagnostic(
                "PW521",
                f"kernel {kernel.readable}: the bound is only an {claim.guarantee.value}, "
                f"{required.value} is required",
                notes=tuple(f"{a.key} is {a.state.value}" for a in claim.assumptions),
            )
        )
    return failed
