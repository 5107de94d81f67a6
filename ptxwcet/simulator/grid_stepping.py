"""The inner loop of grid simulation, compiled: blocks dispatched to SMs, warps stepped by cycle.

The machine is that of :mod:`ptxwcet.simulator.grid`; a warp is advanced as in
:mod:`ptxwcet.simulator.stepping` (the cycle in which its next instruction is eligible is known when
the previous one has been issued). SMs meet only where blocks are dispatched: an SM without a free
slot is run alone until one of its blocks ends; the earliest free slot of all takes the next block;
only then anybody's future can change.

All compiled code is in this module, so that its cache is renewed as a whole.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ptxwcet.support.jit import compiled

Integers: TypeAlias = NDArray[np.int64]
Shorts: TypeAlias = NDArray[np.int32]

# Columns of a row of code: one instruction of one kind of visit.
ROW_COLUMNS = 12
(
    UNIT,
    INITIATION,
    LATENCY,
    BUBBLE,
    CONDITIONAL,
    WAITS_BEGIN,
    WAITS_END,
    WRITES_BEGIN,
    WRITES_END,
    BARRIER,  # its number, -1: none
    POINT,  # passed when it is issued, -1: none
    LAST,  # 1: the visit ends with it
) = range(ROW_COLUMNS)

# Columns and kinds of a program's entries. A visit has its first row (-1: it issues nothing) and
# its point, a loop its depth and either its count or, at its end, the first entry of its body.
ENTRY_COLUMNS = 3
ENTRY, FIRST, SECOND = range(ENTRY_COLUMNS)
VISIT, LOOP_BEGIN, LOOP_END, PROGRAM_END = range(4)

# Columns of a warp slot. Loop counters follow, then the ready cycle of each register.
(
    ROW,  # of the next instruction, OVER: there is none
    AT,  # entry of the program
    LAST_END,  # end of its initiations and latencies so far
    PHASE,  # RUNNING, WAITING or ENDED
    WAITS_AT,  # barrier
    SINCE,  # first cycle in which it could issue if the barrier were open
    DONE,  # instructions issued so far
    IDENTITY,  # the warp's number in the grid
    FIXED,
) = range(9)
RUNNING, WAITING, ENDED = range(3)
OVER = -1

# Columns of a block slot.
(
    BLOCK,  # index of the block, EMPTY: none
    END,  # cycle in which its last warp has ended; NEVER while that is not known
    SLOT_COLUMNS,
) = range(3)
EMPTY = -1

# Columns of an SM. Warps issued last by each sub-core follow (-1: none), then the end of the last
# initiation on each server of each queue.
(
    CLOCK,  # everything before this cycle has happened
    FREE,  # slots
    SM_FIXED,
) = range(3)

# Cells of the run.
(
    NEXT_BLOCK,  # the next one to start
    GATE,  # first cycle in which it may
    TURN,  # SM that is asked first
    WRITTEN,  # events
    ISSUED,  # instructions
    RUN_CELLS,
) = range(6)

# Columns of a block's record.
ON_SM, IN_SLOT, STARTED, FINISHED = range(4)
RECORD_COLUMNS = 4

LRR, GTO, GTY, OLDEST, YOUNGEST, RANDOM = range(6)
COMPLETE, DEADLOCK, PAUSED = range(3)
NEVER = 1 << 62


class GridProgram(NamedTuple):
    """What is executed, and on which units."""

    code: Integers
    registers: Integers
    entries: Integers
    starts: Integers  # [program] its first entry
    chosen: Integers  # [block, warp] program
    queue_of: Integers  # [sub-core, unit]
    servers: Integers  # [queue]


class GridState(NamedTuple):
    """Everything that changes, SM by SM. ``ages``: occupied slots, the oldest block first."""

    next_cycle: Integers  # [sm, warp slot]
    warps: Integers  # [sm, warp slot, column]
    slots: Integers  # [sm, slot, column]
    ages: Integers  # [sm, rank]
    sms: Integers  # [sm, column]
    run: Integers  # [cell]
    records: Integers  # [block, column]


class Columns(NamedTuple):
    """The events, in the order in which they are written."""

    point: Shorts
    sm: Shorts
    warp: Integers
    cycle: Integers


class GridLayout(NamedTuple):
    """Numbers that the compiled code needs and that stay as they are during a run."""

    warps: int  # of a block
    cores: int
    depths: int
    most_servers: int
    end_point: int
    gap: int
    policy: int
    seed: int
    jitter_percent: int
    jitter_seed: int


@compiled
def _mix(seed: int, a: int, b: int) -> np.uint64:
    """See :func:`ptxwcet.simulator.policies.mix`."""
    x = (
        np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15)
        + np.uint64(a) * np.uint64(0xBF58476D1CE4E5B9)
        + np.uint64(b) * np.uint64(0x94D049BB133111EB)
    )
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@compiled
def _shortened(layout: GridLayout, warp: int, n: int, initiation: int, latency: int) -> int:
    """Initiation and latency of instruction ``n`` of a warp with jitter, packed into one number."""
    percent = layout.jitter_percent
    cut = min(initiation - 1, initiation * percent // 100)
    draw = _mix(layout.jitter_seed, 2 * warp, n)
    initiation -= int(draw % np.uint64(cut + 1))
    draw = _mix(layout.jitter_seed, 2 * warp + 1, n)
    latency -= int(draw % np.uint64(latency * percent // 100 + 1))
    return initiation << 32 | latency


# --- policies: the warp slot that a sub-core issues from, -1: no warp is eligible -----------------


@compiled
def _loose_round_robin(upcoming: Integers, cycle: int, core: int, cores: int, last: int) -> int:
    count = upcoming.shape[0]
    begin = core if last < 0 else last + cores
    for warp in range(begin, count, cores):
        if upcoming[warp] <= cycle:
            return warp
    for warp in range(core, min(begin, count), cores):
        if upcoming[warp] <= cycle:
            return warp
    return -1


@compiled
def _oldest(
    upcoming: Integers, ages: Integers, resident: int, warps: int, cycle: int, core: int, cores: int
) -> int:
    for rank in range(resident):
        first = ages[rank] * warps
        begin = first + (core - first) % cores
        for warp in range(begin, first + warps, cores):
            if upcoming[warp] <= cycle:
                return warp
    return -1


@compiled
def _youngest(
    upcoming: Integers, ages: Integers, resident: int, warps: int, cycle: int, core: int, cores: int
) -> int:
    for rank in range(resident - 1, -1, -1):
        first = ages[rank] * warps
        last = first + warps - 1
        for warp in range(last - (last - core) % cores, first - 1, -cores):
            if upcoming[warp] <= cycle:
                return warp
    return -1


@compiled
def _random(upcoming: Integers, cycle: int, core: int, cores: int, draw: np.uint64) -> int:
    count = 0
    for warp in range(core, upcoming.shape[0], cores):
        if upcoming[warp] <= cycle:
            count += 1
    if count == 0:
        return -1
    index = int(draw % np.uint64(count))
    for warp in range(core, upcoming.shape[0], cores):
        if upcoming[warp] <= cycle:
            if index == 0:
                return warp
            index -= 1
    return -1


@compiled
def _first_eligible(upcoming: Integers) -> int:
    earliest = NEVER
    for warp in range(upcoming.shape[0]):
        if upcoming[warp] < earliest:
            earliest = upcoming[warp]
    return earliest


# --- warps and blocks -----------------------------------------------------------------------------


@compiled
def _write(columns: Columns, written: int, point: int, sm: int, warp: int, cycle: int) -> int:
    columns.point[written] = point
    columns.sm[written] = sm
    columns.warp[written] = warp
    columns.cycle[written] = cycle
    return written + 1


@compiled
def _go_on(
    entries: Integers, columns: Columns, warp: Integers, sm: int, cycle: int, written: int
) -> int:
    """Moves a warp past the entry it is at, to the next one that issues something or to its end.

    What it passes on the way without issuing is written with ``cycle``. Returns the events so far.
    """
    at = warp[AT]
    while True:
        at += 1
        kind = entries[at, ENTRY]
        if kind == VISIT:
            if entries[at, FIRST] >= 0:
                warp[ROW] = entries[at, FIRST]
                break
            written = _write(columns, written, entries[at, SECOND], sm, warp[IDENTITY], cycle)
        elif kind == LOOP_BEGIN:
            warp[FIXED + entries[at, FIRST]] = entries[at, SECOND]
        elif kind == LOOP_END:
            warp[FIXED + entries[at, FIRST]] -= 1
            if warp[FIXED + entries[at, FIRST]] > 0:
                at = entries[at, SECOND] - 1
        else:
            warp[ROW] = OVER
            break
    warp[AT] = at
    return written


@compiled
def _expect(code: Integers, registers: Integers, ready: int, warp: Integers, earliest: int) -> int:
    """The cycle in which a warp's next instruction is eligible."""
    pc = warp[ROW]
    for k in range(code[pc, WAITS_BEGIN], code[pc, WAITS_END]):
        earliest = max(earliest, warp[ready + registers[k]])
    return earliest


