"""A longest schedule from the table of states: the witness of its value."""

from __future__ import annotations

from collections.abc import Iterator

from ptxwcet.methods.makespan.schedule import Schedule, Slot
from ptxwcet.methods.makespan.states import Integers, StateTable, rank_table

Pick = tuple[tuple[int, int], ...]
"""Which warps a slot serves: instruction and how many of those that stand there."""


def longest_schedule(table: StateTable) -> Schedule:
    """A schedule that takes as many slots as the table says. Cost: slots times choices."""
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
    """What a slot may serve in a state, and by how much the state's number grows."""
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
    """All ways to pick as many as are served of those that wait, laggards first."""
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
