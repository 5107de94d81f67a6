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
    BARRIER,
    BUBBLE,
    CONDITIONAL,
    ENTRY_COLUMNS,
    INITIATION,
    LAST,
    LATENCY,
    LOOP_BEGIN,
    LOOP_END,
    POINT,
    PROGRAM_END,
    ROW_COLUMNS,
    UNIT,
    VISIT,
    WAITS_BEGIN,
    WAITS_END,
    WRITES_BEGIN,
    WRITES_END,
    GridProgram,
)
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
        builder.entries.append((PROGRAM_END, 0, 0))
    units = tuple(builder.units)
    queues = configuration.queues(units)
    queue_of = np.zeros((configuration.schedulers, max(1, len(units))), np.int64)
    servers = np.ones(1 + max((q.index for q in queues.values()), default=0), np.int64)
    for (core, unit), queue in queues.items():
        queue_of[core, builder.units[unit]] = queue.index
        servers[queue.index] = queue.servers
    program = GridProgram(
        np.array(builder.rows, np.int64).reshape(-1, ROW_COLUMNS),
        np.array([*builder.operands, 0], np.int64),
        np.array(builder.entries, np.int64).reshape(-1, ENTRY_COLUMNS),
        starts,
        np.ascontiguousarray(workload.chosen, np.int64),
        queue_of,
        servers,
    )
    executed = np.bincount(workload.chosen.ravel(), minlength=len(events)).tolist()
    return GridImage(
        program,
        max(1, len(builder.registers)),
        builder.depth,
        sum(each * times for each, times in zip(events, executed, strict=True)),
        tuple(builder.barriers),
    )


class _Builder:
    def __init__(self, scoreboard: Scoreboard) -> None:
        self.rows: list[list[int]] = []
        self.operands: list[int] = []  # registers of all rows, by range
        self.entries: list[tuple[int, int, int]] = []
        self.units: dict[str, int] = {}
        self.registers: dict[str, int] = {}
        self.barriers: dict[str, int] = {}
        self.depth = 1
        self._waits_for_writes = scoreboard is Scoreboard.RAW_WAW
        self._visits: dict[int, tuple[int, int, int]] = {}
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
        self.entries.append((LOOP_BEGIN, depth, loop.count))
        first = len(self.entries)
        visits = self.add(loop.body, depth + 1)
        if visits == 0:  # nobody must spin through iterations without visits
            del self.entries[first - 1 :]
            return 0
        self.entries.append((LOOP_END, depth, first))
        return loop.count * visits

    def _visit(self, visit: TracedVisit) -> tuple[int, int, int]:
        entry = self._visits.get(id(visit))
        if entry is None:
            first = len(self.rows) if visit.steps else -1
            for step in visit.steps:
                self._row(step)
            if visit.steps:
                self.rows[first][POINT] = visit.point
                self.rows[-1][LAST] = 1
            entry = self._visits[id(visit)] = (VISIT, first, visit.point)
            self._kept.append(visit)
        return entry

    def _row(self, step: TimedInstruction | Barrier) -> None:
        encoded = [0] * ROW_COLUMNS
        encoded[BARRIER] = encoded[POINT] = -1
        if isinstance(step, Barrier):
            encoded[BARRIER] = self.barriers.setdefault(step.name, len(self.barriers))
            step = step.instruction
        require_no_servers(step)
        encoded[UNIT] = self.units.setdefault(step.unit, len(self.units))
        encoded[INITIATION] = step.initiation_cycles
        encoded[LATENCY] = step.latency_cycles
        encoded[BUBBLE] = step.bubble_cycles
        encoded[CONDITIONAL] = int(step.conditional)
        waits = step.reads
        if self._waits_for_writes:
            waits = tuple(dict.fromkeys((*waits, *step.writes)))
        encoded[WAITS_BEGIN], encoded[WAITS_END] = self._operands(waits)
        encoded[WRITES_BEGIN], encoded[WRITES_END] = self._operands(step.writes)
        self.rows.append(encoded)

    def _operands(self, names: Sequence[str]) -> tuple[int, int]:
        begin = len(self.operands)
        numbers = self.registers
        self.operands += [numbers.setdefault(name, len(numbers)) for name in names]
        return begin, len(self.operands)
