"""Bounds the traffic of a launch after its caches (docs/methods/caches.md).

A block touches at most ``f`` lines, ``R`` blocks are resident at a time, all blocks together touch
``F = blocks * f``. A machine file may claim one of the following of a cache for C lines:

    keeps-recent        a line stays as long as fewer than C others are used: of x sectors per block
                        there are fetched again, over all blocks, R x F / (C - R f + 1) at most
    conservative-cache  while C lines are requested, C are fetched: C (1 + F / (C + 1 - R f)),
                        and missing sectors of present lines, once each
    xor-hashed-sets     runs of lines with at most as many in a set as it has ways: F, once

The L1 cache of an SM has only its slots, and stores pass through it. Lines evicted from the L2
cache may have to be written back, including lines from before the launch.

Example: 4,096 blocks with 53 lines and 55 loaded sectors, 8 on an SM whose L1 cache keeps 1,024
lines: 225,280 sectors, and 8 * 55 * 217,088 / 601 = 158,932 fetched again.
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
"""The loads that the L1 cache serves on a hit."""
_AGAINST = re.compile(
    r".*(evict|no_allocate|cache_hint|discard|applypriority|acq|volatile|mmio|\.(cs|lu|cv|wt)\b).*"
    r"|CCTL\b.*"
)
"""The words that make a cache forget data, or not keep data that it otherwise would."""


@dataclass(frozen=True, slots=True)
class CacheUse:
    """The use of a cache by a launch: by all accesses to its lines, by those whose sectors are
    fetched, and by those that change sectors.

    ``asked`` are the sectors of all accesses, including those fetched because they are written in
    part; ``resident`` is the most blocks resident at a time, in each of ``caches``.
    """

    blocks: int
    resident: int
    asked: int
    all: Footprint
    fetched: Footprint
    changed: Footprint = _NOTHING
    caches: int = 1


def fetched_if_recent(use: CacheUse, kept: int) -> int | None:
    """Returns the sectors fetched if the cache keeps the ``kept`` lines used last, and no store
    evicts a line; None if nothing follows.
    """
    if _fits(use, kept) and use.fetched.launch_sectors is not None:
        return use.caches * use.fetched.launch_sectors
    return _touched(use, use.fetched.block_sectors, kept)


def fetched_if_conservative(use: CacheUse, kept: int) -> int | None:
    """Returns the same if at most ``kept`` lines are fetched while no more are requested."""
    lines = _allocated_if_conservative(use, kept)
    return None if lines is None else _SECTORS * lines + _of_old_lines(use)


def moved_if_recent(use: CacheUse, kept: int, lines: int) -> int | None:
    """Returns the sectors fetched and written back if a cache of ``lines`` keeps the lines used
    last; None if nothing follows.
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
    """Returns the same if no more lines are fetched than are requested while these are few."""
    allocated = _allocated_if_conservative(use, kept)
    if allocated is None:
        return None
    own = use.asked if use.changed.block_sectors else 0
    old = _SECTORS * min(lines, allocated)
    fetched = _SECTORS * allocated + min(_SECTORS * lines, _of_old_lines(use))
    return min(use.asked, fetched) + min(_SECTORS * allocated, own + old)


def moved_if_hashed(use: CacheUse, sets: int, ways: int, lines: int) -> int | None:
    """Returns the same for a cache with ``sets`` sets, where aligned pieces of that many lines use
    each set once: no line is evicted if the launch's runs have no more pieces than a set has ways.
    """
    runs, fetched = use.all.launch_runs, use.fetched.launch_sectors
    if runs is None or fetched is None or sum(_pieces(run, sets) for run in runs) > ways:
        return None
    assert use.all.launch_lines is not None
    return min(use.asked, fetched) + _SECTORS * min(lines, use.all.launch_lines)


def _pieces(run: int, sets: int) -> int:
    """Returns the most aligned pieces of ``sets`` lines that a run of lines touches."""
    return (run - 2) // sets + 2 if run > 1 else run


def _fits(use: CacheUse, kept: int) -> bool:
    """Returns whether all lines of the launch fit at once."""
    return use.all.launch_lines is not None and use.all.launch_lines <= kept


def _touched(use: CacheUse, each: int, kept: int) -> int | None:
    """Returns the accesses to ``each`` units per block: first ones and repeated ones; None if the
    resident blocks exceed the cache.
    """
    rest = kept - use.resident * use.all.block_lines + 1
    if rest < 1:
        return None
    first = use.blocks * use.all.block_lines
    return use.blocks * each + use.resident * each * first // rest


