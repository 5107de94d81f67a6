"""What a user asks of a PTX file."""

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
"""Warp-instructions after which an execution is given up unless told otherwise."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to bound, with the launch facts as the user writes them.

    ``kernels`` empty: all of the file. ``block`` None: the kernel's ``.reqntid``. ``source`` is the
    CUDA source that names the parameters; None: the ``.cu`` beside the ``.ptx``, if there is one.
    ``policy`` names a known warp scheduler, for the method ``scheduled``; ``method`` is the one
    that is reported as the bound, ``safe`` or ``scheduled``. ``launch_file`` is a launch file that
    says kernel, block, grid and parameters, constants, ``facts_file`` one of flow facts. ``text``
    is the PTX itself, if ``path`` is only what it is called. ``gpu`` is what is said of SMs and
    residency; ``ptxas_info`` is a file that ptxas wrote, which says the registers of kernels, and
    with ``asks_ptxas`` ptxas is run for them. ``links`` are PTX files that the file's kernels are
    linked with. ``parameter_names`` are known where no CUDA source is named. ``is_code``: what
    ``text`` holds is the listing of machine code; ``how`` an object was compiled to it here.
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
    """Returns the request of options by name; options without a field and None are passed over.

    Paths of files begin with ``folder``. ``others`` are fields of the request that are no options.
    Raises PtxwcetError (PW213). Cost: linear in the options.
    """
    gpu: dict[str, Any] = {"registers_source": registers_source}
    for name, value in given.items():
        if value is None or name not in _READ:
            continue
        field, is_of_gpu, read = _READ[name]
        if field == "registers" and isinstance(value, str) and not is_count(value):
            # who knows them, in the place of their number
            others |= {"asks_ptxas": True} if value == ASK_PTXAS else {"ptxas_info": value}
        else:
            (gpu if is_of_gpu else others)[field] = read(value, folder)
    return Request(path, gpu=GridWishes(**gpu), **others)


def needs_tool(path: str) -> bool:
    """Whether a file is CUDA source or a binary, by its name and first bytes. Cost: constant.

    A binary that a front end reads itself is none.
    """
    if is_no_ptx(path):
        return False
    if Path(path).suffix.lower() == SOURCE:
        return True
    try:
        with open_input(path, MOST_DATA_BYTES) as file:
            return file.read(8).startswith(_MARKS)
    except OSError:
        return False  # whoever reads it says why
