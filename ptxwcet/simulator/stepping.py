"""Steps one block of warps cycle by cycle, compiled: the inner loop of the simulator.

The machine is the model's, section 1. Because a warp issues in order and only its own
instructions write its registers, the first cycle in which its next instruction is eligible is known
as soon as the previous one has been issued (and its barrier has opened): ``next_cycle``. A unit's
queue needs no storage either: an instruction is dispatched when all earlier ones have ended. So a
cycle costs one scan over the warps, and cycles in which no warp is eligible are skipped.

With ``skip`` the joint state of all warps, relative to the current cycle, is compared with a saved
state whenever a warp begins another iteration of a loop (Brent's cycle detection, one saved state
per nesting depth). When it repeats, the schedule does, as long as every loop that is open at this
point has iterations left: that many periods are skipped at once (docs/methods/safe.md).
"""

from __future__ import annotations

from typing import NamedTuple

from ptxwcet.simulator.parts import (
    AFTER,
    ALONE,
    ARGUMENT,
    AT,
    BARRIER,
    BUBBLE,
    CONDITIONAL,
    COUNT_OF,
    COUNTS,
    DONE,
    EARLIEST,
    END,
    ENDED,
    EVENT,
    FIRST,
    FREE,
    FREE_PART,
    INSTRUCTION,
    JOIN,
    KIND,
    LAST_END,
    LOOP_BEGIN,
    MEMORY_PARTS,
    NEVER,
    NUMBER,
    OF_ROW,
    OF_SLOT,
    OF_WARP,
    PARTIAL,
    PATH_PARTS,
    PHASE,
    POLL,
    ROW,
    ROW_COLUMNS,
    RUN_COLUMNS,
    RUNNING,
    SINCE,
    STAGE_COLUMNS,
    TARGET,
    UNDERWAY,
    UNIT,
    WRITES_BEGIN,
    WRITES_END,
    Behind,
    Integers,
    RegisterColumns,
    awaited,
    come,
    conclude,
    copy_item,
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
)
from ptxwcet.simulator.policies import SCRIPTED, Sight, choose
from ptxwcet.support.jit import compiled
from ptxwcet.warp.program import WARPGROUP

# The further columns of a row. TARGET of a barrier is the section that follows it.
DEPTH, ORIGIN, COLUMNS = range(ROW_COLUMNS, ROW_COLUMNS + 3)  # DEPTH: loops around the row

ISSUED, DEPENDENCY, UNIT_BUSY, ISSUE_SLOT, AT_BARRIER, BRANCH = range(6)
STALLS = 6
COMPLETE, DEADLOCK, OVER_LIMIT, FULL, PAUSED = range(5)
EVENT_COLUMNS = 6  # warp, row, issue, dispatch, end of the initiation, end
NO_CHECKPOINTS = (-1, 0, 1)

# The further columns of a warp's row of the state; loops, registers and sections follow (Layout).
SECTION, FIXED = range(RUN_COLUMNS, RUN_COLUMNS + 2)

# The places after the units of the one SM (ptxwcet.simulator.parts.Behind).
MEMORY = 1
STAGES = MEMORY + 2


class Layout(NamedTuple):
    """The layout of the state: first columns and numbers of columns.

    A warp's row holds, after the FIXED columns, for each depth the iterations left (the current one
    included) and the number of entries of a loop at this depth, for each register its ready cycle
    and the queueing time of its producer, for each section the cycles by cause and the executions.
    The shared row holds the warp issued last by each sub-core (-1: none), the end of the last
    initiation on each server of each queue, and the counts of each barrier. (A queue of a unit
    dispatches in order by itself: neither issues nor the earliest free server go back in time.)

    ``served``: instructions continue after the units to servers, or count at mbarriers. Then there
    are the other columns of registers.
    """

    depths: int
    registers: int
    counters: int
    entries: int
    at: RegisterColumns
    stalls: int
    executions: int
    width: int
    cores: int
    servers: int
    free: int
    barriers: int
    shared_width: int
    served: bool


class Program(NamedTuple):
    """The executed program (see :class:`ptxwcet.simulator.image.Image`)."""

    code: Integers
    registers: Integers
    starts: Integers
    queue_of: Integers
    servers: Integers
    wide: Integers  # [barrier] 1: all warps of the block synchronise there
    ages: Integers  # of blocks: there is only one block
    layout: Layout


