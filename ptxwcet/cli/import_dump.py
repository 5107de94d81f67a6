"""``ptxwcet import-dump D ... --sidecar S --out t.csv``: dumps as a timed trace."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np

from ptxwcet.cli.output import echo
from ptxwcet.cli.paths import INPUT_FILE, OUTPUT_FILE, GuardedCommand
from ptxwcet.studies.recording import import_dumps
from ptxwcet.trace.files import write_trace


@click.command("import-dump", cls=GuardedCommand)
@click.argument("dumps", nargs=-1, required=True, type=INPUT_FILE)
@click.option(
    "--sidecar", type=INPUT_FILE, required=True, help="What ptxwcet instrument wrote (.json)."
)
@click.option(
    "-o",
    "--out",
    type=OUTPUT_FILE,
    required=True,
    help="Write the trace here: .csv or .npz.",
)
def import_dump(dumps: tuple[str, ...], sidecar: str, out: Path) -> None:
    """Turn the DUMPS of an instrumented kernel into a trace, a run each.

    Times of each multiprocessor count from the first event on it.
    """
    trace = import_dumps(sidecar, dumps)
    write_trace(trace, out)
    runs, multiprocessors = len(trace.runs), len(np.unique(trace.sm))
    echo(
        f"{out}: {_count(len(trace), 'event')} of {trace.origin.kernel} in {_count(runs, 'run')} "
        f"on {_count(multiprocessors, 'multiprocessor')}, times in {trace.origin.clock}s"
    )


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")
