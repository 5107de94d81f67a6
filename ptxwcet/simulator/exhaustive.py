"""The exact worst case of a small block over all work-conserving schedules.

Forward dynamic programming over joint states (:mod:`ptxwcet.simulator.exhaustive_core`). For each
state the latest cycle suffices, and the worst makespan is the latest end of any instruction
on any transition. It knows the model's machine and nothing of the bounds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptxwcet.simulator.configuration import SmConfiguration, require_no_servers
from ptxwcet.simulator.exhaustive_core import (
    ARRIVE,
    BARRIER,
    BUBBLE,
    COLUMNS,
    CONDITIONAL,
    COUNT,
    DEADLOCK,
    END,
    ENDED,
    FIXED,
    INITIATION,
    INSTRUCTION,
    KIND,
    LATENCY,
    NUMBER,
    OVER_CAP,
    PARTIAL,
    PHASE,
    POSITION,
    UNIT,
    WAITS_BEGIN,
    WAITS_END,
    WRITES_BEGIN,
    WRITES_END,
    Block,
    Found,
    Integers,
    Shape,
    StateVector,
    search,
    settle,
    successor,
)
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.warp.program import (
    Barrier,
    BlockWorkload,
    Node,
    PartialBarrier,
    Repeat,
    Scoreboard,
    TimedInstruction,
    unroll,
)

DEFAULT_CAP = 2_000_000
"""States before a search is given up: a few hundred megabytes."""

# Instructions of all warps together: loops are unrolled, and states count their issues.
_MOST_INSTRUCTIONS = 100_000


@dataclass(frozen=True, slots=True)
class WorstCase:
    """The longest work-conserving schedule of a block.

    ``states`` were explored. ``schedule`` lists the warps in issue order, those of one cycle in the
    order of their sub-cores: a witness that takes ``cycles``.
    """

    cycles: int
    states: int
    schedule: tuple[int, ...]


def search_worst(
    workload: BlockWorkload,
    configuration: SmConfiguration,
    *,
    most_states: int = DEFAULT_CAP,
    symmetry: bool = True,
) -> WorstCase:
    """Explores every work-conserving schedule of a block.

    ``symmetry`` False keeps apart the states that differ by an exchange of equal warps; for tests.
    Raises ValueError if a program is not a single path, PtxwcetError PW532 if some schedule
    deadlocks and PW534 above the cap. Cost: exponential in the number of warps at worst.
    """
    instructions = sum(len(c.warps) * _length(c.program.body) for c in workload.classes)
    if instructions > _MOST_INSTRUCTIONS:
        raise PtxwcetError(_too_many(f"{instructions:,} instructions have to be scheduled"))
    block, start = _prepare(workload, configuration, symmetry=symmetry)
    result, before, choices = search(block, start, instructions, most_states)
    outcome = Found(*result)
    if outcome.status == OVER_CAP:
        raise PtxwcetError(_too_many(f"more than {most_states:,} states"))
    if outcome.status == DEADLOCK:
        raise PtxwcetError(
            Diagnostic(
                "PW532",
                "deadlock: in some schedule, every warp that has not ended waits at a barrier",
                help="all warps must meet the same barriers",
            )
        )
    schedule = _replay(block, start, _way(outcome, before, choices))
    return WorstCase(outcome.cycles, outcome.states, schedule)


def _length(body: tuple[Node, ...]) -> int:
    """Instructions that a single path executes. Cost: linear in the tree."""
    total = 0
    for node in body:
        match node:
            case TimedInstruction() | Barrier() | PartialBarrier():
                total += 1
            case Repeat(count=count, body=inner) if node.exact:
                total += count * _length(inner)
            case _:
                raise ValueError("only a single known path can be searched")
    return total


def _way(found: Found, before: Integers, choices: Integers) -> list[int]:
    """The choices from the start to the transition that ends last."""
    if found.last_state < 0:
        return []
    way = [int(found.last_choice)]
    state = int(found.last_state)
    while before[state] >= 0:
        way.append(int(choices[state]))
        state = int(before[state])
    return way[::-1]


def _replay(block: Block, start: StateVector, way: list[int]) -> tuple[int, ...]:
    """The warps that the choices issue; after the last one, the first choice each time."""
    vec = start.copy()
    order = np.arange(block.shape.warps)
    ends = np.zeros(2 + block.shape.cores, np.int64)
    schedule: list[int] = []
    step = settle(block, vec, order, 0)
    taken = iter(way)
    while step >= 0:
        step = successor(block, vec, next(taken, 0), order, ends)
        schedule += [warp for warp in ends[2:].tolist() if warp >= 0]
    return tuple(schedule)


def _prepare(
    workload: BlockWorkload, configuration: SmConfiguration, *, symmetry: bool
) -> tuple[Block, StateVector]:
    """The block as arrays, and the state before the first issue."""
    builder = _Builder(workload.scoreboard)
    starts = [0] * workload.warp_count
    kinds = [0] * workload.warp_count
    for number, warp_class in enumerate(workload.classes):
        first = builder.add(warp_class.program.body)
        for warp in warp_class.warps:
            starts[warp], kinds[warp] = first, number
    cores = configuration.schedulers
    core = [warp % cores for warp in range(workload.warp_count)]
    queues = configuration.queues(tuple(builder.units))
    queue_of = np.zeros((cores, max(1, len(builder.units))), np.int64)
    servers = np.ones(1 + max((q.index for q in queues.values()), default=0), np.int64)
    for (sub_core, unit), queue in queues.items():
        queue_of[sub_core, builder.units[unit]] = queue.index
        servers[queue.index] = queue.servers
    registers = builder.registers
    per_warp = FIXED + registers
    most_servers = int(servers.max())
    barriers = len(builder.barriers)
    width = workload.warp_count * per_warp + len(servers) * most_servers + barriers
    shape = Shape(
        workload.warp_count,
        cores,
        registers,
        len(servers),
        most_servers,
        barriers,
        builder.wide,
        width,
    )
    group = [
        kind * cores + c if symmetry else warp
        for warp, (kind, c) in enumerate(zip(kinds, core, strict=True))
    ]
    code = np.array(builder.rows, np.int64).reshape(-1, COLUMNS)
    live, awaited = _liveness(code, builder.operands, registers)
    block = Block(
        code,
        np.array([*builder.operands, 0], np.int64),
        live,
        awaited,
        np.array(core, np.int64),
        np.array(group, np.int64),
        queue_of,
        servers,
        shape,
    )
    vec = np.zeros(width, np.int32)
    for warp, first in enumerate(starts):
        vec[warp * per_warp + POSITION] = first
        if code[first, KIND] == END:
            vec[warp * per_warp + PHASE] = ENDED
    return block, vec


def _liveness(code: Integers, operands: list[int], registers: int) -> tuple[Integers, Integers]:
    """Which registers' times still matter at each row; see :class:`Block`."""
    live = np.zeros((len(code), registers), np.int64)
    awaited = np.zeros((len(code), registers), np.int64)
    after = np.zeros(registers, np.int64)  # matters before the row that follows
    for at in range(len(code) - 1, -1, -1):
        if code[at, KIND] == END:
            after = np.zeros(registers, np.int64)
            continue
        before = after.copy()
        if not code[at, CONDITIONAL]:
            before[operands[code[at, WRITES_BEGIN] : code[at, WRITES_END]]] = 0
        live[at] = before
        awaited[at, operands[code[at, WAITS_BEGIN] : code[at, WAITS_END]]] = 1
        after = before | awaited[at]
    return live, awaited


