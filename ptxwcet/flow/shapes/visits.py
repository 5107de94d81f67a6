"""Which blocks warps may come to differently often in a round of a loop around.

Warps agree at a branch in the same iteration of every loop around. Whether they agree when each of
them comes there for the n-th time is another question: in one iteration a warp may go past it that
another one does not, at a branch where they part, and come there in the next.
"""

from __future__ import annotations

from ptxwcet.flow.graph.cfg import BlockId, ControlFlowGraph
from ptxwcet.flow.graph.liveness import Liveness


class Visits:
    """At which branches warps have to agree so that their n-th visits are in one iteration.

    ``postdominators`` are the blocks where the sides of branches meet.
    """

    def __init__(
        self,
        cfg: ControlFlowGraph,
        live: Liveness,
        postdominators: tuple[BlockId | None, ...],
    ) -> None:
        self._cfg = cfg
        self._live = live
        self._postdominators = postdominators
        self._found: dict[BlockId, tuple[BlockId, ...]] = {}

    def parting(self, block: BlockId) -> tuple[BlockId, ...]:
        """The branches with a side that may lead past ``block`` at first and to it later, whatever
        is decided on the way, and another that may lead to it at once. Cost: linear in the kernel
        for each branch that leads there, once.
        """
        if block not in self._found:
            self._found[block] = tuple(
                branch.id for branch in self._cfg.blocks if self._may_miss(branch.id, block)
            )
        return self._found[block]

    def _may_miss(self, branch: BlockId, block: BlockId) -> bool:
        sides, meeting = set(self._cfg.successors[branch]), self._postdominators[branch]
        if len(sides) < 2 or block not in self._live.between(branch, meeting):
            return False
        missing = {side for side in sides if self._leads_past(side, branch, block)}
        hitting = {side for side in sides if block in self._live.reached([side], (branch, meeting))}
        return any(missing - {side} for side in hitting)

    def _leads_past(self, side: BlockId, branch: BlockId, block: BlockId) -> bool:
        """Whether warps may come from a side of a branch to where its sides meet, or to the branch
        again, without ``block``, and to that behind.
        """
        meeting = self._postdominators[branch]
        avoided = self._live.reached([side], (block,))
        again = [place for place in (branch, meeting) if place in avoided]
        return block in self._live.reached([place for place in again if place is not None])
