"""What the options that commands share ask for, as a request."""

from __future__ import annotations

import shlex
import sys

import click

from ptxwcet.bounds.wishes import GridWishes
from ptxwcet.cli.paths import STANDARD_INPUT
from ptxwcet.machine.loader import DEFAULT_MACHINE
from ptxwcet.opened.front_ends import read_stream
from ptxwcet.opened.request import Request, needs_tool


def request_from(
    file: str,
    kernels: tuple[str, ...],
    block: str | None,
    grid: str | None,
    parameters: tuple[str, ...],
    source: str | None,
    loop_bounds: tuple[str, ...],
    launch_file: str | None,
    facts_file: str | None,
    links: tuple[str, ...],
    machine: str = DEFAULT_MACHINE,
    mem_latency: int | None = None,
    on_unknown: str = "refuse",
    sms: int | None = None,
    resident_blocks: int | None = None,
    registers: int | None = None,
    ptxas_info: str | None = None,
    ask_ptxas: bool = False,
    co_runner: str | None = None,
    arch: str | None = None,
    nvcc_options: str | None = None,
) -> Request:
    """The shared options as a request; a command without a machine leaves out the last ones.

    PTX on standard input (``-``) is read here, CUDA source compiled and a binary opened. Raises
    PtxwcetError: PW112 (no PTX), PW120 and PW121 (none made or found).
    """
    if sum((registers is not None, ptxas_info is not None, ask_ptxas)) > 1:
        raise click.UsageError(
            "--registers, --ptxas-info and --ask-ptxas each say the registers: give one of them"
        )
    text = None
    if file == STANDARD_INPUT:
        read = read_stream(sys.stdin.buffer, "<stdin>")
        file, text = read.name, read.text
    elif needs_tool(file):
        if nvcc_options and not file.lower().endswith(".cu"):
            raise click.UsageError(
                "--nvcc-options is for CUDA source: a binary is compiled already"
            )
        # here: PTX needs neither compiler nor opener
        from ptxwcet.opened.nvcc import Compilation, ptx_text

        compilation = Compilation(arch, tuple(_split(nvcc_options or "")), bool(links))
        text = ptx_text(file, compilation, kernels)
    if (arch or nvcc_options) and not needs_tool(file):
        raise click.UsageError(
            "--arch and --nvcc-options are for CUDA source and binaries: PTX is compiled already"
        )
    return Request(
        file,
        kernels,
        block,
        grid,
        parameters,
        source,
        loop_bounds,
        machine,
        mem_latency,
        on_unknown == "worst",
        launch_file=launch_file,
        facts_file=facts_file,
        text=text,
        gpu=GridWishes(sms, resident_blocks, registers, co_runner=co_runner),
        ptxas_info=ptxas_info,
        asks_ptxas=ask_ptxas,
        links=links,
    )


def _split(text: str) -> list[str]:
    """Options as a shell would part them."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise click.UsageError(f"--nvcc-options: {error}") from None
