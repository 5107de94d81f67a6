"""Solves exactly by symmetry: the longest path over the numbers of warps at each instruction.

Warps are identical, so a state is ``N_1 >= ... >= N_I``, the numbers of warps that have executed at
least 1, ..., I instructions. States are numbered by the combinatorial number system,

    number = sum over j of C(N_j + I - j, I - j + 1),

an order in which every slot leads to a higher number: one table, filled from its end, holds for
each state the slots that the longest work-conserving schedule still takes. A slot picks, of the
warps that wait for a kind of unit, as many as it serves, from any positions; as the two kinds pick
from different positions, the number of the next state is the sum of both picks' shares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import comb

import numpy as np
from numpy.typing import NDArray

from ptxwcet.methods.makespan.schedule import Schedule, Slot
from ptxwcet.support.jit import compiled
from ptxwcet.support.records import dataclass

Integers = NDArray[np.int64]
Table = NDArray[np.int32]

MOST_STATES = 100_000_000
"""The most states of a table; each takes four bytes."""

MOST_CHOICES = 1_000_000
"""The most choices of the warps that one kind of unit serves in a slot."""

MOST_STANDING = 1_000_000
"""The most letters times warps: the entries of the table that numbers the states."""
MOST_STEPS = 10_000_000_000
"""The most states times letters: about a minute of work."""

_CHUNK = 20_000_000  # steps between two checks of the clock


class OutOfTime(Exception):
    """The error of a time limit that was reached before the table was full."""


@dataclass(frozen=True, slots=True)
class StateTable:
    """The filled table: ``remaining[number]`` slots from each state to the end, at most."""

    string: str
    warps: int
    load_store: int
    cores: int
    remaining: Table

    @property
    def makespan(self) -> int:
        """T(W): the longest makespan of all work-conserving schedules."""
        return int(self.remaining[0])

    @property
    def states(self) -> int:
        """The number of states in the table, including those that no schedule reaches."""
        return len(self.remaining)


def count_states(length: int, warps: int) -> int:
    """Returns the number of states of a table: C(W + I, I)."""
    return comb(warps + length, length)


def is_in_reach(string: str, warps: int, load_store: int, cores: int) -> bool:
    """Returns whether a table is small enough. Cost: constant."""
    if len(string) * warps > MOST_STANDING:
        return False
    states = count_states(len(string), warps)
    return (
        states <= MOST_STATES
        and states * len(string) <= MOST_STEPS
        and _most_choices(string, warps, load_store, cores) <= MOST_CHOICES
    )


def fill_table(
    string: str,
    warps: int,
    load_store: int,
    cores: int,
    proceed: Callable[[int, int], bool] = lambda _done, _all: True,
) -> StateTable:
    """Returns the table of the longest schedules from every state.

    ``proceed(done, all)`` is called regularly and may stop the run. Raises: OutOfTime. Cost: ``C(W
    + I, I)`` states, each with as many successors as a slot has choices (for L = C = 1 at most I_L
    times I_C).
    """
    states = count_states(len(string), warps)
    remaining = np.zeros(states, np.int32)
    ranks = rank_table(len(string), warps)
    kinds = np.array([letter == "C" for letter in string], np.int64)
    capacities = np.array([load_store, cores], np.int64)
    most = _most_choices(string, warps, load_store, cores)
    reached = np.full(len(string), warps, np.int64)
    chunk = max(1, _CHUNK // (most * most + len(string)))  # pairs of picks, one of each kind
    number = states - 2
    while number >= 0:
        if not proceed(states - number, states):
            raise OutOfTime
        low = max(0, number - chunk + 1)
        _fill(remaining, ranks, kinds, capacities, warps, most, reached, number, low)
        number = low - 1
    return StateTable(string, warps, load_store, cores, remaining)


def rank_table(length: int, warps: int) -> Integers:
    """Returns ``[j, n]``: the share of ``N_{j+1} = n`` in a state's number."""
    rows = [
        [comb(n + length - j, length - j + 1) for n in range(warps + 1)]
        for j in range(1, length + 1)
    ]
    return np.array(rows, np.int64).reshape(length, warps + 1)


