"""Grids on SMs whose units have servers behind them, from docs/methods/memory-servers.md alone.

What an instruction has initiated at its unit goes on to the memory path of its SM, and from there
to the memory of the GPU; each is one server, which is never idle while something waits for it, and
serves in any order. What an instruction loses on the way it may lose before each of them. Others
may have the memory serve them too. Between path and memory may lie a cache, one more server, with
units that it keeps (docs/methods/first-touch.md). Blocks and warps are those of
``grid_machine.py``, compiled here, for many runs by chance.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numba
import numpy as np
import numpy.typing as npt
from grid_machine import Block, Demand, Grid, Op, demand

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Served(Op):
    """An operation that takes ``path`` cycles of its SM's path, and ``memory`` of the GPU's.

    Of the cache it takes ``cache``. If it is of a unit that the cache keeps, the memory is asked
    for that unit alone, for ``fetch`` cycles.
    """

    path: int = 0
    memory: int = 0
    cache: int = 0
    unit_kept: int = -1
    fetch: int = 0

    @property
    def takes(self) -> int:
        """What servers take for itself is part of what its result takes."""
        return self.lat + self.path + self.cache + self.memory


@dataclass(frozen=True)
class ServedGrid:
    """A grid, and what else there is: ``posted``, a block does not wait for the memory to take what
    none of its warps reads; others' traffic of ``burst + rate / 256`` cycles a cycle. ``kept``: the
    cache keeps so many units. ``feeders``: the path keeps up with so many units of an SM that feed
    it, if not 0: it is first in first out, what feeds it takes at least ``feeders`` times its
    ``path`` and reaches it the same time after, whatever it is. ``false``: not the machine of the
    page, but one whose joined misses lose the latency of the first one too (1), which keeps nothing
    (2), where the time before the path varies (3), whose feeders take a cycle (4), or whose path
    serves in any order (5).
    """

    grid: Grid
    posted: bool = False
    burst: int = 0
    rate: int = 0
    kept: int = 0
    false: int = 0
    feeders: int = 0
    named: dict[str, int] = field(default_factory=dict)


def path_of(op: Op) -> int:
    return op.path if isinstance(op, Served) else 0


def memory_of(op: Op) -> int:
    return op.memory if isinstance(op, Served) else 0


def cache_of(op: Op) -> int:
    return op.cache if isinstance(op, Served) else 0


def at_memory(op: Op) -> tuple[int, int, int]:
    """Cycles at the memory, those at the cache, the unit."""
    if not isinstance(op, Served):
        return 0, 0, -1
    return op.fetch if op.unit_kept >= 0 else op.memory, op.cache, op.unit_kept


@dataclass(frozen=True)
class ServedDemand:
    """What a block asks of units; cycles at the path; cycles of the memory."""

    units: Demand
    path: int
    memory: int


def served_demand(block: Block, cores: int) -> ServedDemand:
    """By the definitions."""
    ops = [op for warp in block for op in warp]
    return ServedDemand(demand(block, cores), sum(map(path_of, ops)), sum(map(memory_of, ops)))


def arrays(served: ServedGrid, order: tuple[int, ...]) -> tuple[Ints, Ints, Ints, Ints]:
    """Shape, kinds in order, lengths of warps, operations."""
    grid = served.grid
    warps = max(map(len, grid.kinds))
    longest = max([1, *(len(w) for block in grid.kinds for w in block)])
    lengths = np.full((len(grid.kinds), warps), -1, np.int64)
    ops = np.zeros((len(grid.kinds), warps, longest, 12), np.int64)
    units = 1
    for k, block in enumerate(grid.kinds):
        for w, warp in enumerate(block):
            lengths[k, w] = len(warp)
            read = {place for op in warp for place in op.reads}
            for n, op in enumerate(warp):
                first, second = (*op.reads, -1, -1)[:2]
                row = (op.unit, op.init, op.lat, first, second, op.is_barrier, op.bubble)
                memory, cache, unit = at_memory(op)
                ops[k, w, n] = (*row, path_of(op), memory, n in read, cache, unit)
                units = max(units, op.unit + 1)
    shape = (grid.sms, grid.slots, grid.cores, units, served.posted, served.burst, served.rate)
    shape = (*shape, served.kept, served.false, served.feeders)
    return np.array(shape, np.int64), np.array(order, np.int64), lengths, ops


_IN_UNIT, _TO_PATH, _AT_PATH, _ON_PATH = range(1, 5)
_TO_CACHE, _AT_CACHE, _IN_CACHE, _JOINED = range(5, 9)
_TO_MEMORY, _AT_MEMORY, _IN_MEMORY, _COMING, _DONE = range(9, 14)
_ABSENT, _ASKED, _THERE = range(3)


@numba.njit(cache=True)
def longest_run(shape, kind_of, lengths, ops, seed, runs, jitter, late):
    """The longest of some runs by chance; -1 if one does not end.

    ``jitter``: in how many of 100 runs times are below the model's. ``late``: a warp that has ended
    counts as arrived a cycle later.
    """
    return longest_runs(shape, kind_of, lengths, ops, seed, runs, jitter, late)[0]


@numba.njit(cache=True)
def longest_runs(shape, kind_of, lengths, ops, seed, runs, jitter, late):
    """As :func:`longest_run`, and the longest time that an access spends at the path of its SM."""
    np.random.seed(seed)
    longest = 0
    at_path = np.zeros(1, np.int64)
    for _ in range(runs):
        is_jittered = np.random.randint(100) < jitter
        found = _run(shape, kind_of, lengths, ops, is_jittered, late, False, at_path)
        if found < 0:
            return -1, at_path[0]
        longest = max(longest, found)
    return longest, at_path[0]


@numba.njit(cache=True)
def first_come_run(shape, kind_of, lengths, ops):
    """The run of the oldest warp first and servers in the order of arrival, with the model's times
    and all of a latency lost behind the last server; -1 if it does not end.

    What arrives in the same cycle is served by warp, then by the warp's program.
    """
    return _run(shape, kind_of, lengths, ops, False, False, True, np.zeros(1, np.int64))


@numba.njit(cache=True)
def _some(number, jittered):
    return np.random.randint(number + 1) if jittered and number > 0 else number


@numba.njit(cache=True)
def _run(shape, kind_of, lengths, ops, jittered, late, first_come, at_path):
    sms, slots, cores, units, posted, burst, rate, kept, false, feeders = shape
    blocks = len(kind_of)
    warps, longest = lengths.shape[1], ops.shape[2]
    holds = np.full((sms, slots), -1, np.int64)
    free = np.zeros((sms, cores, units), np.int64)
    nexts = np.zeros((blocks, warps), np.int64)
    earliest = np.zeros((blocks, warps), np.int64)
    waits = np.zeros((blocks, warps), np.int64)
    ends = np.zeros((blocks, warps), np.int64)  # of what was done last
    stage = np.zeros((blocks, warps, longest), np.int64)
    until = np.zeros((blocks, warps, longest), np.int64)
    left = np.zeros((blocks, warps, longest), np.int64)  # of the latency
    home = np.zeros(blocks, np.int64)
    core_of = np.zeros((blocks, warps), np.int64)
    lead = np.random.rand(blocks, warps)  # who goes first, in runs that starve others
    starve = np.random.randint(3)
    latest = np.random.randint(3)  # servers: any, latest first, by the lead of the warp
    lost = np.random.randint(3)  # latencies: behind the last server, before the next, by chance
    if first_come:
        starve, latest, lost = 1, 3, 0
        for w in range(warps):
            lead[:, w] = w / warps
    before_path = np.full((sms, cores, units), 1 << 30, np.int64)  # where the path keeps up
    for k in range(len(lengths) if feeders else 0):
        for w in range(warps):
            for n in range(lengths[k, w]):
                if ops[k, w, n, 7]:
                    unit, lat = ops[k, w, n, 0], ops[k, w, n, 2]
                    before_path[:, :, unit] = np.minimum(before_path[:, :, unit], lat)
    for sm in range(sms if feeders else 0):
        for core in range(cores):
            for unit in range(units):
                least = min(before_path[sm, core, unit], 1 << 20)
                before_path[sm, core, unit] = np.random.randint(least + 1)
    path_order = 4 if feeders and false != 5 else latest
    path_free = np.zeros(sms, np.int64)
    memory_free = cache_free = 0
    unit_is = np.zeros(kept, np.int64)
    fetched_by = np.zeros((kept, 3), np.int64)
    behind = np.zeros(kept, np.int64)  # write-backs left: of what it held, of what it holds
    behind[:] = 2
    write_backs = 0
    others = burst * 256
    greedy = np.random.randint(2) == 0
    started = ended = cycle = 0
    while True:
        # --- what is on its way
        moved = True
        while moved:
            moved = False
            for b in range(started):
                k = kind_of[b]
                for w in range(warps):
                    for n in range(nexts[b, w]):
                        if until[b, w, n] > cycle:
                            continue
                        now = stage[b, w, n]
                        path, memory = ops[k, w, n, 7], ops[k, w, n, 8]
                        if now in (_AT_PATH, _AT_CACHE, _AT_MEMORY, _DONE):
                            continue
                        cache, unit = ops[k, w, n, 10], ops[k, w, n, 11]
                        if now == _JOINED:
                            first = fetched_by[unit]
                            holder = stage[first[0], first[1], first[2]]
                            if unit_is[unit] == _THERE and (false != 1 or holder == _DONE):
                                stage[b, w, n] = _COMING
                                until[b, w, n] = cycle + left[b, w, n]
                                left[b, w, n] = 0
                                moved = True
                            continue
                        moved = True
                        if now == _COMING:
                            stage[b, w, n] = _DONE
                            ends[b, w] = max(ends[b, w], cycle)
                        elif now == _TO_PATH:
                            stage[b, w, n] = _AT_PATH
                        elif now == _TO_MEMORY:
                            stage[b, w, n] = _AT_MEMORY
                        elif now == _TO_CACHE:
                            stage[b, w, n] = _AT_CACHE
                        elif now == _IN_CACHE and unit >= 0 and false == 2:
                            stage[b, w, n] = _AT_MEMORY
                        elif now == _IN_CACHE and unit >= 0 and unit_is[unit] == _ASKED:
                            stage[b, w, n] = _JOINED
                        elif now == _IN_CACHE and unit >= 0 and unit_is[unit] == _ABSENT:
                            stage[b, w, n] = _AT_MEMORY
                            unit_is[unit] = _ASKED
                            fetched_by[unit] = b, w, n
                            if behind[unit] == 2 and np.random.randint(4):
                                write_backs += memory
                                behind[unit] = 1
                        else:  # a server has done with it: some of the latency, then the next
                            part = left[b, w, n]
                            if now == _IN_MEMORY and unit >= 0:
                                unit_is[unit] = _THERE
                                if behind[unit] and np.random.randint(4):
                                    write_backs += memory
                                    behind[unit] = 0
                            if now == _IN_UNIT and path:
                                stage[b, w, n] = _TO_PATH
                            elif now in (_IN_UNIT, _ON_PATH) and cache:
                                stage[b, w, n] = _TO_CACHE
                            elif now == _IN_CACHE and unit >= 0:
                                stage[b, w, n] = _COMING
                            elif now != _IN_MEMORY and memory:
                                stage[b, w, n] = _TO_MEMORY
                            else:
                                stage[b, w, n] = _COMING
                            if stage[b, w, n] != _COMING and lost != 1:
                                part = np.random.randint(part + 1) if lost == 2 else 0
                            if stage[b, w, n] == _TO_PATH and feeders:
                                unit, core = ops[k, w, n, 0], core_of[b, w]
                                part = before_path[home[b], core, unit]
                                if false == 3:
                                    part = left[b, w, n] * np.random.randint(2)
                            left[b, w, n] -= part
                            until[b, w, n] = cycle + part
            # --- servers: never idle while something waits
            for sm in range(sms):
                if path_free[sm] <= cycle:
                    b, w, n = _chosen(
                        stage, until, _AT_PATH, sm, home, nexts, started, warps, path_order, lead
                    )
                    if b >= 0:
                        service = max(1, _some(ops[kind_of[b], w, n, 7], jittered))
                        path_free[sm] = cycle + service
                        at_path[0] = max(at_path[0], cycle - until[b, w, n] + service)
                        stage[b, w, n], until[b, w, n] = _ON_PATH, cycle + service
                        moved = True
            if kept and cache_free <= cycle:
                b, w, n = _chosen(
                    stage, until, _AT_CACHE, -1, home, nexts, started, warps, latest, lead
                )
                if b >= 0:
                    service = max(1, _some(ops[kind_of[b], w, n, 10], jittered))
                    cache_free = cycle + service
                    stage[b, w, n], until[b, w, n] = _IN_CACHE, cycle + service
                    moved = True
            if memory_free <= cycle:
                turn = np.random.randint(3)
                if others >= 256 and (greedy or turn == 0):
                    others -= 256
                    memory_free = cycle + 1
                elif write_backs and (greedy or turn == 1):
                    write_backs -= 1
                    memory_free = cycle + 1
                else:
                    b, w, n = _chosen(
                        stage, until, _AT_MEMORY, -1, home, nexts, started, warps, latest, lead
                    )
                    if b >= 0:
                        service = max(1, _some(ops[kind_of[b], w, n, 8], jittered))
                        memory_free = cycle + service
                        stage[b, w, n], until[b, w, n] = _IN_MEMORY, cycle + service
                        moved = True
        # --- barriers, ends, starts
        for sm in range(sms):
            for slot in range(slots):
                b = holds[sm, slot]
                if b < 0:
                    continue
                k = kind_of[b]
                waiting, opens, over = 0, True, True
                for w in range(warps):
                    if lengths[k, w] < 0:
                        continue
                    flying = False
                    for n in range(nexts[b, w]):
                        if stage[b, w, n] != _DONE:
                            gone = posted and stage[b, w, n] >= _TO_CACHE and ops[k, w, n, 9] == 0
                            if not gone or ops[k, w, n, 8] == 0:
                                flying = True
                    if flying or nexts[b, w] < lengths[k, w]:
                        over = False
                    if waits[b, w]:
                        waiting += 1
                    elif nexts[b, w] < lengths[k, w] or flying or ends[b, w] + late > cycle:
                        opens = False
                if waiting and opens:
                    for w in range(warps):
                        if waits[b, w]:
                            waits[b, w] = 0
                            earliest[b, w] = max(earliest[b, w], cycle)
                elif waiting:
                    over = False
                if over:
                    holds[sm, slot] = -1
                    ended += 1
        if ended == blocks:
            return cycle
        offset = np.random.randint(sms)
        for turn in range(sms * slots):
            sm, slot = (turn % sms + offset) % sms, turn // sms
            if started < blocks and holds[sm, slot] < 0:
                holds[sm, slot] = started
                home[started] = sm
                for w in range(warps):
                    earliest[started, w] = cycle
                started += 1
        if cycle > 100_000:
            return -1
        # --- issue
        for sm in range(sms):
            for core in range(cores):
                found = 0
                chosen_b = chosen_w = -1
                best = 2.0
                for slot in range(slots):
                    b = holds[sm, slot]
                    if b < 0:
                        continue
                    k = kind_of[b]
                    for w in range(warps):
                        if (w + slot * warps) % cores != core or waits[b, w]:
                            continue
                        n = nexts[b, w]
                        if n >= lengths[k, w] or earliest[b, w] > cycle:
                            continue
                        first, second = ops[k, w, n, 3], ops[k, w, n, 4]
                        if first >= 0 and stage[b, w, first] != _DONE:
                            continue
                        if second >= 0 and stage[b, w, second] != _DONE:
                            continue
                        found += 1
                        value = lead[b, w] if starve else np.random.random()
                        if value < best:
                            best, chosen_b, chosen_w = value, b, w
                if found == 0:
                    continue
                b, w = chosen_b, chosen_w
                k, n = kind_of[b], nexts[b, w]
                unit = ops[k, w, n, 0]
                init = max(1, _some(ops[k, w, n, 1], jittered))
                fed = feeders * ops[k, w, n, 7]
                if fed:
                    init = 1 if false == 4 else max(init, fed)
                core_of[b, w] = core
                free[sm, core, unit] = max(cycle, free[sm, core, unit]) + init
                stage[b, w, n], until[b, w, n] = _IN_UNIT, free[sm, core, unit]
                left[b, w, n] = _some(ops[k, w, n, 2], jittered)
                if fed:
                    left[b, w, n] = max(left[b, w, n], before_path[sm, core, unit])
                nexts[b, w] = n + 1
                waits[b, w] = ops[k, w, n, 5]
                earliest[b, w] = cycle + 1 + ops[k, w, n, 6]
        cycle += 1
        others = min(others + rate, (burst + 1) * 256 + rate) if burst or rate else 0


@numba.njit(cache=True)
def _chosen(stage, until, wanted, sm, home, nexts, started, warps, latest, lead):
    """One of those that wait at a server: any, the latest, by its warp's lead, or the first."""
    found = 0
    first = np.int64(1 << 60)
    at = (-1, -1, -1)
    best = 2.0
    for b in range(started):
        if sm >= 0 and home[b] != sm:
            continue
        for w in range(warps):
            for n in range(nexts[b, w]):
                if stage[b, w, n] != wanted:
                    continue
                found += 1
                if latest == 0:
                    if np.random.randint(found) == 0:
                        at = (b, w, n)
                elif latest == 1:
                    at = (b, w, n)
                elif latest >= 3:  # 4: any of those that came first
                    is_same = latest == 4 and until[b, w, n] == first and np.random.randint(2)
                    if until[b, w, n] < first or is_same:
                        first = until[b, w, n]
                        at = (b, w, n)
                elif lead[b, w] < best:
                    best = lead[b, w]
                    at = (b, w, n)
    return at
