"""The run of one block: warps that stand at the same node execute it as one vector."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ptxwcet.emulator.launch import Array
from ptxwcet.emulator.nodes import Barrier, Node
from ptxwcet.emulator.path_recording import PathRecorder
from ptxwcet.emulator.registers import Frame, Place
from ptxwcet.emulator.stack import Stack

_FAIR = 64  # rounds after which the warp that waited longest goes first


class TooLongError(Exception):
    """The limit of instructions is reached in a node."""

    def __init__(self, node: Node) -> None:
        super().__init__()
        self.node = node


@dataclass(slots=True)
class _Gate:
    """A barrier that some wait at: threads arrived, waiting warps, instruction."""

    arrived: int = 0
    waiting: list[int] = field(default_factory=list)


class BlockRun:
    """Runs a block to its end; ``budget`` is how many warp instructions it may execute."""

    def __init__(self, frame: Frame, nodes: tuple[Node, ...], threads: int, budget: int) -> None:
        self._frame, self._nodes, self._budget = frame, nodes, budget
        self._threads = threads
        warps = frame.lanes // 32
        self._stacks = [Stack(0, (1 << min(32, threads - 32 * warp)) - 1) for warp in range(warps)]
        self._waiting: set[int] = set()
        self._gates: dict[tuple[int, int], _Gate] = {}
        self._last_run = [0] * warps
        self.executed = 0
        self.recorders: list[PathRecorder] | None = None

    def run(self) -> None:
        """Raises Stop (a fatal finding) and TooLongError."""
        turn = 0
        while True:
            ready = [
                warp
                for warp, stack in enumerate(self._stacks)
                if stack.entries and warp not in self._waiting
            ]
            if not ready:
                if not self._waiting:
                    return
                self._deadlock()
            turn += 1
            self._round(ready, turn)

    def _round(self, ready: list[int], turn: int) -> None:
        stacks = self._stacks
        if turn % _FAIR:
            number = min(stacks[warp].entries[-1].node for warp in ready)
        else:
            number = stacks[min(ready, key=self._last_run.__getitem__)].entries[-1].node
        group = [warp for warp in ready if stacks[warp].entries[-1].node == number]
        node = self._nodes[number]
        self.executed += node.length * len(group)
        if self.executed > self._budget:
            raise TooLongError(node)
        masks = np.zeros(len(stacks), dtype=np.uint32)
        for warp in group:
            masks[warp] = stacks[warp].entries[-1].mask
            self._last_run[warp] = turn
        self._record(node, group)
        frame = self._frame
        lanes = np.unpackbits(masks.view(np.uint8), bitorder="little").view(np.bool_)
        frame.mask = None if lanes.all() else lanes
        for step in node.steps:
            step(frame)
        self._transfer(node, group, masks)

    def _record(self, node: Node, group: list[int]) -> None:
        if self.recorders is not None and node.is_start:
            for warp in group:
                mask = self._stacks[warp].entries[-1].mask
                self.recorders[warp].add((node.block, mask))

    def _transfer(self, node: Node, group: list[int], masks: Array) -> None:
        stacks = self._stacks
        if node.barrier is not None:
            self._arrive(node.barrier, group)
        if node.taken is None:
            for warp in group:
                stacks[warp].go(node.other)
        elif node.guard is None:
            for warp in group:
                stacks[warp].go(node.taken)
        else:
            predicate = self._frame.registers[node.guard.register]
            words = np.packbits(predicate, bitorder="little").view(np.uint32)
            taken = ((~words if node.guard.negated else words) & masks).tolist()
            for warp in group:
                if node.taken < 0:
                    stack = stacks[warp]
                    rest = stack.entries[-1].mask & ~taken[warp]
                    stack.end(taken[warp])
                    if rest:
                        stack.go(node.other)
                else:
                    stacks[warp].branch(taken[warp], node.taken, node.other, node.meet)
        self._open_gates()

    def _arrive(self, barrier: Barrier, group: list[int]) -> None:
        names = barrier.name(self._frame)
        counts = None if barrier.threads is None else barrier.threads(self._frame)
        for warp in group:
            stack = self._stacks[warp]
            if stack.entries[-1].mask != stack.live:
                lane = 32 * warp + (stack.entries[-1].mask & -stack.entries[-1].mask).bit_length()
                message = "barrier executed by a part of a warp; the others count as arrived"
                place = Place(lane - 1, None, False)
                self._frame.report("PW436", message, barrier.instruction, place)
            count = 0 if counts is None else int(counts[32 * warp])
            gate = self._gates.setdefault((int(names[32 * warp]), count), _Gate())
            gate.arrived += 32
            if barrier.waits:
                gate.waiting.append(warp)
                self._waiting.add(warp)

    def _open_gates(self) -> None:
        if not self._gates:
            return
        live = sum(1 for stack in self._stacks if stack.entries)
        for (name, count), gate in list(self._gates.items()):
            if gate.arrived >= (count or 32 * live):
                if len(gate.waiting) == live:
                    self._frame.arena.forget_accesses()
                self._waiting.difference_update(gate.waiting)
                del self._gates[name, count]

    def _deadlock(self) -> None:
        warp = min(self._waiting)
        node = self._stacks[warp].entries[-1].node
        last = self._nodes[max(node - 1, 0)].last
        waiting = len(self._waiting)
        message = f"deadlock: {waiting} warps wait at barriers that no other warp will reach"
        self._frame.report("PW433", message, last, Place(32 * warp))