def _most_choices(string: str, warps: int, load_store: int, cores: int) -> int:
    """Returns the most choices of any slot to pick warps for one kind of unit."""
    most = 1
    for letter, capacity in (("L", load_store), ("C", cores)):
        positions, picked = string.count(letter), min(capacity, warps)
        most = max(most, comb(picked + positions - 1, picked) if positions else 1)
    return most


@compiled
def _choices(
    kind: int,
    capacity: int,
    kinds: Integers,
    ranks: Integers,
    warps: int,
    reached: Integers,
    used: Integers,
    shares: Integers,
) -> int:
    """Lists the picks of warps for a kind of unit, as shares of the number; returns the count."""
    length = len(kinds)
    waiting = 0
    for j in range(length):
        if kinds[j] == kind:
            waiting += (warps if j == 0 else reached[j - 1]) - reached[j]
    wanted = min(capacity, waiting)
    count = 1
    used[0] = 0
    shares[0] = 0
    left = waiting
    for j in range(length):
        if kinds[j] != kind:
            continue
        here = (warps if j == 0 else reached[j - 1]) - reached[j]
        if here == 0:
            continue
        left -= here  # those at later positions
        earlier = count
        for way in range(earlier):
            before = used[way]
            least = max(0, wanted - before - left)
            most = min(here, wanted - before)
            share = shares[way] - ranks[j, reached[j]]
            used[way] = before + least
            shares[way] = share + ranks[j, reached[j] + least]
            for taken in range(least + 1, most + 1):
                used[count] = before + taken
                shares[count] = share + ranks[j, reached[j] + taken]
                count += 1
    return count


@compiled
def _fill(
    remaining: Table,
    ranks: Integers,
    kinds: Integers,
    capacities: Integers,
    warps: int,
    most: int,
    reached: Integers,
    high: int,
    low: int,
) -> None:
    """Fills ``remaining`` from ``high`` down to ``low``; ``reached`` is the state above."""
    length = len(kinds)
    used = np.empty(most, np.int64)
    first = np.empty(most, np.int64)
    second = np.empty(most, np.int64)
    for number in range(high, low - 1, -1):
        j = length - 1
        while reached[j] == 0:
            j -= 1
        value = reached[j] - 1
        for k in range(j, length):
            reached[k] = value
        count_first = _choices(0, capacities[0], kinds, ranks, warps, reached, used, first)
        count_second = _choices(1, capacities[1], kinds, ranks, warps, reached, used, second)
        best = 0
        for a in range(count_first):
            for b in range(count_second):
                best = max(best, remaining[number + first[a] + second[b]])
        remaining[number] = best + 1


Pick = tuple[tuple[int, int], ...]
"""The warps that a slot serves: instruction and number of the warps there."""


def longest_schedule(table: StateTable) -> Schedule:
    """Returns a schedule with as many slots as the table has. Cost: slots times choices."""
    string, warps = table.string, table.warps
    ranks = rank_table(len(string), warps)
    standing: list[list[int]] = [list(range(warps)), *([] for _ in string)]
    reached = [0] * len(string)
    number, slots = 0, []
    while table.remaining[number]:
        wanted = table.remaining[number] - 1
        pick, shift = next(
            (pick, shift)
            for pick, shift in _slots(table, ranks, standing, reached)
            if table.remaining[number + shift] == wanted
        )
        number += shift
        served: dict[str, list[int]] = {"L": [], "C": []}
        for place, count in pick:
            moved, standing[place] = standing[place][:count], standing[place][count:]
            served[string[place]] += moved
            reached[place] += count
            standing[place + 1] += moved
        slots.append(Slot(tuple(sorted(served["L"])), tuple(sorted(served["C"]))))
    return Schedule(tuple(slots))


