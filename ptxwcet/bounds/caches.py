"""What a launch asks of the L2 cache and the memory behind caches (docs/methods/caches.md).

A block touches ``f`` lines at most, ``R`` blocks are there at a time, all blocks together touch
``F = blocks * f``. What a machine file may claim of a cache for C lines:

    keeps-recent        a line stays as long as fewer than C others are used: of x sectors a block
                        there come again, over all blocks, R x F / (C - R f + 1) at most
    conservative-cache  while C lines are asked for, C are brought in: C (1 + F / (C + 1 - R f)),
                        and what is not there of lines that are, each sector once
    xor-hashed-sets     runs of lines no more of which meet in a set than it has ways: F, once

The L1 cache of an SM has its slots alone, and stores go through it. What leaves the L2 cache may
have to be written back, also what was there before.

Example: 4,096 blocks of 53 lines and 55 sectors that are loaded, 8 on an SM whose L1 cache keeps
1,024 lines: 225,280 sectors, and 8 * 55 * 217,088 / 601 = 158,932 that come again.
"""

from __future__ import annotations

import re

from ptxwcet.bounds.carve_out import JOINED_MISSES
from ptxwcet.bounds.grid import Dispatch, SetAside
from ptxwcet.bounds.occupancy import assumed
from ptxwcet.claims import Assumption
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.machine.assumptions import (
    CONSERVATIVE,
    HASHED_SETS,
    KEEPS_RECENT,
    L1_CONSERVATIVE,
    L1_KEEPS_RECENT,
)
from ptxwcet.machine.model import Machine
from ptxwcet.memory.analysis import AnalysedAccess
from ptxwcet.memory.counting import LINE, SECTOR
from ptxwcet.memory.footprint import Footprint, Footprints
from ptxwcet.memory.instructions import Purpose
from ptxwcet.support.records import dataclass

_SECTORS = LINE // SECTOR
_NOTHING = Footprint()
_BY_L1 = re.compile(r"ld\.global(?:\.(?:ca|nc|v[248]|[busf](?:8|16|32|64|128)))+")
"""Loads that the L1 cache serves, if what they ask for is there."""
_AGAINST = re.compile(
    r".*(evict|no_allocate|cache_hint|discard|applypriority|acq|volatile|mmio|\.(cs|lu|cv|wt)\b).*"
    r"|CCTL\b.*"
)
"""What tells a cache to forget, or not to keep, what it otherwise would."""


@dataclass(frozen=True, slots=True)
class CacheUse:
    """What a launch asks of a cache: of all accesses that use its lines, of those for which sectors
    are brought in, and of those that change some.

    ``asked`` are the sectors of all accesses, with those that are fetched since they are not
    filled; ``resident`` the blocks that are there at a time at most, in each of ``caches``.
    """

    blocks: int
    resident: int
    asked: int
    all: Footprint
    fetched: Footprint
    changed: Footprint = _NOTHING
    caches: int = 1


def fetched_if_recent(use: CacheUse, kept: int) -> int | None:
    """Sectors that are brought in if the cache keeps ``kept`` lines that were used last, and no
    store makes any leave; None if nothing follows.
    """
    if _fits(use, kept) and use.fetched.launch_sectors is not None:
        return use.caches * use.fetched.launch_sectors
    return _touched(use, use.fetched.block_sectors, kept)


def fetched_if_conservative(use: CacheUse, kept: int) -> int | None:
    """The same if no more than ``kept`` lines are brought in while no more are asked for."""
    lines = _allocated_if_conservative(use, kept)
    return None if lines is None else _SECTORS * lines + _of_old_lines(use)


def moved_if_recent(use: CacheUse, kept: int, lines: int) -> int | None:
    """Sectors that are brought in and written back if a cache of ``lines`` keeps those that were
    used last; None if nothing follows.
    """
    fetched = fetched_if_recent(use, kept)
    if fetched is None:
        return None
    if _fits(use, kept):
        assert use.all.launch_lines is not None
        return min(use.asked, fetched) + _SECTORS * min(lines, use.all.launch_lines)
    allocated = _touched(use, use.all.block_lines, kept)
    changed = _touched(use, use.changed.block_sectors, kept)
    assert allocated is not None
    assert changed is not None
    old = _SECTORS * min(lines, allocated)
    return min(use.asked, fetched) + min(_SECTORS * allocated, changed + old)