class State(NamedTuple):
    """Everything that changes during a run; with one more axis in front, saved states by depth."""

    next_cycle: Integers  # [warp] its next instruction is eligible; NEVER if waiting or ended
    warps: Integers  # [warp, column]
    shared: Integers  # [column]
    behind: Behind


class Options(NamedTuple):
    """The options of a run: numbers of the policy and random streams, and records."""

    policy: int
    seed: int
    jitter_percent: int
    jitter_seed: int
    skip: bool
    limit: int  # instructions issued one by one


class Outcome(NamedTuple):
    """The end of a run. ``decisions``: cycles in which a sub-core had a choice."""

    status: int
    cycles: int
    instructions: int
    stepped: int
    events: int
    decisions: int


# --- one instruction ------------------------------------------------------------------------------


@compiled
def _advance(
    code: Integers, warps: Integers, counters: int, entries: int, warp: int, pc: int
) -> int:
    """Moves a warp past the instruction at ``pc`` to its next instruction or its end.

    Returns the depth of the outermost loop that began another iteration, -1 if none did.
    """
    pc += 1
    outermost = -1
    while code[pc, KIND] >= LOOP_BEGIN and code[pc, KIND] != END:
        depth = code[pc, ARGUMENT]
        following = pass_loop(code, pc, warps, warp, counters)
        if code[pc, KIND] == LOOP_BEGIN:
            warps[warp, entries + depth] += 1
        elif following <= pc:
            outermost = depth
        pc = following
    warps[warp, ROW] = pc
    return outermost


@compiled
def _expect(program: Program, state: State, warp: int, earliest: int) -> None:
    """Sets the cycle in which the next instruction is eligible, and books the wait until then."""
    warps, layout = state.warps, program.layout
    code, registers, at = program.code, program.registers, layout.at
    warps[warp, PHASE] = RUNNING
    eligible, register = expected(code, registers, warps, warp, at, earliest, layout.served)
    state.next_cycle[warp] = eligible
    if earliest < eligible < NEVER:
        stalls = layout.stalls + warps[warp, SECTION] * STALLS
        busy = min(warps[warp, at.queued + register], eligible - earliest)
        warps[warp, stalls + UNIT_BUSY] += busy
        warps[warp, stalls + DEPENDENCY] += eligible - earliest - busy


@compiled
def _finish(state: State, warp: int) -> None:
    state.warps[warp, PHASE] = ENDED
    state.next_cycle[warp] = NEVER


@compiled
def _resume(program: Program, state: State, warp: int, cycle: int) -> None:
    """Ends the wait of a warp: it may issue from ``cycle`` on, or has ended."""
    warps = state.warps
    layout = program.layout
    if program.code[warps[warp, ROW], KIND] == END:
        _finish(state, warp)
        return
    earliest = max(cycle, warps[warp, SINCE])
    warps[warp, layout.stalls + warps[warp, SECTION] * STALLS + AT_BARRIER] += (
        earliest - warps[warp, SINCE]
    )
    pc = warps[warp, AFTER]
    if program.code[pc, KIND] in (BARRIER, PARTIAL):
        warps[warp, SECTION] = program.code[pc, TARGET]
        warps[warp, layout.executions + warps[warp, SECTION]] += 1
    _expect(program, state, warp, earliest)


@compiled
def _open(program: Program, state: State, barrier: int, cycle: int) -> None:
    """Opens a barrier: its warps may issue from ``cycle`` on, or when they have their answer."""
    warps = state.warps
    for warp in range(len(warps)):
        if warps[warp, PHASE] == barrier:
            pc = warps[warp, AFTER]
            answer = program.code[pc, TARGET] if program.code[pc, KIND] == POLL else 0
            _resume(program, state, warp, cycle + answer)


@compiled
def _open_for_all(program: Program, state: State, cycle: int) -> None:
    """Opens a block-wide barrier at which every warp waits that has not ended.

    ``cycle`` is the cycle of the last issue.
    """
    warps, wide, served = state.warps, program.wide, program.layout.served
    barrier, opens = met_by_all(warps, 0, len(warps), wide, cycle + 1, served)
    if barrier >= 0:
        _open(program, state, barrier, opens)


