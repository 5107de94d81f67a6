"""Computes the exact worst case of a small block over all work-conserving schedules.

The search is forward dynamic programming over joint states, compiled. It models only the model's
machine and uses nothing of the bounds.

A state is a vector of integers relative to the cycle of the next decision, times in the past are 0:
for each warp its next row of code, the cycles until that is eligible, its phase, the cycles until
it ends (if others may wait for that), and those until each register is ready that it still waits
for; then those until each server is free, and the arrivals at partial barriers. The future depends
on nothing else, so only the latest cycle in which a state is reached matters, and the worst
makespan is the latest end of any instruction on any transition. States are visited in the order of
the instructions issued so far, and each is expanded once, with its latest cycle. Warps with the
same program on the same sub-core are interchangeable: their parts of the vector are sorted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ptxwcet.simulator.configuration import SmConfiguration, require_simple
from ptxwcet.simulator.image import Image, build_image
from ptxwcet.simulator.parts import (
    ARGUMENT,
    ARRIVE,
    BUBBLE,
    CONDITIONAL,
    COUNT,
    END,
    ENDED,
    INITIATION,
    INSTRUCTION,
    KIND,
    LAST_END,
    LATENCY,
    PARTIAL,
    PHASE,
    ROW,
    RUNNING,
    SINCE,
    UNIT,
    WAITS_BEGIN,
    WAITS_END,
    WARP_COLUMNS,
    WRITES_BEGIN,
    WRITES_END,
    Integers,
    arrive,
    awaited,
    dispatch,
    met_by_all,
    write,
)
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.jit import compiled
from ptxwcet.support.records import dataclass
from ptxwcet.warp.program import (
    Barrier,
    BlockWorkload,
    Node,
    PartialBarrier,
    Repeat,
    TimedInstruction,
    WarpProgram,
    unroll,
)

DEFAULT_CAP = 2_000_000
"""The limit of states of a search: a few hundred megabytes."""

# The limit of instructions of all warps: loops are unrolled, and states count their issues.
_MOST_INSTRUCTIONS = 100_000


StateVector: TypeAlias = NDArray[np.int32]

COMPLETE, DEADLOCK, OVER_CAP = range(3)
NONE = 1 << 30  # no cycle of a state


class Block(NamedTuple):
    """A small block, its loops unrolled. Slots are warps; rows of code are shared by classes."""

    code: Integers
    operands: Integers
    live: (
        Integers  # [row of code, register] 1: its time matters once the row's eligibility is known
    )
    awaited: Integers  # [row of code, register] 1: it matters before, at a barrier
    core: Integers  # [slot]
    group: Integers  # [slot] slots of a group are interchangeable
    queue_of: Integers  # [sub-core, unit]
    servers: Integers  # [queue]
    wide: Integers  # [barrier] 1: all warps of the block synchronise there
    shape: Shape


class Shape(NamedTuple):
    """The sizes of a state vector."""

    warps: int
    cores: int
    per_warp: int
    registers: int
    queues: int
    most_servers: int
    barriers: int
    wide: bool  # some barrier is of the whole block
    width: int


class Found(NamedTuple):
    """The end of a search: the worst makespan, and the transition that reaches it."""

    status: int
    cycles: int
    states: int
    last_state: int
    last_choice: int


class Now(NamedTuple):
    """The current state."""

    vec: StateVector
    warps: StateVector  # [slot, column]: the beginning of the same vector
    order: Integers  # [slot] its warp
    issued: Integers  # [sub-core] the warp that it issues, -1: none


@compiled
def _set(place: StateVector, values: StateVector) -> None:
    for k in range(len(values)):
        place[k] = values[k]


@compiled
def _begin(block: Block, start: StateVector) -> Now:
    shape = block.shape
    vec = start.copy()
    warps = vec[: shape.warps * shape.per_warp].reshape((shape.warps, shape.per_warp))
    return Now(vec, warps, np.arange(shape.warps), np.zeros(shape.cores, np.int64))


@compiled
def _open(block: Block, now: Now, barrier: int, cycle: int) -> None:
    warps = now.warps
    for slot in range(len(warps)):
        if warps[slot, PHASE] != barrier:
            continue
        if block.code[warps[slot, ROW], KIND] == END:
            warps[slot, PHASE] = ENDED
            continue
        warps[slot, PHASE] = RUNNING
        earliest = max(cycle, warps[slot, SINCE])
        eligible, _ = awaited(block.code, block.operands, warps, slot, WARP_COLUMNS, earliest)
        warps[slot, SINCE] = eligible


@compiled
def _issue(block: Block, now: Now, slot: int) -> int:
    """Issues the next instruction of a warp in cycle 0 of the state; returns its end."""
    shape, code, warps, vec = block.shape, block.code, now.warps, now.vec
    pc = warps[slot, ROW]
    queue = block.queue_of[block.core[slot], code[pc, UNIT]]
    first = shape.warps * shape.per_warp + queue * shape.most_servers
    initiation = code[pc, INITIATION]
    end = dispatch(vec, first, block.servers[queue], 0, initiation) + initiation
    end += code[pc, LATENCY]
    warps[slot, LAST_END] = max(warps[slot, LAST_END], end)
    write(code, block.operands, pc, warps, slot, WARP_COLUMNS, end)
    warps[slot, ROW] = pc + 1
    earliest = 1 + code[pc, BUBBLE]
    kind = code[pc, KIND]
    if kind not in (INSTRUCTION, ARRIVE):
        warps[slot, PHASE] = code[pc, ARGUMENT]
        warps[slot, SINCE] = earliest
    elif code[pc + 1, KIND] == END:
        warps[slot, PHASE] = ENDED
        warps[slot, SINCE] = 0
    else:
        eligible, _ = awaited(code, block.operands, warps, slot, WARP_COLUMNS, earliest)
        warps[slot, SINCE] = eligible
    if kind in (PARTIAL, ARRIVE):
        arrivals = shape.width - shape.barriers + code[pc, ARGUMENT]
        if arrive(vec, arrivals, code[pc, COUNT]):
            _open(block, now, code[pc, ARGUMENT], 1)
    if kind != INSTRUCTION or warps[slot, PHASE] == ENDED:
        barrier, opens = met_by_all(warps, 0, shape.warps, block.wide, 1, False)
        if barrier >= 0:
            _open(block, now, barrier, opens)
    return int(end)


@compiled
def _less(vec: StateVector, own: int, other: int, count: int) -> bool:
    for k in range(count):
        if vec[own + k] != vec[other + k]:
            return bool(vec[own + k] < vec[other + k])
    return False


@compiled
def _sort(block: Block, now: Now) -> None:
    """Brings interchangeable warps and servers into order; ``order`` follows the warps."""
    shape, vec, order = block.shape, now.vec, now.order
    per_warp = shape.per_warp
    for slot in range(1, shape.warps):
        here = slot
        for before in range(slot - 1, -1, -1):
            if block.group[before] != block.group[slot]:
                continue
            if not _less(vec, here * per_warp, before * per_warp, per_warp):
                break
            for k in range(per_warp):
                column, earlier_column = here * per_warp + k, before * per_warp + k
                vec[column], vec[earlier_column] = vec[earlier_column], vec[column]
            order[here], order[before] = order[before], order[here]
            here = before
    first = shape.warps * per_warp
    for queue in range(shape.queues):
        begin = first + queue * shape.most_servers
        for server in range(begin + 1, begin + block.servers[queue]):
            here = server
            while here > begin and vec[here] < vec[here - 1]:
                vec[here], vec[here - 1] = vec[here - 1], vec[here]
                here -= 1


@compiled
def _settle(block: Block, now: Now, least: int) -> int:
    """Moves to the next decision, ``least`` cycles away at least, in canonical form.

    Returns the cycles until then; -1 if no warp will issue again.
    """
    shape, vec, warps = block.shape, now.vec, now.warps
    step = NONE
    for slot in range(shape.warps):
        if warps[slot, PHASE] == RUNNING:
            step = min(step, warps[slot, SINCE])
    if step == NONE:
        return -1
    step = max(step, least)
    for slot in range(shape.warps):
        pc, phase = warps[slot, ROW], warps[slot, PHASE]
        is_waiting = RUNNING < phase < ENDED
        warps[slot, SINCE] = max(0, warps[slot, SINCE] - step)
        warps[slot, LAST_END] = max(0, warps[slot, LAST_END] - step) if shape.wide else 0
        for register in range(shape.registers):
            column = WARP_COLUMNS + register
            matters = block.live[pc, register] != 0
            if is_waiting:
                matters = matters or block.awaited[pc, register] != 0
            warps[slot, column] = max(0, warps[slot, column] - step) if matters else 0
    first = shape.warps * shape.per_warp
    for column in range(first, first + shape.queues * shape.most_servers):
        vec[column] = max(0, vec[column] - step)
    _sort(block, now)
    return step


@compiled
def _can_issue(block: Block, now: Now, slot: int, core: int) -> bool:
    if block.core[slot] != core:
        return False
    return bool(now.warps[slot, PHASE] == RUNNING and now.warps[slot, SINCE] == 0)


@compiled
def _successor(block: Block, now: Now, choice: int) -> tuple[int, int]:
    """Issues, on each sub-core with eligible warps, the warp that ``choice`` encodes.

    ``choice`` is read as digits, sub-core by sub-core, in the base of the number of its eligible
    warps. Returns the cycles to the next decision (-1: none), and the latest end of the
    issued instructions, -1 without such a choice.
    """
    shape = block.shape
    for core in range(shape.cores):
        now.issued[core] = -1
        count = 0
        for slot in range(shape.warps):
            if _can_issue(block, now, slot, core):
                count += 1
        if count == 0:
            continue
        index = choice % count
        choice //= count
        for slot in range(shape.warps):
            if _can_issue(block, now, slot, core):
                if index == 0:
                    now.issued[core] = slot
                    break
                index -= 1
    if choice > 0:
        return -1, -1
    end = 0
    for core in range(shape.cores):
        slot = now.issued[core]
        if slot >= 0:
            end = max(end, _issue(block, now, slot))
            now.issued[core] = now.order[slot]
    return _settle(block, now, 1), end


@compiled
def replay(block: Block, start: StateVector, choices: Integers, schedule: Integers) -> int:
    """Records the warps that the choices issue, later ones by choice 0; returns their count."""
    now = _begin(block, start)
    count = 0
    taken = 0
    step = _settle(block, now, 0)
    while step >= 0:
        step, _ = _successor(block, now, choices[taken] if taken < len(choices) else 0)
        taken += 1
        for warp in now.issued:
            if warp >= 0:
                schedule[count] = warp
                count += 1
    return count


@compiled
def _hash(vec: StateVector) -> int:
    value = 1469598103934665603
    for k in range(vec.shape[0]):
        value = (value ^ vec[k]) * 1099511628211
        value ^= value >> 29
    return value & 0x7FFFFFFFFFFFFFFF


@compiled
def _equal(own: StateVector, other: StateVector) -> bool:
    same = True
    for k in range(own.shape[0]):
        same = same and own[k] == other[k]
    return same


@compiled
def _rehash(vectors: NDArray[np.int32], states: int, slots: int) -> Integers:
    table = np.full(slots, -1, np.int64)
    for state in range(states):
        slot = _hash(vectors[state]) & (slots - 1)
        while table[slot] >= 0:
            slot = (slot + 1) & (slots - 1)
        table[slot] = state
    return table


@compiled
def search(
    block: Block, start: StateVector, instructions: int, most_states: int
) -> tuple[tuple[int, int, int, int, int], Integers, Integers]:
    """Explores all schedules from ``start``.

    Returns the fields of :class:`Found`, and for each state its latest predecessor and choice.
    """
    shape = block.shape
    capacity = 1024
    vectors = np.zeros((capacity, shape.width), np.int32)
    cycle = np.zeros(capacity, np.int64)
    before = np.full(capacity, -1, np.int64)
    choices = np.zeros(capacity, np.int64)
    following = np.full(capacity, -1, np.int64)  # another state with as many issues
    first = np.full(instructions + shape.cores + 1, -1, np.int64)
    table = np.full(4 * capacity, -1, np.int64)
    now = _begin(block, start)
    vec = now.vec
    cycles, last_state, last_choice, states = 0, -1, -1, 0
    if _settle(block, now, 0) < 0:
        return (COMPLETE, 0, 0, -1, -1), before[:0], choices[:0]
    _set(vectors[0], vec)
    cycle[0] = 0
    table[_hash(vec) & (table.shape[0] - 1)] = 0
    first[0] = 0
    states = 1
    for issued in range(instructions):
        state = first[issued]
        while state >= 0:
            choice = 0
            while True:
                _set(vec, vectors[state])
                step, end = _successor(block, now, choice)
                if end < 0:
                    break
                issues = 0
                for core in range(shape.cores):
                    issues += now.issued[core] >= 0
                if cycle[state] + end > cycles:
                    cycles = cycle[state] + end
                    last_state, last_choice = state, choice
                if step < 0:
                    if _some_wait(now):
                        outcome = DEADLOCK, cycles, states, state, choice
                        return outcome, before[:states], choices[:states]
                    choice += 1
                    continue
                slot = _hash(vec) & (table.shape[0] - 1)
                while table[slot] >= 0 and not _equal(vectors[table[slot]], vec):
                    slot = (slot + 1) & (table.shape[0] - 1)
                reached = table[slot]
                if reached < 0:
                    if states >= most_states:
                        outcome = OVER_CAP, cycles, states, state, choice
                        return outcome, before[:0], choices[:0]
                    if states == capacity:
                        capacity *= 2
                        vectors = _grown_rows(vectors, capacity)
                        cycle = _grown(cycle, capacity)
                        before = _grown(before, capacity)
                        choices = _grown(choices, capacity)
                        following = _grown(following, capacity)
                        table = _rehash(vectors, states, 4 * capacity)
                        slot = _hash(vec) & (table.shape[0] - 1)
                        while table[slot] >= 0:
                            slot = (slot + 1) & (table.shape[0] - 1)
                    reached = states
                    states += 1
                    table[slot] = reached
                    _set(vectors[reached], vec)
                    cycle[reached] = -1
                    following[reached] = first[issued + issues]
                    first[issued + issues] = reached
                if cycle[state] + step > cycle[reached]:
                    cycle[reached] = cycle[state] + step
                    before[reached] = state
                    choices[reached] = choice
                choice += 1
            state = following[state]
    outcome = COMPLETE, cycles, states, last_state, last_choice
    return outcome, before[:states], choices[:states]


@compiled
def _grown(array: Integers, capacity: int) -> Integers:
    larger = np.full(capacity, -1, np.int64)
    for k in range(len(array)):
        larger[k] = array[k]
    return larger


@compiled
def _grown_rows(vectors: NDArray[np.int32], capacity: int) -> NDArray[np.int32]:
    larger = np.zeros((capacity, vectors.shape[1]), np.int32)
    for k in range(len(vectors)):
        _set(larger[k], vectors[k])
    return larger


@compiled
def _some_wait(now: Now) -> bool:
    waiting = 0
    for slot in range(len(now.warps)):
        waiting += RUNNING < now.warps[slot, PHASE] < ENDED
    return waiting > 0


@dataclass(frozen=True, slots=True)
class WorstCase:
    """The longest work-conserving schedule of a block.

    ``states`` were explored. ``schedule`` lists the warps in issue order, within a cycle in the
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
    schedule = np.zeros(instructions, np.int64)
    count = replay(block, start, _choices_to(outcome, before, choices), schedule)
    return WorstCase(outcome.cycles, outcome.states, tuple(schedule[:count].tolist()))


