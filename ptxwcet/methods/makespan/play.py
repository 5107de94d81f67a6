"""Long schedules without a search: a few ways to choose, played slot by slot.

What is found is a lower bound of the worst case: these schedules are legal.
"""

from __future__ import annotations

from collections.abc import Callable

from ptxwcet.methods.makespan.schedule import Schedule, Slot

Preference = Callable[[int, int], tuple[int, int]]
"""Of a warp's position and number: who has less is served first."""

PREFERENCES: tuple[Preference, ...] = (
    lambda _position, warp: (warp, 0),  # the last warp starves
    lambda position, warp: (position, warp),  # those behind first: all stay together
    lambda position, warp: (-position, warp),  # those ahead first
    lambda position, warp: (position, -warp),
    lambda position, warp: (warp % 2, position),
)
"""The ways that are tried."""


def play(string: str, warps: int, load_store: int, cores: int, prefer: Preference) -> Schedule:
    """The work-conserving schedule of one preference. Cost: slots times warps."""
    position = [0] * warps
    slots: list[Slot] = []
    while True:
        waiting: dict[str, list[tuple[int, int]]] = {"L": [], "C": []}
        for warp, place in enumerate(position):
            if place < len(string):
                waiting[string[place]].append((place, warp))
        served = [
            tuple(sorted(w for _, w in sorted(waiting[kind], key=lambda at: prefer(*at))[:most]))
            for kind, most in (("L", load_store), ("C", cores))
        ]
        if not any(served):
            return Schedule(tuple(slots))
        slots.append(Slot(*served))
        for warp in (*served[0], *served[1]):
            position[warp] += 1


def play_longest(string: str, warps: int, load_store: int, cores: int) -> Schedule:
    """The longest of the schedules of :data:`PREFERENCES`."""
    runs = (play(string, warps, load_store, cores, prefer) for prefer in PREFERENCES)
    return max(runs, key=lambda schedule: schedule.makespan)
