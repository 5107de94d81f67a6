"""Where the warps of a block may have executed different numbers of barriers.

The n-th barrier that a warp executes is the n-th of every other warp, whichever instructions they
are. So what a barrier reduces is alike for all warps at one instruction only if they come to it
after as many barriers, and so is what memory holds between two barriers. They do not where they
part at a branch, wait at barriers before its sides meet, and come to a block from several sides.
Warps that end, or never come to the block again, are not among those that come there.
"""

from __future__ import annotations

from ptxwcet.flow.graph.cfg import BlockId, ControlFlowGraph
from ptxwcet.flow.graph.liveness import Liveness
from ptxwcet.ir.kernel import Kernel
from ptxwcet.support.graph import reachable


class BarrierOrder:
    """Where warps may have executed different numbers of barriers.

    ``guarded`` are the barriers with a guard. Cost of a question: linear in the blocks.
    """

    def __init__(self, kernel: Kernel, cfg: ControlFlowGraph, live: Liveness) -> None:
        self._cfg = cfg
        self._live = live
        self._block_of = {
            index: block.id
            for block in cfg.blocks
            for index in cfg.barriers
            if block.start <= index < block.end
        }
        self._waiting = set(self._block_of.values())
        self.guarded = [
            index for index in cfg.barriers if kernel.instructions[index].guard is not None
        ]

    def lost_behind(self, branch: BlockId, meeting: BlockId | None) -> set[BlockId]:
        """The blocks that warps come to by several sides of a branch at which they part."""
        if self._waiting.isdisjoint(self._live.between(branch, meeting)):
            return set()
        found: set[BlockId] = set()
        seen: set[BlockId] = set()
        for target in set(self._cfg.successors[branch]):
            reached = reachable(self._cfg.successors, [target])
            found |= seen & reached
            seen |= reached
        return found

    def behind(self, index: int) -> set[BlockId]:
        """The block of a barrier and those that it leads to."""
        return reachable(self._cfg.successors, [self._block_of[index]])
