"""Oracle: the longest makespan by trying every work-conserving schedule of numbered warps.

It knows nothing of symmetry: a state is each warp's position, a slot any set of waiting warps.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations


def longest_by_search(string: str, warps: int, load_store: int, cores: int) -> int:
    """T(W) by enumeration. Cost: exponential in the warps."""

    @cache
    def longest(position: tuple[int, ...]) -> int:
        queues = [
            [w for w, p in enumerate(position) if p < len(string) and string[p] == kind]
            for kind in "LC"
        ]
        if not any(queues):
            return 0
        best = 0
        for first in combinations(queues[0], min(load_store, len(queues[0]))):
            for second in combinations(queues[1], min(cores, len(queues[1]))):
                moved = {*first, *second}
                after = tuple(p + (w in moved) for w, p in enumerate(position))
                best = max(best, longest(after))
        return best + 1

    return longest((0,) * warps)
