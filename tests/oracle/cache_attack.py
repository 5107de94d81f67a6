"""Caches of a few lines under adversaries, against what is claimed of launches behind them.

Written from docs/methods/caches.md: lines of four sectors, which hold what was fetched of them and
what was written; policies that keep the last used lines, the last brought in, those with a second
chance, or any. An adversary picks which block asks next for what, and when a block makes place.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ptxwcet.bounds.caches import (
    CacheUse,
    fetched_if_conservative,
    fetched_if_recent,
    moved_if_conservative,
    moved_if_recent,
)
from ptxwcet.memory.footprint import Footprint

Access = tuple[int, int, str]
"""Line, sector, and what is done: read, written whole or in part."""
READ, WHOLE, PART = "read", "whole", "part"
LRU, FIFO, CLOCK, ANY = "lru", "fifo", "clock", "any"


class Cache:
    """A cache of so many lines, which is full of what others have left, all of it dirty.

    ``through``: stores change what is there, bring nothing in, and may make the sector leave.
    ``before``: lines of the launch that are there too, a sector of each.
    """

    def __init__(
        self,
        policy: str,
        lines: int,
        rng: random.Random,
        *,
        through: bool,
        before: Sequence[int] = (),
    ) -> None:
        self.policy, self.rng, self.through = policy, rng, through
        others = [-1 - n for n in range(lines - len(before))]
        self.present = {n: {3} if n in before else set(range(4)) for n in (*before, *others)}
        self.dirty = {n: set(sectors) for n, sectors in self.present.items()}
        self.used = dict.fromkeys(self.present, False)
        self.fetched = self.written = 0

    def use(self, access: Access) -> None:
        line, sector, kind = access
        if self.through and kind != READ:
            if line in self.present:
                if self.rng.random() < 0.7:
                    self.present[line].discard(sector)
                if self.policy == LRU and self.rng.random() < 0.5:
                    self.present[line] = self.present.pop(line)
            return
        if line not in self.present:
            self._leave()
            self.present[line], self.dirty[line] = set(), set()
            self.used[line] = False
        elif self.policy == LRU:
            self.present[line] = self.present.pop(line)
        self.used[line] = True
        if kind != WHOLE and sector not in self.present[line]:
            self.fetched += 1
        self.present[line].add(sector)
        if kind != READ:
            self.dirty[line].add(sector)

    def has(self, access: Access) -> bool:
        return access[1] in self.present.get(access[0], ())

    def _leave(self) -> None:
        names = list(self.present)
        victim = names[0]
        if self.policy == ANY:
            victim = self.rng.choice(names)
        while self.policy == CLOCK and self.used[victim]:
            self.used[victim] = False
            self.present[victim] = self.present.pop(victim)  # to the end of the round
            victim = next(iter(self.present))
        self.written += len(self.dirty.pop(victim))
        del self.present[victim], self.used[victim]


@dataclass(frozen=True)
class Launch:
    """Blocks and what each may ask for, as often as it likes; ``late``: also after its end.

    ``partly``: caches hold lines of it before it starts, but not whole.
    """

    blocks: tuple[tuple[Access, ...], ...]
    resident: int
    kept: int
    caches: int = 1
    late: bool = False
    partly: bool = False


def random_launch(seed: int, *, caches: int = 1) -> Launch:
    rng = random.Random(f"cache {seed}")
    lines, most, resident = rng.choice((6, 12, 30)), rng.choice((1, 1, 2, 4)), rng.randint(1, 5)
    kept = max(resident * most + rng.choice((0, 0, 1, 3)), 2)
    sectors, writes = rng.choice((1, 2, 4)), rng.choice((0.0, 0.3, 1.0))
    shared = [rng.randrange(lines) for _ in range(2)]
    apart = rng.random() < 0.5  # each block has lines of its own, and as many
    blocks = []
    for number in range(rng.choice((3, 6, 12, 20))):
        own = set(range(most * number, most * number + most))
        if not apart:
            own = {rng.choice((*shared, *(rng.randrange(lines) for _ in shared))) for _ in own}
        accesses = []
        for line in sorted(own):
            for sector in rng.sample(range(4), sectors if apart else rng.randint(1, sectors)):
                kind = rng.choice((WHOLE, PART)) if rng.random() < writes else READ
                accesses.append((line, sector, kind))
                if kind != READ and rng.random() < 0.5:
                    accesses.append((line, sector, READ))
        blocks.append(tuple(accesses))
    return Launch(tuple(blocks), resident, kept, caches)


@dataclass
class Seen:
    """What came of a run: sectors asked for and changed, brought in, written back."""

    asked: int
    changed: int
    fetched: int
    written: int


class _Run:
    """What an adversary does with a launch on some caches."""

    def __init__(self, launch: Launch, policy: str, rng: random.Random, *, through: bool) -> None:
        self.launch, self.rng = launch, rng
        self.waiting = list(range(len(launch.blocks)))
        rng.shuffle(self.waiting)
        some = range(launch.caches)
        lines = list({one[0] for block in launch.blocks for one in block}) if launch.partly else []
        before = rng.sample(lines, min(len(lines), rng.randint(0, launch.kept)))
        self.caches = [
            Cache(policy, launch.kept, rng, through=through, before=before) for _ in some
        ]
        self.slots: list[list[int]] = [[] for _ in some]
        self.ended: list[tuple[int, int]] = []
        self.asked = self.changed = 0

    def fill(self) -> None:
        for held in self.slots:
            while self.waiting and len(held) < self.launch.resident:
                held.append(self.waiting.pop())

    def end(self, place: int, block: int) -> None:
        self.slots[place].remove(block)
        self.ended.append((place, block))
        self.fill()

    def use(self, place: int, access: Access) -> None:
        self.caches[place].use(access)
        self.asked += 1 + (access[2] == PART)
        self.changed += access[2] != READ

    @property
    def alive(self) -> list[tuple[int, int]]:
        return [(place, block) for place, held in enumerate(self.slots) for block in held]

    def by_chance(self) -> None:
        """It likes what is not there, and blocks that bring in others."""
        rng, likes = self.rng, self.rng.choice((0.0, 0.8, 1.0, 1.0))
        for _ in range(rng.choice((60, 150))):
            alive = self.alive + (self.ended if self.launch.late else [])
            choices = [(place, one) for place, block in alive for one in self.launch.blocks[block]]
            misses = [(place, one) for place, one in choices if not self.caches[place].has(one)]
            if not misses and self.waiting and rng.random() < 0.9:
                self.end(*rng.choice(self.alive))
                continue
            self.use(*rng.choice(misses if misses and rng.random() < likes else choices))

    def in_rounds(self) -> None:
        """All that blocks have begun to use, in turn, and one thing more; a block ends that has
        begun all, the youngest or any.
        """
        begun: list[tuple[int, int, Access]] = []
        newest_first = self.rng.random() < 0.7
        for _ in range(60):
            open_ = [
                (place, block, one)
                for place, block in self.alive
                for one in self.launch.blocks[block]
                if (place, block, one) not in begun
            ]
            if not open_ and not self.waiting:
                return
            if not open_:
                place, block = self.alive[-1] if self.rng.random() < 0.8 else self.alive[0]
                self.end(place, block)
                if not self.launch.late:
                    begun = [one for one in begun if one[:2] != (place, block)]
                continue
            begun.insert(0 if newest_first else len(begun), open_[0])
            for place, _, access in begun:
                self.use(place, access)


def run(launch: Launch, policy: str, seed: int, *, through: bool = False) -> Seen:
    """A run of one of both adversaries."""
    rng = random.Random(f"run {seed}")
    found = _Run(launch, policy, rng, through=through)
    found.fill()
    if rng.random() < 0.5:
        found.by_chance()
    else:
        found.in_rounds()
    sums = (sum(getattr(one, name) for one in found.caches) for name in ("fetched", "written"))
    return Seen(found.asked, found.changed, *sums)


def footprint(launch: Launch, counts: Callable[[Access], bool]) -> Footprint:
    """What blocks may touch."""
    chosen = [[one for one in block if counts(one)] for block in launch.blocks]
    sectors = [{one[:2] for one in block} for block in chosen]
    lines = [{one[0] for one in block} for block in chosen]
    of_all = [len(set().union(*each)) for each in (sectors, lines)]
    return Footprint(max(map(len, sectors)), max(map(len, lines)), of_all[0], of_all[1], True)


def use_of(launch: Launch, asked: int) -> CacheUse:
    """What the launch asks of one cache."""
    return CacheUse(
        len(launch.blocks),
        min(launch.resident, len(launch.blocks)),
        asked,
        footprint(launch, lambda _: True),
        footprint(launch, lambda one: one[2] != WHOLE),
        footprint(launch, lambda one: one[2] != READ),
    )


@dataclass
class Tally:
    """What came of some cases."""

    cases: int = 0
    claimed: int = 0
    exceeded: list[str] = field(default_factory=list)
    tightest: float = 0.0
    tried: Counter[str] = field(default_factory=Counter)
    broken: Counter[str] = field(default_factory=Counter)

    def add(self, moved: int, bound: int | None, what: object) -> None:
        self.cases += 1
        if bound is None:
            return
        self.claimed += 1
        self.tightest = max(self.tightest, moved / max(bound, 1))
        if moved > bound:
            self.exceeded.append(f"{moved} > {bound}: {what}")

    def control(self, name: str, moved: int, bound: int | None) -> None:
        if bound is not None:
            self.tried[name] += 1
            self.broken[name] += moved > bound


def attack_l2(seeds: Sequence[int]) -> Tally:
    """Both claims, and false ones."""
    tally = Tally()
    for seed in seeds:
        launch = random_launch(seed)
        for policy in (LRU, FIFO, CLOCK, ANY):
            seen = run(launch, policy, seed)
            use, moved = use_of(launch, seen.asked), seen.fetched + seen.written
            recent = moved_if_recent(use, launch.kept, launch.kept)
            few = moved_if_conservative(use, launch.kept, launch.kept)
            if policy == LRU:
                tally.add(moved, recent, (seed, policy))
                first = len(launch.blocks) * use.fetched.block_sectors
                tally.control("nothing comes again", seen.fetched, recent and first)
                fetched = fetched_if_recent(use, launch.kept)
                tally.control("nothing is written back", moved, fetched)
                clean = moved_if_recent(use, launch.kept, 0)
                tally.control("nothing was dirty before", moved, clean)
            if policy != ANY:
                tally.add(moved, few, (seed, policy))
            if policy == ANY:
                nothing = replace(use, fetched=Footprint())  # is there before but not whole
                fetched = fetched_if_conservative(nothing, launch.kept)
                tally.control("any line leaves", seen.fetched, fetched)
            if policy == ANY:
                continue
            partly = run(replace(launch, partly=True), policy, seed)
            use, moved = use_of(launch, partly.asked), partly.fetched + partly.written
            few = moved_if_conservative(use, launch.kept, launch.kept)
            tally.add(moved, few, (seed, policy, "partly"))
            if policy == LRU:
                recent = moved_if_recent(use, launch.kept, launch.kept)
                tally.add(moved, recent, (seed, policy, "partly"))
        late = run(Launch(launch.blocks, launch.resident, launch.kept, late=True), LRU, seed)
        fetched = fetched_if_recent(use_of(launch, late.asked), launch.kept)
        tally.control("blocks ask after their end", late.fetched, fetched)
    return tally


def attack_l1(seeds: Sequence[int]) -> Tally:
    """Caches of several SMs, which stores go through."""
    tally = Tally()
    for seed in seeds:
        launch = random_launch(seed, caches=random.Random(seed).randint(1, 3))
        for policy in (LRU, FIFO, CLOCK):
            seen = run(launch, policy, seed, through=True)
            use = replace(
                use_of(launch, seen.asked),
                resident=min(launch.resident, len(launch.blocks)),
                fetched=footprint(launch, lambda one: one[2] == READ),
                caches=launch.caches,
            )
            few = fetched_if_conservative(use, launch.kept)
            tally.add(seen.fetched, few and few + seen.changed, (seed, policy))
            if policy == LRU:
                recent = fetched_if_recent(use, launch.kept)
                tally.add(seen.fetched, recent and recent + seen.changed, (seed, policy))
                tally.control("stores make nothing leave", seen.fetched, recent)
    return tally
