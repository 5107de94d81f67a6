"""What a functional run is given and what it gives back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from ptxwcet.flow.facts import Dim3
from ptxwcet.support.source import Span

Array = NDArray[Any]
Argument = int | float | bytes | Array
"""A scalar, the bytes of an aggregate, or a device buffer that is passed by pointer."""

CHECKS = frozenset({"race", "uninitialised", "division"})
"""The checks that can be left out; bounds, alignment and deadlock are always checked."""


@dataclass(frozen=True, slots=True)
class EmulatedLaunch:
    """A launch: ``arguments`` in parameter order, ``variables`` bytes of module variables."""

    block: Dim3
    grid: Dim3
    arguments: tuple[Argument, ...]
    variables: tuple[tuple[str, bytes], ...] = ()
    dynamic_shared: int = 0


@dataclass(frozen=True, slots=True)
class EmulatorOptions:
    """``progress`` is called with (blocks done, blocks) after each block."""

    max_instructions: int = 10**9
    checks: frozenset[str] = CHECKS
    record_paths: bool = False
    progress: Callable[[int, int], None] | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """A bug that the run saw. ``block`` is the linear block index, ``thread`` the linear thread.

    ``source_line`` is that of the ``.loc`` in force, None without one; ``address`` None where no
    memory is concerned. A fatal finding stopped the run: the buffers are then not a result.
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
class PathRun:
    """``repeats`` times the basic ``blocks`` in order, each with its 32-bit mask of lanes.

    ``blocks`` are (block id, mask) pairs; the ids are those of the kernel's control-flow graph.
    """

    blocks: tuple[tuple[int, int], ...]
    repeats: int


@dataclass(frozen=True, slots=True)
class WarpPath:
    """The executed basic blocks of one warp, run-length compressed."""

    block: int
    warp: int
    runs: tuple[PathRun, ...]


@dataclass(frozen=True, slots=True)
class Execution:
    """The result: buffers in parameter order (None for scalars), complete if nothing was fatal."""

    buffers: tuple[Array | None, ...]
    warp_instructions: int
    findings: tuple[Finding, ...]
    paths: tuple[WarpPath, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether the run came to its end."""
        return not any(finding.fatal for finding in self.findings)