class _Builder:
    """Rows of code, class by class, each closed by an END row."""

    def __init__(self, scoreboard: Scoreboard) -> None:
        self.rows: list[list[int]] = []
        self.operands: list[int] = []
        self.units: dict[str, int] = {}
        self.barriers: dict[tuple[str, int], int] = {}
        self.registers = 1
        self.wide = False
        self._waits_for_writes = scoreboard is Scoreboard.RAW_WAW

    def add(self, body: tuple[Node, ...]) -> int:
        """Appends a program; the number of its first row."""
        first = len(self.rows)
        names: dict[str, int] = {}
        for node in unroll(body):
            match node:
                case TimedInstruction():
                    self._row(INSTRUCTION, node, names)
                case Barrier(instruction, name):
                    encoded = self._row(BARRIER, instruction, names)
                    encoded[NUMBER] = self.barriers.setdefault((name, 0), len(self.barriers))
                    self.wide = True
                case PartialBarrier(instruction, name, warps, waits):
                    encoded = self._row(PARTIAL if waits else ARRIVE, instruction, names)
                    encoded[NUMBER] = self.barriers.setdefault((name, warps), len(self.barriers))
                    encoded[COUNT] = warps
        end = [0] * COLUMNS
        end[KIND] = END
        self.rows.append(end)
        self.registers = max(self.registers, len(names))
        return first

    def _row(self, kind: int, instruction: TimedInstruction, names: dict[str, int]) -> list[int]:
        require_no_servers(instruction)
        encoded = [0] * COLUMNS
        encoded[KIND] = kind
        encoded[UNIT] = self.units.setdefault(instruction.unit, len(self.units))
        encoded[INITIATION] = instruction.initiation_cycles
        encoded[LATENCY] = instruction.latency_cycles
        encoded[BUBBLE] = instruction.bubble_cycles
        encoded[CONDITIONAL] = int(instruction.conditional)
        waits = instruction.reads
        if self._waits_for_writes:
            waits = tuple(dict.fromkeys((*waits, *instruction.writes)))
        encoded[WAITS_BEGIN], encoded[WAITS_END] = self._range(waits, names)
        encoded[WRITES_BEGIN], encoded[WRITES_END] = self._range(instruction.writes, names)
        self.rows.append(encoded)
        return encoded

    def _range(self, registers: tuple[str, ...], names: dict[str, int]) -> tuple[int, int]:
        begin = len(self.operands)
        self.operands += [names.setdefault(name, len(names)) for name in registers]
        return begin, len(self.operands)


def _too_many(what: str) -> Diagnostic:
    return Diagnostic(
        "PW534",
        f"the exhaustive search is given up: {what}",
        help="search a smaller block, or raise the cap",
    )