def _length(body: tuple[Node, ...]) -> int:
    """Returns the number of instructions of a single path. Cost: linear in the tree."""
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


def _choices_to(end: Found, before: Integers, choices: Integers) -> Integers:
    """Returns the choices from the start to the transition that ends last."""
    reversed_path: list[int] = []
    state, choice = int(end.last_state), int(end.last_choice)
    while state >= 0:
        reversed_path.append(choice)
        state, choice = int(before[state]), int(choices[state])
    return np.array(reversed_path[::-1], np.int64)


def _prepare(
    workload: BlockWorkload, configuration: SmConfiguration, *, symmetry: bool
) -> tuple[Block, StateVector]:
    """Returns the block as arrays, and the state before the first issue."""
    image = build_image(_unrolled(workload), configuration)
    warps, cores = workload.warp_count, configuration.schedulers
    kinds = [0] * warps
    for number, warp_class in enumerate(workload.classes):
        for warp in warp_class.warps:
            kinds[warp] = number
    core = [warp % cores for warp in range(warps)]
    group = [kinds[w] * cores + core[w] if symmetry else w for w in range(warps)]
    per_warp = WARP_COLUMNS + image.register_count
    queues, most_servers = len(image.servers), int(image.servers.max())
    barriers = len(image.barrier_names)
    shape = Shape(
        warps=warps,
        cores=cores,
        per_warp=per_warp,
        registers=image.register_count,
        queues=queues,
        most_servers=most_servers,
        barriers=barriers,
        wide=bool(image.wide.any()),
        width=warps * per_warp + queues * most_servers + barriers,
    )
    block = Block(
        image.code,
        image.registers,
        *_liveness(image),
        np.array(core, np.int64),
        np.array(group, np.int64),
        image.queue_of,
        image.servers,
        image.wide,
        shape,
    )
    vec = np.zeros(shape.width, np.int32)
    table = vec[: warps * per_warp].reshape(warps, per_warp)
    table[:, ROW] = image.starts
    table[:, PHASE] = np.where(image.code[image.starts, KIND] == END, ENDED, RUNNING)
    return block, vec