@compiled
def _stop(program: Program, state: State, warp: int, pc: int, cycle: int) -> None:
    """Completes an issue in ``cycle``: the row at ``pc`` is a barrier or the last instruction."""
    warps, code = state.warps, program.code
    following = cycle + 1 + code[pc, BUBBLE]
    waits, opens = come(code, pc, state.shared, program.layout.barriers)
    if waits:
        warps[warp, PHASE] = code[pc, ARGUMENT]
        state.next_cycle[warp] = NEVER
        warps[warp, SINCE] = following
        warps[warp, AFTER] = pc
    elif code[warps[warp, ROW], KIND] == END:
        _finish(state, warp)
    else:
        _expect(program, state, warp, following)
    if opens:
        _open(program, state, code[pc, ARGUMENT], cycle + 1)
    _open_for_all(program, state, cycle)


# --- after the units ------------------------------------------------------------------------------


@compiled
def _queue_products(
    program: Program,
    state: State,
    options: Options,
    events: Integers,
    recorded: int,
    warp: int,
    cycle: int,
) -> None:
    """Queues the products of a whole warpgroup once its last warp has issued one.

    Their events, so far without times after the issue, are completed.
    """
    code, warps, layout = program.code, state.warps, program.layout
    first = warp - warp % WARPGROUP
    if first + WARPGROUP > len(warps):
        return
    for member in range(first, first + WARPGROUP):
        if warps[member, PHASE] != warps[warp, PHASE]:
            return
    for member in range(first, first + WARPGROUP):
        pc, number = warps[member, AFTER], warps[member, DONE] - 1
        percent, seed = options.jitter_percent, options.jitter_seed
        initiation, latency = times(code, pc, percent, seed, member, number)
        queue = program.queue_of[member % layout.cores, code[pc, UNIT]]
        alike = program.servers[queue] if layout.servers > 1 else 1
        at = layout.free + queue * layout.servers
        begin = dispatch(state.shared, at, alike, cycle, initiation)
        end = begin + initiation + latency
        if layout.served:
            produce(code, program.registers, warps, member, layout.at, pc, number, end)
        warps[member, LAST_END] = max(warps[member, LAST_END], end)
        for k in range(code[pc, WRITES_BEGIN], code[pc, WRITES_END]):
            register = program.registers[k]
            if code[pc, CONDITIONAL] == 0 or end > warps[member, layout.at.ready + register]:
                warps[member, layout.at.ready + register] = end
                warps[member, layout.at.queued + register] = begin - cycle
        for event in range(recorded - 1, -1, -1):
            if events[event, 0] == member:
                if events[event, 3] < 0:
                    events[event, 3], events[event, 4] = begin, begin + initiation
                    events[event, 5] = end
                break
        _resume(program, state, member, cycle + 1)
    _open_for_all(program, state, cycle)


@compiled
def _serve(program: Program, state: State, events: Integers, cycle: int) -> bool:
    """Processes all events after the units in ``cycle``; returns False if the room is full."""
    code, warps, layout = program.code, state.warps, program.layout
    behind, item = state.behind, state.behind.items[STAGES, 0]
    while True:
        end = serve(code, behind, cycle)
        if end < 0:
            return False
        if end == NEVER:
            break
        conclude(code, program.registers, warps, layout.at, behind, end)
        warp = item[OF_WARP]
        if item[EVENT] >= 0:
            events[item[EVENT], 5] = end
        if warps[warp, PHASE] == RUNNING and state.next_cycle[warp] == NEVER:
            _expect(program, state, warp, warps[warp, EARLIEST])
        elif warps[warp, PHASE] == ENDED and warps[warp, UNDERWAY] == 0:
            _open_for_all(program, state, cycle)
    while next_count(code, behind, 0, cycle):
        if tally(state.shared, layout.barriers, code[item[OF_ROW]]):
            _open(program, state, code[item[OF_ROW], ARGUMENT], cycle)
            _open_for_all(program, state, cycle - 1)
    return True


# --- repetition of the joint state ----------------------------------------------------------------


@compiled
def _settle(program: Program, state: State, cycle: int) -> None:
    """Books all waits up to ``cycle``, so that the booked amounts belong only to the past."""
    warps = state.warps
    layout = program.layout
    for warp in range(state.next_cycle.shape[0]):
        section = warps[warp, SECTION]
        if warps[warp, PHASE] == RUNNING and state.next_cycle[warp] < cycle:
            warps[warp, layout.stalls + section * STALLS + ISSUE_SLOT] += (
                cycle - state.next_cycle[warp]
            )
            state.next_cycle[warp] = cycle
        if RUNNING < warps[warp, PHASE] < ENDED and warps[warp, SINCE] < cycle:
            if program.code[warps[warp, ROW], KIND] != END:  # otherwise it has nothing to wait for
                waited = cycle - warps[warp, SINCE]
                warps[warp, layout.stalls + section * STALLS + AT_BARRIER] += waited
            warps[warp, SINCE] = cycle


