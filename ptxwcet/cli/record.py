"""``ptxwcet record FILE --launch L --out D``: run instrumented PTX and keep what it recorded."""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource

from ptxwcet.cli.progress import ProgressLine
from ptxwcet.execution import MOST_INSTRUCTIONS
from ptxwcet.recording import (
    DEFAULT_BUFFER_BYTES,
    Device,
    Emulator,
    Gpu,
    RecordRequest,
    record_launch,
    write_dump,
)
from ptxwcet.support.diagnostics import render_all


@click.command()
@click.pass_context
@click.argument("file", type=click.Path())
@click.option(
    "--launch",
    "launch_file",
    type=click.Path(),
    required=True,
    help="Launch file of the original kernel: what to run.",
)
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), required=True, help="Write the dump here."
)
@click.option(
    "--sidecar",
    type=click.Path(path_type=Path),
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
    type=click.Path(),
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
    inputs = [Path(one) for one in (file, launch_file, source) if one is not None]
    if out.resolve() in [one.resolve() for one in (*inputs, described)]:
        raise click.BadParameter("would overwrite another of the files", param_hint="'--out'")
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
    click.echo(f"{out}: {len(done.dump):,} bytes of {done.launch.kernel.name}")
    if done.diagnostics:
        click.echo(render_all(done.diagnostics), err=True)
    return 1 if done.diagnostics else 0
