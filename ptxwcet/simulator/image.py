"""Encodes workloads as flat arrays, which the compiled machines execute.

For a block every node becomes a row of ``code``; loops become a LOOP_BEGIN and a LOOP_END row
around their body, never copies of it, so an image is as large as the program tree. Classes follow
one another, each closed by an END row.

For a grid each kind of visit is encoded once for all programs; a program is a sequence of entries
that name visits and loops. So the size grows with the distinct visits and with the programs' trees.
Registers are numbered over all visits, as the kernel names them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ptxwcet.simulator.configuration import PARTS, SmConfiguration, Way, require_alone
from ptxwcet.simulator.grid import GridWorkload, TracedLoop, TracedNode, TracedVisit
from ptxwcet.simulator.grid_stepping import (
    ENTRY_COLUMNS,
    LAST,
    POINT,
    STEP_COLUMNS,
    VISIT,
    GridProgram,
)
from ptxwcet.simulator.parts import (
    ARGUMENT,
    ARRIVE,
    BARRIER,
    BEGINS,
    BUBBLE,
    CONDITIONAL,
    COUNT,
    COUNTS,
    END,
    INITIATION,
    INSTRUCTION,
    IS_COPY,
    JOIN,
    KIND,
    LATENCY,
    LOOP_BEGIN,
    LOOP_END,
    MEMORY_PARTS,
    OWES,
    PARTIAL,
    PATH_PARTS,
    POLL,
    TARGET,
    UNIT,
    WAITS_BEGIN,
    WAITS_END,
    WRITES_BEGIN,
    WRITES_END,
    Integers,
)
from ptxwcet.simulator.stepping import COLUMNS, DEPTH, ORIGIN
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.warp.program import (
    REGISTERS,
    Barrier,
    BlockWorkload,
    Mbarrier,
    Node,
    PartialBarrier,
    Repeat,
    Scoreboard,
    Step,
    TimedInstruction,
    instruction_of,
)

ROOM = 256
"""The initial room for the waiting items of each place after the units."""
# The limit of this room: some hundred megabytes for a block, 80 for each SM of a grid.
_MOST_ROOM = 1 << 20

# Cycle and instruction counts must remain far below the limit of 64-bit integers.
_MOST_INSTRUCTIONS = 2**50


@dataclass(frozen=True)
class Image:
    """The arrays of one workload. ``starts[w]`` is the first row of warp w's program.

    ``section_origins[s]`` is the barrier (its origin) that section s follows, None for section 0.
    ``barrier_names[b]`` names barrier b for messages.
    """

    code: Integers
    registers: Integers
    starts: Integers
    queue_of: Integers  # [sub-core, unit]
    servers: Integers  # [queue]
    wide: Integers  # [barrier] 1: for the whole block
    units: tuple[str, ...]
    register_count: int
    depth: int
    section_origins: tuple[int | None, ...]
    barrier_names: tuple[str, ...]
    instructions: int  # issued by all warps together


def build_image(workload: BlockWorkload, configuration: SmConfiguration) -> Image:
    """Returns the image of a workload. Raises ValueError if a program is not a single path.

    Cost: linear in the program trees.
    """
    builder = _Builder(workload.scoreboard, configuration)
    starts = np.zeros(workload.warp_count, np.int64)
    instructions = 0
    for warp_class in workload.classes:
        if not warp_class.program.is_single_path:
            raise ValueError("only a single known path can be simulated")
        starts[list(warp_class.warps)] = len(builder.rows)
        builder.begin_program()
        executed = builder.add(warp_class.program.body, 0)
        builder.row(END)
        instructions += executed * len(warp_class.warps)
    queue_of, servers = builder.queues(configuration)
    return Image(
        *builder.arrays(),
        starts,
        queue_of,
        servers,
        np.array([*builder.wide, 0], np.int64),
        tuple(builder.units),
        builder.register_count,
        builder.depth,
        tuple(builder.section_origins),
        tuple(builder.barriers),
        instructions,
    )


def goes_on_behind(code: Integers) -> bool:
    """Returns whether instructions are served after the units, or count there."""
    return bool(np.any(code[:, [PATH_PARTS, MEMORY_PARTS]]) or np.any(code[:, KIND] == COUNTS))


def more_room(room: int) -> int:
    """Returns more room for items after the units. Raises PtxwcetError (PW533) above a limit."""
    if room < _MOST_ROOM:
        return 4 * room
    raise PtxwcetError(
        Diagnostic(
            "PW533",
            f"the run was given up: more than {room:,} accesses wait for the memory at once",
            notes=("warps issue accesses faster than they are served, and wait for none of them",),
            help="simulate smaller trip counts",
        )
    )


class Rows:
    """The rows of code that are built, their operands, and the units that they use.

    Registers have numbers by ``names``, barriers by their labels, both in order of appearance.
    """

    def __init__(self, columns: int, scoreboard: Scoreboard) -> None:
        self.rows: list[list[int]] = []
        self.operands: list[int] = []  # for all rows, by range
        self.units: dict[str, int] = {}
        self.barriers: dict[str, int] = {}
        self.wide: list[int] = []  # by barrier, 1: for the whole block
        self.names: dict[str, int] = {}
        self.register_count = 1
        self.depth = 1
        self._columns = columns
        self._waits_for_writes = scoreboard is Scoreboard.RAW_WAW

    def row(self, kind: int) -> list[int]:
        """Appends a row."""
        row = [0] * self._columns
        row[KIND] = kind
        self.rows.append(row)
        return row

    def step(self, step: Step, configuration: SmConfiguration) -> list[int]:
        """Appends the row of an instruction, or of a warp's action at a barrier."""
        instruction = instruction_of(step)
        row = self._instruction(instruction, configuration.way_of(instruction))
        match step:
            case Barrier(name=name):
                row[KIND], row[ARGUMENT] = BARRIER, self._number(f"barrier {name}", wide=True)
            case PartialBarrier(waits=waits, mbarrier=None):
                row[KIND], row[ARGUMENT] = PARTIAL if waits else ARRIVE, self._number(step.shown)
                row[COUNT] = step.warps
            case PartialBarrier(waits=waits, mbarrier=Mbarrier() as use):
                if use.behind or step.name == REGISTERS:
                    raise _not_compiled(step)
                row[KIND] = POLL if waits else BEGINS if use.expects else COUNTS
                row[ARGUMENT] = self._number(step.shown)
                row[COUNT] = use.parity if waits else use.expects or use.arrivals
                row[TARGET] = instruction.initiation_cycles + instruction.latency_cycles
                row[LATENCY] += use.after_cycles
                row[OWES], row[IS_COPY] = use.owes - use.brings, int(use.brings > 0)
            case TimedInstruction(joins=True):
                row[KIND], row[ARGUMENT] = JOIN, self._number("a product of its warpgroup")
        return row

    def _number(self, label: str, *, wide: bool = False) -> int:
        if label not in self.barriers:
            self.barriers[label] = len(self.barriers)
            self.wide.append(int(wide))
        return self.barriers[label]

    def _instruction(self, instruction: TimedInstruction, way: Way) -> list[int]:
        encoded = self.row(INSTRUCTION)
        encoded[UNIT] = self.units.setdefault(instruction.unit, len(self.units))
        encoded[INITIATION], encoded[LATENCY] = instruction.initiation_cycles, way.latency
        encoded[PATH_PARTS], encoded[MEMORY_PARTS] = way.path_cycles * PARTS, way.memory_parts
        encoded[BUBBLE] = instruction.bubble_cycles
        encoded[CONDITIONAL] = int(instruction.conditional)
        waits = instruction.reads
        if self._waits_for_writes:
            waits = tuple(dict.fromkeys((*waits, *instruction.writes)))
        encoded[WAITS_BEGIN], encoded[WAITS_END] = self._range(waits)
        encoded[WRITES_BEGIN], encoded[WRITES_END] = self._range(instruction.writes)
        return encoded

    def _range(self, registers: Sequence[str]) -> tuple[int, int]:
        begin = len(self.operands)
        self.operands += [self.names.setdefault(name, len(self.names)) for name in registers]
        self.register_count = max(self.register_count, len(self.names))
        return begin, len(self.operands)

    def arrays(self) -> tuple[Integers, Integers]:
        """Returns the rows, and their operands."""
        rows = np.array(self.rows, np.int64).reshape(-1, self._columns)
        return rows, np.array([*self.operands, 0], np.int64)

    def queues(self, configuration: SmConfiguration) -> tuple[Integers, Integers]:
        """Returns the queue of each sub-core and unit, and the servers of each queue."""
        queues = configuration.queues(tuple(self.units))
        queue_of = np.zeros((configuration.schedulers, max(1, len(self.units))), np.int64)
        servers = np.ones(1 + max((q.index for q in queues.values()), default=0), np.int64)
        for (core, unit), queue in queues.items():
            queue_of[core, self.units[unit]] = queue.index
            servers[queue.index] = queue.servers
        return queue_of, servers


