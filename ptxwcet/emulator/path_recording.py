"""Executed paths, compressed as they grow: repeated sequences are counted, nested ones too.

Warps that have executed the same so far share one recorder, so that recording costs little more
for a block of equal warps than for one warp.
"""

from __future__ import annotations

from collections.abc import Sequence

from ptxwcet.emulator.launch import PathNode, PathRun, PathStep
from ptxwcet.flow.walk.path import Visit

LONGEST_PERIOD = 48
"""The longest sequence, in steps and runs, whose repetitions are counted."""

Entry = tuple[int, int]
"""The number of a content in the book, and how often it comes in a row."""

Content = PathStep | Visit | tuple[Entry, ...]


class PathBook:
    """The distinct steps and sequences of a launch by number. Memory: one row for each.

    ``lengths`` has the entries of each sequence, 0 for a step.
    """

    def __init__(self) -> None:
        self._numbers: dict[Content, int] = {}
        self._contents: list[Content] = []
        self.lengths: list[int] = []
        self._nodes: dict[Entry, PathNode] = {}
        self._bodies: dict[tuple[Entry, ...], tuple[PathNode, ...]] = {}

    def number(self, content: Content) -> int:
        """The number of a step or sequence. Cost: linear in its length."""
        found = self._numbers.get(content)
        if found is None:
            found = self._numbers[content] = len(self._contents)
            self._contents.append(content)
            self.lengths.append(len(content) if isinstance(content, tuple) else 0)
        return found

    def content(self, number: int) -> Content:
        """The step or sequence that a number stands for."""
        return self._contents[number]

    def sequence(self, number: int) -> tuple[Entry, ...] | None:
        """The sequence of a number; None if it is a step."""
        content = self._contents[number]
        return content if isinstance(content, tuple) else None

    def body(self, entries: Sequence[Entry]) -> tuple[PathNode, ...]:
        """The entries as path nodes; equal entries give the same object."""
        key = tuple(entries)
        found = self._bodies.get(key)
        if found is None:
            found = self._bodies[key] = tuple(self._node(entry) for entry in key)
        return found

    def _node(self, entry: Entry) -> PathNode:
        found = self._nodes.get(entry)
        if found is None:
            number, times = entry
            content = self._contents[number]
            assert not isinstance(content, Visit), "visits are no executed steps"
            inner = (content,) if isinstance(content, PathStep) else self.body(content)
            whole = times == 1 and isinstance(content, PathStep)
            found = self._nodes[entry] = inner[0] if whole else PathRun(times, inner)
        return found


class Folder:
    """A sequence that is folded while it grows: what ``warps`` have executed alike."""

    def __init__(self, warps: set[int], entries: list[Entry]) -> None:
        self.warps = warps
        self.entries = entries

    def add(self, book: PathBook, number: int, times: int = 1) -> None:
        """A content comes next, so often in a row; then repeats are folded until none is left.

        Cost: a comparison for each period, up to :data:`LONGEST_PERIOD`.
        """
        entries = self.entries
        body = book.sequence(number)
        if body is not None and tuple(entries[-len(body) :]) == body:
            del entries[-len(body) :]
            times += 1
        if entries and entries[-1][0] == number:
            entries[-1] = (number, entries[-1][1] + times)
        else:
            entries.append((number, times))
        while self._fold(book):
            pass

    def _fold(self, book: PathBook) -> bool:
        entries, lengths = self.entries, book.lengths
        count, last = len(entries), entries[-1]
        # A slice and plain comparisons: nearly all periods fail here, and this is what costs.
        for period, before in enumerate(entries[-2 : -LONGEST_PERIOD - 2 : -1], 1):
            number, times = before
            follows = lengths[number] == period
            if follows and book.sequence(number) == tuple(entries[-period:]):
                entries[-period - 1 :] = [(number, times + 1)]
                return True
            if before == last and 2 * period <= count and period > 1:
                tail = entries[-period:]
                if entries[-2 * period : -period] == tail:
                    entries[-2 * period :] = [(book.number(tuple(tail)), 2)]
                    return True
        return False


class BlockRecorder:
    """The executed paths of the warps of one block."""

    def __init__(self, book: PathBook, warps: int) -> None:
        self._book = book
        together = Folder(set(range(warps)), [])
        self._of = [together] * warps

    def add(self, block: int, steps: Sequence[tuple[int, int, int]]) -> None:
        """Each step's warp executed a basic block with a mask, of which some lanes took its branch.

        Steps are (warp, mask, taken). Cost: linear in the steps; linear in its entries for each
        recorder that is split.
        """
        parts: dict[tuple[int, int, int], list[int]] = {}
        for warp, mask, taken in steps:
            parts.setdefault((id(self._of[warp]), mask, taken), []).append(warp)
        for (_, mask, taken), warps in parts.items():
            recorder = self._of[warps[0]]
            if len(warps) < len(recorder.warps):
                recorder.warps.difference_update(warps)
                recorder = Folder(set(warps), recorder.entries.copy())
                for warp in warps:
                    self._of[warp] = recorder
            recorder.add(self._book, self._book.number(PathStep(block, mask, taken)))

    def paths(self) -> list[tuple[PathNode, ...]]:
        """The path of each warp; those of warps that executed the same are one object."""
        return [self._book.body(recorder.entries) for recorder in self._of]
