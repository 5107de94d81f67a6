"""Implements the compiled machines' common parts: code rows, units, loops, barriers, jitter.

A block (:mod:`ptxwcet.simulator.stepping`), a grid (:mod:`ptxwcet.simulator.grid_stepping`) and the
exhaustive search (:mod:`ptxwcet.simulator.exhaustive`) execute rows of code on warps, whose state
is a row of columns each. The first columns of both are the same for all three.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ptxwcet.simulator.policies import drawn
from ptxwcet.support.jit import compiled, inlined

Integers: TypeAlias = NDArray[np.int64]
WarpTable: TypeAlias = NDArray[np.int64] | NDArray[np.int32]

# The kinds of rows, and the columns of a row (ptxwcet.simulator.image). A warp BEGINS an mbarrier,
# COUNTS there or POLLs it; JOIN is a product of its warpgroup.
INSTRUCTION, BARRIER, PARTIAL, ARRIVE, JOIN, BEGINS, COUNTS, POLL = range(8)
LOOP_BEGIN, LOOP_END, END = range(POLL + 1, POLL + 4)
(
    KIND,
    ARGUMENT,  # barrier, product of a warpgroup: its number; loop: nesting depth
    COUNT,  # loop: iterations; partial barrier: warps; mbarrier: arrivals; poll: the parity
    TARGET,  # loop end: first row of the body; poll: cycles until the answer
    UNIT,
    INITIATION,
    LATENCY,  # after the last server
    BUBBLE,
    CONDITIONAL,
    WAITS_BEGIN,  # operands
    WAITS_END,
    WRITES_BEGIN,
    WRITES_END,
    PATH_PARTS,  # parts of a cycle on the memory path
    MEMORY_PARTS,  # parts of a cycle in the memory
    OWES,  # pending bytes, less the bytes that it completes
    IS_COPY,  # 1: counts when it has ended, independent of its warp's other counts
    ROW_COLUMNS,
) = range(18)

# The columns of a warp.
(
    ROW,  # of the next instruction
    SINCE,  # the first cycle in which it could issue if the barrier that it waits at were open
    PHASE,  # RUNNING, ENDED, or between them: the barrier that it waits at
    LAST_END,  # end of its initiations and latencies so far
    WARP_COLUMNS,
) = range(5)
RUNNING, ENDED = -1, 1 << 20
NOBODY, NOT_ALL = -1, -2  # the results of a search for a barrier to open
NEVER = 1 << 62

# The further columns of a warp, of a block and of a grid.
(
    DONE,  # instructions issued so far
    UNDERWAY,  # issued, but not yet at their last server
    EARLIEST,  # of the next one, if it waits for one of them
    AFTER,  # the row of the barrier or product that it waits at
    RUN_COLUMNS,
) = range(WARP_COLUMNS, WARP_COLUMNS + 5)

# The columns of a barrier: a partial barrier uses only ARRIVED, an mbarrier the others.
ARRIVED, EXPECTED, OWED, PARITY, BARRIER_COLUMNS = range(5)

# The places after the units: on an SM the path, after all SMs the memory, on an SM the items that
# will count at mbarriers; the last place is for an item that is put into one of these.
(
    AT,  # the cycle in which it reaches the server, or counts; NEVER: not yet known
    OF_WARP,
    NUMBER,  # of the instruction in the warp's execution
    OF_ROW,
    ALONE,  # the cycle in which it ends without waiting
    LATENCY_LEFT,
    EVENT,  # for a block, the place that records its end, or -1
    OF_SM,
    OF_SLOT,  # its warp's, on the SM
    ITEM_COLUMNS,
) = range(10)
FIRST, COUNT_OF, FREE, FREE_PART, STAGE_COLUMNS = range(5)  # the first in its ring, how many
PART_BITS = 10  # a cycle has 1024 (ptxwcet.simulator.configuration.PARTS)


class RegisterColumns(NamedTuple):
    """The first columns, in a warp's row, of the data of its registers.

    ``ready``: the cycle in which each is; ``queued``: the time that its producer waited for its
    unit or server. With servers after the units: the number of producers without a known end
    (``open``), the number of the last unconditional producer (``since``), and of the producer that
    is ready last so far (``by``).
    """

    ready: int
    queued: int
    open: int
    since: int
    by: int


class Behind(NamedTuple):
    """The servers and items after the units: [place, column], and [place, rank, column].

    ``memory`` is the place of the memory, the number of SMs.
    """

    servers: Integers
    items: Integers
    memory: int


@inlined
def pass_loop(table: Integers, at: int, warps: Integers, warp: int, counters: int) -> int:
    """Takes a warp past the beginning or the end of a loop; returns the next row of the table.

    ``counters``: first column of the iterations left, by depth.
    """
    column = counters + table[at, ARGUMENT]
    if table[at, KIND] == LOOP_BEGIN:
        warps[warp, column] = table[at, COUNT]
        return at + 1
    warps[warp, column] -= 1
    return int(table[at, TARGET]) if warps[warp, column] > 0 else at + 1


@inlined
def dispatch(servers: WarpTable, first: int, count: int, cycle: int, initiation: int) -> int:
    """Occupies the first free server, of ``count`` from ``first`` on; returns the cycle."""
    best = first
    for server in range(first + 1, first + count):
        if servers[server] < servers[best]:
            best = server
    begin = max(cycle, int(servers[best]))
    servers[best] = begin + initiation
    return begin


@inlined
def awaited(
    code: Integers, operands: Integers, warps: WarpTable, warp: int, ready: int, earliest: int
) -> tuple[int, int]:
    """Returns when a warp is eligible, not before ``earliest``, and the register that decides it.

    ``ready``: first column of the cycles in which registers are ready. -1: it waits for none.
    """
    pc = warps[warp, ROW]
    last = -1
    for k in range(code[pc, WAITS_BEGIN], code[pc, WAITS_END]):
        register = operands[k]
        if warps[warp, ready + register] > earliest:
            earliest = warps[warp, ready + register]
            last = register
    return earliest, last


@inlined
def expected(
    code: Integers,
    operands: Integers,
    warps: Integers,
    warp: int,
    at: RegisterColumns,
    earliest: int,
    served: bool,
) -> tuple[int, int]:
    """Returns :func:`awaited`, or NEVER while it waits for an unknown end (``served``)."""
    pc = warps[warp, ROW]
    if served:
        for k in range(code[pc, WAITS_BEGIN], code[pc, WAITS_END]):
            if warps[warp, at.open + operands[k]] > 0:
                warps[warp, EARLIEST] = earliest
                return NEVER, -1
    return awaited(code, operands, warps, warp, at.ready, earliest)


@inlined
def write(
    code: Integers, operands: Integers, pc: int, warps: WarpTable, warp: int, ready: int, end: int
) -> None:
    """Sets the registers that a row writes ready at ``end``, or not before now if guarded."""
    for k in range(code[pc, WRITES_BEGIN], code[pc, WRITES_END]):
        column = ready + operands[k]
        if code[pc, CONDITIONAL] == 0 or end > warps[warp, column]:
            warps[warp, column] = end


@inlined
def met_by_all(
    warps: WarpTable, first: int, count: int, wide: Integers, opens: int, served: bool
) -> tuple[int, int]:
    """Returns the barrier at which all of ``count`` warps wait that have not ended, and its
    opening.

    ``opens`` is the first cycle that follows the last issue. NOBODY: all have ended; NOT_ALL: some
    run, or wait elsewhere, or some that have issued all have an unknown end (``served``).
    """
    barrier = NOBODY
    for warp in range(first, first + count):
        phase = warps[warp, PHASE]
        if phase == RUNNING:
            return NOT_ALL, opens
        if phase == ENDED:
            if served and warps[warp, UNDERWAY] > 0:
                return NOT_ALL, opens
            opens = max(opens, warps[warp, LAST_END])
        elif barrier == NOBODY:
            barrier = phase
        elif barrier != phase:
            return NOT_ALL, opens
    return NOT_ALL if barrier >= 0 and wide[barrier] == 0 else barrier, opens


@inlined
def arrive(arrivals: WarpTable, column: int, warps: int) -> bool:
    """Counts a warp that arrives at a partial barrier; returns whether it is the last one."""
    arrivals[column] += 1
    if arrivals[column] < warps:
        return False
    arrivals[column] = 0
    return True


@inlined
def times(
    code: Integers, pc: int, percent: int, seed: int, warp: int, number: int
) -> tuple[int, int]:
    """Returns initiation and latency of a row, for the instruction with this number of a warp, with
    jitter (policies.Jitter).
    """
    initiation, latency = code[pc, INITIATION], code[pc, LATENCY]
    if percent > 0:
        cut = min(initiation - 1, initiation * percent // 100)
        initiation -= drawn(seed, 2 * warp, number, cut + 1)
        latency -= drawn(seed, 2 * warp + 1, number, latency * percent // 100 + 1)
    return initiation, latency


@inlined
def first_eligible(upcoming: Integers) -> int:
    """Returns the first cycle in which a warp is eligible; NEVER if none will be."""
    earliest = NEVER
    for warp in range(len(upcoming)):
        if upcoming[warp] < earliest:
            earliest = upcoming[warp]
    return earliest


# --- after the units ------------------------------------------------------------------------------


@compiled
def join(server: Integers, ring: Integers, item: Integers) -> bool:
    """Puts an item in its place on the path to a server; returns False if the room is full.

    Items that arrive in the same cycle are ordered by warp and by the warp's program.
    """
    room = len(ring)
    if server[COUNT_OF] == room:
        return False
    place = (server[FIRST] + server[COUNT_OF]) % room
    for _ in range(server[COUNT_OF]):
        before = (place - 1) % room
        if (ring[before, AT], ring[before, OF_WARP], ring[before, NUMBER]) <= (
            item[AT],
            item[OF_WARP],
            item[NUMBER],
        ):
            break
        copy_item(ring[place], ring[before])
        place = before
    copy_item(ring[place], item)
    server[COUNT_OF] += 1
    return True


@compiled
def copy_item(place: Integers, item: Integers) -> None:
    """Writes an item to its place."""
    for column in range(ITEM_COLUMNS):
        place[column] = item[column]


@compiled
def occupy(server: Integers, at: int, parts: int) -> int:
    """Serves an item that arrives in cycle ``at``, after all earlier ones; returns its end."""
    if server[FREE] < at:
        server[FREE], server[FREE_PART] = at, 0
    total = server[FREE_PART] + parts
    server[FREE] += total >> PART_BITS
    server[FREE_PART] = total & ((1 << PART_BITS) - 1)
    return int(server[FREE] + (server[FREE_PART] > 0))


@compiled
def produce(
    code: Integers,
    operands: Integers,
    warps: Integers,
    warp: int,
    at: RegisterColumns,
    pc: int,
    number: int,
    end: int,
) -> None:
    """Books the registers that the row at ``pc`` writes; ``end`` is NEVER while unknown."""
    for k in range(code[pc, WRITES_BEGIN], code[pc, WRITES_END]):
        register = operands[k]
        if code[pc, CONDITIONAL] == 0:
            warps[warp, at.since + register] = number
            warps[warp, at.open + register] = 0
            warps[warp, at.ready + register] = 0
        if end < NEVER and end > warps[warp, at.ready + register]:
            warps[warp, at.by + register] = number
    if end == NEVER:
        for k in range(code[pc, WRITES_BEGIN], code[pc, WRITES_END]):
            warps[warp, at.open + operands[k]] += 1


@compiled
def leave(
    code: Integers, warps: Integers, behind: Behind, pc: int, freed: int, queued: int, latency: int
) -> bool:
    """Sends an instruction from its unit at ``freed`` to its servers, to count at its end, or both.

    Returns False if the room is full. The last place holds its warp. ``queued``: how long it waited
    for the unit.
    """
    item = behind.items[len(behind.items) - 1, 0]
    path, memory = code[pc, PATH_PARTS], code[pc, MEMORY_PARTS]
    item[NUMBER], item[OF_ROW], item[LATENCY_LEFT] = warps[item[OF_SLOT], DONE], pc, latency
    if code[pc, KIND] == COUNTS:
        place = behind.memory + 1 + item[OF_SM]
        rank = behind.servers[place, COUNT_OF]
        if rank == behind.items.shape[1]:
            return False
        item[AT] = NEVER if path + memory > 0 else freed + latency
        copy_item(behind.items[place, rank], item)
        behind.servers[place, COUNT_OF] += 1
    if path + memory == 0:
        return True
    warps[item[OF_SLOT], UNDERWAY] += 1
    rounded = (1 << PART_BITS) - 1
    served = (path >> PART_BITS) + ((memory + rounded) >> PART_BITS)
    item[AT], item[ALONE] = freed, freed - queued + served + latency
    stage = item[OF_SM] if path > 0 else behind.memory
    return join(behind.servers[stage], behind.items[stage], item)


@compiled
def serve(code: Integers, behind: Behind, cycle: int) -> int:
    """Moves the first item at a last server by ``cycle`` to the last place; returns its end.

    The end may be later than ``cycle``. NEVER: no item; -1: too little room. Items arrive
    after their issue, so that by then all earlier ones are known.
    """
    memory = behind.memory
    item = behind.items[len(behind.items) - 1, 0]
    for stage in range(memory + 1):
        if behind.servers[stage, COUNT_OF] == 0:
            continue
        server, ring = behind.servers[stage], behind.items[stage]
        part = MEMORY_PARTS if stage == memory else PATH_PARTS
        while server[COUNT_OF] > 0 and ring[server[FIRST], AT] <= cycle:
            copy_item(item, ring[server[FIRST]])
            server[FIRST] = (server[FIRST] + 1) % len(ring)
            server[COUNT_OF] -= 1
            done = occupy(server, cycle, code[item[OF_ROW], part])
            if stage == memory or code[item[OF_ROW], MEMORY_PARTS] == 0:
                return int(done + item[LATENCY_LEFT])
            item[AT] = done
            if not join(behind.servers[memory], behind.items[memory], item):
                return -1
    return NEVER


@compiled
def conclude(
    code: Integers,
    operands: Integers,
    warps: Integers,
    at: RegisterColumns,
    behind: Behind,
    end: int,
) -> None:
    """Completes the instruction in the last place: its end is known, its last server was free."""
    item = behind.items[len(behind.items) - 1, 0]
    warp, number, pc = item[OF_SLOT], item[NUMBER], item[OF_ROW]
    warps[warp, LAST_END] = max(warps[warp, LAST_END], end)
    warps[warp, UNDERWAY] -= 1
    for k in range(code[pc, WRITES_BEGIN], code[pc, WRITES_END]):
        register = operands[k]
        if number < warps[warp, at.since + register]:
            continue  # another instruction writes it by now
        warps[warp, at.open + register] -= 1
        ready = warps[warp, at.ready + register]
        if end > ready or (end == ready and number < warps[warp, at.by + register]):
            warps[warp, at.ready + register] = end
            warps[warp, at.queued + register] = end - item[ALONE]
            warps[warp, at.by + register] = number
    if code[pc, KIND] == COUNTS:
        place = behind.memory + 1 + item[OF_SM]
        for rank in range(behind.servers[place, COUNT_OF]):
            other = behind.items[place, rank]
            if other[OF_WARP] == item[OF_WARP] and other[NUMBER] == number:
                other[AT] = end


@compiled
def next_arrival(behind: Behind, cycle: int) -> int:
    """Returns the next cycle with a known event after the units."""
    earliest = NEVER
    for stage in range(behind.memory + 1):
        if behind.servers[stage, COUNT_OF] > 0:
            earliest = min(earliest, behind.items[stage, behind.servers[stage, FIRST], AT])
    for stage in range(behind.memory + 1, len(behind.servers)):
        for rank in range(behind.servers[stage, COUNT_OF]):
            if behind.items[stage, rank, AT] > cycle:
                earliest = min(earliest, behind.items[stage, rank, AT])
    return earliest


# --- mbarriers ------------------------------------------------------------------------------------


@compiled
def next_count(code: Integers, behind: Behind, sm: int, cycle: int) -> bool:
    """Takes the first item that counts by ``cycle`` to the last place; returns False if none.

    The counts of a warp at one mbarrier are in its order, except for copies.
    """
    place = behind.memory + 1 + sm
    held, count = behind.items[place], behind.servers[place, COUNT_OF]
    for rank in range(count):
        if held[rank, AT] > cycle or _follows_another(code, held, rank):
            continue
        copy_item(behind.items[len(behind.items) - 1, 0], held[rank])
        for following in range(rank + 1, count):
            copy_item(held[following - 1], held[following])
        behind.servers[place, COUNT_OF] -= 1
        return True
    return False


@compiled
def _follows_another(code: Integers, held: Integers, rank: int) -> bool:
    item = held[rank]
    if code[item[OF_ROW], IS_COPY] != 0:
        return False
    for before in range(rank):
        other = held[before]
        is_alike = code[other[OF_ROW], ARGUMENT] == code[item[OF_ROW], ARGUMENT]
        if is_alike and other[OF_WARP] == item[OF_WARP] and code[other[OF_ROW], IS_COPY] == 0:
            return True
    return False


@compiled
def come(code: Integers, pc: int, barriers: Integers, first: int) -> tuple[bool, bool]:
    """Issues the row at ``pc``; returns whether the warp waits after it, and whether that opens a
    partial barrier. ``first``: the column of the first barrier's counts.
    """
    kind, column = code[pc, KIND], first + code[pc, ARGUMENT] * BARRIER_COLUMNS
    if kind == POLL:
        return bool(barriers[column + PARITY] == code[pc, COUNT]), False
    if kind == BEGINS:
        barriers[column + EXPECTED] = code[pc, COUNT]
        barriers[column + ARRIVED] = barriers[column + OWED] = barriers[column + PARITY] = 0
    opens = kind in (PARTIAL, ARRIVE) and arrive(barriers, column, code[pc, COUNT])
    return kind in (BARRIER, PARTIAL, JOIN), opens


@compiled
def tally(barriers: Integers, first: int, row: Integers) -> bool:
    """Counts a row at its mbarrier; returns whether that ends a phase.

    A phase is complete when all expected arrivals have happened and no bytes are pending.
    """
    column = first + row[ARGUMENT] * BARRIER_COLUMNS
    barriers[column + ARRIVED] += row[COUNT]
    barriers[column + OWED] += row[OWES]
    if barriers[column + ARRIVED] != barriers[column + EXPECTED] or barriers[column + OWED] != 0:
        return False
    barriers[column + ARRIVED] = 0
    barriers[column + PARITY] = 1 - barriers[column + PARITY]
    return True