def _not_compiled(step: PartialBarrier) -> PtxwcetError:
    handed = step.name == REGISTERS
    subject = "registers that warps hand over" if handed else "arrivals behind small copies"
    message = f"{step.shown}: {subject} are not simulated: only bounded"
    return PtxwcetError(Diagnostic("PW548", message, help="ask for the bound of the block"))


class _Builder(Rows):
    def __init__(self, scoreboard: Scoreboard, configuration: SmConfiguration) -> None:
        super().__init__(COLUMNS, scoreboard)
        self._configuration = configuration
        self.section_origins: list[int | None] = [None]
        self._sections: dict[int, int] = {}

    def begin_program(self) -> None:
        """Restarts the numbers of registers, which are private to a warp, for a program."""
        self.names = {}
        self._sections = {}

    def add(self, body: Sequence[Node], depth: int) -> int:
        """Appends a body inside ``depth`` loops; returns the number of instructions it executes."""
        self.depth = max(self.depth, depth)
        executed = 0
        for node in body:
            match node:
                case TimedInstruction() | Barrier() | PartialBarrier():
                    encoded = self.step(node, self._configuration)
                    encoded[DEPTH], encoded[ORIGIN] = depth, instruction_of(node).origin
                    if encoded[KIND] in (BARRIER, PARTIAL):
                        encoded[TARGET] = self._section(encoded[ORIGIN])
                    executed += 1
                case Repeat(count=count, body=inner):
                    executed += self._repeat(count, inner, depth)
                case _:
                    raise ValueError("not a single path")
        return executed

    def _repeat(self, count: int, body: Sequence[Node], depth: int) -> int:
        if count == 0:
            return 0
        if count == 1:
            return self.add(body, depth)
        begin = self.row(LOOP_BEGIN)
        first = len(self.rows)
        executed = self.add(body, depth + 1)
        if executed == 0:  # An engine must not iterate without instructions.
            del self.rows[first - 1 :]
            return 0
        if executed * count >= _MOST_INSTRUCTIONS:
            raise PtxwcetError(
                Diagnostic(
                    "PW533",
                    f"a warp executes {executed * count} instructions: more than can be simulated",
                    help="lower the trip counts",
                )
            )
        begin[ARGUMENT], begin[COUNT], begin[DEPTH] = depth, count, depth
        end = self.row(LOOP_END)
        end[ARGUMENT], end[TARGET], end[DEPTH] = depth, first, depth + 1
        return executed * count

    def _section(self, origin: int) -> int:
        """Returns the section after a barrier; copies with one origin (split loops) share it."""
        if origin not in self._sections:
            self._sections[origin] = len(self.section_origins)
            self.section_origins.append(origin)
        return self._sections[origin]


