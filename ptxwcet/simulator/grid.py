"""A grid of blocks on several SMs: what goes in and what comes out.

What a warp executes is given by visits of basic blocks, not by a plain
:class:`~ptxwcet.warp.program.WarpProgram`: each visit says which instrumentation point it passes,
so that the waist's nodes need not.

The machine (docs/guide/run.md). Each SM is the machine of the model (section 1) with room for
``resident_blocks`` blocks. Blocks start in the order of their indices, each as soon as an SM has a
free slot; of several such SMs the next one, by number, after the SM that was given a block last. A
block leaves its slot when its last warp has ended, and another may start there in that cycle. SMs
share nothing else. The warps of the block in slot ``s`` hold the warp slots ``s * W`` to
``s * W + W - 1`` (W warps a block) while it runs; warp slot ``n`` belongs to sub-core
``n mod schedulers``.
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
    """One execution of a basic block: the point it passes and what it issues, which may be nothing
    (a return that the machine does not issue).
    """

    point: int
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class TracedLoop:
    """``body`` executed ``count`` times in a row."""

    count: int
    body: tuple[TracedNode, ...]


TracedNode = TracedVisit | TracedLoop
TracedProgram = tuple[TracedNode, ...]
"""What one warp executes, from its first instruction to its last."""


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
        """Blocks of the grid."""
        return int(self.chosen.shape[0])

    @property
    def warps_per_block(self) -> int:
        """Warps of a block."""
        return int(self.chosen.shape[1])


@dataclass(frozen=True, slots=True)
class GridShape:
    """SMs, the blocks that one SM holds at a time, and cycles between the starts of two blocks."""

    sms: int
    resident_blocks: int
    sm: SmConfiguration
    launch_gap_cycles: int = 0

    def __post_init__(self) -> None:
        if self.sms < 1 or self.resident_blocks < 1 or self.launch_gap_cycles < 0:
            raise ValueError("a grid needs an SM that holds a block, and gaps of 0 cycles or more")


GridProgress = Callable[[int, int, int], None]
"""Called now and then with the blocks that have ended, all blocks, and the instructions issued."""


@dataclass(frozen=True, slots=True)
class GridOptions:
    """How to run: the policy of every scheduler, its seed, the jitter, the most events to write."""

    policy: Policy
    seed: int = 0
    jitter: Jitter = NO_JITTER
    most_events: int = 30_000_000
    progress: GridProgress | None = None


@dataclass(frozen=True, slots=True, eq=False)
class BlockRuns:
    """Where and when each block ran, by its index: SM, slot, first cycle, cycle of its end."""

    sm: IntColumn
    slot: IntColumn
    start: IntColumn
    end: IntColumn


@dataclass(frozen=True, slots=True, eq=False)
class GridRun:
    """A run. Events in order of cycle, then SM, then as they came about on the SM.

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
        """How many warps an SM has that have not ended, on average over cycles in which it has any.

        Cost: that of sorting the blocks.
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
