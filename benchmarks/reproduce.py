"""``python benchmarks/reproduce.py EXPERIMENT -o DIR``: published experiments, made again."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click
from experiments.catalogue import EXPERIMENTS

from ptxwcet.cli import options
from ptxwcet.cli.command import Command
from ptxwcet.cli.output import echo, finish, is_quiet
from ptxwcet.cli.paths import OutputFolder
from ptxwcet.cli.progress import ProgressLine
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.extras import require_extra


@click.command(cls=Command, example="python benchmarks/reproduce.py makespan --quick -o makespan")
@click.argument("experiment", type=click.Choice(list(EXPERIMENTS)))
@options.option(
    "output",
    "Write report, tables, data and pictures into this folder.",
    required=True,
    type=OutputFolder(".md", ".csv", ".json", ".png"),
)
@click.option(
    "--quick",
    "is_quick",
    is_flag=True,
    help="A reduced protocol of seconds, to see that all works.  [default: the whole one]",
)
def reproduce(experiment: str, output: Path, is_quick: bool) -> int:
    """Make a published experiment again, with the paper's figures beside ours.

    The folder of -o gets REPORT.md with command, versions and hashes, tables and data as CSV and
    JSON, and pictures if matplotlib is installed. It must be new, empty, or of the same experiment,
    which is then replaced; if an earlier run was interrupted, what it kept there is used.

    \b
    ecrts2025  bounds against simulated runs, SGEMM and samples; a minute
    hybrid     estimates from traces against high-water marks; an hour
    makespan   integer program, extrapolation, closed form; ten minutes
    pwcet      probabilistic WCET of a Voronoi kernel; two minutes

    Exit code: 0 written; 1 it cannot be; 2 usage.
    """
    # here: numpy and simulators are no matter for a mistake on the command line
    from experiments.catalogue import run_experiment
    from experiments.experiment import Task
    from experiments.folder import fill_folder, open_folder

    chosen = EXPERIMENTS[experiment]
    for extra in chosen.extras:
        require_extra(extra, f"reproducing {experiment}")
    words = [experiment, *(["--quick"] if is_quick else []), "-o", str(output)]
    command = f"python benchmarks/reproduce.py {shlex.join(words)}"
    begin = time.process_time()
    work = open_folder(output, chosen)
    with ProgressLine() as progress:
        results = run_experiment(chosen, Task(is_quick, work, progress.show_part))
    written = fill_folder(output, chosen, results, command, is_quick)
    if results.undrawn and not is_quiet():
        missing = ", ".join(results.undrawn)
        echo(f"no pictures ({missing}): pip install 'ptxwcet[report]'", err=True)
    seconds = time.process_time() - begin
    echo(f"{output}: {', '.join(written)}; {seconds:.0f} s of processor time")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; its exit code."""
    try:
        return int(reproduce.main(arguments, "reproduce.py", standalone_mode=False) or 0)
    except PtxwcetError as error:
        return finish(error.diagnostics)
    except click.ClickException as error:
        error.show()
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
