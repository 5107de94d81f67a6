"""``ptxwcet validate FILE``: every bound of a kernel against simulated runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from ptxwcet.api import bound_file
from ptxwcet.cli.bound import request_from
from ptxwcet.cli.options import analysis_options
from ptxwcet.pipeline import KernelAnalysis
from ptxwcet.simulator.policies import Jitter
from ptxwcet.simulator.resolution import resolve_workload
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError, render_all
from ptxwcet.validate.block import BlockValidation, Effort, validate_block


@click.command()
@analysis_options
@click.option(
    "--seeds",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="Seeds of random policies, jitter and undecided paths.",
)
@click.option(
    "--jitter",
    type=int,
    default=25,
    show_default=True,
    metavar="PERCENT",
    help="Shorten each timing at random by up to so much, in additional runs.",
)
@click.option(
    "--time",
    "seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=4.0,
    show_default=True,
    help="Seconds for each kind of block; runs that do not fit are left out and counted.",
)
def validate(seeds: int, jitter: int, seconds: float, **options: Any) -> int:
    """Check the bounds of each kernel in FILE against runs of every policy.

    Exit code: 0 all hold; 1 a kernel is refused or a proved bound is contradicted (PW535, with a
    shrunk witness). GUB is an estimate: exceeding it is printed, and no failure.
    """
    effort = Effort(seeds, Jitter(jitter).percent, seconds)
    answer = bound_file(request_from(**options))
    diagnostics: list[Diagnostic] = []
    for row in answer.bounded:
        try:
            diagnostics += _validate_kernel(row, effort)
        except PtxwcetError as error:
            diagnostics += error.diagnostics
    diagnostics += [one for refused in answer.refused for one in refused.diagnostics]
    if diagnostics:
        click.echo(render_all(diagnostics), err=True)
    return 1 if diagnostics else 0


def _validate_kernel(row: KernelAnalysis, effort: Effort) -> list[Diagnostic]:
    found = []
    for piece in row.pieces:
        warps = piece.analysis.workload.warp_count
        name = f"kernel {row.kernel.name}, {warps} warps on {row.machine.name}"
        if len(row.pieces) > 1:
            name += f", blocks {piece.paths.first} to {piece.paths.last}"
        result = validate_block(name, piece.analysis, piece.outcomes, effort, resolve_workload)
        click.echo("\n".join(_lines(name, result)))
        if result.witness is not None:
            found.append(result.witness.diagnostic())
    return found


def _lines(name: str, result: BlockValidation) -> Iterator[str]:
    yield name
    columns = ("method", "guarantee", "bound", "", "observed", "bound/observed", "by")
    yield _cells(columns)
    for row in result.rows:
        ratio = f"{row.cycles / row.observed.cycles:.4f}" if row.observed.cycles else "-"
        remark = "" if row.holds else "  EXCEEDED" + ("" if row.proved else " (an estimate)")
        cells = (row.method, row.guarantee, f"{row.cycles:,}", row.side.value)
        yield _cells((*cells, f"{row.observed.cycles:,}", ratio, row.observed.by + remark))
    for method, reason in result.refused:
        yield f"  {method}: no answer: {reason}"
    made = f"{result.runs} runs and {result.schedules} schedules of the adversary"
    if result.resolutions > 1:
        made += f" on {result.resolutions} random resolutions of undecided paths"
    yield f"  {made}; {result.given_up} runs left out for time"


def _cells(row: tuple[str, ...]) -> str:
    method, guarantee, bound, side, observed, ratio, by = row
    return f"  {method:<10}{guarantee:<12}{bound:>14} {side:<2} {observed:>14}{ratio:>16}  {by}"