@compiled
def _finish(layout: GridLayout, columns: Columns, warp: Integers, sm: int, written: int) -> int:
    """A warp has issued its last instruction, and waits for no barrier."""
    warp[PHASE] = ENDED
    return _write(columns, written, layout.end_point, sm, warp[IDENTITY], warp[LAST_END])


@compiled
def _settle(
    program: GridProgram,
    state: GridState,
    layout: GridLayout,
    columns: Columns,
    sm: int,
    slot: int,
    cycle: int,
    written: int,
) -> int:
    """After a warp of a block has come to a barrier or to its end in ``cycle``: opens the barrier
    that all others wait at, and notes the end of the block.
    """
    first = slot * layout.warps
    warps = state.warps[sm]
    barrier = -1
    opens = cycle + 1
    end = 0
    for w in range(first, first + layout.warps):
        end = max(end, warps[w, LAST_END])
        if warps[w, PHASE] == RUNNING:
            return written
        if warps[w, PHASE] == ENDED:
            opens = max(opens, warps[w, LAST_END])
        elif barrier < 0:
            barrier = warps[w, WAITS_AT]
        elif barrier != warps[w, WAITS_AT]:
            return written
    left = 0
    for w in range(first, first + layout.warps):
        if warps[w, PHASE] != WAITING:
            continue
        if warps[w, ROW] == OVER:
            written = _finish(layout, columns, warps[w], sm, written)
            continue
        left += 1
        warps[w, PHASE] = RUNNING
        earliest = max(opens, warps[w, SINCE])
        ready = FIXED + layout.depths
        state.next_cycle[sm, w] = _expect(
            program.code, program.registers, ready, warps[w], earliest
        )
    if left == 0:
        state.slots[sm, slot, END] = end
    return written