@dataclass(frozen=True)
class GridImage:
    """The arrays of a workload, and the sizes of the state that it needs.

    ``events`` is the exact number of events of a whole run. ``barrier_names[b]`` names barrier b
    for messages.
    """

    program: GridProgram
    register_count: int
    depth: int
    events: int
    barrier_names: tuple[str, ...]


def build_grid_image(workload: GridWorkload, configuration: SmConfiguration) -> GridImage:
    """Returns the image of a workload. Cost: linear in the programs' trees and in the warps."""
    builder = _GridBuilder(workload.scoreboard, configuration)
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
        np.array([*builder.wide, 0], np.int64),
    )
    executed = np.bincount(workload.chosen.ravel(), minlength=len(events)).tolist()
    return GridImage(
        program,
        builder.register_count,
        builder.depth,
        sum(each * times for each, times in zip(events, executed, strict=True)),
        tuple(builder.barriers),
    )


class _GridBuilder(Rows):
    def __init__(self, scoreboard: Scoreboard, configuration: SmConfiguration) -> None:
        super().__init__(STEP_COLUMNS, scoreboard)
        self._configuration = configuration
        self.entries: list[tuple[int, int, int, int]] = []
        self._visits: dict[int, tuple[int, int, int, int]] = {}
        self._kept: list[TracedVisit] = []  # so that no id() is reused

    def add(self, body: Sequence[TracedNode], depth: int) -> int:
        """Appends a body inside ``depth`` loops; returns the number of its executed visits."""
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
        if visits == 0:  # no engine may iterate without visits
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

    def _step(self, step: Step) -> None:
        if isinstance(step, TimedInstruction):
            require_alone(step)
        self.step(step, self._configuration)[POINT] = -1
