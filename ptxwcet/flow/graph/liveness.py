"""Which registers are live where lanes or warps meet that parted at a branch.

Cost: a few rounds over the blocks; for a branch, linear in the blocks behind it.
"""

from __future__ import annotations

from collections.abc import Iterable

from ptxwcet.flow.graph.cfg import BlockId, ControlFlowGraph
from ptxwcet.ir.kernel import Kernel


class Liveness:
    """Which registers are live at the start of a block, as bit sets."""

    def __init__(self, kernel: Kernel, cfg: ControlFlowGraph) -> None:
        self._cfg = cfg
        numbers: dict[str, int] = {}
        uses: list[int] = []
        kills: list[int] = []
        self._writes: list[int] = []
        for block in cfg.blocks:
            used = written = killed = 0
            for index in range(block.start, block.end):
                instruction = kernel.instructions[index]
                for name in instruction.reads:
                    bit = 1 << numbers.setdefault(name, len(numbers))
                    used |= bit & ~killed
                for name in instruction.writes:
                    bit = 1 << numbers.setdefault(name, len(numbers))
                    written |= bit
                    if instruction.guard is None:
                        killed |= bit
            uses.append(used)
            self._writes.append(written)
            kills.append(killed)
        self._names = tuple(numbers)
        self._live = [0] * len(cfg.blocks)
        self._live = _solve(cfg, uses, kills)

    def undefined(self) -> list[str]:
        """The registers that some path reads before it writes them.

        A guarded write may leave the register as it is, so it does not count as one.
        """
        bits = self._live[self._cfg.entry]
        return [name for position, name in enumerate(self._names) if bits >> position & 1]

    def joined(self, branch: BlockId, meeting: BlockId | None) -> list[str]:
        """The registers written between a branch and the block where its sides meet, live there.

        Without such a block: all that are written behind the branch.
        """
        written = 0
        for block in self.between(branch, meeting):
            written |= self._writes[block]
        bits = written if meeting is None else written & self._live[meeting]
        return [name for position, name in enumerate(self._names) if bits >> position & 1]

    def between(self, branch: BlockId, meeting: BlockId | None) -> set[BlockId]:
        """The blocks behind a branch up to where its sides meet, if they do."""
        return self.reached(self._cfg.successors[branch], meeting)

    def reached(self, starts: Iterable[BlockId], end: BlockId | None = None) -> set[BlockId]:
        """The blocks that some of ``starts`` lead to, these among them, without passing ``end``."""
        seen: set[BlockId] = set()
        pending = list(starts)
        while pending:
            block = pending.pop()
            if block != end and block not in seen:
                seen.add(block)
                pending += self._cfg.successors[block]
        return seen


def _solve(cfg: ControlFlowGraph, uses: list[int], kills: list[int]) -> list[int]:
    """Registers live before each block, from those used and overwritten in it."""
    live = [0] * len(cfg.blocks)
    changed = True
    while changed:
        changed = False
        for block in reversed(cfg.reverse_postorder):
            after = 0
            for target in cfg.successors[block]:
                after |= live[target]
            before = uses[block] | after & ~kills[block]
            changed |= before != live[block]
            live[block] = before
    return live