@compiled
def _start(
    program: GridProgram,
    state: GridState,
    layout: GridLayout,
    columns: Columns,
    sm: int,
    block: int,
    cycle: int,
) -> None:
    """Starts a block in the lowest free slot of an SM."""
    slot = 0
    while state.slots[sm, slot, BLOCK] != EMPTY:
        slot += 1
    resident = state.slots.shape[1] - state.sms[sm, FREE]
    state.ages[sm, resident] = slot
    state.sms[sm, FREE] -= 1
    state.slots[sm, slot, BLOCK] = block
    state.slots[sm, slot, END] = NEVER
    state.records[block, ON_SM] = sm
    state.records[block, IN_SLOT] = slot
    state.records[block, STARTED] = cycle
    first = slot * layout.warps
    if layout.policy in (GTO, GTY):
        for core in range(layout.cores):  # the warp issued last has left this slot
            last = state.sms[sm, SM_FIXED + core]
            if first <= last < first + layout.warps:
                state.sms[sm, SM_FIXED + core] = -1
    written = state.run[WRITTEN]
    for w in range(first, first + layout.warps):
        warp = state.warps[sm, w]
        warp[:] = 0
        warp[LAST_END] = cycle
        warp[PHASE] = RUNNING
        warp[IDENTITY] = block * layout.warps + w - first
        warp[AT] = program.starts[program.chosen[block, w - first]] - 1
        written = _go_on(program.entries, columns, warp, sm, cycle, written)
        if warp[ROW] == OVER:
            written = _finish(layout, columns, warp, sm, written)
        else:
            state.next_cycle[sm, w] = cycle
    state.run[WRITTEN] = _settle(program, state, layout, columns, sm, slot, cycle - 1, written)