def _allocated_if_conservative(use: CacheUse, kept: int) -> int | None:
    """Returns the lines fetched if these are no more than are requested while those are few."""
    if _fits(use, kept):
        return use.caches * kept
    rest = kept + 1 - use.resident * use.all.block_lines
    return None if rest < 1 else kept * (use.caches + use.blocks * use.all.block_lines // rest)


def _of_old_lines(use: CacheUse) -> int:
    """Returns the sectors fetched into lines that the launch finds present but not whole."""
    first = use.blocks * use.fetched.block_sectors
    together = use.fetched.launch_sectors
    return first if together is None else min(first, use.caches * together)


_OF_L1 = {L1_KEEPS_RECENT: fetched_if_recent, L1_CONSERVATIVE: fetched_if_conservative}
_OF_L2 = {KEEPS_RECENT: moved_if_recent, CONSERVATIVE: moved_if_conservative}


@dataclass(frozen=True, slots=True)
class _Launched:
    """The use of caches by a launch; ``asked`` as in :class:`CacheUse`."""

    machine: Machine
    dispatch: Dispatch
    footprints: Footprints
    blocks: int
    asked: int
    uses_shared: bool

    @property
    def behind_l1(self) -> tuple[int, tuple[str, ...]]:
        """The most sectors requested from the L2 cache, and the claim on which this rests.

        A store may evict a sector that it changes: this sector is loaded once more.
        """
        machine, rules = self.machine, self.machine.l1_cache
        if rules is None:
            return self.asked, ()
        kept = rules.kept_bytes.value
        if self.uses_shared:
            kept -= machine.limits.shared_bytes_per_sm
        fetches = 1 if machine.memory is None else machine.memory.fetches_of_partial_sectors
        others = self.footprints.asked(lambda a: not self._by_l1(a), fetches)
        stored = self.footprints.asked(lambda a: a.access.changes, 0)
        resident = min(self.blocks, self.dispatch.resident_blocks)
        use = CacheUse(
            *(self.blocks, resident, self.asked),
            *(self.footprints.of(), self.footprints.of(self._by_l1)),
            caches=self.dispatch.sms,
        )
        fetches_by = {
            key: fetched + self.blocks * (others + stored)
            for key, theorem in _OF_L1.items()
            if machine.states(key) and (fetched := theorem(use, kept // LINE)) is not None
        }
        best = min(fetches_by, key=fetches_by.__getitem__, default=None)
        if best is None or fetches_by[best] >= self.asked:
            return self.asked, ()
        return fetches_by[best], (best,)

    def behind_l2(self, asked: int) -> tuple[int, tuple[str, ...]]:
        """Returns the sectors that the memory moves after ``asked`` requests to the L2 cache."""
        machine, rules = self.machine, self.machine.l2_cache
        if rules is None:
            return asked, ()
        of = self.footprints.of
        resident = min(self.blocks, self.dispatch.sms * self.dispatch.resident_blocks)
        use = CacheUse(self.blocks, resident, asked, of(), of(_is_fetched), of(_is_changed))
        lines = -(-rules.bytes.value // LINE)
        moves_by = {
            key: moved
            for key, theorem in _OF_L2.items()
            if machine.states(key)
            and (moved := theorem(use, rules.kept_bytes.value // LINE, lines)) is not None
        }
        sets, ways = rules.sets, rules.ways
        if machine.states(HASHED_SETS) and sets is not None and ways is not None:
            hashed = moved_if_hashed(use, sets.value, ways.value, lines)
            moves_by |= {} if hashed is None else {HASHED_SETS: hashed}
        best = min(moves_by, key=moves_by.__getitem__, default=None)
        return (asked, ()) if best is None or moves_by[best] >= asked else (moves_by[best], (best,))

    def _by_l1(self, access: AnalysedAccess) -> bool:
        words = self.footprints.kernel.instructions[access.index].words
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
    """Returns the traffic of a launch after its caches, by their claims, with the assumptions; None
    if no claim reduces it.

    ``uses_shared``: an SM may give all of its configurable memory to shared memory instead of the
    L1 cache.

    Others would use the caches as well: no claim holds with co-runners, for a part of a cache, or
    for kernels with cache hints. Cost: as for footprints.
    """
    memory = dispatch.memory
    if memory.co_runner is not None or memory.set_aside is not None or not footprints.is_known:
        return None
    instructions = footprints.kernel.instructions
    if any(i.op_class is OpClass.FENCE or _AGAINST.match(i.words) for i in instructions):
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
    # As sectors that pass both: the cache serves each of ``passed``, the memory each of ``moved``.
    served = -(-(cache * passed + (both - cache) * moved) // max(1, both))
    return SetAside(0, served), tuple(rests_on)


def _is_fetched(access: AnalysedAccess) -> bool:
    return access.access.purpose is not Purpose.STORE or access.most.partial > 0


def _is_changed(access: AnalysedAccess) -> bool:
    return access.access.changes