def moved_if_conservative(use: CacheUse, kept: int, lines: int) -> int | None:
    """The same if no more lines are brought in than are asked for while these are few."""
    allocated = _allocated_if_conservative(use, kept)
    if allocated is None:
        return None
    own = use.asked if use.changed.block_sectors else 0
    old = _SECTORS * min(lines, allocated)
    fetched = _SECTORS * allocated + min(_SECTORS * lines, _of_old_lines(use))
    return min(use.asked, fetched) + min(_SECTORS * allocated, own + old)


def moved_if_hashed(use: CacheUse, sets: int, ways: int, lines: int) -> int | None:
    """The same if the cache has so many sets, to which any aligned piece of as many lines comes one
    by one: none of a launch leaves if its runs of lines have no more pieces than a set has ways.
    """
    runs, fetched = use.all.launch_runs, use.fetched.launch_sectors
    if runs is None or fetched is None or sum(_pieces(run, sets) for run in runs) > ways:
        return None
    assert use.all.launch_lines is not None
    return min(use.asked, fetched) + _SECTORS * min(lines, use.all.launch_lines)


def _pieces(run: int, sets: int) -> int:
    """How many aligned pieces of as many lines as there are sets a run of lines meets at most."""
    return (run - 2) // sets + 2 if run > 1 else run


def _fits(use: CacheUse, kept: int) -> bool:
    """Whether all lines of the launch are there at once."""
    return use.all.launch_lines is not None and use.all.launch_lines <= kept


def _touched(use: CacheUse, each: int, kept: int) -> int | None:
    """What so many units of each block come to, once and those that come again; None if what is
    there at a time is too much.
    """
    rest = kept - use.resident * use.all.block_lines + 1
    if rest < 1:
        return None
    first = use.blocks * use.all.block_lines
    return use.blocks * each + use.resident * each * first // rest