@compiled
def _retire(state: GridState, sm: int, cycle: int) -> None:
    """Frees the slots of the blocks that have ended by ``cycle``."""
    slots = state.slots[sm]
    resident = slots.shape[0] - state.sms[sm, FREE]
    kept = 0
    for rank in range(resident):
        slot = state.ages[sm, rank]
        if slots[slot, END] <= cycle:
            state.records[slots[slot, BLOCK], FINISHED] = slots[slot, END]
            slots[slot, BLOCK] = EMPTY
            slots[slot, END] = NEVER
            state.sms[sm, FREE] += 1
        else:
            state.ages[sm, kept] = slot
            kept += 1


@compiled
def _next_end(slots: Integers) -> int:
    """The first cycle in which a block is known to leave its slot."""
    earliest = NEVER
    for slot in range(slots.shape[0]):
        if slots[slot, BLOCK] != EMPTY and slots[slot, END] < earliest:
            earliest = slots[slot, END]
    return earliest


# --- one SM alone ---------------------------------------------------------------------------------


@compiled
def _advance(
    program: GridProgram,
    state: GridState,
    layout: GridLayout,
    columns: Columns,
    sm: int,
    until: int,
    stop: int,
) -> int:
    """Runs an SM to cycle ``until``; if that is NEVER, to the next end of a block.

    Stops early (PAUSED) when the run has issued ``stop`` instructions. The issue of an ordinary
    instruction is written out here, on local names: passing the state to a function costs more than
    the work.
    """
    code, registers, entries = program.code, program.registers, program.entries
    queue_of = program.queue_of
    upcoming, warps, shared = state.next_cycle[sm], state.warps[sm], state.sms[sm]
    ages, slots = state.ages[sm], state.slots[sm]
    points, event_sms = columns.point, columns.sm
    event_warps, event_cycles = columns.warp, columns.cycle
    cores, policy, most_servers = layout.cores, layout.policy, layout.most_servers
    block_warps = layout.warps
    ready = FIXED + layout.depths
    free = SM_FIXED + cores
    cycle = shared[CLOCK]
    written = state.run[WRITTEN]
    resident = slots.shape[0] - shared[FREE]
    ends = _next_end(slots)
    issued_all = state.run[ISSUED]
    status = COMPLETE
    while True:
        if cycle >= ends or cycle >= until:
            cycle = min(ends, until)
            if cycle < ends:
                break
            _retire(state, sm, cycle)
            resident = slots.shape[0] - shared[FREE]
            ends = _next_end(slots)
            if until == NEVER:
                break
            continue
        if issued_all >= stop:
            status = PAUSED
            break
        issued = 0
        for core in range(cores):
            last = shared[SM_FIXED + core]
            if policy == LRR:
                w = _loose_round_robin(upcoming, cycle, core, cores, last)
            elif policy == RANDOM:
                draw = _mix(layout.seed, cycle, sm * cores + core)
                w = _random(upcoming, cycle, core, cores, draw)
            elif policy in (GTO, GTY) and last >= 0 and upcoming[last] <= cycle:
                w = last
            elif policy in (GTO, OLDEST):
                w = _oldest(upcoming, ages, resident, block_warps, cycle, core, cores)
            else:
                w = _youngest(upcoming, ages, resident, block_warps, cycle, core, cores)
            if w < 0:
                continue
            issued += 1
            shared[SM_FIXED + core] = w
            pc = warps[w, ROW]
            initiation = code[pc, INITIATION]
            latency = code[pc, LATENCY]
            if layout.jitter_percent > 0:
                packed = _shortened(layout, warps[w, IDENTITY], warps[w, DONE], initiation, latency)
                initiation, latency = packed >> 32, packed & 0xFFFFFFFF
                warps[w, DONE] += 1
            queue = queue_of[core, code[pc, UNIT]]
            server = free + queue * most_servers
            if most_servers > 1:
                first = server
                for candidate in range(first + 1, first + program.servers[queue]):
                    if shared[candidate] < shared[server]:
                        server = candidate
            freed = max(cycle, shared[server]) + initiation
            shared[server] = freed
            end = freed + latency
            if end > warps[w, LAST_END]:
                warps[w, LAST_END] = end
            for k in range(code[pc, WRITES_BEGIN], code[pc, WRITES_END]):
                register = ready + registers[k]
                if code[pc, CONDITIONAL] == 0 or end > warps[w, register]:
                    warps[w, register] = end
            if code[pc, POINT] >= 0:
                points[written] = code[pc, POINT]
                event_sms[written] = sm
                event_warps[written] = warps[w, IDENTITY]
                event_cycles[written] = cycle
                written += 1
            following = pc + 1
            if code[pc, LAST] != 0:
                at = warps[w, AT] + 1
                if entries[at, ENTRY] == VISIT and entries[at, FIRST] >= 0:
                    following = entries[at, FIRST]
                    warps[w, AT] = at
                else:
                    written = _go_on(entries, columns, warps[w], sm, cycle + 1, written)
                    following = warps[w, ROW]
            warps[w, ROW] = following
            earliest = cycle + 1 + code[pc, BUBBLE]
            if following != OVER and code[pc, BARRIER] < 0:
                for k in range(code[following, WAITS_BEGIN], code[following, WAITS_END]):
                    earliest = max(earliest, warps[w, ready + registers[k]])
                upcoming[w] = earliest
                continue
            upcoming[w] = NEVER
            if code[pc, BARRIER] >= 0:
                warps[w, PHASE] = WAITING
                warps[w, WAITS_AT] = code[pc, BARRIER]
                warps[w, SINCE] = earliest
            else:
                written = _finish(layout, columns, warps[w], sm, written)
            slot = w // block_warps
            written = _settle(program, state, layout, columns, sm, slot, cycle, written)
            ends = min(ends, slots[slot, END])
        issued_all += issued
        if issued == 0:
            cycle = min(_first_eligible(upcoming), ends, until)
            if cycle == NEVER:
                status = DEADLOCK if resident > 0 else COMPLETE
                cycle = shared[CLOCK]
                break
        else:
            cycle += 1
    shared[CLOCK] = cycle
    state.run[WRITTEN] = written
    state.run[ISSUED] = issued_all
    return status


