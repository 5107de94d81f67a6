"""``ptxwcet annotate phases``: prints when an isolated warp executes and when it idles."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

import click

from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.bounds.carve_out import require_no_sizes
from ptxwcet.cli import options
from ptxwcet.cli.command import Command
from ptxwcet.cli.output import echo, echo_json, finish, is_quiet
from ptxwcet.commands.bound.report import WITHOUT_WAITING
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.opened.opening import refuse
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.timing.phases import Phase, PhaseRepeat


@click.command(
    "phases",
    cls=Command,
    example="ptxwcet annotate phases kernel.ptx --block 256 --grid 16 --param n=4096",
)
@options.analysis_options
@options.report_options_of("text", "json", "csv")
@click.option(
    "--warp", type=click.IntRange(min=0), default=0, show_default=True, help="The warp's number."
)
def annotate_phases(warp: int, form: str, **given: Any) -> int:
    """Print the execution and idle phases of one warp, run alone, barriers not waiting.

    Repeats are printed once, with how often and how many cycles apart they come again: in CSV
    as 16@250 for 16 times, 250 cycles apart, the outer repeat first.
    """
    answer = bound_file(options.request_from(**given))
    diagnostics: list[Diagnostic] = []
    alone: list[_WarpAlone] = []
    for analysis in answer.answered:
        try:
            alone.append(_alone(analysis, warp))
            if form == "text":
                echo("\n".join(_describe(alone[-1])))
        except Exception as error:
            diagnostics += refuse(analysis.kernel, error).diagnostics
    if form == "json":
        echo_json(alone)
    if form == "csv":
        echo(_table(alone), nl=False)
        for one in alone:
            if one.phases is None and not is_quiet():
                echo(f"kernel {one.readable}, warp {one.warp}: {_NO_PHASES}", err=True)
    diagnostics += [diagnostic for refused in answer.refused for diagnostic in refused.diagnostics]
    return finish(diagnostics, is_partial=bool(answer.answered))


_NO_PHASES = "execution time and phases are not given: the warp has no single known path"


@dataclass(frozen=True, slots=True)
class _WarpAlone:
    """An isolated warp: length, execution time and phases in cycles, None if not given.

    ``waits_behind_units``: the length leaves out waiting at servers after the units.
    """

    kernel: str
    readable: str
    warp: int
    machine: str
    isolated_cycles: int
    waits_behind_units: bool
    execution_cycles: int | None
    phases: Sequence[Phase | PhaseRepeat] | None


def _alone(analysis: KernelAnalysis, warp: int) -> _WarpAlone:
    """Returns an isolated warp of the worst block. Raises PtxwcetError (PW211, PW326)."""
    require_no_sizes(analysis.launch, analysis.kernel.span)
    worst = analysis.worst
    for path, section in zip(worst.paths.warps, worst.analysis.uncut, strict=True):
        if warp in path.warps:
            profile = section.profile
            return _WarpAlone(
                analysis.kernel.name,
                analysis.kernel.readable,
                warp,
                analysis.machine.name,
                section.length_cycles,
                section.waits_behind_units,
                None if profile.phases is None else profile.execution_cycles,
                profile.phases,
            )
    raise PtxwcetError(
        Diagnostic(
            "PW211",
            f"the block has warps 0 to {analysis.launch.warps - 1}, not {warp}",
            help="choose another --warp",
        )
    )


def _table(rows: Sequence[_WarpAlone]) -> str:
    """Returns the phases as CSV, a row each; a warp without phases has no row."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("kernel", "warp", "phase", "start", "cycles", "repeats"))
    for row in rows:
        for phase, repeats in _flat(row.phases or (), ()):
            cells = (phase.kind.value, phase.start, phase.duration, " ".join(repeats))
            writer.writerow((row.readable, row.warp, *cells))
    return text.getvalue()


def _flat(
    items: Sequence[Phase | PhaseRepeat], around: tuple[str, ...]
) -> Iterator[tuple[Phase, tuple[str, ...]]]:
    for item in items:
        if isinstance(item, Phase):
            yield item, around
        else:
            yield from _flat(item.phases, (*around, f"{item.count}@{item.period_cycles}"))


def _describe(alone: _WarpAlone) -> Iterator[str]:
    yield f"kernel {alone.readable}, warp {alone.warp} on {alone.machine}"
    without = WITHOUT_WAITING if alone.waits_behind_units else ""
    yield f"isolated length L = {alone.isolated_cycles:,} cycles{without}"
    if alone.phases is None:
        yield _NO_PHASES
        return
    yield f"execution time E = {alone.execution_cycles:,} cycles"
    yield from _phase_lines(alone.phases, "")


def _phase_lines(items: Sequence[Phase | PhaseRepeat], indent: str) -> Iterator[str]:
    for item in items:
        match item:
            case Phase(kind, start, duration):
                yield f"{indent}{kind.value:<4}  [{start:,}, {start + duration:,})  {duration:,}"
            case PhaseRepeat(count, period, inner):
                yield f"{indent}{count:,} times, {period:,} cycles apart:"
                yield from _phase_lines(inner, indent + "  ")
