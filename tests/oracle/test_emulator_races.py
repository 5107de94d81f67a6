"""The race checks against their definition: accesses as events, their order as paths in a graph."""

import numpy as np
import pytest

from ptxwcet.emulator.races import READ, STRONG, STRONG_READ, WRITE, ClockRaces, EpochRaces

pytestmark = pytest.mark.fast

WARPS, BYTES = 4, 16


class Definition:
    """All events so far; two race if neither reaches the other in the graph."""

    def __init__(self):
        self.events = []  # warp, kind, bytes
        self.before = []  # for each event the set of events ordered before it
        self.seen = [set() for _ in range(WARPS)]  # events ordered before the warp's next one
        self.keys = {}

    def access(self, kind, warps, cells, size):
        flags = []
        fresh = []
        for warp, cell in zip(warps, cells, strict=True):
            touched = set(range(cell, cell + size))
            number = len(self.events)
            flags.append(any(self.races(other, warp, kind, touched) for other in range(number)))
            self.events.append((warp, kind, touched))
            fresh.append((warp, number))
        for warp, number in fresh:
            self.seen[warp].add(number)
        return flags

    def races(self, other, warp, kind, touched):
        owner, old, bytes_ = self.events[other]
        if owner == warp or not bytes_ & touched or other in self.seen[warp]:
            return False
        if {kind, old} <= {READ, STRONG_READ} or {kind, old} <= {STRONG, STRONG_READ}:
            return False
        return WRITE in (kind, old) or STRONG in (kind, old)

    def order(self, warps):
        union = set().union(*(self.seen[w] for w in warps))
        for warp in warps:
            self.seen[warp] = set(union)

    def release(self, key, warps):
        self.keys.setdefault(key, set()).update(*(self.seen[w] for w in warps))

    def acquire(self, key, warps):
        for warp in warps:
            self.seen[warp] |= self.keys.get(key, set())


def compare(checker, seed, partial):
    """Random accesses up to the first race: the same lanes of the same access race."""
    random = np.random.default_rng(seed)
    definition = Definition()
    for _ in range(60):
        turn = random.integers(0, 10 if partial else 7)
        some = random.permutation(WARPS)[: random.integers(1, WARPS + 1)].tolist()
        if turn == 6:
            checker.forget()
            definition.order(range(WARPS))
        elif turn == 7:
            checker.order(some)
            definition.order(some)
        elif turn == 8:
            key = int(random.integers(0, 2))
            checker.release(key, some)
            definition.release(key, some)
        elif turn == 9:
            key = int(random.integers(0, 2))
            checker.acquire(key, some)
            definition.acquire(key, some)
        else:
            kind = int(random.choice([WRITE, READ, READ, STRONG, STRONG_READ]))
            size = int(random.choice([1, 2, 4, 8]))
            warps = np.sort(np.array(some))
            cells = random.integers(0, BYTES // size, len(warps)) * size
            bad = checker.access(kind, warps, cells, size)
            expected = definition.access(kind, warps.tolist(), cells.tolist(), size)
            assert (bad is not None and bool(bad.any())) == any(expected), (
                seed,
                kind,
                warps,
                cells,
            )
            if any(expected):
                return True
    return False


@pytest.mark.parametrize("checker", [EpochRaces, ClockRaces])
def test_barriers_of_the_block(checker):
    raced = [compare(checker(BYTES, WARPS), seed, False) for seed in range(2000)]
    assert sum(raced) > 0


def test_orders_of_some_warps():
    raced = [compare(ClockRaces(BYTES, WARPS), seed, True) for seed in range(3000)]
    assert sum(raced) > 0


def test_strong_accesses_do_not_race_with_each_other():
    for checker in (EpochRaces(8, 2), ClockRaces(8, 2)):
        for kind in (STRONG, STRONG_READ, STRONG):
            for warp in (0, 1):
                assert checker.access(kind, np.array([warp]), np.array([0]), 4) is None
        assert checker.access(WRITE, np.array([1]), np.array([3]), 1) is not None


def test_copies_that_end_are_writes():
    for checker in (EpochRaces(8, 2), ClockRaces(8, 2)):
        checker.complete(np.array([[0]]), np.array([[4, 5]]))
        assert checker.access(READ, np.array([1]), np.array([0]), 4) is None
        assert checker.access(READ, np.array([0]), np.array([4]), 4) is None
        assert checker.access(READ, np.array([1]), np.array([4]), 4).all()
        checker.forget()
        assert checker.access(READ, np.array([1]), np.array([4]), 4) is None
