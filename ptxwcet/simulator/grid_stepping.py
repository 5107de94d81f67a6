"""Steps a grid, compiled: assigns blocks to SMs, and steps warps cycle by cycle.

The machine is described in :mod:`ptxwcet.simulator.grid`; a warp is advanced as in
:mod:`ptxwcet.simulator.stepping` (the cycle in which its next instruction is eligible is known when
the previous one has been issued). SMs interact only when blocks are assigned: an SM without a free
slot is run on its own until one of its blocks ends; the earliest free slot of all takes the next
block; only then can the future of an SM change. If instructions continue to servers after the
units, SMs may also interact at the memory of the GPU: then all are run together, cycle by cycle.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ptxwcet.simulator.parts import (
    AFTER,
    ARGUMENT,
    BUBBLE,
    COUNT,
    COUNTS,
    DONE,
    EARLIEST,
    END,
    ENDED,
    INSTRUCTION,
    KIND,
    LAST_END,
    MEMORY_PARTS,
    NEVER,
    NOT_ALL,
    OF_ROW,
    OF_SLOT,
    OF_SM,
    OF_WARP,
    PATH_PARTS,
    PHASE,
    POLL,
    ROW,
    ROW_COLUMNS,
    RUN_COLUMNS,
    RUNNING,
    SINCE,
    TARGET,
    UNDERWAY,
    UNIT,
    Behind,
    Integers,
    RegisterColumns,
    awaited,
    come,
    conclude,
    dispatch,
    expected,
    first_eligible,
    leave,
    met_by_all,
    next_arrival,
    next_count,
    pass_loop,
    produce,
    serve,
    tally,
    times,
    write,
)
from ptxwcet.simulator.policies import Sight, choose
from ptxwcet.support.jit import compiled, inlined

Shorts: TypeAlias = NDArray[np.int32]

# The further columns of a row of code: one instruction of one kind of visit.
(
    POINT,  # passed when it is issued, -1: none
    LAST,  # 1: the visit ends with it
    STEP_COLUMNS,
) = range(ROW_COLUMNS, ROW_COLUMNS + 3)

# Entries of a program have the first columns of a row. A visit has its first row (-1: it issues
# nothing) in ARGUMENT, and its point in COUNT.
ENTRY_COLUMNS = 4
VISIT = INSTRUCTION

# The further columns of a warp slot. Loop counters follow, then register columns: without servers
# after the units, only the ready cycles.
(
    ENTRY,  # of the program
    IDENTITY,  # the warp's number in the grid
    FIXED,
) = range(RUN_COLUMNS, RUN_COLUMNS + 3)
OVER = -1  # ROW: no next instruction

# The columns of a block slot. The counts of each barrier of the block follow.
(
    BLOCK,  # index of the block, EMPTY: none
    ENDS,  # cycle in which its last warp has ended; NEVER while it is unknown
    SLOT_COLUMNS,
) = range(3)
EMPTY = -1

# The columns of an SM. For each sub-core follow the slot issued last (-1: none), and the same
# unless the warp has left it (-1); then the end of the last initiation on each server of each
# queue.
(
    CLOCK,  # everything before this cycle has happened
    FREE,  # slots
    SM_FIXED,
) = range(3)

# Cells of the run.
(
    NEXT_BLOCK,  # the next block to start
    GATE,  # the first cycle in which it may
    TURN,  # the SM that is considered first
    WRITTEN,  # events
    ISSUED,  # instructions
    NOW,  # the current cycle, where all SMs are run together
    RUN_CELLS,
) = range(7)

# The columns of a block's record.
ON_SM, IN_SLOT, STARTED, FINISHED = range(4)
RECORD_COLUMNS = 4

COMPLETE, DEADLOCK, PAUSED, FULL = range(4)


class GridProgram(NamedTuple):
    """The executed code, and its units."""

    code: Integers
    registers: Integers
    entries: Integers
    starts: Integers  # [program] its first entry
    chosen: Integers  # [block, warp] program
    queue_of: Integers  # [sub-core, unit]
    servers: Integers  # [queue]
    wide: Integers  # [barrier] 1: all warps of the block synchronise there


class Columns(NamedTuple):
    """The events, in the order in which they are written."""

    point: Shorts
    sm: Shorts
    warp: Integers
    cycle: Integers


class GridLayout(NamedTuple):
    """The numbers that the compiled code needs and that are constant during a run."""

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
    served: bool  # there are servers or counts after the units
    at: RegisterColumns


class GridState(NamedTuple):
    """Everything that changes, SM by SM, and the constant ``layout``.

    ``ages``: occupied slots, the oldest block first.
    """

    next_cycle: Integers  # [sm, warp slot]
    warps: Integers  # [sm, warp slot, column]
    slots: Integers  # [sm, slot, column]
    ages: Integers  # [sm, rank]
    sms: Integers  # [sm, column]
    run: Integers  # [cell]
    records: Integers  # [block, column]
    behind: Behind
    events: Columns
    layout: GridLayout


# --- warps and blocks -----------------------------------------------------------------------------


@inlined
def _write(state: GridState, point: int, sm: int, warp: int, cycle: int) -> None:
    columns, written = state.events, state.run[WRITTEN]
    columns.point[written] = point
    columns.sm[written] = sm
    columns.warp[written] = warp
    columns.cycle[written] = cycle
    state.run[WRITTEN] += 1


@compiled
def _move_on(program: GridProgram, state: GridState, sm: int, w: int, cycle: int) -> None:
    """Moves a warp past its entry, to the next one that issues something or to its end.

    Passed entries that issue nothing are written with ``cycle``.
    """
    entries, warps = program.entries, state.warps[sm]
    at = warps[w, ENTRY] + 1
    while True:
        kind = entries[at, KIND]
        if kind == END:
            warps[w, ROW] = OVER
            break
        if kind != VISIT:
            at = pass_loop(entries, at, warps, w, FIXED)
            continue
        if entries[at, ARGUMENT] >= 0:
            warps[w, ROW] = entries[at, ARGUMENT]
            break
        _write(state, entries[at, COUNT], sm, warps[w, IDENTITY], cycle)
        at += 1
    warps[w, ENTRY] = at


@compiled
def _finish(state: GridState, sm: int, w: int) -> None:
    """Ends a warp that has issued its last instruction, and waits for no barrier.

    While the end of some of its instructions is unknown, so is the warp's.
    """
    warps = state.warps[sm]
    warps[w, PHASE] = ENDED
    if warps[w, UNDERWAY] == 0:
        _write(state, state.layout.end_point, sm, warps[w, IDENTITY], warps[w, LAST_END])


@compiled
def _expect(program: GridProgram, state: GridState, sm: int, w: int, earliest: int) -> None:
    """Sets the cycle in which a warp's next instruction is eligible; NEVER while unknown."""
    code, operands, layout = program.code, program.registers, state.layout
    warps, at, served = state.warps[sm], layout.at, layout.served
    eligible, _ = expected(code, operands, warps, w, at, earliest, served)
    state.next_cycle[sm, w] = eligible


