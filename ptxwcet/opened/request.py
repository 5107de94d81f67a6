"""What a user asks of a PTX file."""

from __future__ import annotations

from dataclasses import dataclass

from ptxwcet.bounds.wishes import ANY_GRID, GridWishes
from ptxwcet.machine.loader import DEFAULT_MACHINE

MOST_INSTRUCTIONS = 10**9
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
    linked with.
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
