"""Options that several commands share: which kernel, which launch, which machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from ptxwcet.cli.paths import INPUT_FILE, LAUNCH_FILE, MACHINE, PTX_FILE
from ptxwcet.machine.loader import DEFAULT_MACHINE

_LAUNCH_OPTIONS = (
    click.argument("file", type=PTX_FILE),
    click.option(
        "-k", "--kernel", "kernels", multiple=True, help="Only this kernel.  [default: all]"
    ),
    click.option("--block", help="Threads of a block: 256, 32x8, 8x8x4.  [default: .reqntid]"),
    click.option("--grid", help="Blocks of the grid.  [default: any grid]"),
    click.option(
        "--param",
        "parameters",
        multiple=True,
        metavar="NAME=VALUE",
        help="Value of a scalar parameter, by index, PTX name or CUDA name; a range as 1..4096.",
    ),
    click.option(
        "--launch",
        "launch_file",
        type=LAUNCH_FILE,
        help="Launch file: says kernel, block, grid, parameters and constants.",
    ),
    click.option(
        "--source",
        type=INPUT_FILE,
        help="CUDA source that names the parameters.  [default: the .cu beside FILE]",
    ),
    click.option(
        "--loop-bound",
        "loop_bounds",
        multiple=True,
        metavar="PLACE=N",
        help="Most body executions of a loop for each entry; PLACE is a label, or a line of the "
        "CUDA source (27, or kernel.cu:27 where several files have code in the kernel).",
    ),
    click.option(
        "--facts",
        "facts_file",
        type=INPUT_FILE,
        help="Facts file: loop bounds, branches and parameters (ptxwcet facts writes a template).",
    ),
)
_MACHINE_OPTIONS = (
    click.option(
        "--machine",
        type=MACHINE,
        default=DEFAULT_MACHINE,
        show_default=True,
        help="Machine file: a name (ptxwcet machine list) or a path.",
    ),
    click.option(
        "--mem-latency", type=int, help="Global-memory latency in cycles.  [default: the machine's]"
    ),
    click.option(
        "--on-unknown",
        type=click.Choice(["refuse", "worst"]),
        default="refuse",
        show_default=True,
        help="An opcode without a row: refuse, or charge the machine's slowest row.",
    ),
)


def analysis_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the shared options to a command."""
    for option in reversed(_LAUNCH_OPTIONS + _MACHINE_OPTIONS):
        command = option(command)
    return command


def launch_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds those of the shared options that say which kernel and which launch."""
    for option in reversed(_LAUNCH_OPTIONS):
        command = option(command)
    return command


def optional_file_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The shared options of a command that can do without a file."""
    file = click.argument("file", type=PTX_FILE, required=False)
    for option in reversed((file, *_LAUNCH_OPTIONS[1:], *_MACHINE_OPTIONS)):
        command = option(command)
    return command