@compiled
def _open(
    program: GridProgram, state: GridState, sm: int, slot: int, barrier: int, cycle: int
) -> None:
    """Opens a barrier of a block: its warps may issue from ``cycle`` on, or when they have their
    answer.
    """
    code, warps, block_warps = program.code, state.warps[sm], state.layout.warps
    for w in range(slot * block_warps, (slot + 1) * block_warps):
        if warps[w, PHASE] != barrier:
            continue
        if warps[w, ROW] == OVER:
            _finish(state, sm, w)
            continue
        warps[w, PHASE] = RUNNING
        pc = warps[w, AFTER]
        answer = code[pc, TARGET] if code[pc, KIND] == POLL else 0
        _expect(program, state, sm, w, max(cycle + answer, warps[w, SINCE]))


@compiled
def _settle(program: GridProgram, state: GridState, sm: int, slot: int, cycle: int) -> None:
    """Opens the barrier at which all others wait, and notes the end of the block, after a warp of a
    block has reached a barrier or its end in ``cycle``.
    """
    warps, layout = state.warps[sm], state.layout
    first, count, served = slot * layout.warps, layout.warps, layout.served
    barrier, opens = met_by_all(warps, first, count, program.wide, cycle + 1, served)
    if barrier == NOT_ALL:
        return
    if barrier >= 0:
        _open(program, state, sm, slot, barrier, opens)
    left = 0
    end = 0
    for w in range(first, first + count):
        end = max(end, warps[w, LAST_END])
        left += int(warps[w, PHASE] != ENDED or warps[w, UNDERWAY] > 0)
    if left == 0:
        state.slots[sm, slot, ENDS] = end


