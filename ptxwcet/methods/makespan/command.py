"""``ptxwcet makespan``: the worst-case makespan of identical warps in time slots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ptxwcet.cli import options
from ptxwcet.cli.command import Command
from ptxwcet.cli.output import echo, echo_json, finish
from ptxwcet.cli.paths import OutputFile, is_kernel_string
from ptxwcet.cli.progress import ProgressLine
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

_MOST_WARPS = 8
_KINDS = [one.value for one in Constraints]
_FORMULAS = ("closed-form", "pessimistic")
_OF_FILES = options.names_of(options.makespan_options)[1:]


def _chosen_method(
    _: click.Context, option: click.Parameter, text: str
) -> tuple[str, Constraints, int]:
    """Name of a method, and what it is told: kind of constraints, or most warps."""
    name, colon, told = text.partition(":")
    if name not in METHODS:
        raise click.BadParameter(f"'{name}' is none of {', '.join(METHODS)}", param=option)
    if name == "ilp" and told in _KINDS:
        return name, Constraints(told), _MOST_WARPS
    if name.startswith("extrapolate") and told.isdecimal() and len(told) < 10:
        return name, Constraints.SHORT, int(told)
    if colon:
        raise click.BadParameter(f"'{told}' says nothing to the method {name}", param=option)
    return name, Constraints.SHORT, _MOST_WARPS


@click.command(cls=Command, example="ptxwcet makespan LCLLC --warps 8 --load-store 1/2 --cores 1")
@options.makespan_options
@click.option("--warps", type=int, help="Warps that execute a STRING.")
@click.option(
    "--load-store", required=True, metavar="N", help="Warps a slot on load/store units: 1, 2, 1/2."
)
@click.option("--cores", required=True, metavar="N", help="Warps a slot on cores: 1, 2, 1/2.")
@options.option(
    "method",
    f"How to answer: {', '.join(METHODS)}; ilp:{'|'.join(_KINDS)} says how work conservation "
    "is written, extrapolate:8 from how many warps to start at most (x).",
    default=next(iter(METHODS)),
    callback=_chosen_method,
    shell_complete=options.completed(lambda: METHODS),
)
@options.option("seconds", "Seconds for each string; then the best bound so far.")
@options.option("picture", "Draw the schedule: an .svg.", type=OutputFile(".svg"))
@options.report_options
def makespan(
    file: str,
    warps: int | None,
    load_store: str,
    cores: str,
    method: tuple[str, Constraints, int],
    seconds: float | None,
    picture: Path | None,
    form: str,
    **given: Any,
) -> int:
    """Time slots until the last of identical warps has ended, at worst.

    The machine is that of Berezovskyi, Bletsas and Andersson: slots, not cycles, and no latencies.
    Give FILE and its launch, whose units are L or C as the machine file says; or a STRING of these
    letters, and --warps. Exit code: 0 answered; 1 refused; 2 usage.
    """
    is_string = is_kernel_string(file)
    _check_usage(method[0], is_string=is_string, warps=warps)
    name, constraints, most_warps = method
    with ProgressLine() as progress:
        chosen = MakespanOptions(
            parse_capacity("load/store units", load_store),
            parse_capacity("cores", cores),
            name,
            seconds,
            most_warps,
            constraints,
            progress.show_part,
        )
        if not is_string:
            return _answer_file(chosen, picture, form, {"file": file, **given})
        assert warps is not None
        solved = makespan_of_string(file, warps, chosen)
    if form == "json":
        echo_json(makespan_data(solved))
    else:
        echo(render_makespan_text("of         the string", solved), nl=False)
    _draw(solved, picture)
    return 0


def _check_usage(method: str, *, is_string: bool, warps: int | None) -> None:
    """Raises click.UsageError for options that do not go together: none is ignored."""
    if is_string and warps is None:
        raise click.UsageError("a STRING needs --warps")
    if not is_string and warps is not None:
        raise click.UsageError("--warps belongs to a STRING: those of FILE follow from --block")
    if method in _FORMULAS:
        options.refuse_idle(f"ends a search: the method {method} makes none", "seconds")
    if is_string:
        options.refuse_idle("belongs to FILE, not to a STRING", *_OF_FILES)


def _answer_file(
    chosen: MakespanOptions, picture: Path | None, form: str, given: dict[str, Any]
) -> int:
    answer = makespans_of_file(options.request_from(**given), chosen)
    solved = [row for row in answer.kernels if not isinstance(row, RefusedKernel)]
    if picture is not None and len(solved) > 1:
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
            _draw(worst.makespan, picture)
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
