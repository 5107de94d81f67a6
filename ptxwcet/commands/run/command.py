"""``ptxwcet run FILE --launch L``: execute a kernel, without a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from ptxwcet.cli import options
from ptxwcet.cli.command import Command
from ptxwcet.cli.output import echo, echo_json, finish
from ptxwcet.cli.paths import OUTPUT_FILE, OutputFile
from ptxwcet.cli.progress import ProgressLine
from ptxwcet.commands.run.study import RunAnswer, RunRequest, run_file, write_results
from ptxwcet.support.array_files import Array

_SHOWN = 4


@click.command(cls=Command, example="ptxwcet run kernel.ptx --launch launch.toml -o results.npz")
@options.FILE_ON_DISK
@options.LINKS
@options.launch_file(required=True)
@options.written_to("Write the arrays after the run: a .npz.", kind=OutputFile(".npz"))
@click.option("--paths", type=OUTPUT_FILE, help="Write what each warp executed: JSON lines.")
@options.max_instructions()
@options.SOURCE
@options.format_option("text", "json")
def run(
    file: str,
    links: tuple[str, ...],
    launch_file: str,
    output: Path | None,
    paths: Path | None,
    max_instructions: int,
    source: str | None,
    form: str,
) -> int:
    """Execute a kernel of FILE as a launch file says, and check it on the way.

    Exit code: 0 it ran, nothing was found and the results are as expected; 1 refused, a fault was
    found or a result is wrong; 2 usage. A run that is stopped writes no results.
    """
    request = RunRequest(file, launch_file, source, max_instructions, paths is not None, links)
    with ProgressLine() as progress:
        answer = run_file(request, progress.show)
    if answer.is_complete:
        write_results(answer, output, paths)
    if form == "json":
        echo_json(_plain(answer))
    else:
        echo("\n".join(_lines(answer)))
    code = finish(answer.diagnostics)
    if not answer.is_complete and (output is not None or paths is not None):
        echo("the run was stopped: no results are written", err=True)
    return code or (0 if answer.is_complete else 1)


def _lines(answer: RunAnswer) -> Iterator[str]:
    launch, execution = answer.launch, answer.execution
    block, grid = ("x".join(map(str, size)) for size in (launch.block, launch.grid))
    yield f"kernel     {launch.kernel.readable}, block {block}, grid {grid}"
    rate = execution.warp_instructions / max(answer.seconds, 1e-9)
    state = "ran to the end" if answer.is_complete else "was stopped"
    yield (
        f"run        {state}: {execution.warp_instructions:,} warp-instructions in "
        f"{answer.seconds:.2f} s ({rate:,.0f}/s)"
    )
    yield f"findings   {len(execution.findings)}"
    for name, array in answer.outputs.items():
        yield f"array      {name}: {array.dtype} {_shape(array)}  {_beginning(array)}"
    for check in answer.checks:
        verdict = "as expected" if check.difference is None else "NOT as expected"
        yield f"expected   {check.name}: {verdict}"


def _shape(array: Array) -> str:
    return "x".join(map(str, array.shape))


def _beginning(array: Array) -> str:
    shown = " ".join(f"{value:g}" for value in array.reshape(-1)[:_SHOWN].tolist())
    return shown + (" ..." if array.size > _SHOWN else "")


def _plain(answer: RunAnswer) -> dict[str, Any]:
    launch, execution = answer.launch, answer.execution
    return {
        "schema": 1,
        "file": answer.path,
        "sha256": answer.sha256,
        "kernel": launch.kernel.name,
        "readable": launch.kernel.readable,
        "block": launch.block,
        "grid": launch.grid,
        "complete": answer.is_complete,
        "warp_instructions": execution.warp_instructions,
        "seconds": round(answer.seconds, 6),
        "findings": [
            {"code": finding.code, "message": finding.message, "notes": finding.notes}
            for finding in answer.diagnostics
        ],
        "expected": {check.name: check.difference is None for check in answer.checks},
    }
