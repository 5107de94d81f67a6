"""``ptxwcet makespan``: the worst-case makespan of identical warps in time slots."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ptxwcet.cli import options
from ptxwcet.cli.command import Command
from ptxwcet.cli.output import echo, echo_json, finish
from ptxwcet.cli.paths import OUTPUT_FILE
from ptxwcet.cli.progress import ProgressLine
from ptxwcet.cli.requests import request_from
from ptxwcet.methods.makespan.ilp_model import Constraints
from ptxwcet.methods.makespan.methods import METHODS
from ptxwcet.methods.makespan.picture import draw_schedule
from ptxwcet.methods.makespan.problem import parse_capacity
from ptxwcet.methods.makespan.study import (
    Makespan,
    MakespanOptions,
    makespan_of_string,
    makespans_of_file,
)
from ptxwcet.methods.makespan.text import makespan_data, refusal_data, render_makespan_text
from ptxwcet.opened.opening import RefusedKernel, refuse
from ptxwcet.support.diagnostics import Diagnostic

_FORMULAS = ("closed-form", "pessimistic")
_OF_STRINGS = (
    "text",
    "warps",
    "load_store",
    "cores",
    "method",
    "constraints",
    "most_warps",
    "seconds",
    "schedule",
    "form",
    "report_file",
    "quiet",
    "verbose",
    "color",
)


@click.command(
    cls=Command, example="ptxwcet makespan --string LCLLC --warps 8 --load-store 1/2 --cores 1"
)
@options.optional_file_options
@click.option("--string", "text", help="Kernel string instead of FILE: letters L and C.")
@click.option("--warps", type=int, help="Warps that execute --string.")
@click.option(
    "--load-store", required=True, metavar="N", help="Warps a slot on load/store units: 1, 2, 1/2."
)
@click.option("--cores", required=True, metavar="N", help="Warps a slot on cores: 1, 2, 1/2.")
@click.option(
    "--method", type=click.Choice(list(METHODS)), default=next(iter(METHODS)), show_default=True
)
@click.option(
    "--constraints",
    type=click.Choice([one.value for one in Constraints]),
    default=Constraints.SHORT.value,
    show_default=True,
    help="How the method ilp writes work conservation.",
)
@click.option(
    "--most-warps",
    type=int,
    default=8,
    show_default=True,
    help="The methods extrapolate start from at most so many warps (x).",
)
@click.option(
    "--unit-kind",
    "units",
    multiple=True,
    metavar="UNIT=L|C",
    help="A unit of the machine is a load/store unit or a core.  [default: the machine file's]",
)
@options.timeout(None, "Seconds for each string; then the best bound so far.")
@click.option("--schedule", type=OUTPUT_FILE, help="Draw the schedule: an .svg.")
@options.report_options
def makespan(
    text: str | None,
    warps: int | None,
    load_store: str,
    cores: str,
    method: str,
    constraints: str,
    most_warps: int,
    units: Sequence[str],
    seconds: float | None,
    schedule: Path | None,
    form: str,
    **given: Any,
) -> int:
    """Time slots until the last of identical warps has ended, at worst.

    The machine is that of Berezovskyi, Bletsas and Andersson: slots, not cycles, and no latencies.
    Give FILE and its launch, or --string and --warps. Exit code: 0 answered; 1 refused; 2 usage.
    """
    _check_usage(given["file"], text, warps, schedule)
    with ProgressLine() as progress:
        chosen = MakespanOptions(
            parse_capacity("load/store units", load_store),
            parse_capacity("cores", cores),
            method,
            seconds,
            most_warps,
            Constraints(constraints),
            _letters(units),
            progress.show_part,
        )
        if text is None:
            return _answer_file(chosen, schedule, form, given)
        assert warps is not None
        solved = makespan_of_string(text, warps, chosen)
    if form == "json":
        echo_json(makespan_data(solved))
    else:
        echo(render_makespan_text("of         --string", solved), nl=False)
    _draw(solved, schedule)
    return 0


def _check_usage(
    file: str | None, text: str | None, warps: int | None, schedule: Path | None
) -> None:
    """Raises click.UsageError for options that do not go together: none is ignored."""
    if (file is None) == (text is None):
        raise click.UsageError("give either FILE or --string")
    if text is not None and warps is None:
        raise click.UsageError("--string needs --warps")
    if text is None and warps is not None:
        raise click.UsageError("--warps belongs to --string: the warps of FILE follow from --block")
    _refuse_idle_options(with_string=text is not None)
    if schedule is not None and schedule.suffix != ".svg":
        raise click.BadParameter(f"'{schedule}' should end in .svg", param_hint="'--schedule'")


def _refuse_idle_options(*, with_string: bool) -> None:
    context = click.get_current_context()
    method = context.params["method"]
    if method != "ilp":
        options.refuse_idle(f"belongs to the method ilp, not to {method}", "constraints")
    if not method.startswith("extrapolate"):
        options.refuse_idle(f"belongs to the methods extrapolate, not to {method}", "most_warps")
    if method in _FORMULAS:
        options.refuse_idle(f"ends a search: the method {method} makes none", "seconds")
    if with_string:
        of_file = (one.name or "" for one in context.command.params if one.name not in _OF_STRINGS)
        options.refuse_idle("belongs to FILE, not to --string", *of_file)


def _letters(units: Sequence[str]) -> dict[str, str]:
    found = {}
    for written in units:
        unit, _, letter = written.partition("=")
        if not unit or letter not in ("L", "C"):
            raise click.BadParameter(
                f"'{written}' is not UNIT=L or UNIT=C", param_hint="'--unit-kind'"
            )
        found[unit] = letter
    return found


def _answer_file(
    chosen: MakespanOptions, schedule: Path | None, form: str, given: dict[str, Any]
) -> int:
    answer = makespans_of_file(request_from(**given), chosen)
    solved = [row for row in answer.kernels if not isinstance(row, RefusedKernel)]
    if schedule is not None and len(solved) > 1:
        names = ", ".join(row.prepared.kernel.readable for row in solved)
        raise click.UsageError(f"a picture shows one kernel: choose with -k among {names}")
    data: list[dict[str, Any]] = []
    diagnostics: list[Diagnostic] = []
    for worst in answer.kernels:
        if isinstance(worst, RefusedKernel):
            diagnostics += worst.diagnostics
            data.append(refusal_data(worst.kernel, worst.diagnostics))
            continue
        kernel = worst.prepared.kernel
        title = (
            f"of         {answer.path}, kernel {kernel.readable}, units of {answer.machine.name}"
        )
        try:
            shown = render_makespan_text(title, worst.makespan) if form == "text" else ""
            both = {"kernel": kernel.name, "readable": kernel.readable}
            data.append({**both, **makespan_data(worst.makespan)})
        except Exception as error:
            diagnostics += refuse(worst.prepared.kernel, error).diagnostics
            data.append(refusal_data(kernel, tuple(diagnostics[-1:])))
            continue
        if form == "text":
            echo(shown)
        try:
            _draw(worst.makespan, schedule)
        except click.UsageError:
            raise
        except Exception as error:
            diagnostics += refuse(worst.prepared.kernel, error).diagnostics
    if form == "json":
        echo_json(data)
    return finish(diagnostics, is_partial=bool(solved))


def _draw(found: Makespan, path: Path | None) -> None:
    if path is None:
        return
    if len(found.sections) > 1 or found.sections[0].multiplicity > 1:
        raise click.UsageError("a picture shows one section: the block has barriers")
    draw_schedule(found.sections[0], path)
