"""Records executed paths, compressed as they grow, and converts them to paths of the analysis.

Repeated sequences are counted, nested ones too. Warps with equal paths so far share one recorder,
so that recording costs little more for a block of equal warps than for one warp.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ptxwcet.emulator.launch import Execution, PathRun, PathStep
from ptxwcet.emulator.launch import PathNode as ExecutedNode
from ptxwcet.flow.graph.cfg import ControlFlowGraph
from ptxwcet.flow.launch import Dim3
from ptxwcet.flow.walk.path import (
    AffineCount,
    BlockPaths,
    Path,
    PathNode,
    PathRepeat,
    Visit,
    WarpPath,
)
from ptxwcet.ir.op_classes import ControlEffect
from ptxwcet.support.records import dataclass

LONGEST_PERIOD = 48
"""The longest sequence, in steps and runs, whose repetitions are counted."""

Entry = tuple[int, int]
"""The number of a content in the book, and its count of consecutive repeats."""

Content = PathStep | Visit | tuple[Entry, ...]


class PathBook:
    """The distinct steps and sequences of a launch by number. Memory: one row for each.

    ``lengths`` has the number of entries of each sequence, 0 for a step.
    """

    def __init__(self) -> None:
        self._numbers: dict[Content, int] = {}
        self._contents: list[Content] = []
        self.lengths: list[int] = []
        self._nodes: dict[Entry, ExecutedNode] = {}
        self._bodies: dict[tuple[Entry, ...], tuple[ExecutedNode, ...]] = {}

    def number(self, content: Content) -> int:
        """Returns the number of a step or sequence. Cost: linear in its length."""
        index = self._numbers.get(content)
        if index is None:
            index = self._numbers[content] = len(self._contents)
            self._contents.append(content)
            self.lengths.append(len(content) if isinstance(content, tuple) else 0)
        return index

    def content(self, number: int) -> Content:
        """Returns the step or sequence with a number."""
        return self._contents[number]

    def sequence(self, number: int) -> tuple[Entry, ...] | None:
        """Returns the sequence with a number; None if it is a step."""
        content = self._contents[number]
        return content if isinstance(content, tuple) else None

    def body(self, entries: Sequence[Entry]) -> tuple[ExecutedNode, ...]:
        """Returns the entries as path nodes; equal entries give the same object."""
        key = tuple(entries)
        nodes = self._bodies.get(key)
        if nodes is None:
            nodes = self._bodies[key] = tuple(self._node(entry) for entry in key)
        return nodes

    def _node(self, entry: Entry) -> ExecutedNode:
        node = self._nodes.get(entry)
        if node is None:
            number, times = entry
            content = self._contents[number]
            assert not isinstance(content, Visit), "visits are no executed steps"
            inner = (content,) if isinstance(content, PathStep) else self.body(content)
            whole = times == 1 and isinstance(content, PathStep)
            node = self._nodes[entry] = inner[0] if whole else PathRun(times, inner)
        return node


class Folder:
    """A sequence that is folded while it grows: the common path of ``warps``."""

    def __init__(self, warps: set[int], entries: list[Entry]) -> None:
        self.warps = warps
        self.entries = entries

    def add(self, book: PathBook, number: int, times: int = 1) -> None:
        """Appends a content, ``times`` in a row, and folds repeats until none is left.

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
        # A slice and plain comparisons: nearly all periods fail here, which dominates the cost.
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
        """Records basic blocks that warps executed with a mask, and whose branch some lanes took.

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

    def paths(self) -> list[tuple[ExecutedNode, ...]]:
        """Returns the path of each warp; warps with equal paths share one object."""
        return [self._book.body(recorder.entries) for recorder in self._of]


@dataclass(frozen=True, slots=True)
class ExecutedBlocks:
    """Blocks whose warps have equal paths: the first block with its paths, and their count."""

    paths: BlockPaths
    count: int


def executed_blocks(
    execution: Execution, cfg: ControlFlowGraph, postdominators: Sequence[int | None], grid: Dim3
) -> tuple[ExecutedBlocks, ...]:
    """Returns the kinds of blocks of a launch, in the order of their first blocks.

    ``cfg`` is the graph of the executed kernel. Masks are dropped: a step keeps its basic block and
    whether the warp continued at the branch target (some lanes took it, and the target is not the
    reconvergence point). Cost: linear in the distinct paths and in the warps.
    """
    reader = _Reader(execution, cfg, postdominators)
    kinds: dict[tuple[WarpPath, ...], int] = {}
    first: dict[tuple[WarpPath, ...], int] = {}
    blocks: dict[int, dict[Path, list[int]]] = {}
    for warp in execution.paths:
        blocks.setdefault(warp.block, {}).setdefault(reader.path(warp.body), []).append(warp.warp)
    for block, by_path in blocks.items():
        warps = tuple(WarpPath(nodes, tuple(numbers)) for nodes, numbers in by_path.items())
        kinds[warps] = kinds.get(warps, 0) + 1
        first.setdefault(warps, block)
    x, y, _ = grid
    answer = []
    for warps, count in kinds.items():
        block = first[warps]
        index = (block % x, block // x % y, block // (x * y))
        answer.append(ExecutedBlocks(BlockPaths(index, index, warps), count))
    return tuple(answer)


@dataclass(frozen=True, slots=True, eq=False)
class LaunchPaths:
    """The distinct paths of a launch; warp ``w`` of block ``b`` takes ``paths[of[b, w]]``."""

    paths: tuple[Path, ...]
    of: NDArray[np.int64]


def executed_warps(
    execution: Execution, cfg: ControlFlowGraph, postdominators: Sequence[int | None]
) -> LaunchPaths:
    """Returns the path of every warp; arguments and cost as for :func:`executed_blocks`."""
    reader = _Reader(execution, cfg, postdominators)
    numbers: dict[Path, int] = {}
    number_of: dict[int, int] = {}  # by identity, since hashing a path is linear in it
    blocks: dict[int, list[int]] = {}
    for warp in execution.paths:
        number = number_of.get(id(warp.body))
        if number is None:
            path = reader.path(warp.body)
            number = number_of[id(warp.body)] = numbers.setdefault(path, len(numbers))
        blocks.setdefault(warp.block, []).append(number)
    of = np.array([blocks[block] for block in sorted(blocks)], np.int64)
    return LaunchPaths(tuple(numbers), of)


class _Reader:
    """The conversion of executed paths to visits, folded again without their masks."""

    def __init__(
        self, execution: Execution, cfg: ControlFlowGraph, postdominators: Sequence[int | None]
    ) -> None:
        instructions = execution.kernel.instructions
        branches = (ControlEffect.BRANCH, ControlEffect.INDIRECT_BRANCH)
        self._ends_in_branch = [
            block.end > block.start and instructions[block.end - 1].control in branches
            for block in cfg.blocks
        ]
        self._to_meeting = [
            target is not None and target == meeting != following
            for target, meeting, following in zip(
                cfg.taken, postdominators, cfg.fallthrough, strict=True
            )
        ]
        self._book = PathBook()
        self._known: dict[int, Path] = {}
        self._kept: list[object] = []  # so that no id() is reused

    def path(self, body: tuple[ExecutedNode, ...]) -> Path:
        """Returns the path of an executed path; the same object for the same object."""
        visits = self._known.get(id(body))
        if visits is None:
            visits = self._known[id(body)] = self._nodes(self._entries(body))
            self._kept.append(body)
        return visits

    def _visit(self, step: PathStep) -> Visit:
        taken = bool(step.taken) and self._ends_in_branch[step.block]
        if taken and step.taken != step.mask:
            taken = not self._to_meeting[step.block]
        return Visit(step.block, taken)

    def _entries(self, body: tuple[ExecutedNode, ...]) -> list[Entry]:
        book, folder = self._book, Folder(set(), [])
        for node in body:
            if isinstance(node, PathStep):
                folder.add(book, book.number(self._visit(node)))
                continue
            inner = self._entries(node.body)
            if len(inner) == 1:
                folder.add(book, inner[0][0], inner[0][1] * node.repeats)
            else:
                folder.add(book, book.number(tuple(inner)), node.repeats)
        return folder.entries

    def _nodes(self, entries: Sequence[Entry]) -> Path:
        nodes: list[PathNode] = []
        for number, times in entries:
            content = self._book.content(number)
            assert not isinstance(content, PathStep), "steps were turned into visits"
            inner = (content,) if isinstance(content, Visit) else self._nodes(content)
            if times == 1:
                nodes += inner
            else:
                count = AffineCount(times)
                nodes.append(PathRepeat(count, count, inner))
        return tuple(nodes)