def _unrolled(workload: BlockWorkload) -> BlockWorkload:
    """Returns the workload without loops. Raises PtxwcetError (PW547, PW548)."""
    classes = []
    for warp_class in workload.classes:
        body = tuple(unroll(warp_class.program.body))
        for node in body:
            require_simple(node)
        classes.append(replace(warp_class, program=WarpProgram(body)))
    return replace(workload, classes=tuple(classes))


def _liveness(image: Image) -> tuple[Integers, Integers]:
    """Returns the registers whose times still matter at each row; see :class:`Block`."""
    code, operands, registers = image.code, image.registers, image.register_count
    live = np.zeros((len(code), registers), np.int64)
    waited = np.zeros((len(code), registers), np.int64)
    after = np.zeros(registers, np.int64)  # matters before the row that follows
    for at in range(len(code) - 1, -1, -1):
        if code[at, KIND] == END:
            after = np.zeros(registers, np.int64)
            continue
        before = after.copy()
        if not code[at, CONDITIONAL]:
            before[operands[code[at, WRITES_BEGIN] : code[at, WRITES_END]]] = 0
        live[at] = before
        waited[at, operands[code[at, WAITS_BEGIN] : code[at, WAITS_END]]] = 1
        after = before | waited[at]
    return live, waited


def _too_many(reason: str) -> Diagnostic:
    return Diagnostic(
        "PW534",
        f"the exhaustive search is given up: {reason}",
        help="search a smaller block, or raise the cap",
    )
