"""The SIMT stack of a warp: where which lanes go on, and where they meet again."""

from __future__ import annotations

from dataclasses import dataclass

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
        top = self.entries[-1]
        rest = top.mask & ~taken
        if not rest or not taken:
            self.go(target if taken else other)
            return
        if top.meet == meet and len(self.entries) > 1:
            self.entries.pop()
        else:
            top.node = meet
        self.entries.append(Entry(other, rest, meet))
        if other == meet:
            self.entries.pop()
        self.entries.append(Entry(target, taken, meet))
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
