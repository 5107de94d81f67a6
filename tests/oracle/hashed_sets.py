"""Caches of hashed sets under launches whose data lie in runs of lines.

Written from docs/methods/caches.md (C2): of each set the line that was used least recently leaves,
which may be dirty with what others left there; what a set is for a line is drawn.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from ptxwcet.bounds.caches import CacheUse, moved_if_hashed
from ptxwcet.memory.footprint import Footprint

SetOf = Callable[[int], int]


def hashed(sets: int, seed: int) -> SetOf:
    """The number modulo ``sets``, xor any function of the quotient."""
    rng = random.Random(f"hash {seed}")
    drawn: dict[int, int] = {}
    return lambda line: line % sets ^ drawn.setdefault(line // sets, rng.randrange(sets))


def anywhere(sets: int, seed: int) -> SetOf:
    """Any function at all: what is false."""
    rng = random.Random(f"any {seed}")
    drawn: dict[int, int] = {}
    return lambda line: drawn.setdefault(line, rng.randrange(sets))


@dataclass(frozen=True)
class Case:
    """A cache, and a launch that reads each sector of each run in turn, some times."""

    sets: int
    ways: int
    runs: tuple[range, ...]
    rounds: int

    @property
    def use(self) -> CacheUse:
        lengths = tuple(map(len, self.runs))
        lines = len({line for run in self.runs for line in run})
        touched = Footprint(0, 0, 4 * sum(lengths), lines, True, lengths)
        return CacheUse(1, 1, 4 * self.rounds * sum(lengths), touched, touched)

    @property
    def claimed(self) -> int | None:
        return moved_if_hashed(self.use, self.sets, self.ways, self.sets * self.ways)


def random_case(seed: int) -> Case:
    rng = random.Random(f"case {seed}")
    sets, ways = 1 << rng.randint(0, 4), rng.randint(1, 8)
    runs = []
    for number in range(rng.randint(1, 4)):
        first = 10_000 * number + rng.randrange(2 * sets)
        runs.append(range(first, first + rng.randint(1, 1 + sets * rng.randint(1, 3))))
    return Case(sets, ways, tuple(runs), 3)


def moved(case: Case, set_of: SetOf, seed: int) -> int:
    """The sectors that are fetched and written back."""
    rng = random.Random(f"order {seed}")
    cache = [[(False, -1)] * case.ways for _ in range(case.sets)]  # least recent first
    there: set[tuple[int, int]] = set()
    total = 0
    for _ in range(case.rounds):
        asked = [(line, sector) for run in case.runs for line in run for sector in range(4)]
        if rng.random() < 0.5:
            rng.shuffle(asked)
        for line, sector in asked:
            own = cache[set_of(line)]
            if (True, line) in own:
                own.remove((True, line))
            else:
                is_own, gone = own.pop(0)
                total += 0 if is_own else 4
                there -= {(gone, one) for one in range(4)} if is_own else set()
            own.append((True, line))
            total += (line, sector) not in there
            there.add((line, sector))
    return total
