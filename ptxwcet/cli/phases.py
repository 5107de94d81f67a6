"""``ptxwcet phases``: when a warp alone executes and when it idles (Algorithm 1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click

from ptxwcet.analysed import KernelAnalysis
from ptxwcet.cli import options
from ptxwcet.cli.bound import request_from
from ptxwcet.cli.command import Command
from ptxwcet.cli.output import echo, finish
from ptxwcet.studies.block_bound import bound_file
from ptxwcet.studies.opening import refuse
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.timing.phases import Phase, PhaseRepeat


@click.command(cls=Command, example="ptxwcet phases kernel.ptx --block 256 --param n=4096")
@options.analysis_options
@click.option(
    "--warp", type=click.IntRange(min=0), default=0, show_default=True, help="Its number."
)
def phases(warp: int, **given: Any) -> int:
    """Print the execution and idle phases of one warp, run alone, barriers not waiting.

    Repeats are printed once, with how often and how many cycles apart they come again.
    """
    answer = bound_file(request_from(**given))
    diagnostics: list[Diagnostic] = []
    for row in answer.answered:
        try:
            lines = list(_describe(row, warp))
        except Exception as error:
            diagnostics += refuse(row.kernel, error).diagnostics
            continue
        echo("\n".join(lines))
    diagnostics += [one for refused in answer.refused for one in refused.diagnostics]
    return finish(diagnostics, is_partial=bool(answer.answered))


def _describe(row: KernelAnalysis, warp: int) -> Iterator[str]:
    worst = row.worst
    for path, section in zip(worst.paths.warps, worst.analysis.uncut, strict=True):
        if warp not in path.warps:
            continue
        profile = section.profile
        yield f"kernel {row.kernel.name}, warp {warp} on {row.machine.name}"
        yield f"isolated length L = {section.length_cycles:,} cycles"
        if profile.phases is None:
            yield "execution time and phases are not given: the warp has no single known path"
            return
        yield f"execution time E = {profile.execution_cycles:,} cycles"
        yield from _phase_lines(profile.phases, "")
        return
    raise PtxwcetError(
        Diagnostic(
            "PW211",
            f"the block has warps 0 to {row.launch.warps - 1}, not {warp}",
            help="choose another --warp",
        )
    )


def _phase_lines(items: Sequence[Phase | PhaseRepeat], indent: str) -> Iterator[str]:
    for item in items:
        match item:
            case Phase(kind, start, duration):
                yield f"{indent}{kind.value:<4}  [{start:,}, {start + duration:,})  {duration:,}"
            case PhaseRepeat(count, period, inner):
                yield f"{indent}{count:,} times, {period:,} cycles apart:"
                yield from _phase_lines(inner, indent + "  ")
