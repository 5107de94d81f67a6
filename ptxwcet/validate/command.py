"""``ptxwcet validate FILE``: every bound of a kernel against simulated runs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.cli import options
from ptxwcet.cli.command import CommandGroup
from ptxwcet.cli.output import echo, echo_json, finish
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.machine.loader import load_machine
from ptxwcet.opened.opening import read_module, refuse
from ptxwcet.opened.request import Request
from ptxwcet.simulator.policies import Jitter
from ptxwcet.simulator.resolution import resolve_workload
from ptxwcet.support.diagnostics import Diagnostic
from ptxwcet.support.printable import printable_line
from ptxwcet.validate.block import BlockValidation, Effort, validate_block

if TYPE_CHECKING:
    from ptxwcet.validate.grid_study import GridValidation

_OF_THE_GRID = "counts in the bound of a launch, which --inputs runs: give that, too"
_LOGGER = logging.getLogger(__name__)


@click.command(
    cls=CommandGroup,
    needs=("sim",),
    example="ptxwcet validate kernel.ptx --block 256 --grid 16 --param n=4096",
)
@options.analysis_options
@options.gpu_options
@options.report_options
@options.option(
    "runs",
    "Runs with other seeds each, of random policies, jitter and undecided paths.",
    type=click.IntRange(min=0),
    default=20,
)
@options.option("jitter", default=25)
@options.option(
    "seconds",
    "Seconds for each kind of block; runs that do not fit are left out and counted.",
    type=click.FloatRange(min=0, min_open=True),
    default=4.0,
)
@options.option(
    "inputs",
    "Execute the launch file's input and others with other seeds, so many in all.",
    type=click.IntRange(min=0),
    default=0,
)
@click.option(
    "--attack",
    "attacks",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Number of executions on adversarial data, chosen so that loops run long.",
)
def validate(
    runs: int,
    jitter: int,
    seconds: float,
    inputs: int,
    attacks: int,
    form: str,
    **given: Any,
) -> int:
    """Check the bounds of each kernel in FILE against runs of every policy.

    With --inputs, kernels are executed too: each executed path must be one of the analysed ones
    (PW538), its simulated time at most the safe bound, and runs of the whole grid at most the bound
    of the launch.

    With --attack, the paths are attacked: the scalars of the launch file stay, its arrays are
    filled with values at which loops run long and arithmetic wraps, and those that led to the
    longest runs are varied. Runs with a fault or a data race say nothing and are counted.

    Exit code: 0 all hold; 1 a kernel is refused or a proved bound is contradicted (PW535, with a
    shrunk witness). GUB is an estimate: exceeding it is printed, and no failure.
    """
    effort = Effort(runs, Jitter(jitter).percent, seconds)
    if not inputs:
        options.refuse_idle(_OF_THE_GRID, *options.names_of(options.gpu_options))
    request = options.request_from(**given)
    answer = bound_file(request)
    shown = _Shown(is_json=form == "json")
    diagnostics: list[Diagnostic] = []
    for analysis in answer.answered:
        try:
            diagnostics += _validate_kernel(analysis, effort, shown)
        except Exception as error:
            diagnostics += refuse(analysis.kernel, error).diagnostics
    if inputs and not answer.refused:
        diagnostics += _validate_inputs(request, inputs, shown)
    if attacks and not answer.refused:
        diagnostics += _attack_paths(request, attacks, shown)
    shown.end()
    diagnostics += [one for refused in answer.refused for one in refused.diagnostics]
    return finish(diagnostics, is_partial=bool(answer.answered))


class _Shown:
    """What is shown: text as it comes, or one JSON object at the end."""

    def __init__(self, *, is_json: bool) -> None:
        self._is_json = is_json
        rest = ("executed", "grids", "attacked")
        self._data: dict[str, Any] = {"schema": 1, "blocks": [], **dict.fromkeys(rest)}

    def block(self, name: str, result: BlockValidation) -> None:
        """Shows the bounds of a kind of block against its runs."""
        if not self._is_json:
            echo("\n".join(_lines(name, result)))
            return
        self._data["blocks"].append(
            {
                "name": name,
                "rows": [
                    {
                        "method": bound.method,
                        "guarantee": bound.guarantee,
                        "side": bound.side,
                        "cycles": bound.cycles,
                        "observed_cycles": bound.observed.cycles,
                        "by": bound.observed.by,
                        "holds": bound.holds,
                    }
                    for bound in result.rows
                ],
                "refused": dict(result.refused),
                "runs": result.runs,
                "schedules": result.schedules,
                "given_up": result.given_up,
            }
        )

    def rest(self, key: str, data: Any, text: str) -> None:
        """What else was tried, under a key of the object or as a line."""
        self._data[key] = data
        if not self._is_json:
            echo(text)

    def end(self) -> None:
        """Prints the JSON object, if that is the form."""
        if self._is_json:
            echo_json(self._data)


def _validate_kernel(analysis: KernelAnalysis, effort: Effort, shown: _Shown) -> list[Diagnostic]:
    contradictions = []
    for piece in analysis.pieces:
        warps = piece.analysis.workload.warp_count
        name = f"kernel {analysis.kernel.readable}, {warps} warps on {analysis.machine.name}"
        if len(analysis.pieces) > 1:
            name += f", blocks {piece.paths.first} to {piece.paths.last}"
        _LOGGER.info("%s: bounds are attacked", printable_line(name))
        result = validate_block(name, piece.analysis, piece.outcomes, effort, resolve_workload)
        shown.block(name, result)
        if result.witness is not None:
            contradictions.append(result.witness.diagnostic())
    return contradictions


def _validate_inputs(request: Request, inputs: int, shown: _Shown) -> list[Diagnostic]:
    # here: the emulator is loaded only when something is executed
    from ptxwcet.validate.inputs import validate_inputs

    machine = load_machine(request.machine, request.memory_latency_cycles)
    module = read_module(request)
    blocks = runs = instructions = done = 0
    closest = 0.0
    contradictions: dict[str, Diagnostic] = {}
    grids: list[GridValidation | None] = []
    for validated in validate_inputs(request, module, machine, inputs):
        done += 1
        runs += validated.runs
        instructions += validated.warp_instructions
        grids.append(validated.grid)
        for kind in validated.rows:
            blocks += kind.blocks
            if kind.safe_cycles:
                closest = max(closest, kind.longest_cycles / kind.safe_cycles)
        contradictions.update({str(one): one for one in validated.diagnostics})
    shown.rest(
        "executed",
        {
            "inputs": done,
            "blocks": blocks,
            "warp_instructions": instructions,
            "runs": runs,
            "longest_over_safe": closest,
        },
        f"executed   {done} inputs, {blocks:,} blocks, {instructions:,} warp-instructions; "
        f"{runs:,} runs, the longest {closest:.4f} of SAFE",
    )
    shown.rest("grids", *_of_grids(grids))
    return list(contradictions.values())


def _of_grids(grids: list[GridValidation | None]) -> tuple[dict[str, Any], str]:
    """Runs of whole grids, as data and as text."""
    run = [one for one in grids if one is not None and not one.skipped]
    why = {one.skipped for one in grids if one is not None and one.skipped}
    why |= {"an execution contradicts paths or facts"} if None in grids else set()
    residents = sorted({number for one in run for number in one.residents})
    possible = max((one.possible for one in run), default=0)
    closest = max((one.longest_cycles / one.bound_cycles for one in run), default=0.0)
    sms = max((one.sms for one in run), default=0)
    data = {
        "grids": len(run),
        "runs": sum(one.runs for one in run),
        "sms": sms,
        "resident_blocks": residents,
        "possible_residencies": possible,
        "bound_cycles": max((one.bound_cycles for one in run), default=None),
        "longest_over_bound": closest,
        "not_run": sorted(why),
    }
    left = f"; not run: {'; '.join(sorted(why))}" if why else ""
    if not run:
        return data, f"grids      none{left}"
    text = (
        f"grids      {len(run)} whole grids, {data['runs']:,} runs on {sms} SM{'s' * (sms > 1)} "
        f"with {', '.join(map(str, residents))} resident blocks (of {possible} possible numbers); "
        f"the longest {closest:.4f} of the bound of the launch{left}"
    )
    return data, text


def _attack_paths(request: Request, attacks: int, shown: _Shown) -> list[Diagnostic]:
    # here: the emulator is loaded only when something is executed
    from ptxwcet.validate.inputs import attack_paths

    machine = load_machine(request.machine, request.memory_latency_cycles)
    module = read_module(request)
    attack = attack_paths(request, module, machine, attacks)
    data = {
        "refusal": attack.refusal or None,
        "compared": attack.compared,
        "left_out": attack.left_out,
        "longest_warp_instructions": attack.longest,
        "own_warp_instructions": attack.own,
    }
    text = (
        f"attacked   not at all: {attack.refusal}"
        if attack.refusal
        else f"attacked   {attack.compared} runs on adversarial data compared, {attack.left_out} "
        f"left out; the longest {attack.longest:,} warp-instructions, the file's own {attack.own:,}"
    )
    shown.rest("attacked", data, text)
    return list(attack.diagnostics)


def _lines(name: str, result: BlockValidation) -> Iterator[str]:
    yield name
    columns = ("method", "guarantee", "bound", "", "observed", "bound/observed", "by")
    yield _cells(columns)
    for bound in result.rows:
        ratio = f"{bound.cycles / bound.observed.cycles:.4f}" if bound.observed.cycles else "-"
        remark = "" if bound.holds else "  EXCEEDED" + ("" if bound.proved else " (an estimate)")
        cells = (bound.method, bound.guarantee, f"{bound.cycles:,}", bound.side.value)
        yield _cells((*cells, f"{bound.observed.cycles:,}", ratio, bound.observed.by + remark))
    for method, reason in result.refused:
        yield f"  {method}: no answer: {reason}"
    made = f"{result.runs} runs and {result.schedules} schedules of the adversary"
    if result.resolutions > 1:
        made += f" on {result.resolutions} random resolutions of undecided paths"
    yield f"  {made}; {result.given_up} runs left out for time"


def _cells(row: tuple[str, ...]) -> str:
    method, guarantee, bound, side, observed, ratio, by = row
    return f"  {method:<10}{guarantee:<12}{bound:>14} {side:<2} {observed:>14}{ratio:>16}  {by}"
