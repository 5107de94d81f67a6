"""``ptxwcet instrument import S D ... -o t.csv``: dumps as a timed trace."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np

from ptxwcet.cli import options
from ptxwcet.cli.command import Command
from ptxwcet.cli.output import echo
from ptxwcet.cli.paths import INPUT_FILE
from ptxwcet.methods.instrument.recording import import_dumps
from ptxwcet.support.printable import plural
from ptxwcet.trace.files import write_trace


@click.command(
    "import",
    cls=Command,
    example="ptxwcet instrument import kernel.instr.json kernel.bin -o trace.npz",
)
@click.argument("sidecar", type=INPUT_FILE)
@click.argument("dumps", nargs=-1, required=True, type=INPUT_FILE)
@options.option("output", "Write the trace here: .csv or .npz.", required=True)
def instrument_import(sidecar: str, dumps: tuple[str, ...], output: Path) -> None:
    """Turn the DUMPS of an instrumented kernel into a trace, a run each.

    SIDECAR is what ptxwcet instrument wrote beside the kernel (.json).
    Times of each multiprocessor count from the first event on it.
    """
    trace = import_dumps(sidecar, dumps)
    write_trace(trace, output)
    runs, multiprocessors = len(trace.runs), len(np.unique(trace.sm))
    echo(
        f"{output}: {plural(len(trace), 'event')} of {trace.origin.readable} "
        f"in {plural(runs, 'run')} on {plural(multiprocessors, 'multiprocessor')}, "
        f"times in {trace.origin.clock}s"
    )