def _allocated_if_conservative(use: CacheUse, kept: int) -> int | None:
    """Lines that are brought in if no more are than are asked for while these are few."""
    if _fits(use, kept):
        return use.caches * kept
    rest = kept + 1 - use.resident * use.all.block_lines
    return None if rest < 1 else kept * (use.caches + use.blocks * use.all.block_lines // rest)


def _of_old_lines(use: CacheUse) -> int:
    """Sectors that are brought in of lines that are there before the launch, but not whole."""
    first = use.blocks * use.fetched.block_sectors
    together = use.fetched.launch_sectors
    return first if together is None else min(first, use.caches * together)


_OF_L1 = {L1_KEEPS_RECENT: fetched_if_recent, L1_CONSERVATIVE: fetched_if_conservative}
_OF_L2 = {KEEPS_RECENT: moved_if_recent, CONSERVATIVE: moved_if_conservative}


@dataclass(frozen=True, slots=True)
class _Launched:
    """A launch, as far as caches are asked by it; ``asked`` as of :class:`CacheUse`."""

    machine: Machine
    dispatch: Dispatch
    footprints: Footprints
    blocks: int
    asked: int
    uses_shared: bool

    @property
    def behind_l1(self) -> tuple[int, tuple[str, ...]]:
        """Sectors that the L2 cache is asked for at most, and the claim that this rests on.

        A store may make a sector leave that it changes: it is loaded once more for that.
        """
        machine, rules = self.machine, self.machine.l1_cache
        if rules is None:
            return self.asked, ()
        kept = rules.kept_bytes.value
        if self.uses_shared:
            kept -= machine.limits.shared_bytes_per_sm
        fetches = 1 if machine.memory is None else machine.memory.fetches_of_partial_sectors
        others = self.footprints.asked(lambda one: not self._by_l1(one), fetches)
        stored = self.footprints.asked(lambda one: one.access.changes, 0)
        resident = min(self.blocks, self.dispatch.resident_blocks)
        use = CacheUse(
            *(self.blocks, resident, self.asked),
            *(self.footprints.of(), self.footprints.of(self._by_l1)),
            caches=self.dispatch.sms,
        )
        found = {
            key: fetched + self.blocks * (others + stored)
            for key, theorem in _OF_L1.items()
            if machine.states(key) and (fetched := theorem(use, kept // LINE)) is not None
        }
        best = min(found, key=found.__getitem__, default=None)
        if best is None or found[best] >= self.asked:
            return self.asked, ()
        return found[best], (best,)

    def behind_l2(self, asked: int) -> tuple[int, tuple[str, ...]]:
        """Sectors that the memory moves if the L2 cache is asked for so many."""
        machine, rules = self.machine, self.machine.l2_cache
        if rules is None:
            return asked, ()
        of = self.footprints.of
        resident = min(self.blocks, self.dispatch.sms * self.dispatch.resident_blocks)
        use = CacheUse(self.blocks, resident, asked, of(), of(_is_fetched), of(_is_changed))
        lines = -(-rules.bytes.value // LINE)
        found = {
            key: moved
            for key, theorem in _OF_L2.items()
            if machine.states(key)
            and (moved := theorem(use, rules.kept_bytes.value // LINE, lines)) is not None
        }
        sets, ways = rules.sets, rules.ways
        if machine.states(HASHED_SETS) and sets is not None and ways is not None:
            hashed = moved_if_hashed(use, sets.value, ways.value, lines)
            found |= {} if hashed is None else {HASHED_SETS: hashed}
        best = min(found, key=found.__getitem__, default=None)
        return (asked, ()) if best is None or found[best] >= asked else (found[best], (best,))

    def _by_l1(self, one: AnalysedAccess) -> bool:
        words = self.footprints.kernel.instructions[one.index].words
        return _BY_L1.fullmatch(words) is not None


def behind_caches(
    machine: Machine,
    dispatch: Dispatch,
    footprints: Footprints,
    blocks: int,
    asked: int,
    *,
    uses_shared: bool,
) -> tuple[SetAside, tuple[Assumption, ...]] | None:
    """What caches leave of a launch that asks for so many sectors, by what is claimed of them, and
    what that rests on; None if nothing is claimed that makes it less.

    ``uses_shared``: an SM may give all that it can to shared memory instead of its L1 cache.

    Others would use the caches as well: nothing is claimed beside them, nor of part of a cache, nor
    of kernels that tell caches what to keep. Cost: that of footprints.
    """
    memory = dispatch.memory
    if memory.co_runner is not None or memory.set_aside is not None or not footprints.is_known:
        return None
    instructions = footprints.kernel.instructions
    if any(one.op_class is OpClass.FENCE or _AGAINST.match(one.words) for one in instructions):
        return None
    launched = _Launched(machine, dispatch, footprints, blocks, asked, uses_shared)
    passed, l1 = launched.behind_l1
    moved, l2 = launched.behind_l2(passed)
    if not l1 and not l2:
        return None
    rests_on = [
        *map(machine.assumption, (*l1, *l2)),
        assumed("joined-misses", JOINED_MISSES, "claimed caches"),
    ]
    if l2:
        text = "a block keeps its slot until the L2 cache has served all that it has sent"
        rests_on.append(assumed("slots-outlast-the-cache", text, "claimed caches"))
    both = memory.cycles_per_1024_sectors
    cache = machine.cache_cycles_per_1024_sectors
    # as so many sectors that pass both: each of ``passed`` the cache, each of ``moved`` the memory
    served = -(-(cache * passed + (both - cache) * moved) // max(1, both))
    return SetAside(0, served), tuple(rests_on)


def _is_fetched(one: AnalysedAccess) -> bool:
    return one.access.purpose is not Purpose.STORE or one.most.partial > 0


def _is_changed(one: AnalysedAccess) -> bool:
    return one.access.changes
