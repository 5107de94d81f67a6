"""What the machines have in common, compiled: rows of code, units, loops, barriers, jitter.

A block (:mod:`ptxwcet.simulator.stepping`), a grid (:mod:`ptxwcet.simulator.grid_stepping`) and the
exhaustive search (:mod:`ptxwcet.simulator.exhaustive_core`) execute rows of code on warps, whose
state is a row of columns each. The first columns of both are the same for all three.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ptxwcet.simulator.policies import drawn
from ptxwcet.support.jit import compiled, inlined

Integers: TypeAlias = NDArray[np.int64]
WarpTable: TypeAlias = NDArray[np.int64] | NDArray[np.int32]

# Kinds of rows, and columns of a row (ptxwcet.simulator.image).
INSTRUCTION, BARRIER, PARTIAL, ARRIVE, JOIN, LOOP_BEGIN, LOOP_END, END = range(8)
(
    KIND,
    ARGUMENT,  # barrier, product of a warpgroup: its number; loop: nesting depth
    COUNT,  # loop: iterations; partial barrier: warps
    TARGET,  # loop end: first row of the body
    UNIT,
    INITIATION,
    LATENCY,  # behind the last server
    BUBBLE,
    CONDITIONAL,
    WAITS_BEGIN,  # operands
    WAITS_END,
    WRITES_BEGIN,
    WRITES_END,
    PATH_PARTS,  # parts of a cycle at the memory path
    MEMORY_PARTS,  # and of the memory
    ROW_COLUMNS,
) = range(16)

# Columns of a warp.
(
    ROW,  # of the next instruction
    SINCE,  # the first cycle in which it could issue if the barrier that it waits at were open
    PHASE,  # RUNNING, ENDED, or between them: the barrier that it waits at
    LAST_END,  # end of its initiations and latencies so far
    WARP_COLUMNS,
) = range(5)
RUNNING, ENDED = -1, 1 << 20
NOBODY, NOT_ALL = -1, -2  # who is met at a barrier, if none is to be opened
NEVER = 1 << 62


# Servers behind the units. What is on its way to one, and what each is doing.
ITEM_COLUMNS = 7
(
    AT,  # the cycle in which it gets there
    OF_WARP,
    NUMBER,  # of the instruction in the warp's execution
    OF_ROW,
    ALONE,  # of a block: the cycle in which it ends if it waits nowhere; of a grid: its SM
    LATENCY_LEFT,
    EVENT,  # of a block: -1, not recorded; of a grid: its warp slot
) = range(ITEM_COLUMNS)
FIRST, COUNT_OF, FREE, FREE_PART, STAGE_COLUMNS = range(5)  # the first in its ring, how many
PART_BITS = 10  # of a cycle there are 1024 (ptxwcet.simulator.configuration.PARTS)


@inlined
def pass_loop(table: Integers, at: int, warps: Integers, warp: int, counters: int) -> int:
    """Takes a warp past the beginning or the end of a loop; the row of the table that follows.

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
    """Occupies the server, of ``count`` from ``first`` on, that is free first; from which cycle."""
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
    """When a warp's next instruction is eligible, not before ``earliest``, and for which register.

    ``ready``: first column of the cycles in which registers are ready. -1: it waits for none.
    """
    row = warps[warp, ROW]
    last = -1
    for k in range(code[row, WAITS_BEGIN], code[row, WAITS_END]):
        register = operands[k]
        if warps[warp, ready + register] > earliest:
            earliest = warps[warp, ready + register]
            last = register
    return earliest, last


@inlined
def write(
    code: Integers, operands: Integers, row: int, warps: WarpTable, warp: int, ready: int, end: int
) -> None:
    """Makes ready at ``end`` what a row writes; what a guard may forbid, not earlier than now."""
    for k in range(code[row, WRITES_BEGIN], code[row, WRITES_END]):
        column = ready + operands[k]
        if code[row, CONDITIONAL] == 0 or end > warps[warp, column]:
            warps[warp, column] = end


@inlined
def met_by_all(warps: WarpTable, first: int, count: int, opens: int) -> tuple[int, int]:
    """The barrier at which all of ``count`` warps wait that have not ended, and when it opens.

    ``opens`` is the first cycle that follows the last issue. NOBODY: all have ended; NOT_ALL: some
    run, or wait elsewhere.
    """
    barrier = NOBODY
    for warp in range(first, first + count):
        phase = warps[warp, PHASE]
        if phase == RUNNING:
            return NOT_ALL, opens
        if phase == ENDED:
            opens = max(opens, warps[warp, LAST_END])
        elif barrier == NOBODY:
            barrier = phase
        elif barrier != phase:
            return NOT_ALL, opens
    return barrier, opens


@inlined
def arrive(arrivals: WarpTable, column: int, warps: int) -> bool:
    """Counts a warp that arrives at a barrier of some warps; whether it is the last one."""
    arrivals[column] += 1
    if arrivals[column] < warps:
        return False
    arrivals[column] = 0
    return True


@inlined
def shortened(
    percent: int, seed: int, warp: int, n: int, initiation: int, latency: int
) -> tuple[int, int]:
    """Initiation and latency of instruction ``n`` of a warp with jitter (policies.Jitter)."""
    cut = min(initiation - 1, initiation * percent // 100)
    initiation -= drawn(seed, 2 * warp, n, cut + 1)
    latency -= drawn(seed, 2 * warp + 1, n, latency * percent // 100 + 1)
    return initiation, latency


@inlined
def first_eligible(upcoming: Integers) -> int:
    """The first cycle in which a warp is eligible; NEVER if none will be."""
    earliest = NEVER
    for warp in range(len(upcoming)):
        if upcoming[warp] < earliest:
            earliest = upcoming[warp]
    return earliest


# --- servers behind the units ---------------------------------------------------------------------


@compiled
def join(server: Integers, ring: Integers, item: Integers) -> bool:
    """Puts an item in its place on the way to a server; False if there is no room.

    What arrives in the same cycle is ordered by warp and by the warp's program.
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
    """A server serves what arrives in cycle ``at``, after all that came before; when it is done."""
    if server[FREE] < at:
        server[FREE], server[FREE_PART] = at, 0
    total = server[FREE_PART] + parts
    server[FREE] += total >> PART_BITS
    server[FREE_PART] = total & ((1 << PART_BITS) - 1)
    return int(server[FREE] + (server[FREE_PART] > 0))


@compiled
def awaits_server(
    code: Integers, operands: Integers, warps: Integers, warp: int, pc: int, opened: int
) -> bool:
    """Whether the instruction at ``pc`` waits for a register whose ready cycle is not known yet.

    ``opened``: first column of how many writers of each register have no known end.
    """
    for k in range(code[pc, WAITS_BEGIN], code[pc, WAITS_END]):
        if warps[warp, opened + operands[k]] > 0:
            return True
    return False
