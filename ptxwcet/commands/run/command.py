"""``ptxwcet run FILE --launch L``: executes a kernel without a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ptxwcet.cli import options
from ptxwcet.cli.command import Command
from ptxwcet.cli.output import echo, echo_json, finish
from ptxwcet.cli.paths import OUTPUT_FILE, OutputFile
from ptxwcet.cli.progress import ProgressLine
from ptxwcet.commands.run.study import RunAnswer, RunRequest, run_file, write_results
from ptxwcet.commands.run.text import run_lines


@click.command(cls=Command, example="ptxwcet run kernel.ptx --launch launch.toml -o results.npz")
@options.FILE_ON_DISK
@options.of("link")
@options.option("launch", required=True)
@options.option("output", "Write the arrays after the run: a .npz.", type=OutputFile(".npz"))
@click.option("--paths", type=OUTPUT_FILE, help="Write what each warp executed: JSON lines.")
@options.of("max_instructions")
@options.of("cuda_source")
@options.format_option("text", "json")
def run(
    file: str,
    link: tuple[str, ...],
    launch: str,
    output: Path | None,
    paths: Path | None,
    max_instructions: int,
    cuda_source: str | None,
    form: str,
) -> int:
    """Execute a kernel of FILE as a launch file says, and check it on the way.

    Exit code: 0 it ran, nothing was found and the results are as expected; 1 refused, a fault was
    found or a result is wrong; 2 usage. A run that is stopped writes no results.
    """
    request = RunRequest(file, launch, cuda_source, max_instructions, paths is not None, link)
    with ProgressLine() as progress:
        answer = run_file(request, progress.show)
    if answer.is_complete:
        write_results(answer, output, paths)
    if form == "json":
        echo_json(_plain(answer))
    else:
        echo("\n".join(run_lines(answer)))
    code = finish(answer.diagnostics)
    if not answer.is_complete and (output is not None or paths is not None):
        echo("the run was stopped: no results are written", err=True)
    return code or (0 if answer.is_complete else 1)


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
