"""Which registers are live where lanes or warps meet that parted at a branch.

Cost: a few rounds over the blocks; for a branch, linear in the blocks behind it.
"""

from __future__ import annotations

from heapq import heappop, heappush

from ptxwcet.flow.graph.cfg import BlockId, ControlFlowGraph
from ptxwcet.ir.kernel import Kernel
from ptxwcet.support.graph import reachable


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
        return self.at(self._cfg.entry)

    def at(self, block: BlockId) -> list[str]:
        """The registers that some path from a block reads before it writes them."""
        return self._named(self._live[block])

    def joined(self, branch: BlockId, meeting: BlockId | None) -> list[str]:
        """Registers written between a branch and the block where its sides meet, and live there.

        If there is no such block, these are all registers that are written behind the branch.
        """
        written = 0
        for block in self.between(branch, meeting):
            written |= self._writes[block]
        return self._named(written if meeting is None else written & self._live[meeting])

    def joined_before(self, branch: BlockId, meeting: BlockId | None) -> list[str]:
        """Registers that are written on the way to a block where some sides of a branch, or of
        what is behind it, meet before all do, and that are live there.
        """
        bits = 0
        for join in self._joins(branch, meeting):
            if not self._live[join] & ~bits:
                continue
            written = 0
            sides = self._cfg.successors[branch]
            for block in reachable(self._cfg.successors, sides, (join, meeting)):
                written |= self._writes[block]
            bits |= written & self._live[join]
        return self._named(bits)

    def _named(self, bits: int) -> list[str]:
        names = []
        while bits:  # of a large kernel few are set
            lowest = bits & -bits
            names.append(self._names[lowest.bit_length() - 1])
            bits ^= lowest
        return names

    def between(self, branch: BlockId, meeting: BlockId | None) -> set[BlockId]:
        """The blocks behind a branch up to where its sides meet, if they do."""
        return reachable(self._cfg.successors, self._cfg.successors[branch], (meeting,))

    def _joins(self, branch: BlockId, meeting: BlockId | None) -> set[BlockId]:
        """Where ways from a branch meet that have had no block in common, before ``meeting``.

        Each block is marked with the last block that all ways to it have passed, as far as is known
        yet: a side, or such a join. Blocks come in reverse postorder, so that this is soon settled.
        """
        place = {block: i for i, block in enumerate(self._cfg.reverse_postorder)}
        passed = {target: target for target in self._cfg.successors[branch] if target != meeting}
        pending = sorted((place[block], block) for block in passed)
        joins: set[BlockId] = set()
        while pending:
            _, block = heappop(pending)
            for target in self._cfg.successors[block]:
                marker = passed.get(target)
                if target == meeting or marker == passed[block]:
                    continue
                if marker is not None:
                    joins.add(target)
                if marker != target:
                    passed[target] = passed[block] if marker is None else target
                    heappush(pending, (place[target], target))
        return joins


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
