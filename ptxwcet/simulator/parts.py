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
from ptxwcet.support.jit import inlined

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
    ROW_COLUMNS,
) = range(14)

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
