"""The machine of ``grid_machine.py`` on arrays, compiled: for millions of runs.

The same rules, written a second time; ``test_grid_attack.py`` compares every block of both. A run
is steered by a script of choices, by chance, or by chance with fixed preferences, which starves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt
from grid_machine import Grid

Ints = npt.NDArray[np.int64]

SCRIPT, CHANCE, STARVE, YOUNGEST, OLDEST = range(5)
"""Modes of a run. Columns of an operation: unit, init, lat, two reads, barrier, bubble."""

LIGHT, HEAVY, EXTRA = range(3)
"""Classes of sections (docs/methods/grid.md)."""

Clock = tuple[tuple[int, int, int, int], ...]
"""Of each section of a kind: class, slack that counts in its slot, slack that counts always, the
work of its busiest sub-core.
"""


@dataclass(frozen=True)
class Image:
    """A grid and an order of its blocks as arrays: what each operation is, how it is jittered."""

    shape: Ints
    kind_of: Ints
    lengths: Ints
    ops: Ints
    demand: Ints


def image(grid: Grid, order: tuple[int, ...], clocks: tuple[Clock, ...]) -> Image:
    """``clocks``: of each kind, for the clock of the slots."""
    warps = max(map(len, grid.kinds))
    longest = max([1, *(len(w) for block in grid.kinds for w in block)])
    lengths = np.full((len(grid.kinds), warps), -1, np.int64)
    ops = np.zeros((len(grid.kinds), warps, longest, 7), np.int64)
    units = 1
    for k, block in enumerate(grid.kinds):
        for w, warp in enumerate(block):
            lengths[k, w] = len(warp)
            for n, op in enumerate(warp):
                first, second = (*op.reads, -1, -1)[:2]
                row = (op.unit, op.init, op.lat, first, second, op.is_barrier, op.bubble)
                ops[k, w, n] = row
                units = max(units, op.unit + 1)
    clock = np.zeros((len(grid.kinds), max([1, *map(len, clocks)]), 4), np.int64)
    for k, rows in enumerate(clocks):
        clock[k, : len(rows)] = rows
    shape = [
        *(grid.sms, grid.slots, grid.cores, units, grid.delay, grid.gap, grid.breadth),
        *(grid.late, grid.shared, grid.servers, grid.turns),
    ]
    return Image(
        np.array(shape, np.int64),
        np.array(order, np.int64),
        lengths,
        ops,
        clock,
    )


def nominal(made: Image) -> Ints:
    """Initiations and latencies of the model for each block of the order."""
    timing: Ints = made.ops[made.kind_of][:, :, :, 1:3].copy()
    return timing


@numba.njit(cache=True)
def _pick(mode, m, script, count, options):
    """A choice among m >= 2 that no preference decides."""
    options[count] = m
    if mode == 0:
        return script[count]
    return np.random.randint(m)


@numba.njit(cache=True)
def _reach(
    b, k, slot, sm, made_shape, lengths, ops, clock, state, part, left, slack, always, charged
):
    """A section begins: ``slack`` has that of the blocks before which each comes, ``always`` that
    of the SMs, ``charged`` the work that counts on one sub-core each.
    """
    cores, warps = made_shape[2], lengths.shape[1]
    many = 0
    for w in range(warps):
        many += lengths[k, w] >= 0
    left[b] = 0
    for w in range(warps):
        for n in range(state[b, w, 0], lengths[k, w]):
            left[b, (w + slot * many) % cores, 0] += 1
            if ops[k, w, n, 5]:
                break
    slack[b] += clock[k, part[b], 1]
    always[sm] += clock[k, part[b], 2]
    for core in range(cores):
        if clock[k, part[b], 0] == 1 and left[b, core, 0] == 0:
            charged[sm, core] += clock[k, part[b], 3]


@numba.njit(cache=True)
def _next_span(sums):
    """Of the largest sums without a switch in this section, and with one: a section begins."""
    for core in range(len(sums)):
        sums[core, 0] = max(sums[core, 0], sums[core, 1])
        sums[core, 1] = -(1 << 40)


@numba.njit(cache=True)
def _end(given, many, ends, sm, slots, opened, since, before, out):
    """A block of an SM has ended: how many of the first have all, and which of them the last."""
    while ends[sm] < many[sm] and out[given[sm, ends[sm]], 3] >= 0:
        b = given[sm, ends[sm]]
        last = before[sm, ends[sm]]
        if last < 0 or out[b, 3] >= out[last, 3]:
            last = b
        ends[sm] += 1
        since[sm, ends[sm]] = opened
        before[sm, ends[sm]] = last


@numba.njit(cache=True)
def _age(many, ends, sm, slots, opened, since):
    """For how many open cycles an SM's next block has been promised; -1: it is not yet."""
    first = max(0, many[sm] + 1 - slots)
    return opened - since[sm, first] if first <= ends[sm] else -1