@compiled
def _same_warps(layout: Layout, now: State, cycle: int, then: State, since: int) -> bool:
    """Returns whether all warps, at the same places as then, wait as long for the same event."""
    passed = cycle - since
    for warp in range(len(now.warps)):
        own, old = now.warps[warp], then.warps[warp]
        eligible, was_eligible = now.next_cycle[warp], then.next_cycle[warp]
        if eligible < NEVER:
            if eligible - passed != was_eligible:
                return False
        elif own[PHASE] < ENDED:
            column = EARLIEST if own[PHASE] == RUNNING else SINCE
            if was_eligible < NEVER or own[AFTER] != old[AFTER]:
                return False
            if own[column] - passed != old[column]:
                return False
        if max(own[LAST_END], cycle) - passed != max(old[LAST_END], since):
            return False
        for register in range(layout.registers):
            ready, queued = layout.at.ready + register, layout.at.queued + register
            if max(own[ready], cycle) - passed != max(old[ready], since):
                return False
            if own[ready] > cycle and own[queued] != old[queued]:
                return False
    return True


@compiled
def _passed(at: int, cycles: int) -> int:
    """Returns the distance of a cycle as of ``cycles`` ago."""
    return at - cycles if at < NEVER else NEVER


@compiled
def _same_servers(program: Program, now: State, cycle: int, then: State, since: int) -> bool:
    """Returns whether the servers after the units have equal free times and equal items."""
    layout, passed = program.layout, cycle - since
    room = now.behind.items.shape[1]
    for stage in range(STAGES):
        own, old = now.behind.servers[stage], then.behind.servers[stage]
        if own[COUNT_OF] != old[COUNT_OF]:
            return False
        if max(own[FREE], cycle - 1) - passed != max(old[FREE], since - 1):
            return False
        if own[FREE] >= cycle and own[FREE_PART] != old[FREE_PART]:
            return False
        for k in range(own[COUNT_OF]):
            item = now.behind.items[stage, (own[FIRST] + k) % room]
            before = then.behind.items[stage, (old[FIRST] + k) % room]
            if _passed(item[AT], passed) != before[AT]:
                return False
            if stage <= MEMORY and item[ALONE] - passed != before[ALONE]:
                return False
            if item[OF_WARP] != before[OF_WARP] or item[OF_ROW] != before[OF_ROW]:
                return False
            if not _same_order(program, now, then, item, before):
                return False
    for warp in range(len(now.warps)):
        for register in range(layout.registers):
            column, by = layout.at.open + register, layout.at.by + register
            if now.warps[warp, column] != then.warps[warp, column]:
                return False
            if now.warps[warp, column] > 0:
                back = now.warps[warp, DONE] - now.warps[warp, by]
                if back != then.warps[warp, DONE] - then.warps[warp, by]:
                    return False
    return True


@compiled
def _same_order(
    program: Program, now: State, then: State, item: Integers, before: Integers
) -> bool:
    """Returns whether two items are equally old, and write the same registers still valid."""
    warp, pc = item[OF_WARP], item[OF_ROW]
    own, old = now.warps[warp], then.warps[warp]
    if own[DONE] - item[NUMBER] != old[DONE] - before[NUMBER]:
        return False
    for k in range(program.code[pc, WRITES_BEGIN], program.code[pc, WRITES_END]):
        since = program.layout.at.since + program.registers[k]
        if (item[NUMBER] < own[since]) != (before[NUMBER] < old[since]):
            return False
    return True


@compiled
def _same(program: Program, now: State, cycle: int, then: State, since: int) -> bool:
    """Returns whether the joint state equals the state in cycle ``since``, except loop counters."""
    layout = program.layout
    for warp in range(len(now.warps)):
        own, old = now.warps[warp], then.warps[warp]
        if own[ROW] != old[ROW] or own[SECTION] != old[SECTION] or own[PHASE] != old[PHASE]:
            return False
    for column in range(layout.shared_width):
        ours, theirs = now.shared[column], then.shared[column]
        if layout.free <= column < layout.barriers:  # servers in order: this misses some repeats
            ours, theirs = max(ours, cycle) - cycle, max(theirs, since) - since
        if ours != theirs:
            return False
    if layout.served and not _same_servers(program, now, cycle, then, since):
        return False
    return _same_warps(layout, now, cycle, then, since)


