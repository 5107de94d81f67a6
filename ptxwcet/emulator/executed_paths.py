"""Executed paths as paths of the analysis: the form that bounds and simulators start from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptxwcet.emulator.launch import Execution, PathStep
from ptxwcet.emulator.launch import PathNode as ExecutedNode
from ptxwcet.emulator.path_recording import Entry, Folder, PathBook
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


@dataclass(frozen=True, slots=True)
class ExecutedBlocks:
    """Blocks whose warps executed the same: the first of them, with its paths, and how many."""

    paths: BlockPaths
    count: int


def executed_blocks(
    execution: Execution, cfg: ControlFlowGraph, postdominators: Sequence[int | None], grid: Dim3
) -> tuple[ExecutedBlocks, ...]:
    """The kinds of blocks of a launch, in the order of their first blocks.

    ``cfg`` is that of the executed kernel. Masks are dropped: of a step it matters which block was
    executed and whether the warp went on at the target of its branch (some lanes took it, and it
    leads elsewhere than to where they meet the others). Cost: linear in the distinct paths and in
    the warps.
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
    """The path of every warp of every block; arguments and cost as of :func:`executed_blocks`."""
    reader = _Reader(execution, cfg, postdominators)
    numbers: dict[Path, int] = {}
    number_of: dict[int, int] = {}  # by identity: hashing a path is linear in it
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
    """Turns executed paths into visits, folded again without their masks."""

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
        self._kept: list[object] = []  # identities stay taken

    def path(self, body: tuple[ExecutedNode, ...]) -> Path:
        """The path of an executed path; the same object for the same object."""
        found = self._known.get(id(body))
        if found is None:
            found = self._known[id(body)] = self._nodes(self._entries(body))
            self._kept.append(body)
        return found

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