@numba.njit(cache=True)
def run_fast(made_shape, kind_of, lengths, ops, clock, actual, mode, script, options, out, prefer):
    """A run; out gets SM, slot, start and end of each block. Cycles, choices, largest excess.

    The excess: over all cycles, sub-cores, blocks and places that are promised, the largest ``t``
    less what the clock says (docs/methods/grid.md), by the theorem at most 0.
    """
    sms, slots, cores, units, delay, gap, breadth, late, shared, servers, turns = made_shape
    blocks = len(kind_of)
    warps, longest = lengths.shape[1], ops.shape[2]
    holds = np.full((sms, slots), -1, np.int64)
    age = np.zeros((sms, slots), np.int64)
    queues = np.zeros((sms, cores, units, servers), np.int64)
    # a warp of a block: next, earliest, end, waits
    state = np.zeros((blocks, warps, 4), np.int64)
    ready = np.zeros((blocks, warps, longest), np.int64)
    part = np.zeros(blocks, np.int64)
    left = np.zeros((blocks, cores, 2), np.int64)  # of a section: to issue, charged
    # what an SM was given, how many, how many of the first have ended, since when, the last of them
    given = np.full((sms, blocks), -1, np.int64)
    many_given = np.zeros(sms, np.int64)
    ends = np.zeros(sms, np.int64)
    since = np.zeros((sms, blocks + 1), np.int64)
    before = np.full((sms, blocks + 1), -1, np.int64)
    out[:, 3] = -1
    slack = np.zeros(blocks, np.int64)
    always = np.zeros(sms, np.int64)
    work = np.zeros(sms, np.int64)
    charged = np.zeros((sms, cores), np.int64)
    sums = np.zeros((blocks, cores, 2), np.int64)
    unused = np.zeros((sms, cores, 2), np.int64)  # of a place that no block has had
    unused[:, :, 1] = -(1 << 40)
    opens_now = np.zeros(blocks, np.bool_)
    count = started = cycle = gate = ended = opened = 0
    excess = -(1 << 40)
    while True:
        for sm in range(sms):  # barriers
            for slot in range(slots):
                b = holds[sm, slot]
                if b < 0:
                    continue
                k = kind_of[b]
                waiting = 0
                opens = True
                for w in range(warps):
                    if lengths[k, w] < 0:
                        continue
                    if state[b, w, 3] > 0:
                        waiting += 1
                    elif state[b, w, 0] < lengths[k, w] or state[b, w, 2] + late > cycle:
                        opens = False
                opens_now[b] = waiting > 0 and opens
        for sm in range(sms):
            for slot in range(slots):
                b = holds[sm, slot]
                many = 0
                if b >= 0:
                    k = kind_of[b]
                    for w in range(warps):
                        many += lengths[k, w] >= 0
                    for core in range(cores):
                        is_done = True
                        for w in range(warps):
                            if lengths[k, w] >= 0 and (w + slot * many) % cores == core:
                                if state[b, w, 0] < lengths[k, w]:
                                    is_done = is_done and state[b, w, 3] > 0
                                elif state[b, w, 3] == 0:
                                    is_done = is_done and state[b, w, 2] <= cycle
                        if is_done or opens_now[b]:
                            for other in range(cores):
                                sums[b, core, 1] = max(sums[b, core, 1], sums[b, other, 0])
                    said = slack[b] + always[sm] + work[sm] + gap * started
                    for core in range(cores):
                        beside = max(sums[b, core, 0], sums[b, core, 1])
                        excess = max(excess, cycle - said - charged[sm, core] - beside)
                if b < 0:
                    continue
                if opens_now[b]:
                    for w in range(warps):
                        if state[b, w, 3] > 0:
                            state[b, w, 3] = 0
                            state[b, w, 1] = max(state[b, w, 1], cycle)
                    part[b] += 1
                    _reach(
                        *(b, kind_of[b], slot, sm, made_shape, lengths, ops, clock, state, part),
                        *(left, slack, always, charged),
                    )
                    _next_span(sums[b])
                over = True
                for w in range(warps):
                    if lengths[k, w] >= 0 and (
                        state[b, w, 0] < lengths[k, w]
                        or state[b, w, 3] > 0
                        or state[b, w, 2] > cycle
                    ):
                        over = False
                if over:
                    out[b, 3] = cycle
                    ended += 1
                    holds[sm, slot] = -1
                    age[sm, slot] = 0
            if started < blocks and _age(many_given, ends, sm, slots, opened, since) >= 0:
                last = before[sm, max(0, many_given[sm] + 1 - slots)]
                said = delay + always[sm] + work[sm] + gap * started
                if last >= 0:
                    said += slack[last]
                for core in range(cores):
                    beside = unused[sm, core, 0]
                    if last >= 0:
                        beside = max(sums[last, core, 0], sums[last, core, 1])
                    excess = max(excess, cycle - said - charged[sm, core] - beside)
            _end(given, many_given, ends, sm, slots, opened, since, before, out)
        # --- dispatch
        while started < blocks and cycle >= gate:
            free = 0
            forced = False
            least = 1 << 40
            for sm in range(sms):
                held = 0
                has = False
                for slot in range(slots):
                    if holds[sm, slot] < 0:
                        has = True
                        free += 1
                        if turns == 0 and age[sm, slot] >= delay:
                            forced = True
                    else:
                        held += 1
                promised = _age(many_given, ends, sm, slots, opened, since)
                if turns and has and promised >= delay:
                    forced = True
                if has:
                    least = min(least, held)
            if free == 0:
                break
            offers = 0
            chosen_sm = chosen_slot = -1
            for turn in range(2):  # count, then choose
                if turn == 1:
                    m = offers + (0 if forced else 1)
                    which = 0
                    if m > 1:
                        which = _pick(mode, m, script, count, options)
                        count += 1
                    if which == offers:
                        break
                    offers = 0
                for sm in range(sms):
                    held = 0
                    place = -1
                    promised = _age(many_given, ends, sm, slots, opened, since)
                    for slot in range(slots - 1, -1, -1):
                        there = age[sm, slot]
                        if turns:
                            there = promised
                        if holds[sm, slot] >= 0:
                            held += 1
                        elif turns == 2 and not forced and there < 0:
                            continue
                        elif breadth or not forced or there >= delay:
                            place = slot
                    if place < 0 or (breadth and held > least):
                        continue
                    if turn == 1 and offers == which:
                        chosen_sm, chosen_slot = sm, place
                    offers += 1
            if chosen_sm < 0:
                break
            b = started
            k = kind_of[b]
            holds[chosen_sm, chosen_slot] = b
            out[b, 0], out[b, 1], out[b, 2] = chosen_sm, chosen_slot, cycle
            empty = True
            for w in range(warps):
                state[b, w, 1] = cycle
                if lengths[k, w] > 0:
                    empty = False
            started += 1
            # the block before, of those that it may have to wait for: one that runs, or the last
            last = -1
            first = max(0, many_given[chosen_sm] + 1 - slots)
            if first <= ends[chosen_sm]:
                last = before[chosen_sm, first]
            else:
                last = given[chosen_sm, ends[chosen_sm]]
            slack[b] = delay
            for core in range(cores):
                for switched in range(2):
                    sums[b, core, switched] = unused[chosen_sm, core, switched]
                    if last >= 0:
                        sums[b, core, switched] = sums[last, core, switched]
            if last >= 0:
                slack[b] += slack[last]
            given[chosen_sm, many_given[chosen_sm]] = b
            many_given[chosen_sm] += 1
            _reach(
                *(b, k, chosen_slot, chosen_sm, made_shape, lengths, ops, clock, state, part),
                *(left, slack, always, charged),
            )
            _next_span(sums[b])
            gate = cycle + gap
            if empty:
                out[b, 3] = cycle
                ended += 1
                holds[chosen_sm, chosen_slot] = -1
                age[chosen_sm, chosen_slot] = 0
                _end(given, many_given, ends, chosen_sm, slots, opened, since, before, out)
        if cycle >= gate:
            opened += 1
            for sm in range(sms):
                for slot in range(slots):
                    if holds[sm, slot] < 0:
                        age[sm, slot] += 1
        if ended == blocks:
            return cycle, count, excess
        if cycle > 1_000_000:
            return -1, count, excess
        for sm in range(sms):
            # --- issue
            for core in range(cores):
                found = 0
                best_b = best_w = -1
                best = 0
                for turn in range(2):
                    if turn == 1:
                        if found == 0:
                            break
                        which = 0
                        if found > 1:
                            if mode <= 1:
                                which = _pick(mode, found, script, count, options)
                                count += 1
                            else:
                                break
                        found = 0
                    for slot in range(slots):
                        b = holds[sm, slot]
                        if b < 0:
                            continue
                        k = kind_of[b]
                        many = 0
                        for w in range(warps):
                            if lengths[k, w] >= 0:
                                many += 1
                        for w in range(warps):
                            if lengths[k, w] < 0 or (w + slot * many) % cores != core:
                                continue
                            n = state[b, w, 0]
                            if n >= lengths[k, w] or state[b, w, 3] > 0 or state[b, w, 1] > cycle:
                                continue
                            r1, r2 = ops[k, w, n, 3], ops[k, w, n, 4]
                            if r1 >= 0 and ready[b, w, r1] > cycle:
                                continue
                            if r2 >= 0 and ready[b, w, r2] > cycle:
                                continue
                            if turn == 0:
                                if mode == 2:
                                    rank = prefer[b, w]
                                elif mode == 3:
                                    rank = b * warps + w
                                else:
                                    rank = -(b * warps + w)
                                if best_b < 0 or rank > best:
                                    best_b, best_w, best = b, w, rank
                            elif found == which:
                                best_b, best_w = b, w
                            found += 1
                if best_b < 0:
                    continue
                b, w = best_b, best_w
                k = kind_of[b]
                n = state[b, w, 0]
                row = 0 if shared else core
                unit = ops[k, w, n, 0]
                server = 0
                for other in range(1, servers):
                    if queues[sm, row, unit, other] < queues[sm, row, unit, server]:
                        server = other
                begin = max(cycle, queues[sm, row, unit, server])
                freed = begin + actual[b, w, n, 0]
                queues[sm, row, unit, server] = freed
                end = freed + actual[b, w, n, 1]
                ready[b, w, n] = end
                state[b, w, 2] = max(state[b, w, 2], end)
                state[b, w, 0] = n + 1
                state[b, w, 3] = ops[k, w, n, 5]
                state[b, w, 1] = cycle + 1 + ops[k, w, n, 6]
                said = ops[k, w, n, 1]
                left[b, core, 0] -= 1
                left[b, core, 1] += said
                row_of = clock[k, part[b]]
                if row_of[0] == 0:
                    work[sm] += said
                elif row_of[0] == 1:
                    charged[sm, core] += said
                    if left[b, core, 0] == 0:
                        charged[sm, core] += row_of[3] - left[b, core, 1]
                else:
                    unused[sm, core, 0] += said
                    for other in range(many_given[sm]):
                        sums[given[sm, other], core, 0] += said
                        sums[given[sm, other], core, 1] += said
        cycle += 1