# --- the grid -------------------------------------------------------------------------------------


@compiled
def run_grid(
    program: GridProgram, state: GridState, layout: GridLayout, columns: Columns, budget: int
) -> int:
    """Runs a grid from its state on, for about ``budget`` instructions or to its end.

    Returns COMPLETE, DEADLOCK or PAUSED; after PAUSED it goes on where it stopped when it is called
    again. Cost: about a scan over the warps of an SM for each issued instruction.
    """
    run, sms = state.run, state.sms
    stop = run[ISSUED] + budget
    count = sms.shape[0]
    blocks = program.chosen.shape[0]
    while run[NEXT_BLOCK] < blocks:
        earliest = NEVER
        for sm in range(count):
            if sms[sm, FREE] == 0:
                status = _advance(program, state, layout, columns, sm, NEVER, stop)
                if status != COMPLETE:
                    return status
            earliest = min(earliest, sms[sm, CLOCK])
        time = max(earliest, run[GATE])
        chosen = -1
        for k in range(count):
            sm = (run[TURN] + k) % count
            if sms[sm, CLOCK] < time:
                status = _advance(program, state, layout, columns, sm, time, stop)
                if status != COMPLETE:
                    return status
            if chosen < 0 and sms[sm, CLOCK] == time:
                chosen = sm
        _start(program, state, layout, columns, chosen, run[NEXT_BLOCK], time)
        _retire(state, chosen, time)  # a block that issues nothing
        run[NEXT_BLOCK] += 1
        run[GATE] = time + layout.gap
        run[TURN] = (chosen + 1) % count
    for sm in range(count):
        while sms[sm, FREE] < state.slots.shape[1]:
            status = _advance(program, state, layout, columns, sm, NEVER, stop)
            if status != COMPLETE:
                return status
    return COMPLETE
