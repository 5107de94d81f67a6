"""The compiled exhaustive search: all work-conserving schedules of a small block.

A state is a vector of integers relative to the cycle of the next decision, times in the past are 0:
for each warp its next row of code, the cycles until that is eligible, its phase, the cycles until
it ends (if others may wait for that), and those until each register is ready that it still waits
for; then those until each server is free, and the arrivals at partial barriers. What can still
happen depends on nothing else, so only the latest cycle in which a state is reached matters: states
are met in the order of the instructions issued so far, and each is expanded once, with its latest
cycle. Warps with the same program on the same sub-core are interchangeable: their parts of
the vector are sorted.

All compiled code is in this module, so that its cache is renewed as a whole.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ptxwcet.support.jit import compiled

Integers: TypeAlias = NDArray[np.int64]
StateVector: TypeAlias = NDArray[np.int32]

# Kinds and columns of a row of code; registers follow by range.
INSTRUCTION, BARRIER, PARTIAL, ARRIVE, END = range(5)
(
    KIND,
    UNIT,
    INITIATION,
    LATENCY,
    BUBBLE,
    CONDITIONAL,
    WAITS_BEGIN,
    WAITS_END,
    WRITES_BEGIN,
    WRITES_END,
    NUMBER,  # of the barrier
    COUNT,  # warps of a partial barrier
) = range(12)
COLUMNS = 12

RUNNING, WAITING, ENDED = range(3)
POSITION, NEXT, PHASE, LAST, FIXED = range(5)
COMPLETE, DEADLOCK, OVER_CAP = range(3)
NEVER = 1 << 30


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
    shape: Shape


class Shape(NamedTuple):
    """Sizes of a state vector."""

    warps: int
    cores: int
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


@compiled
def _eligible_after(block: Block, vec: StateVector, base: int, earliest: int) -> int:
    """When the next instruction of the warp at ``base`` is eligible, not before ``earliest``."""
    position = vec[base + POSITION]
    for k in range(block.code[position, WAITS_BEGIN], block.code[position, WAITS_END]):
        earliest = max(earliest, vec[base + FIXED + block.operands[k]])
    return earliest


@compiled
def _open(block: Block, vec: StateVector, barrier: int, cycle: int) -> None:
    per_warp = FIXED + block.shape.registers
    for slot in range(block.shape.warps):
        base = slot * per_warp
        if vec[base + PHASE] != WAITING:
            continue
        if block.code[vec[base + POSITION] - 1, NUMBER] != barrier:
            continue
        if block.code[vec[base + POSITION], KIND] == END:
            vec[base + PHASE] = ENDED
            continue
        vec[base + PHASE] = RUNNING
        vec[base + NEXT] = _eligible_after(block, vec, base, max(cycle, vec[base + NEXT]))


@compiled
def _open_for_all(block: Block, vec: StateVector) -> None:
    """Opens a block-wide barrier at which all warps wait that have not ended."""
    per_warp = FIXED + block.shape.registers
    barrier = -1
    cycle = 1
    for slot in range(block.shape.warps):
        base = slot * per_warp
        if vec[base + PHASE] == RUNNING:
            return
        if vec[base + PHASE] == ENDED:
            cycle = max(cycle, vec[base + LAST])
            continue
        at = vec[base + POSITION] - 1
        if block.code[at, KIND] != BARRIER:
            return
        if barrier >= 0 and barrier != block.code[at, NUMBER]:
            return
        barrier = block.code[at, NUMBER]
    if barrier >= 0:
        _open(block, vec, barrier, cycle)


@compiled
def _issue(block: Block, vec: StateVector, slot: int) -> int:
    """Issues the next instruction of a warp in cycle 0 of the state; returns when it ends."""
    shape = block.shape
    per_warp = FIXED + shape.registers
    base = slot * per_warp
    at = vec[base + POSITION]
    code = block.code
    first = shape.warps * per_warp
    queue = block.queue_of[block.core[slot], code[at, UNIT]]
    server = first + queue * shape.most_servers
    for candidate in range(server + 1, server + block.servers[queue]):
        if vec[candidate] < vec[server]:
            server = candidate
    freed = vec[server] + code[at, INITIATION]
    vec[server] = freed
    end = freed + code[at, LATENCY]
    vec[base + LAST] = max(vec[base + LAST], end)
    for k in range(code[at, WRITES_BEGIN], code[at, WRITES_END]):
        register = base + FIXED + block.operands[k]
        vec[register] = max(end, vec[register]) if code[at, CONDITIONAL] else end
    vec[base + POSITION] = at + 1
    earliest = 1 + code[at, BUBBLE]
    kind = code[at, KIND]
    if kind in (BARRIER, PARTIAL):
        vec[base + PHASE] = WAITING
        vec[base + NEXT] = earliest
    elif code[at + 1, KIND] == END:
        vec[base + PHASE] = ENDED
        vec[base + NEXT] = 0
    else:
        vec[base + NEXT] = _eligible_after(block, vec, base, earliest)
    if kind in (PARTIAL, ARRIVE):
        arrivals = shape.width - shape.barriers + code[at, NUMBER]
        vec[arrivals] += 1
        if vec[arrivals] == code[at, COUNT]:
            vec[arrivals] = 0
            _open(block, vec, code[at, NUMBER], 1)
    if kind != INSTRUCTION or vec[base + PHASE] == ENDED:
        _open_for_all(block, vec)
    return int(end)


@compiled
def _less(vec: StateVector, one: int, other: int, count: int) -> bool:
    for k in range(count):
        if vec[one + k] != vec[other + k]:
            return bool(vec[one + k] < vec[other + k])
    return False


@compiled
def _sort(block: Block, vec: StateVector, order: Integers) -> None:
    """Brings interchangeable warps and servers into order; ``order`` follows the warps."""
    shape = block.shape
    per_warp = FIXED + shape.registers
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
def settle(block: Block, vec: StateVector, order: Integers, least: int) -> int:
    """Moves to the next decision, ``least`` cycles away at least, in canonical form.

    Returns the cycles until then; -1 if no warp will issue again.
    """
    shape = block.shape
    per_warp = FIXED + shape.registers
    step = NEVER
    for slot in range(shape.warps):
        base = slot * per_warp
        if vec[base + PHASE] == RUNNING:
            step = min(step, vec[base + NEXT])
    if step == NEVER:
        return -1
    step = max(step, least)
    for slot in range(shape.warps):
        base = slot * per_warp
        position = vec[base + POSITION]
        vec[base + NEXT] = max(0, vec[base + NEXT] - step)
        if shape.wide:
            vec[base + LAST] = max(0, vec[base + LAST] - step)
        else:
            vec[base + LAST] = 0
        for register in range(shape.registers):
            column = base + FIXED + register
            matters = block.live[position, register] != 0
            if vec[base + PHASE] == WAITING:
                matters = matters or block.awaited[position, register] != 0
            vec[column] = max(0, vec[column] - step) if matters else 0
    first = shape.warps * per_warp
    for column in range(first, first + shape.queues * shape.most_servers):
        vec[column] = max(0, vec[column] - step)
    _sort(block, vec, order)
    return step


@compiled
def successor(block: Block, vec: StateVector, choice: int, order: Integers, ends: Integers) -> int:
    """Issues, on each sub-core with eligible warps, the one that ``choice`` encodes.

    ``choice`` is read as digits, sub-core by sub-core, in the base of the number of its eligible
    warps. Changes ``vec`` and ``order``; ``ends[0]`` becomes the latest end of what is issued,
    ``ends[1]`` is positive if there is no such choice; from ``ends[2]`` on come the warps issued by
    each sub-core (-1: none). Returns the cycles to the next decision, -1 if there is none.
    """
    shape = block.shape
    per_warp = FIXED + shape.registers
    for core in range(shape.cores):
        ends[2 + core] = -1
        count = 0
        for slot in range(shape.warps):
            base = slot * per_warp
            if block.core[slot] == core and vec[base + PHASE] == RUNNING and vec[base + NEXT] == 0:
                count += 1
        if count == 0:
            continue
        index = choice % count
        choice //= count
        for slot in range(shape.warps):
            base = slot * per_warp
            if block.core[slot] == core and vec[base + PHASE] == RUNNING and vec[base + NEXT] == 0:
                if index == 0:
                    ends[2 + core] = slot
                    break
                index -= 1
    ends[0] = 0
    ends[1] = choice
    if choice > 0:
        return -1
    for core in range(shape.cores):
        slot = ends[2 + core]
        if slot >= 0:
            ends[0] = max(ends[0], _issue(block, vec, slot))
            ends[2 + core] = order[slot]
    return settle(block, vec, order, 1)


@compiled
def _hash(vec: StateVector) -> int:
    value = 1469598103934665603
    for k in range(vec.shape[0]):
        value = (value ^ vec[k]) * 1099511628211
        value ^= value >> 29
    return value & 0x7FFFFFFFFFFFFFFF


@compiled
def _equal(one: StateVector, other: StateVector) -> bool:
    same = True
    for k in range(one.shape[0]):
        same = same and one[k] == other[k]
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
) -> tuple[Found, Integers, Integers]:
    """Explores all schedules from ``start``.

    Returns what was found, and for each state the state and the choice that reach it last.
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
    vec = np.zeros(shape.width, np.int32)
    order = np.arange(shape.warps)
    ends = np.zeros(2 + shape.cores, np.int64)
    vec[:] = start
    cycles, last_state, last_choice, states = 0, -1, -1, 0
    if settle(block, vec, order, 0) < 0:
        return Found(COMPLETE, 0, 0, -1, -1), before[:0], choices[:0]
    vectors[0] = vec
    cycle[0] = 0
    table[_hash(vec) & (table.shape[0] - 1)] = 0
    first[0] = 0
    states = 1
    for issued in range(instructions):
        state = first[issued]
        while state >= 0:
            choice = 0
            while True:
                vec[:] = vectors[state]
                step = successor(block, vec, choice, order, ends)
                if ends[1] > 0:
                    break
                now = 0
                for core in range(shape.cores):
                    now += ends[2 + core] >= 0
                if cycle[state] + ends[0] > cycles:
                    cycles = cycle[state] + ends[0]
                    last_state, last_choice = state, choice
                if step < 0:
                    if _some_wait(block, vec):
                        outcome = Found(DEADLOCK, cycles, states, state, choice)
                        return outcome, before[:states], choices[:states]
                    choice += 1
                    continue
                slot = _hash(vec) & (table.shape[0] - 1)
                while table[slot] >= 0 and not _equal(vectors[table[slot]], vec):
                    slot = (slot + 1) & (table.shape[0] - 1)
                reached = table[slot]
                if reached < 0:
                    if states >= most_states:
                        outcome = Found(OVER_CAP, cycles, states, state, choice)
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
                    vectors[reached] = vec
                    cycle[reached] = -1
                    following[reached] = first[issued + now]
                    first[issued + now] = reached
                if cycle[state] + step > cycle[reached]:
                    cycle[reached] = cycle[state] + step
                    before[reached] = state
                    choices[reached] = choice
                choice += 1
            state = following[state]
    outcome = Found(COMPLETE, cycles, states, last_state, last_choice)
    return outcome, before[:states], choices[:states]


@compiled
def _grown(array: Integers, capacity: int) -> Integers:
    larger = np.full(capacity, -1, np.int64)
    larger[: array.shape[0]] = array
    return larger


@compiled
def _grown_rows(vectors: NDArray[np.int32], capacity: int) -> NDArray[np.int32]:
    larger = np.zeros((capacity, vectors.shape[1]), np.int32)
    larger[: vectors.shape[0]] = vectors
    return larger


@compiled
def _some_wait(block: Block, vec: StateVector) -> bool:
    for slot in range(block.shape.warps):
        if vec[slot * (FIXED + block.shape.registers) + PHASE] == WAITING:
            return True
    return False
