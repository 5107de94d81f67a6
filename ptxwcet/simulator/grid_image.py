"""A grid's workload as flat arrays: what the compiled grid simulation executes.

Each kind of visit is laid down once, whoever executes it; a program is a row of entries that name
visits and loops. So the size grows with the distinct visits and with the programs' trees. Registers
are numbered over all visits, as the kernel names them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ptxwcet.simulator.configuration import SmConfiguration, require_no_servers
from ptxwcet.simulator.grid import GridWorkload, TracedLoop, TracedNode, TracedVisit
from ptxwcet.simulator.grid_stepping import (
    COLUMNS,
    ENTRY_COLUMNS,
    LAST,
    POINT,
    VISIT,
    GridProgram,
)
from ptxwcet.simulator.image import Rows
from ptxwcet.simulator.parts import ARGUMENT, BARRIER, END, INSTRUCTION, LOOP_BEGIN, LOOP_END
from ptxwcet.warp.program import Barrier, Scoreboard, TimedInstruction


@dataclass(frozen=True)
class GridImage:
    """Arrays of a workload, and the sizes of the state that it needs.

    ``events`` is the number of events of a whole run, exactly. ``barrier_names[b]`` names barrier b
    for messages.
    """

    program: GridProgram
    register_count: int
    depth: int
    events: int
    barrier_names: tuple[str, ...]


def build_grid_image(workload: GridWorkload, configuration: SmConfiguration) -> GridImage:
    """The image of a workload. Cost: linear in the programs' trees and in the warps."""
    builder = _Builder(workload.scoreboard)
    starts = np.zeros(len(workload.programs), np.int64)
    events = []
    for number, body in enumerate(workload.programs):
        starts[number] = len(builder.entries)
        events.append(builder.add(body, 0) + 1)
        builder.entries.append((END, 0, 0, 0))
    program = GridProgram(
        *builder.arrays(),
        np.array(builder.entries, np.int64).reshape(-1, ENTRY_COLUMNS),
        starts,
        np.ascontiguousarray(workload.chosen, np.int64),
        *builder.queues(configuration),
    )
    executed = np.bincount(workload.chosen.ravel(), minlength=len(events)).tolist()
    return GridImage(
        program,
        builder.register_count,
        builder.depth,
        sum(each * times for each, times in zip(events, executed, strict=True)),
        tuple(builder.barriers),
    )


class _Builder(Rows):
    def __init__(self, scoreboard: Scoreboard) -> None:
        super().__init__(COLUMNS, scoreboard)
        self.entries: list[tuple[int, int, int, int]] = []
        self._visits: dict[int, tuple[int, int, int, int]] = {}
        self._kept: list[TracedVisit] = []  # identities stay taken

    def add(self, body: Sequence[TracedNode], depth: int) -> int:
        """Appends a body inside ``depth`` loops; the number of visits that it executes."""
        self.depth = max(self.depth, depth)
        visits = 0
        for node in body:
            if isinstance(node, TracedVisit):
                self.entries.append(self._visit(node))
                visits += 1
            elif node.count == 1:
                visits += self.add(node.body, depth)
            elif node.count:
                visits += self._loop(node, depth)
        return visits

    def _loop(self, loop: TracedLoop, depth: int) -> int:
        self.entries.append((LOOP_BEGIN, depth, loop.count, 0))
        first = len(self.entries)
        visits = self.add(loop.body, depth + 1)
        if visits == 0:  # nobody must spin through iterations without visits
            del self.entries[first - 1 :]
            return 0
        self.entries.append((LOOP_END, depth, 0, first))
        return loop.count * visits

    def _visit(self, visit: TracedVisit) -> tuple[int, int, int, int]:
        entry = self._visits.get(id(visit))
        if entry is None:
            first = len(self.rows) if visit.steps else -1
            for step in visit.steps:
                self._step(step)
            if visit.steps:
                self.rows[first][POINT] = visit.point
                self.rows[-1][LAST] = 1
            entry = self._visits[id(visit)] = (VISIT, first, visit.point, 0)
            self._kept.append(visit)
        return entry

    def _step(self, step: TimedInstruction | Barrier) -> None:
        kind, barrier = INSTRUCTION, 0
        if isinstance(step, Barrier):
            kind, barrier = BARRIER, self.barriers.setdefault(step.name, len(self.barriers))
            step = step.instruction
        require_no_servers(step)
        encoded = self.instruction(kind, step, step.latency_cycles)
        encoded[ARGUMENT], encoded[POINT] = barrier, -1
