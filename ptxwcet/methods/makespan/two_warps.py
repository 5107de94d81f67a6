"""The longest makespan of two warps for L = C = 1: the one number that no closed form covers.

With both warps at different letters both are served; at equal letters one of them is. So the
schedules are the paths through a grid of positions, and ``f(p, q)``, the slots that remain with
one warp at p and the other behind it at q, is

    f(I, q) = I - q
    f(p, q) = 1 + f(p + 1, q + 1)                         letters differ
    f(p, q) = 1 + max(f(p + 1, q), f(p, q + 1))           letters are equal

where ``f(p, p + 1)`` is ``f(p + 1, p)``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptxwcet.methods.makespan.schedule import Schedule, Slot
from ptxwcet.support.jit import compiled


def longest_of_two(string: str) -> tuple[int, Schedule]:
    """T(2) for L = C = 1 and a schedule that takes so long. Cost: I^2, a byte each."""
    kinds = np.array([letter == "C" for letter in string], np.uint8)
    follower_moves = np.zeros((len(string), len(string)), np.uint8)
    slots = int(_fill(kinds, follower_moves))
    return slots, _schedule(string, follower_moves)


@compiled
def _fill(kinds: NDArray[np.uint8], follower_moves: NDArray[np.uint8]) -> int:
    """f(0, 0); ``follower_moves[q, p]``: the warp behind is served alone."""
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


def _schedule(string: str, follower_moves: NDArray[np.uint8]) -> Schedule:
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
