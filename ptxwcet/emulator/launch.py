"""Defines the input and the result of a functional execution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from ptxwcet.flow.launch import Dim3
from ptxwcet.ir.kernel import Kernel
from ptxwcet.support.records import dataclass
from ptxwcet.support.source import Span

Array = NDArray[Any]
Argument = int | float | bytes | Array
"""A scalar, the bytes of an aggregate, or a device buffer that is passed by pointer."""

CHECKS = frozenset({"race", "uninitialised", "division"})
"""The checks that can be omitted; bounds, alignment and deadlock are always checked."""


@dataclass(frozen=True, slots=True)
class EmulatedLaunch:
    """A launch: ``arguments`` in parameter order, ``variables`` bytes of module variables."""

    block: Dim3
    grid: Dim3
    arguments: tuple[Argument, ...]
    variables: tuple[tuple[str, bytes], ...] = ()
    dynamic_shared: int = 0


Progress = Callable[[int, int, int], None]
"""A callback that receives the blocks done, all blocks, and the warp instructions executed."""


@dataclass(frozen=True, slots=True)
class ObservedAccess:
    """One execution of a memory access by one warp, in the space of its addresses.

    ``instruction`` is an index into the instructions of the executed kernel, ``block`` the linear
    block index. ``size`` is in bytes per lane, all elements of a vector together. ``addresses`` are
    pairs of lane and address: generic ones for global memory and parameters, else offsets in the
    memory of the space, for local memory in the thread's part. ``active`` has the lanes that
    execute the instruction, ``existing`` the lanes of the warp's threads (bit 0 is lane 0).

    One execution gives several accesses if generic addresses are in different spaces: for source
    and target of a copy, for each thread's bulk copy, and for each element of a tile of ``wmma``.
    """

    instruction: int
    block: int
    warp: int
    space: str
    size: int
    addresses: tuple[tuple[int, int], ...]
    active: int
    existing: int


Observer = Callable[[ObservedAccess], None]
"""A callback for every memory access as it is executed."""


@dataclass(frozen=True, slots=True)
class EmulatorOptions:
    """The limits and checks of a run, the recording of executed paths, and the observer."""

    max_instructions: int = 10**9
    checks: frozenset[str] = CHECKS
    record_paths: bool = False
    progress: Progress | None = None
    observer: Observer | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """A bug that the run detected. ``block`` and ``thread`` are linear indices.

    ``source_line`` is the line of the ``.loc`` in force, None without one; ``address`` is None if
    no memory is concerned. A fatal finding stopped the run: the buffers are then not a result.
    """

    code: str
    message: str
    kernel: str
    span: Span
    source_line: int | None
    block: int
    thread: int
    address: int | None
    fatal: bool


@dataclass(frozen=True, slots=True)
class PathStep:
    """One execution of a basic block, by its id in the control-flow graph of the executed kernel.

    ``mask`` has the lanes that executed it, ``taken`` the lanes that took the branch or left the
    kernel at its end (bit 0 is lane 0).
    """

    block: int
    mask: int
    taken: int


@dataclass(frozen=True, slots=True)
class PathRun:
    """A ``body`` in order, ``repeats`` times in a row."""

    repeats: int
    body: tuple[PathNode, ...]


PathNode = PathStep | PathRun


@dataclass(frozen=True, slots=True)
class WarpPath:
    """The execution of one warp, in order, run-length compressed; ``block`` is the linear index."""

    block: int
    warp: int
    body: tuple[PathNode, ...]


@dataclass(frozen=True, slots=True)
class Execution:
    """The result: buffers in parameter order (None for scalars), complete if nothing was fatal.

    ``kernel`` is the executed kernel: with the functions that it calls in place of the calls.
    """

    kernel: Kernel
    buffers: tuple[Array | None, ...]
    warp_instructions: int
    findings: tuple[Finding, ...]
    paths: tuple[WarpPath, ...] = ()

    @property
    def is_complete(self) -> bool:
        """True if the run was not stopped."""
        return not any(finding.fatal for finding in self.findings)
