"""The SIMT stack of a warp: where which lanes go on, and where they meet again."""

from __future__ import annotations

from collections.abc import Mapping

from ptxwcet.support.records import dataclass

EXIT = -1


@dataclass(slots=True)
class Entry:
    """Lanes ``mask`` stand at ``node``; at ``meet`` they join the entry below."""

    node: int
    mask: int
    meet: int


class Stack:
    """Entries from the bottom; the top one executes."""

    def __init__(self, entry: int, mask: int) -> None:
        self.entries = [Entry(entry, mask, EXIT)]

    @property
    def live(self) -> int:
        """The lanes that have not ended."""
        return self.entries[0].mask if self.entries else 0

    def go(self, node: int) -> None:
        """All lanes of the top go to a node."""
        self.entries[-1].node = node
        self._settle()

    def branch(self, taken: int, target: int, other: int, meet: int) -> None:
        """Lanes ``taken`` of the top go to ``target``, the rest to ``other``; they meet again."""
        self.scatter({target: taken} if taken else {}, other, meet)

    def scatter(self, sides: Mapping[int, int], other: int, meet: int) -> None:
        """The lanes of each side of the top go to its node, the rest to ``other``.

        Sides run one after the other, the first one first and the rest last.
        """
        top = self.entries[-1]
        rest = top.mask
        for lanes in sides.values():
            rest &= ~lanes
        parts = dict(sides)
        if rest:
            parts[other] = parts.get(other, 0) | rest
        if len(parts) == 1:
            self.go(next(iter(parts)))
            return
        if top.meet == meet and len(self.entries) > 1:
            self.entries.pop()
        else:
            top.node = meet
        for node, lanes in reversed(parts.items()):
            if node != meet:
                self.entries.append(Entry(node, lanes, meet))
        self._settle()

    def end(self, lanes: int) -> None:
        """The lanes have ended, wherever they stand."""
        for entry in self.entries:
            entry.mask &= ~lanes
        self.entries = [entry for entry in self.entries if entry.mask]

    def _settle(self) -> None:
        """Drops what has arrived: sides at their meeting, lanes at the exit."""
        while self.entries:
            top = self.entries[-1]
            if top.node == EXIT:
                self.end(top.mask)
            elif top.node == top.meet:
                self.entries.pop()
            else:
                return