@numba.njit(cache=True)
def many_runs(made_shape, kind_of, lengths, ops, clock, seed, runs, percent, starve):
    """The longest of ``runs`` runs by chance, each in an order of its own, and the largest excess
    of the clock; timings are shortened with probability ``percent`` / 100.
    """
    np.random.seed(seed)
    blocks, warps, longest = len(kind_of), lengths.shape[1], ops.shape[2]
    options = np.zeros(200_000, np.int64)
    script = np.zeros(1, np.int64)
    out = np.zeros((blocks, 4), np.int64)
    prefer = np.zeros((blocks, warps), np.int64)
    actual = np.zeros((blocks, warps, longest, 2), np.int64)
    most, excess = 0, -(1 << 40)
    order = kind_of.copy()
    for run in range(runs):
        for i in range(blocks - 1, 0, -1):
            j = np.random.randint(i + 1)
            order[i], order[j] = order[j], order[i]
        jitter = percent if run % 2 else 0
        for b in range(blocks):
            for w in range(warps):
                prefer[b, w] = np.random.randint(1000)
                for n in range(longest):
                    init, lat = ops[order[b], w, n, 1], ops[order[b], w, n, 2]
                    if jitter and np.random.randint(100) < jitter:
                        init = 1 + np.random.randint(max(init, 1))
                        lat = np.random.randint(lat + 1)
                    actual[b, w, n, 0], actual[b, w, n, 1] = init, lat
        mode = 1 if np.random.randint(100) >= starve else 2 + np.random.randint(3)
        cycles, _, above = run_fast(
            made_shape, order, lengths, ops, clock, actual, mode, script, options, out, prefer
        )
        most = max(most, cycles)
        excess = max(excess, above)
    return most, excess


@numba.njit(cache=True)
def all_runs(made_shape, kind_of, lengths, ops, clock, actual, most_runs):
    """The longest of all runs of an order, the clock's excess, how many; -1 for too many."""
    blocks, warps = len(kind_of), lengths.shape[1]
    options = np.zeros(20_000, np.int64)
    script = np.zeros(20_000, np.int64)
    out = np.zeros((blocks, 4), np.int64)
    prefer = np.zeros((blocks, warps), np.int64)
    most, excess, runs = 0, -(1 << 40), 0
    while True:
        cycles, count, above = run_fast(
            made_shape, kind_of, lengths, ops, clock, actual, 0, script, options, out, prefer
        )
        runs += 1
        most = max(most, cycles)
        excess = max(excess, above)
        while count > 0 and script[count - 1] + 1 >= options[count - 1]:
            script[count - 1] = 0
            count -= 1
        if count == 0:
            return most, excess, runs
        script[count - 1] += 1  # all behind it are 0 again
        if runs >= most_runs:
            return most, excess, -1
