"""The request of a user for a PTX file, and its construction from options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from ptxwcet.bounds.wishes import ANY_GRID, GridWishes
from ptxwcet.machine.loader import DEFAULT_MACHINE
from ptxwcet.opened.front_ends import is_no_ptx
from ptxwcet.support.input_files import MOST_DATA_BYTES, open_input
from ptxwcet.support.options import ASK_PTXAS, OPTIONS, is_count
from ptxwcet.support.records import dataclass

SOURCE = ".cu"
_MARKS = (b"\x7fELF", b"\x50\xed\x55\xba", b"!<arch>")  # ELF, fat binary, static library
KernelNames = tuple[tuple[str, tuple[str, ...]], ...]
"""Names of parameters, the first ones of a kernel, by the kernel's name in the PTX."""
MOST_INSTRUCTIONS: int = OPTIONS["max_instructions"].default
"""The default limit of executed warp-instructions."""


@dataclass(frozen=True, slots=True)
class Request:
    """A kernel to bound, with the launch facts as the user writes them.

    ``kernels`` empty: all of the file. ``block`` None: the kernel's ``.reqntid``. ``source`` is the
    CUDA source that names the parameters; None: the ``.cu`` next to the ``.ptx``, if there is one.
    ``policy`` names a known warp scheduler, for the method ``scheduled``; ``method`` is the one
    that is reported as the bound, ``safe`` or ``scheduled``. ``launch_file`` is a launch file that
    states kernel, block, grid and parameters, constants, ``facts_file`` is one of flow facts.
    ``text`` is the PTX itself, if ``path`` is only its name. ``gpu`` has the options on SMs and
    residency; ``ptxas_info`` is a file of ptxas that has the registers of kernels, and with
    ``asks_ptxas`` ptxas is run for them. ``links`` are PTX files that the file's kernels are linked
    with. ``parameter_names`` are used where no CUDA source is named. ``is_code``: ``text`` is the
    listing of machine code; ``how`` an object was compiled to it here.
    """

    path: str
    kernels: tuple[str, ...] = ()
    block: str | None = None
    grid: str | None = None
    parameters: tuple[str, ...] = ()
    source: str | None = None
    loop_bounds: tuple[str, ...] = ()
    machine: str = DEFAULT_MACHINE
    memory_latency_cycles: int | None = None
    unknown_at_worst: bool = False
    policy: str | None = None
    method: str = "safe"
    launch_file: str | None = None
    facts_file: str | None = None
    text: str | None = None
    gpu: GridWishes = ANY_GRID
    ptxas_info: str | None = None
    asks_ptxas: bool = False
    links: tuple[str, ...] = ()
    parameter_names: KernelNames = ()
    is_code: bool = False
    how: str = ""


_FIELDS, _OF_THE_GPU = ({field.name for field in fields(of)} for of in (Request, GridWishes))
_READ = {
    name: (option.field, option.field in _OF_THE_GPU, option.kind.read)
    for name, option in OPTIONS.items()
    if option.field in _FIELDS | _OF_THE_GPU
}
"""Which field has the value of an option, whether it is one of the GPU, and how it is read."""


def request_of(
    path: str,
    given: Mapping[str, Any],
    folder: str = "",
    registers_source: str = "--registers",
    **others: Any,
) -> Request:
    """Returns the request of options by name; ignores None, and options without a field.

    Paths of files begin with ``folder``. ``others`` are fields of the request that are not options.
    Raises PtxwcetError (PW213). Cost: linear in the options.
    """
    gpu: dict[str, Any] = {"registers_source": registers_source}
    for name, value in given.items():
        if value is None or name not in _READ:
            continue
        field, is_of_gpu, read = _READ[name]
        if field == "registers" and isinstance(value, str) and not is_count(value):
            # the source of registers, in place of their number
            others |= {"asks_ptxas": True} if value == ASK_PTXAS else {"ptxas_info": value}
        else:
            (gpu if is_of_gpu else others)[field] = read(value, folder)
    return Request(path, gpu=GridWishes(**gpu), **others)


def needs_tool(path: str) -> bool:
    """Returns whether a file is CUDA source or a binary, by name and first bytes. Cost: constant.

    A binary that a front end reads itself does not count.
    """
    if is_no_ptx(path):
        return False
    if Path(path).suffix.lower() == SOURCE:
        return True
    try:
        with open_input(path, MOST_DATA_BYTES) as file:
            return file.read(8).startswith(_MARKS)
    except OSError:
        return False  # the reader reports the reason