def _slots(
    table: StateTable, ranks: Integers, standing: list[list[int]], reached: list[int]
) -> Iterator[tuple[Pick, int]]:
    """Yields the picks of a slot in a state, with the growth of the state's number."""
    here: dict[str, list[tuple[int, int]]] = {"L": [], "C": []}
    for place, letter in enumerate(table.string):
        if standing[place]:
            here[letter].append((place, len(standing[place])))
    for loads in _picks(here["L"], table.load_store):
        for cores in _picks(here["C"], table.cores):
            # later instructions first: a warp that moves must not be picked again
            pick = tuple(sorted((*loads, *cores), reverse=True))
            grows = (ranks[j, reached[j] + n] - ranks[j, reached[j]] for j, n in pick)
            yield pick, int(sum(grows))


def _picks(here: list[tuple[int, int]], capacity: int) -> Iterator[Pick]:
    """Yields all picks of as many waiting warps as are served, laggards first."""
    wanted = min(capacity, sum(count for _, count in here))
    left = [sum(count for _, count in here[k:]) for k in range(len(here) + 1)]

    def extend(k: int, wanted: int) -> Iterator[Pick]:
        if k == len(here):
            yield ()
            return
        place, count = here[k]
        for taken in range(min(count, wanted), max(0, wanted - left[k + 1]) - 1, -1):
            for pick in extend(k + 1, wanted - taken):
                yield ((place, taken), *pick) if taken else pick

    yield from extend(0, wanted)


def longest_of_two(string: str) -> tuple[int, Schedule]:
    """Returns T(2) for L = C = 1, without a closed form, and a schedule. Cost: I^2 bytes.

    If both warps are at different letters both are served; at equal letters one of them is. So the
    schedules are the paths through a grid of positions, and ``f(p, q)``, the remaining slots with
    one warp at p and the later one at q, is::

        f(I, q) = I - q
        f(p, q) = 1 + f(p + 1, q + 1)                         letters differ
        f(p, q) = 1 + max(f(p + 1, q), f(p, q + 1))           letters are equal

    where ``f(p, p + 1)`` is ``f(p + 1, p)``.
    """
    kinds = np.array([letter == "C" for letter in string], np.uint8)
    follower_moves = np.zeros((len(string), len(string)), np.uint8)
    slots = int(_fill_two(kinds, follower_moves))
    return slots, _schedule_of_two(string, follower_moves)


@compiled
def _fill_two(kinds: NDArray[np.uint8], follower_moves: NDArray[np.uint8]) -> int:
    """Returns f(0, 0); ``follower_moves[q, p]``: only the later warp is served."""
    length = len(kinds)
    now = np.zeros(length + 1, np.int64)  # f(., q)
    after = np.zeros(length + 1, np.int64)  # f(., q + 1)
    for q in range(length - 1, -1, -1):
        now[length] = length - q
        for p in range(length - 1, q - 1, -1):
            if kinds[p] != kinds[q]:
                now[p] = 1 + after[p + 1]
                continue
            now[p] = 1 + now[p + 1]
            if p > q and after[p] >= now[p + 1]:
                now[p] = 1 + after[p]
                follower_moves[q, p] = 1
        now, after = after, now
    return int(after[0])


def _schedule_of_two(string: str, follower_moves: NDArray[np.uint8]) -> Schedule:
    length, ahead, behind, p, q = len(string), 0, 1, 0, 0
    slots = []
    while q < length:
        if p < length and string[p] != string[q]:
            served = [ahead, behind] if string[p] == "L" else [behind, ahead]
            slots.append(Slot((served[0],), (served[1],)))
            p, q = p + 1, q + 1
            continue
        follows = p == length or bool(follower_moves[q, p])
        warp = behind if follows else ahead
        slots.append(Slot((warp,), ()) if string[q] == "L" else Slot((), (warp,)))
        p, q = (p, q + 1) if follows else (p + 1, q)
    return Schedule(tuple(slots))
