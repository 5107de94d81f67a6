"""Claims of caches (docs/methods/caches.md): a small part of the attack, and cases by hand."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from cache_attack import FIFO, LRU, PART, READ, Cache, Launch, attack_l1, attack_l2, use_of

from ptxwcet.bounds.caches import (
    CacheUse,
    fetched_if_conservative,
    moved_if_conservative,
    moved_if_recent,
)


def test_what_the_memory_moves() -> None:
    tally = attack_l2(range(150))
    assert tally.exceeded == []
    assert tally.tightest == 1.0
    assert [name for name in tally.tried if not tally.broken[name]] == []


def test_what_passes_the_caches_of_sms() -> None:
    tally = attack_l1(range(60))
    assert tally.exceeded == []
    assert tally.broken["stores make nothing leave"]


@pytest.mark.parametrize("claim", [moved_if_recent, moved_if_conservative])
def test_residents_lose_all_for_each_line_that_is_new(
    claim: Callable[[CacheUse, int, int], int | None],
) -> None:
    """Three blocks stay in a cache of four lines, while others come and go, a line each: for each
    of these all three have to fetch theirs again, and all is written back that leaves.
    """
    blocks, slots = 20, 4
    kept = slots
    launch = Launch(
        tuple(tuple((n, sector, PART) for sector in range(4)) for n in range(blocks)), slots, kept
    )
    cache = Cache(LRU, kept, random.Random(0), through=False)
    asked = 0
    for number in range(slots - 1, blocks):
        for line in (number, *range(slots - 1), number):
            for access in launch.blocks[line]:
                cache.use(access)
                asked += 2
    moved, use = cache.fetched + cache.written, use_of(launch, asked)
    bound = claim(use, kept, kept)
    assert bound is not None
    assert 0.6 * bound < moved <= bound


@pytest.mark.parametrize("kind", [READ, PART])
@pytest.mark.parametrize("kept", [2, 4, 8])
def test_lines_that_are_there_but_not_whole(kept: int, kind: str) -> None:
    """What they lack is fetched before each makes place for the one before it, and then all."""
    cache = Cache(FIFO, 0, random.Random(0), through=False)
    for line in (*range(kept - 1), -1):
        cache.present[line], cache.dirty[line] = {3}, set()
        cache.used[line] = False
    asked = 0
    for line in (*range(kept - 1), kept - 1, *range(kept - 1)):
        for sector in range(4):
            cache.use((line, sector, kind))
            asked += 1 + (kind == PART)
    block = tuple((line, sector, kind) for line in range(kept) for sector in range(4))
    use = use_of(Launch((block,), 1, kept), asked)
    fetched, moved = fetched_if_conservative(use, kept), moved_if_conservative(use, kept, kept)
    assert fetched is not None
    assert moved is not None
    assert 4 * kept < cache.fetched <= fetched
    assert cache.fetched + cache.written <= moved


def test_lines_that_nobody_asks_for_again() -> None:
    """One block after another, a line each: each is fetched once, whatever is kept."""
    for count in range(1, 12):
        blocks = tuple(tuple((n, sector, READ) for sector in range(4)) for n in range(count))
        use = use_of(Launch(blocks, 1, 4), 100 * count)
        for bound in (moved_if_recent(use, 4, 0), moved_if_conservative(use, 4, 0)):
            assert bound is not None
            assert bound >= 4 * count


def test_too_much_at_a_time() -> None:
    """Where the blocks that are there touch more than is kept, nothing follows."""
    blocks = tuple(tuple((2 * n + m, 0, READ) for m in range(2)) for n in range(9))
    for resident, kept, is_known in ((2, 4, True), (2, 3, False), (3, 5, False), (9, 18, True)):
        use = use_of(Launch(blocks, resident, kept), 1000)
        assert (moved_if_recent(use, kept, kept) is not None) == is_known
        assert (moved_if_conservative(use, kept, kept) is not None) == is_known