@compiled
def _stop(program: GridProgram, state: GridState, sm: int, w: int, pc: int, cycle: int) -> None:
    """Completes an issue in ``cycle``: the row at ``pc`` is a barrier or the last instruction."""
    code, warps, slot = program.code, state.warps[sm], w // state.layout.warps
    following = cycle + 1 + code[pc, BUBBLE]
    waits, opens = come(code, pc, state.slots[sm, slot], SLOT_COLUMNS)
    if waits:
        warps[w, PHASE] = code[pc, ARGUMENT]
        state.next_cycle[sm, w] = NEVER
        warps[w, SINCE] = following
        warps[w, AFTER] = pc
    elif warps[w, ROW] == OVER:
        state.next_cycle[sm, w] = NEVER
        _finish(state, sm, w)
    else:
        _expect(program, state, sm, w, following)
    if opens:
        _open(program, state, sm, slot, code[pc, ARGUMENT], cycle + 1)
    _settle(program, state, sm, slot, cycle)


@compiled
def _retire(state: GridState, sm: int, cycle: int) -> None:
    """Frees the slots of the blocks that have ended by ``cycle``."""
    slots = state.slots[sm]
    resident = slots.shape[0] - state.sms[sm, FREE]
    kept = 0
    for rank in range(resident):
        slot = state.ages[sm, rank]
        if slots[slot, ENDS] <= cycle:
            state.records[slots[slot, BLOCK], FINISHED] = slots[slot, ENDS]
            slots[slot, BLOCK] = EMPTY
            slots[slot, ENDS] = NEVER
            state.sms[sm, FREE] += 1
        else:
            state.ages[sm, kept] = slot
            kept += 1


@compiled
def _start(program: GridProgram, state: GridState, sm: int, cycle: int) -> None:
    """Starts the next block in the lowest free slot of an SM."""
    run, layout = state.run, state.layout
    block = run[NEXT_BLOCK]
    slot = 0
    while state.slots[sm, slot, BLOCK] != EMPTY:
        slot += 1
    resident = state.slots.shape[1] - state.sms[sm, FREE]
    state.ages[sm, resident] = slot
    state.sms[sm, FREE] -= 1
    for column in range(state.slots.shape[2]):
        state.slots[sm, slot, column] = 0
    state.slots[sm, slot, BLOCK] = block
    state.slots[sm, slot, ENDS] = NEVER
    state.records[block, ON_SM] = sm
    state.records[block, IN_SLOT] = slot
    state.records[block, STARTED] = cycle
    first = slot * layout.warps
    for column in range(SM_FIXED + layout.cores, SM_FIXED + 2 * layout.cores):
        if first <= state.sms[sm, column] < first + layout.warps:
            state.sms[sm, column] = -1
    warps = state.warps[sm]
    for w in range(first, first + layout.warps):
        for column in range(warps.shape[1]):
            warps[w, column] = 0
        warps[w, LAST_END] = cycle
        warps[w, PHASE] = RUNNING
        warps[w, IDENTITY] = block * layout.warps + w - first
        warps[w, ENTRY] = program.starts[program.chosen[block, w - first]] - 1
        _move_on(program, state, sm, w, cycle)
        if warps[w, ROW] == OVER:
            _finish(state, sm, w)
        else:
            state.next_cycle[sm, w] = cycle
    _settle(program, state, sm, slot, cycle - 1)
    _retire(state, sm, cycle)  # for a block that issues nothing
    run[NEXT_BLOCK] += 1
    run[GATE] = cycle + layout.gap
    run[TURN] = (sm + 1) % state.sms.shape[0]


@compiled
def _next_end(slots: Integers) -> int:
    """Returns the first cycle in which a block is known to leave its slot."""
    earliest = NEVER
    for slot in range(slots.shape[0]):
        if slots[slot, BLOCK] != EMPTY and slots[slot, ENDS] < earliest:
            earliest = slots[slot, ENDS]
    return earliest


# --- after the units ------------------------------------------------------------------------------