@compiled
def _periods_left(program: Program, now: State, then: State) -> int:
    """Returns how many more periods are certain to repeat: every open loop must stay open."""
    layout = program.layout
    periods = NEVER
    for warp in range(len(now.warps)):
        own, old = now.warps[warp], then.warps[warp]
        for level in range(program.code[own[ROW], DEPTH]):
            left, before = own[layout.counters + level], old[layout.counters + level]
            if own[layout.entries + level] != old[layout.entries + level]:
                if before != left:  # another instance of the loop, at another iteration
                    return 0
            elif before != left:
                periods = min(periods, (left - 1) // (before - left))
    return periods if periods < NEVER else 0


@compiled
def _renumber(state: State, warp: int, shift: int, issued: int) -> None:
    """Delays the items of a warp by ``shift``, and renumbers them as later instructions."""
    for stage in range(STAGES):
        server = state.behind.servers[stage]
        for k in range(server[COUNT_OF]):
            item = state.behind.items[stage, (server[FIRST] + k) % state.behind.items.shape[1]]
            if item[OF_WARP] == warp:
                item[AT] = _passed(item[AT], -shift)
                item[ALONE] += shift
                item[NUMBER] += issued


@compiled
def _skip(layout: Layout, now: State, cycle: int, then: State, since: int, times: int) -> int:
    """Repeats the period since ``then`` ``times`` more; returns the cycles of that."""
    shift = times * (cycle - since)
    for warp in range(len(now.warps)):
        own, old = now.warps[warp], then.warps[warp]
        if now.next_cycle[warp] < NEVER:
            now.next_cycle[warp] += shift
        elif own[PHASE] < ENDED:
            own[EARLIEST if own[PHASE] == RUNNING else SINCE] += shift
        if own[PHASE] != ENDED and own[LAST_END] > cycle:
            own[LAST_END] += shift
        issued = times * (own[DONE] - old[DONE])
        own[DONE] += issued
        if layout.served:  # numbers of instructions
            for column in range(layout.at.since, layout.at.by + layout.registers):
                own[column] += issued
            _renumber(now, warp, shift, issued)
        for level in range(layout.depths):
            column = layout.counters + level
            if own[layout.entries + level] == old[layout.entries + level]:
                own[column] -= times * (old[column] - own[column])
        for column in range(layout.at.ready, layout.at.ready + layout.registers):
            if own[column] > cycle:
                own[column] += shift
        for column in range(layout.stalls, layout.at.open):  # and executions
            own[column] += times * (own[column] - old[column])
    for column in range(layout.free, layout.barriers):
        if now.shared[column] > cycle:
            now.shared[column] += shift
    for stage in range(STAGES):
        if now.behind.servers[stage, FREE] >= cycle:
            now.behind.servers[stage, FREE] += shift
    return shift


@compiled
def _save(now: State, then: State) -> None:
    """Copies the state, in loops: the compiler needs a third of the time that slices take.

    After the units, only the occupied places are copied.
    """
    for warp in range(len(now.warps)):
        then.next_cycle[warp] = now.next_cycle[warp]
        for column in range(now.warps.shape[1]):
            then.warps[warp, column] = now.warps[warp, column]
    for column in range(len(now.shared)):
        then.shared[column] = now.shared[column]
    for stage in range(STAGES):
        for column in range(STAGE_COLUMNS):
            then.behind.servers[stage, column] = now.behind.servers[stage, column]
        for k in range(now.behind.servers[stage, COUNT_OF]):
            place = (now.behind.servers[stage, FIRST] + k) % now.behind.items.shape[1]
            copy_item(then.behind.items[stage, place], now.behind.items[stage, place])


@compiled
def _checkpoint(
    program: Program, now: State, saved: State, cycle: int, depth: int, brent: Integers
) -> int:
    """Looks for a repeated state when a warp has begun another iteration of a loop at ``depth``.

    ``brent`` has a row per depth (NO_CHECKPOINTS): cycle of the saved state (-1: none), checkpoints
    since, and after how many of them the next state is saved. Returns the cycles skipped.
    """
    for deeper in range(depth + 1, brent.shape[0]):
        brent[deeper, 0], brent[deeper, 1], brent[deeper, 2] = NO_CHECKPOINTS
    _settle(program, now, cycle)
    then = State(
        saved.next_cycle[depth],
        saved.warps[depth],
        saved.shared[depth],
        Behind(saved.behind.servers[depth], saved.behind.items[depth], MEMORY),
    )
    since = brent[depth, 0]
    skipped = 0
    if since >= 0 and _same(program, now, cycle, then, since):
        times = _periods_left(program, now, then)
        if times > 0:
            skipped = _skip(program.layout, now, cycle, then, since, times)
            brent[depth, 1], brent[depth, 2] = 0, 1
    brent[depth, 1] += 1
    if brent[depth, 1] >= brent[depth, 2]:
        _save(now, then)
        brent[depth, 0] = cycle + skipped
        brent[depth, 1] = 0
        brent[depth, 2] *= 2
    return skipped


# --- the run --------------------------------------------------------------------------------------


@compiled
def _log(
    next_cycle: Integers, log: Integers, decisions: int, warp: int, core: int, cycle: int, step: int
) -> int:
    """Counts a cycle in which a sub-core has a choice, and records the chosen warp."""
    index = 0
    count = 0
    for candidate in range(core, next_cycle.shape[0], step):
        if next_cycle[candidate] <= cycle:
            count += 1
            if candidate < warp:
                index += 1
    if count < 2:
        return 0
    if decisions < log.shape[0]:
        log[decisions] = index
    return 1


@compiled
def _begin(program: Program, state: State) -> None:
    layout = program.layout
    for warp in range(state.next_cycle.shape[0]):
        state.warps[warp, layout.executions] = 1
        pc = program.starts[warp] - 1
        _advance(program.code, state.warps, layout.counters, layout.entries, warp, pc)
        if program.code[state.warps[warp, ROW], KIND] == END:
            _finish(state, warp)
        else:
            _expect(program, state, warp, 0)


@compiled
def run(
    program: Program,
    state: State,
    saved: State,
    brent: Integers,
    options: Options,
    script: Integers,
    log: Integers,
    events: Integers,
    held: Integers,
) -> tuple[int, int, int, int, int, int]:
    """Runs a block to its end on a fresh state; see :class:`ptxwcet.simulator.engine.Simulator`.

    After a piece of instructions it returns PAUSED, with the data to continue in ``held`` (zeros
    for a fresh run, and last the length of a piece), and continues when it is called again with the
    same arguments. The results are the fields of :class:`Outcome`: numba would call Python to make
    such a tuple, and a signal that is handled there ends the process.

    ``script`` holds decisions for the policy SCRIPTED, ``log`` takes the decisions of this run,
    ``events`` takes the first issues, a row each. If the room is too small for all items that wait
    for servers after the units, the status is FULL and the rest is undefined. Cost: about a scan
    over the warps for each issued instruction. The issue of an ordinary instruction is inlined
    here, on local names: passing the state to a function costs more than the work itself.
    """
    code, registers, queue_of = program.code, program.registers, program.queue_of
    next_cycle, warps, shared = state.next_cycle, state.warps, state.shared
    layout = program.layout
    counters, entries = layout.counters, layout.entries
    ready, queued, stalls = layout.at.ready, layout.at.queued, layout.stalls
    free, servers, cores = layout.free, layout.servers, layout.cores
    served, item = layout.served, state.behind.items[STAGES, 0]
    policy, percent, seed = options.policy, options.jitter_percent, options.jitter_seed
    count, ages = len(next_cycle), program.ages
    counts_decisions = log.shape[0] > 0 or policy == SCRIPTED
    recorded, decisions, stepped = held[0], held[1], held[2]
    cycle, happens = held[3], held[4]
    status = COMPLETE
    if stepped == 0:
        happens = NEVER  # nothing happens after the units before this cycle
        _begin(program, state)
    pause = min(options.limit, stepped + held[5])
    while True:
        issued = 0
        begun = NEVER
        if happens <= cycle:
            if not _serve(program, state, events, cycle):
                return FULL, 0, 0, 0, 0, 0
            happens = next_arrival(state.behind, cycle)
        for core in range(min(cores, count)):
            draw = options.seed
            if policy == SCRIPTED:  # past its end: the oldest, which is index 0
                draw = script[decisions] if decisions < script.shape[0] else 0
            last = shared[core]
            see = Sight(next_cycle, ages, 1, count, core, cores, cycle, last, last, core, draw)
            warp = choose(policy, see)
            if warp < 0:
                continue
            if counts_decisions:
                decisions += _log(next_cycle, log, decisions, warp, core, cycle, cores)
            issued += 1
            shared[core] = warp
            pc = warps[warp, ROW]
            booked = stalls + warps[warp, SECTION] * STALLS
            warps[warp, booked + ISSUE_SLOT] += cycle - next_cycle[warp]
            warps[warp, booked + ISSUED] += 1
            initiation, latency = times(code, pc, percent, seed, warp, warps[warp, DONE])
            begin = freed = end = -1  # a product enters its unit with other warps' products
            if code[pc, KIND] != JOIN:
                queue = queue_of[core, code[pc, UNIT]]
                alike = program.servers[queue] if servers > 1 else 1
                begin = dispatch(shared, free + queue * servers, alike, cycle, initiation)
                freed = begin + initiation
                end = freed + latency
            sent = served and code[pc, PATH_PARTS] + code[pc, MEMORY_PARTS] > 0
            if served and begin >= 0:
                known_end, number = NEVER if sent else end, warps[warp, DONE]
                produce(code, registers, warps, warp, layout.at, pc, number, known_end)
            if sent or code[pc, KIND] == COUNTS:
                item[OF_WARP] = item[OF_SLOT] = warp
                item[EVENT] = recorded if sent and recorded < events.shape[0] else -1
                if not leave(code, warps, state.behind, pc, freed, begin - cycle, latency):
                    return FULL, 0, 0, 0, 0, 0
                happens = min(happens, freed)
            if begin >= 0 and not sent:
                if end > warps[warp, LAST_END]:
                    warps[warp, LAST_END] = end
                for k in range(code[pc, WRITES_BEGIN], code[pc, WRITES_END]):
                    register = registers[k]
                    if code[pc, CONDITIONAL] == 0 or end > warps[warp, ready + register]:
                        warps[warp, ready + register] = end
                        warps[warp, queued + register] = begin - cycle
            warps[warp, DONE] += 1
            if recorded < events.shape[0]:
                events[recorded, 0], events[recorded, 1] = warp, pc
                events[recorded, 2], events[recorded, 3] = cycle, begin
                events[recorded, 4], events[recorded, 5] = freed, end
                recorded += 1
            following = pc + 1
            if code[following, KIND] >= LOOP_BEGIN:
                depth = _advance(code, warps, counters, entries, warp, pc)
                if depth >= 0:
                    begun = min(begun, depth)
                following = warps[warp, ROW]
            warps[warp, ROW] = following
            if code[following, KIND] != END:
                warps[warp, booked + BRANCH] += code[pc, BUBBLE]
                if code[pc, KIND] == INSTRUCTION:
                    earliest = cycle + 1 + code[pc, BUBBLE]
                    if served:
                        _expect(program, state, warp, earliest)
                        continue
                    eligible, register = awaited(code, registers, warps, warp, ready, earliest)
                    wait = warps[warp, queued + register] if register >= 0 else 0
                    next_cycle[warp] = eligible
                    wait = min(wait, eligible - earliest)
                    warps[warp, booked + UNIT_BUSY] += wait
                    warps[warp, booked + DEPENDENCY] += eligible - earliest - wait
                    continue
            _stop(program, state, warp, pc, cycle)
            if code[pc, KIND] == JOIN:
                _queue_products(program, state, options, events, recorded, warp, cycle)
        if issued == 0:
            cycle = min(first_eligible(next_cycle), happens)
            if cycle == NEVER:
                break
            continue
        stepped += issued
        cycle += 1
        if options.skip and begun < NEVER:
            skipped = _checkpoint(program, state, saved, cycle, begun, brent)
            cycle += skipped
            happens += skipped if happens < NEVER else 0
        if stepped >= pause:
            if stepped < options.limit:
                held[0], held[1], held[2] = recorded, decisions, stepped
                held[3], held[4] = cycle, happens
                return PAUSED, 0, 0, 0, 0, 0
            if first_eligible(next_cycle) < NEVER:
                status = OVER_LIMIT
                break
    total = 0
    instructions = 0
    for warp in range(next_cycle.shape[0]):
        total = max(total, warps[warp, LAST_END])
        instructions += warps[warp, DONE]
        if status == COMPLETE and warps[warp, PHASE] != ENDED:
            status = DEADLOCK
    return status, total, instructions, stepped, recorded, decisions
