"""Defines the input and the output of the simulation of a grid of blocks on several SMs.

A warp executes visits of basic blocks instead of a plain
:class:`~ptxwcet.warp.program.WarpProgram`: each visit names the instrumentation point that it
passes, so that the nodes of the shared IR need not.

The machine (docs/guide/run.md). Each SM is the machine of the model (section 1) with room for
``resident_blocks`` blocks. Blocks start in the order of their indices, each as soon as an SM has a
free slot; among several such SMs the next one, by number, after the SM that was given a block last.
A block leaves its slot when its last warp has ended, and another may start there in that cycle. SMs
share nothing else. The warps of the block in slot ``s`` hold the warp slots ``s * W`` to ``s * W +
W - 1`` (W warps a block) while it runs; warp slot ``n`` belongs to sub-core ``n mod schedulers``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.policies import NO_JITTER, Jitter, Policy
from ptxwcet.support.records import dataclass
from ptxwcet.warp.program import Scoreboard, Step

IntColumn = npt.NDArray[np.int64]
"""A column of whole numbers."""


@dataclass(frozen=True)
class TracedVisit:
    """One execution of a basic block: its point and its issues; the latter may be empty (a return
    that the machine does not issue).
    """

    point: int
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class TracedLoop:
    """A ``body`` executed ``count`` times in a row."""

    count: int
    body: tuple[TracedNode, ...]


TracedNode = TracedVisit | TracedLoop
TracedProgram = tuple[TracedNode, ...]
"""The execution of one warp, from its first instruction to its last."""


@dataclass(frozen=True)
class GridWorkload:
    """All blocks of a launch: block ``b``'s warp ``w`` executes ``programs[chosen[b, w]]``.

    ``end_point`` is the point that every warp passes when it has ended.
    """

    programs: tuple[TracedProgram, ...]
    chosen: IntColumn
    end_point: int
    scoreboard: Scoreboard

    @property
    def block_count(self) -> int:
        """The number of blocks of the grid."""
        return int(self.chosen.shape[0])

    @property
    def warps_per_block(self) -> int:
        """The number of warps of a block."""
        return int(self.chosen.shape[1])


@dataclass(frozen=True, slots=True)
class GridShape:
    """The SMs, their resident blocks, and the cycles between the starts of two blocks."""

    sms: int
    resident_blocks: int
    sm: SmConfiguration
    launch_gap_cycles: int = 0

    def __post_init__(self) -> None:
        if self.sms < 1 or self.resident_blocks < 1 or self.launch_gap_cycles < 0:
            raise ValueError("a grid needs an SM that holds a block, and gaps of 0 cycles or more")


GridProgress = Callable[[int, int, int], None]
"""A callback that receives the blocks that have ended, all blocks, and the instructions issued."""


@dataclass(frozen=True, slots=True)
class GridOptions:
    """The options of a run: the schedulers' policy, its seed, the jitter, the limit of events."""

    policy: Policy
    seed: int = 0
    jitter: Jitter = NO_JITTER
    most_events: int = 30_000_000
    progress: GridProgress | None = None


@dataclass(frozen=True, slots=True, eq=False)
class BlockRuns:
    """The place and time of each block, by its index: SM, slot, first cycle, cycle of its end."""

    sm: IntColumn
    slot: IntColumn
    start: IntColumn
    end: IntColumn


@dataclass(frozen=True, slots=True, eq=False)
class GridRun:
    """A run. Events are in order of cycle, then SM, then occurrence on the SM.

    A visit's event has the cycle in which its first instruction is issued (a visit that issues
    nothing: the cycle after the warp's previous issue, or its start); a warp's last event the cycle
    in which all its initiations and latencies are over. ``warp`` is the block's index times the
    warps of a block, plus the warp's number in it.
    """

    point: npt.NDArray[np.int32]
    sm: npt.NDArray[np.int32]
    warp: IntColumn
    cycle: IntColumn
    blocks: BlockRuns
    instructions: int

    @property
    def cycles(self) -> int:
        """The end of the last block."""
        return int(self.blocks.end.max())

    @property
    def active_warps(self) -> float:
        """The mean number of active warps of an SM, over the cycles in which it has any.

        Cost: sorting the blocks.
        """
        warps = len(ended := self.cycle[self.point == self.point.max()]) // len(self.blocks.start)
        lived = int(ended.sum()) - warps * int(self.blocks.start.sum())
        cycles = 0
        for sm in np.unique(self.blocks.sm):
            mine = self.blocks.sm == sm
            order = np.argsort(self.blocks.start[mine], kind="stable")
            start, end = self.blocks.start[mine][order], self.blocks.end[mine][order]
            before = np.concatenate(([0], np.maximum.accumulate(end)[:-1]))
            cycles += int(np.maximum(end - np.maximum(start, before), 0).sum())
        return lived / cycles if cycles else 0.0
