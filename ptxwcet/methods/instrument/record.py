"""``ptxwcet instrument record FILE --launch L -o D``: run instrumented PTX, keep what it writes."""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource

from ptxwcet.cli import options
from ptxwcet.cli.command import Command
from ptxwcet.cli.output import echo, finish
from ptxwcet.cli.paths import InputFile
from ptxwcet.cli.progress import ProgressLine
from ptxwcet.methods.instrument.recording import (
    DEFAULT_BUFFER_BYTES,
    Device,
    Emulator,
    Gpu,
    RecordRequest,
    record_launch,
    write_dump,
)


@click.command(
    "record",
    cls=Command,
    example="ptxwcet instrument record kernel.instr.ptx --launch launch.toml -o kernel.bin",
)
@click.pass_context
@click.argument("file", type=InputFile(".cu", ".json"))
@options.option("launch", required=True)
@options.option("output", "Write the dump here.", required=True)
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
@options.of("max_instructions")
@options.of("cuda_source")
def instrument_record(
    context: click.Context,
    file: str,
    launch: str,
    output: Path,
    device: str,
    buffer_mib: int,
    max_instructions: int,
    cuda_source: str | None,
) -> int:
    """Run the instrumented kernel of FILE and write its dump.

    What ptxwcet instrument wrote beside FILE, with .json, says what it records.

    Exit code: 0 it ran and its results are as expected; 1 refused, or a result is wrong.
    """
    given = context.get_parameter_source("max_instructions") is ParameterSource.COMMANDLINE
    if device == "gpu" and given:
        raise click.BadParameter("nothing counts on a GPU", param_hint="'--max-instructions'")
    request = RecordRequest(
        file,
        str(Path(file).with_suffix(".json")),
        launch,
        cuda_source,
        buffer_mib << 20,
        max_instructions,
    )
    with ProgressLine() as progress:
        chosen: Device = Gpu() if device == "gpu" else Emulator(progress.show)
        done = record_launch(request, chosen)
    write_dump(done, output)
    echo(f"{output}: {len(done.dump):,} bytes of {done.launch.kernel.readable}")
    return finish(done.diagnostics)
