"""``ptxwcet record FILE --launch L --out D``: run instrumented PTX and keep what it recorded."""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource

from ptxwcet.cli.output import echo, finish
from ptxwcet.cli.paths import INPUT_FILE, LAUNCH_FILE, OUTPUT_FILE, GuardedCommand, InputFile
from ptxwcet.cli.progress import ProgressLine
from ptxwcet.studies.launch_run import MOST_INSTRUCTIONS
from ptxwcet.studies.recording import (
    DEFAULT_BUFFER_BYTES,
    Device,
    Emulator,
    Gpu,
    RecordRequest,
    record_launch,
    write_dump,
)


@click.command(cls=GuardedCommand)
@click.pass_context
@click.argument("file", type=InputFile(".cu", ".json"))
@click.option(
    "--launch",
    "launch_file",
    type=LAUNCH_FILE,
    required=True,
    help="Launch file of the original kernel: what to run.",
)
@click.option("-o", "--out", type=OUTPUT_FILE, required=True, help="Write the dump here.")
@click.option(
    "--sidecar",
    type=InputFile(as_path=True),
    help="What ptxwcet instrument wrote beside FILE.  [default: FILE with .json]",
)
@click.option(
    "--device",
    type=click.Choice(["emulator", "gpu"]),
    default="emulator",
    show_default=True,
    help="Where it runs: here, counting instructions, or on the first GPU.",
)
@click.option(
    "--buffer-mib",
    type=click.IntRange(min=1),
    default=DEFAULT_BUFFER_BYTES >> 20,
    show_default=True,
    help="Size of the buffer: 8 records of 16 bytes a chunk, a chunk a warp at least.",
)
@click.option(
    "--max-instructions",
    type=click.IntRange(min=1),
    default=MOST_INSTRUCTIONS,
    show_default=True,
    help="Emulator: give up after so many warp-instructions.",
)
@click.option(
    "--source",
    type=INPUT_FILE,
    help="CUDA source that names the parameters.  [default: the .cu of the original's name "
    "beside FILE]",
)
def record(
    context: click.Context,
    file: str,
    launch_file: str,
    out: Path,
    sidecar: Path | None,
    device: str,
    buffer_mib: int,
    max_instructions: int,
    source: str | None,
) -> int:
    """Run the instrumented kernel of FILE and write its dump.

    Exit code: 0 it ran and its results are as expected; 1 refused, or a result is wrong.
    """
    given = context.get_parameter_source("max_instructions") is ParameterSource.COMMANDLINE
    if device == "gpu" and given:
        raise click.BadParameter("nothing counts on a GPU", param_hint="'--max-instructions'")
    described = sidecar or Path(file).with_suffix(".json")
    request = RecordRequest(
        file,
        str(described),
        launch_file,
        source,
        buffer_mib << 20,
        max_instructions,
    )
    with ProgressLine() as progress:
        chosen: Device = Gpu() if device == "gpu" else Emulator(progress.show)
        done = record_launch(request, chosen)
    write_dump(done, out)
    echo(f"{out}: {len(done.dump):,} bytes of {done.launch.kernel.name}")
    return finish(done.diagnostics)
