"""What the options that commands share ask for, as a request."""

from __future__ import annotations

import shlex
import sys
from typing import Any

import click

from ptxwcet.bounds.wishes import GridWishes
from ptxwcet.cli.paths import ASK_PTXAS, STANDARD_INPUT, is_number
from ptxwcet.opened.front_ends import is_no_ptx, read_stream
from ptxwcet.opened.request import Request, needs_tool


def request_from(
    file: str,
    kernels: tuple[str, ...],
    *,
    links: tuple[str, ...],
    arch: str | None,
    nvcc_options: str | None,
    machine_code: bool,
    mem_latency: int | None = None,
    on_unknown: str = "refuse",
    sms: int | None = None,
    resident_blocks: int | None = None,
    registers: str | None = None,
    co_runner: str | None = None,
    dynamic_shared: int | None = None,
    **given: Any,
) -> Request:
    """The shared options as a request; those in ``given`` are called as its fields are.

    PTX on standard input (``-``) is read here, CUDA source compiled and a binary opened. Raises
    PtxwcetError: PW112 (no PTX), PW120 and PW121 (none made or found), PW123 and PW124.
    """
    text = None
    if file == STANDARD_INPUT:
        read = read_stream(sys.stdin.buffer, "<stdin>")
        file, text = read.name, read.text
    is_made = text is None and needs_tool(file)
    is_code = machine_code and not (text is None and is_no_ptx(file))
    if is_made and nvcc_options and not file.lower().endswith(".cu"):
        raise click.UsageError("--nvcc-options is for CUDA source: a binary is compiled already")
    if not is_made and (nvcc_options or (arch and not is_code)):
        raise click.UsageError(
            "--arch and --nvcc-options are for CUDA source and binaries: PTX is compiled already"
        )
    if is_made or is_code:
        # here: PTX needs neither compiler nor opener
        from ptxwcet.opened.nvcc import Compilation, ptx_text

        compilation = Compilation(arch, tuple(_split(nvcc_options or "")), bool(links))
        if not is_code:
            text = ptx_text(file, compilation, kernels)
        else:
            from ptxwcet.opened.machine_code import machine_code as code_of

            text = code_of(file, compilation, kernels, text)
    return Request(
        file,
        kernels,
        memory_latency_cycles=mem_latency,
        unknown_at_worst=on_unknown == "worst",
        text=text,
        is_code=is_code,
        gpu=GridWishes(
            *(sms, resident_blocks, number_of(registers)),
            co_runner=co_runner,
            dynamic_shared=dynamic_shared,
        ),
        ptxas_info=None if registers == ASK_PTXAS or is_number(registers or "0") else registers,
        asks_ptxas=registers == ASK_PTXAS,
        links=links,
        **given,
    )


def number_of(registers: str | None) -> int | None:
    """The registers of a thread that are given as a number."""
    return int(registers) if registers is not None and is_number(registers) else None


def require_number(registers: str | None) -> int | None:
    """The same; click.UsageError if ptxas is to say them, where one launch is run."""
    if registers is not None and not is_number(registers):
        raise click.UsageError("--registers is a number here: ptxas says them to bounds alone")
    return number_of(registers)


def _split(text: str) -> list[str]:
    """Options as a shell would part them."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise click.UsageError(f"--nvcc-options: {error}") from None
