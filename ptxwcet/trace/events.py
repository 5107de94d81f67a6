"""Timed traces of instrumentation points (ipoints), column by column.

A trace tells when each warp passed which instrumentation point on which multiprocessor ([B] VI-A:
address, multiprocessor, warp and cycle of each event). It may hold several runs, one after the
other; times of different runs have nothing to do with each other. Nothing here knows where the
events came from: the timing simulator, the emulator's instrumented code and a GPU write the same
columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ptxwcet.support.demangling import readable_names

IntColumn: TypeAlias = npt.NDArray[np.int64]
"""A column of whole numbers."""


@dataclass(frozen=True, slots=True)
class Ipoint:
    """Where an instrumentation point lies: at the beginning of a basic block, or where warps end.

    ``label`` names the block as the control-flow graph does (``ControlFlowGraph``), or is ``end``;
    ``line`` is the source line in the PTX file, 0 for the end.
    """

    label: str
    line: int


END = Ipoint("end", 0)
"""The point that a warp passes once, when its last lane has ended."""


@dataclass(frozen=True, slots=True)
class TraceOrigin:
    """What was traced: the kernel, the digest of its PTX, who took the times, in which unit.

    ``sha256`` is the digest of the PTX file, empty where it is not known; ``clock`` says what the
    times count (``cycle``, ``ns``); ``recorder`` says what took them (``simulator lrr``,
    ``clock64``).
    """

    kernel: str
    sha256: str
    recorder: str
    clock: str = "cycle"

    @property
    def readable(self) -> str:
        """The kernel's name for people."""
        return readable_names((self.kernel,))[self.kernel]


@dataclass(frozen=True, slots=True)
class TimedTrace:
    """Events of all runs in order of time within a run; equal lengths, no object per event.

    ``ipoint`` indexes ``ipoints``; ``sm`` is the multiprocessor; ``warp`` is unique in its run
    (block index times warps per block plus the warp's number in it), so that warps that one slot
    holds after another are told apart; ``cycle`` counts from the beginning of the run. ``runs``:
    row of the first event of each run, ascending, beginning with 0 (empty if there are no events).
    ``lines``: line of each event in the file it was read from, None for a trace made here.
    """

    origin: TraceOrigin
    ipoints: tuple[Ipoint, ...]
    ipoint: npt.NDArray[np.int32]
    sm: npt.NDArray[np.int32]
    warp: IntColumn
    cycle: IntColumn
    runs: IntColumn
    lines: IntColumn | None = None

    def __len__(self) -> int:
        return len(self.cycle)
