"""Models the SIMT stack of a warp: the nodes of its lanes, and their reconvergence points."""

from __future__ import annotations

from collections.abc import Mapping

from ptxwcet.support.records import dataclass

EXIT = -1


@dataclass(slots=True)
class Entry:
    """The lanes ``mask`` at ``node``; at ``meet`` they reconverge with the entry below."""

    node: int
    mask: int
    meet: int


class Stack:
    """Entries from the bottom; the top entry executes."""

    def __init__(self, entry: int, mask: int) -> None:
        self.entries = [Entry(entry, mask, EXIT)]

    @property
    def live(self) -> int:
        """The lanes that have not ended."""
        return self.entries[0].mask if self.entries else 0

    def go(self, node: int) -> None:
        """Moves all lanes of the top to a node."""
        self.entries[-1].node = node
        self._settle()

    def branch(self, taken: int, target: int, other: int, meet: int) -> None:
        """Sends the top's lanes ``taken`` to ``target``, the rest to ``other``, until ``meet``."""
        self.scatter({target: taken} if taken else {}, other, meet)

    def scatter(self, sides: Mapping[int, int], other: int, meet: int) -> None:
        """Sends the lanes of each side of the top to its node, the rest to ``other``.

        Sides run one after the other, in order, and the rest last.
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
        """Removes lanes that have ended from all entries."""
        for entry in self.entries:
            entry.mask &= ~lanes
        self.entries = [entry for entry in self.entries if entry.mask]

    def _settle(self) -> None:
        """Drops completed entries: sides at their reconvergence point, lanes at the exit."""
        while self.entries:
            top = self.entries[-1]
            if top.node == EXIT:
                self.end(top.mask)
            elif top.node == top.meet:
                self.entries.pop()
            else:
                return
