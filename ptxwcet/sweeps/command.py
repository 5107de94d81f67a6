"""``ptxwcet sweep PLAN``: bounds many variants, on all cores or on a cluster."""

from __future__ import annotations

from pathlib import Path

import click

from ptxwcet.cli import options
from ptxwcet.cli.command import CommandGroup
from ptxwcet.cli.output import echo
from ptxwcet.cli.paths import OutputFolder, PlanInput
from ptxwcet.cli.progress import ProgressLine


@click.command(
    cls=CommandGroup,
    needs=("sweep",),
    example="ptxwcet sweep sweep.toml -o sweep --workers 2",
)
@click.argument("plan", type=PlanInput(), default="sweep.toml")
@options.option(
    "folder",
    "Folder of the results; made if it is not there.",
    type=OutputFolder(".parquet", ".csv", ".json", ".sqlite"),
    default="sweep",
)
@options.workers("Units at once, which the results do not depend on", cluster=True)
@options.option(
    "resume", "Go on in a folder of this plan; analyse what is missing, changed or failed."
)
@options.option(
    "cache",
    "Folder of kept answers, as of ptxwcet check --cache.  [default: the output folder]",
)
def sweep(
    plan: str,
    folder: Path,
    workers: int | str | None,
    resume: bool,
    cache: Path | None,
) -> int:
    """Bound every unit of PLAN: files, kernels, launches and machines, in all combinations.

    PLAN, sweep.toml if it is left out, is TOML with a table [[sweep]] for each product
    (docs/plans.md). Results are written as results.parquet and results.csv, a row a unit;
    ptxwcet sweep report shows them. Answers are kept as they come: after a run that was stopped,
    --resume goes on where it was.

    Exit code: 0 all units were bounded or refused; 1 a unit failed (its process died, took too
    much memory or time, or a file changed), or the cluster was lost or is of another version;
    2 usage, a plan with mistakes, a folder of another plan, or no scheduler.
    """
    # imported here: without the extra there is a message, not a traceback
    from ptxwcet.sweeps.engine import chosen_cluster
    from ptxwcet.sweeps.sweep_plan import read_sweep_plan
    from ptxwcet.sweeps.sweep_run import compiled_in, run_sweep

    read = read_sweep_plan(plan, cache or compiled_in(folder, plan))
    with ProgressLine("units") as progress:
        done = run_sweep(
            read,
            folder,
            lambda: chosen_cluster(workers),
            resume=resume,
            cache=cache,
            progress=progress.show,
        )
    bounded, refused, failed = (done.outcomes[name] for name in ("bounded", "refused", "failed"))
    echo(
        f"{done.outcomes.total():,} units: {bounded:,} bounded, {refused:,} refused, "
        f"{failed:,} failed; {done.analysed:,} analysed now\n"
        f"{folder / 'results.parquet'}: ptxwcet sweep report shows it"
    )
    return 1 if failed else 0
