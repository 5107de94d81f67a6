"""``ptxwcet simulate warmup``: compiles the code that is otherwise compiled on first use."""

from __future__ import annotations

import click

from ptxwcet.cli.command import Command
from ptxwcet.cli.output import echo
from ptxwcet.cli.progress import ProgressLine
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.first_use import CACHE_VARIABLE, cache_folder


@click.command("warmup", cls=Command, needs=("sim",), example="ptxwcet simulate warmup")
def simulate_warmup() -> int:
    """Compile the simulators now, and keep that for later runs: a step for images of containers.

    It is kept in the folder of PTXWCET_CACHE_DIR, else in the user's cache folder, and is good for
    this version, this kind of processor, and this numba. Exit code: 0 kept; 1 it cannot be.
    """
    folder = cache_folder()
    if folder is None:
        raise PtxwcetError(
            Diagnostic(
                "PW233",
                "the cache folder cannot be written",
                help=f"say another: {CACHE_VARIABLE}=FOLDER",
            )
        )
    # Imported here: numpy and the simulators are unnecessary if nothing can be kept.
    from ptxwcet.validate.warming import warm_up

    with ProgressLine("steps") as progress:
        warm_up(progress.show)
    echo(f"kept in {folder}")
    return 0
