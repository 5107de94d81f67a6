"""``ptxwcet instrument FILE -o F``: PTX that records when warps pass its basic blocks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from ptxwcet.cli import options
from ptxwcet.cli.command import CommandGroup
from ptxwcet.cli.output import echo, echo_json
from ptxwcet.cli.paths import OutputFile
from ptxwcet.methods.instrument.recording import (
    InstrumentRequest,
    instrument_file,
    write_instrumented,
)
from ptxwcet.methods.instrument.rewriting import (
    INSTRUCTIONS_AT_ENTRY,
    INSTRUCTIONS_AT_POINT,
    REGISTERS,
    Sidecar,
    sidecar_data,
)
from ptxwcet.support.printable import plural

_EVERY = "every-block"


@click.command(cls=CommandGroup, example="ptxwcet instrument kernel.ptx -o kernel.instr.ptx")
@options.FILE_ON_DISK
@options.option(
    "output",
    "Write the instrumented PTX here, and what the points are beside it, with .json.",
    required=True,
    type=OutputFile(beside=".json"),
)
@options.of("kernel")
@options.option(
    "at",
    "Only at these blocks, labels or PTX lines; the entry and the ends always.  "
    f"[default: {_EVERY}]",
)
@options.format_option("text", "json")
def instrument(
    file: str,
    output: Path,
    kernel: tuple[str, ...],
    at: tuple[str, ...],
    form: str,
) -> int:
    """Insert instrumentation points into the kernels of FILE.

    At each point one lane of the warp writes the time, the multiprocessor, the warp and the point
    into a buffer in global memory. ptxwcet instrument record runs the result, ptxwcet
    instrument import reads what it wrote.
    """
    described = output.with_suffix(".json")
    named = tuple(place for row in at for place in row.split(",") if place)
    if at and not named:
        raise click.BadParameter("names no place", param_hint="'--at'")
    if _EVERY in named and len(named) > 1:
        raise click.BadParameter(f"'{_EVERY}' leaves nothing to choose", param_hint="'--at'")
    chosen = () if named == (_EVERY,) else named
    answer = instrument_file(InstrumentRequest(file, kernel, chosen))
    write_instrumented(answer, output, described)
    if form == "json":
        echo_json(sidecar_data(answer.sidecar))
    else:
        echo("\n".join(_lines(answer.sidecar, output, described)))
    return 0


def _lines(sidecar: Sidecar, out: Path, described: Path) -> Iterator[str]:
    yield f"written    {out}, {described}"
    for kernel in sidecar.kernels:
        blocks = len(kernel.ipoints) - 1
        ends = kernel.inserted_points - blocks
        yield (
            f"kernel     {sidecar.readable(kernel)}: points at {plural(blocks, 'block')} and "
            f"{plural(ends, 'end')}, {kernel.added_instructions:,} instructions added"
        )
    counts = ", ".join(f"{len(names)} .{kind}" for kind, names in REGISTERS.items())
    yield (
        f"added      to each kernel: registers {counts} (2 .b32 are live between points), "
        f"{INSTRUCTIONS_AT_ENTRY} instructions at its entry"
    )
    yield f"           to each point: {INSTRUCTIONS_AT_POINT} instructions, no branch"
    if sidecar.kernels:
        buffer, chunks = sidecar.kernels[0].parameters
        yield f"           parameters at the end: .u64 {buffer}, .u64 {chunks}"
    total = sum(kernel.added_instructions for kernel in sidecar.kernels)
    points = sum(kernel.inserted_points for kernel in sidecar.kernels)
    yield f"total      {plural(points, 'point')}, {total:,} instructions"