@compiled
def _serve(program: GridProgram, state: GridState, cycle: int) -> bool:
    """Processes all events after the units in ``cycle``; returns False if the room is full."""
    code, behind, layout = program.code, state.behind, state.layout
    item = behind.items[len(behind.items) - 1, 0]
    while True:
        end = serve(code, behind, cycle)
        if end < 0:
            return False
        if end == NEVER:
            break
        sm, w = item[OF_SM], item[OF_SLOT]
        warps = state.warps[sm]
        conclude(code, program.registers, warps, layout.at, behind, end)
        if warps[w, PHASE] == RUNNING and state.next_cycle[sm, w] == NEVER:
            _expect(program, state, sm, w, warps[w, EARLIEST])
        elif warps[w, PHASE] == ENDED and warps[w, UNDERWAY] == 0:
            _finish(state, sm, w)
            _settle(program, state, sm, w // layout.warps, cycle)
    for sm in range(len(behind.servers) - behind.memory - 1):
        while next_count(code, behind, sm, cycle):
            slot, code_row = item[OF_SLOT] // layout.warps, code[item[OF_ROW]]
            if tally(state.slots[sm, slot], SLOT_COLUMNS, code_row):
                _open(program, state, sm, slot, code_row[ARGUMENT], cycle)
                _settle(program, state, sm, slot, cycle - 1)
    return True


# --- one SM on its own ----------------------------------------------------------------------------


@compiled
def _advance(program: GridProgram, state: GridState, sm: int, until: int, stop: int) -> int:
    """Runs an SM to cycle ``until``; if that is NEVER, to the next end of a block.

    Stops early (PAUSED) when the run has issued ``stop`` instructions. The issue of an ordinary
    instruction is inlined here, on local names: passing the state to a function costs more than the
    work.
    """
    code, registers, entries = program.code, program.registers, program.entries
    queue_of, layout = program.queue_of, state.layout
    upcoming, warps, shared = state.next_cycle[sm], state.warps[sm], state.sms[sm]
    ages, slots = state.ages[sm], state.slots[sm]
    cores, policy, most_servers = layout.cores, layout.policy, layout.most_servers
    percent, seed = layout.jitter_percent, layout.jitter_seed
    block_warps = layout.warps
    ready = layout.at.ready
    free = SM_FIXED + 2 * cores
    cycle = shared[CLOCK]
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
            turn, last = shared[SM_FIXED + core], shared[SM_FIXED + cores + core]
            stream = sm * cores + core
            see = Sight(
                *(upcoming, ages, resident, block_warps),
                *(core, cores, cycle, turn, last, stream, layout.seed),
            )
            w = choose(policy, see)
            if w < 0:
                continue
            issued += 1
            shared[SM_FIXED + core] = shared[SM_FIXED + cores + core] = w
            pc = warps[w, ROW]
            identity, done = warps[w, IDENTITY], warps[w, DONE]
            initiation, latency = times(code, pc, percent, seed, identity, done)
            queue = queue_of[core, code[pc, UNIT]]
            alike = program.servers[queue] if most_servers > 1 else 1
            first = free + queue * most_servers
            entered = dispatch(shared, first, alike, cycle, initiation)
            end = entered + initiation + latency
            sent = layout.served and code[pc, PATH_PARTS] + code[pc, MEMORY_PARTS] > 0
            if layout.served:
                known_end = NEVER if sent else end
                produce(code, registers, warps, w, layout.at, pc, warps[w, DONE], known_end)
            if sent or code[pc, KIND] == COUNTS:
                item = state.behind.items[len(state.behind.items) - 1, 0]
                item[OF_WARP], item[OF_SM], item[OF_SLOT] = identity, sm, w
                freed, wait = entered + initiation, entered - cycle
                if not leave(code, warps, state.behind, pc, freed, wait, latency):
                    status = FULL
            if not sent:
                if end > warps[w, LAST_END]:
                    warps[w, LAST_END] = end
                write(code, registers, pc, warps, w, ready, end)
            warps[w, DONE] += 1
            if code[pc, POINT] >= 0:
                _write(state, code[pc, POINT], sm, identity, cycle)
            following = pc + 1
            if code[pc, LAST] != 0:
                at = warps[w, ENTRY] + 1
                if entries[at, KIND] == VISIT and entries[at, ARGUMENT] >= 0:
                    following = entries[at, ARGUMENT]
                    warps[w, ENTRY] = at
                else:
                    _move_on(program, state, sm, w, cycle + 1)
                    following = warps[w, ROW]
            warps[w, ROW] = following
            if following != OVER and code[pc, KIND] == INSTRUCTION:
                earliest = cycle + 1 + code[pc, BUBBLE]
                if layout.served:
                    _expect(program, state, sm, w, earliest)
                else:
                    upcoming[w], _ = awaited(code, registers, warps, w, ready, earliest)
                continue
            _stop(program, state, sm, w, pc, cycle)
            ends = min(ends, slots[w // block_warps, ENDS])
        issued_all += issued
        if status == FULL:
            break
        if issued == 0:
            cycle = min(first_eligible(upcoming), ends, until)
            if cycle == NEVER:
                status = DEADLOCK if resident > 0 else COMPLETE
                cycle = shared[CLOCK]
                break
        else:
            cycle += 1
    shared[CLOCK] = cycle
    state.run[ISSUED] = issued_all
    return status


# --- the grid -------------------------------------------------------------------------------------


@compiled
def run_grid(program: GridProgram, state: GridState, budget: int) -> int:
    """Runs a grid from its state on, for about ``budget`` instructions or to its end.

    Returns COMPLETE, DEADLOCK or PAUSED; after PAUSED the next call continues at the same point.
    FULL: the room was too small for all items that wait for a server; the rest of the state is then
    undefined. Cost: about a scan over the warps of an SM for each issued instruction; with servers
    after the units, over the warps of all SMs for each cycle with an event.
    """
    run, sms = state.run, state.sms
    stop = run[ISSUED] + budget
    if state.layout.served:
        return _run_together(program, state, stop)
    count = sms.shape[0]
    blocks = program.chosen.shape[0]
    while run[NEXT_BLOCK] < blocks:
        earliest = NEVER
        for sm in range(count):
            if sms[sm, FREE] == 0:
                status = _advance(program, state, sm, NEVER, stop)
                if status != COMPLETE:
                    return status
            earliest = min(earliest, sms[sm, CLOCK])
        time = max(earliest, run[GATE])
        chosen = -1
        for k in range(count):
            sm = (run[TURN] + k) % count
            if sms[sm, CLOCK] < time:
                status = _advance(program, state, sm, time, stop)
                if status != COMPLETE:
                    return status
            if chosen < 0 and sms[sm, CLOCK] == time:
                chosen = sm
        _start(program, state, chosen, time)
    for sm in range(count):
        while sms[sm, FREE] < state.slots.shape[1]:
            status = _advance(program, state, sm, NEVER, stop)
            if status != COMPLETE:
                return status
    return COMPLETE


@compiled
def _run_together(program: GridProgram, state: GridState, stop: int) -> int:
    """Runs as :func:`run_grid`, all SMs cycle by cycle, since they wait for one memory."""
    run, sms = state.run, state.sms
    blocks = program.chosen.shape[0]
    rounds = (stop - run[ISSUED]) // sms.shape[0] + 1  # each visits all SMs
    while run[ISSUED] < stop and rounds > 0:
        rounds -= 1
        now = run[NOW]
        if not _serve(program, state, now):
            return FULL
        for sm in range(sms.shape[0]):
            sms[sm, CLOCK] = now
            _retire(state, sm, now)
        _start_blocks(program, state, now)
        for sm in range(sms.shape[0]):
            if _advance(program, state, sm, now + 1, NEVER) == FULL:
                return FULL
        following = next_arrival(state.behind, now)
        busy = run[NEXT_BLOCK] < blocks
        for sm in range(sms.shape[0]):
            busy = busy or sms[sm, FREE] < state.slots.shape[1]
            following = min(following, first_eligible(state.next_cycle[sm]))
            following = min(following, _next_end(state.slots[sm]))
            if run[NEXT_BLOCK] < blocks and sms[sm, FREE] > 0:
                following = min(following, run[GATE])
        if not busy:
            return COMPLETE
        if following == NEVER:
            return DEADLOCK
        run[NOW] = max(now + 1, following)
    return PAUSED


@compiled
def _start_blocks(program: GridProgram, state: GridState, now: int) -> None:
    """Starts the blocks for which there are slots in a cycle."""
    run, sms = state.run, state.sms
    count, blocks = sms.shape[0], program.chosen.shape[0]
    k = 0
    while run[NEXT_BLOCK] < blocks and run[GATE] <= now and k < count:
        sm = (run[TURN] + k) % count
        k += 1
        if sms[sm, FREE] > 0:
            _start(program, state, sm, now)
            k = 0
