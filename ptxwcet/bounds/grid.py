"""From bounds of blocks to a bound of the grid (docs/methods/grid.md).

``S`` SMs hold up to ``R`` blocks each; a block that has not started gets a slot that is free within
``delta`` cycles, and the launcher starts blocks at least ``gap`` cycles apart. A block is known by
its slack ``lambda`` (what it takes besides the cycles in which it is charged, however the others
treat it) and its work ``Y`` (all its initiations). Several forms are proved, and the least counts:

    one SM     the last block waits for the slot with the least slack, and for all the work
    fewest     the SM that was given the fewest blocks bounds the last start; then comes a tail
    split      the SM of the last block got n blocks, the others share the rest: worst n
    mean       both sides of ``split``, weighed 1 : S - 1, so that n does not occur

Work counts on all sub-cores together. Two more bounds of an SM count the work of a block on its
busiest sub-core alone: one lets its blocks run one after another, the other, for blocks without
barriers, counts a block again for each block of a slot that it runs beside. The least is taken.

Waiting at the memory that all SMs share is added to each form: all sectors of the grid, once; and
fewer where arrays are set aside in a cache.

Example: 100 blocks of lambda 300 and Y 200 on 4 SMs with 2 slots: ``fewest`` has 24 blocks before
the last start, 12 in a slot: 12 * 300 + 24 * 200 + (300 + 2 * 200) = 9,100.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from enum import Enum
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from math import ceil, gcd

from ptxwcet.support.records import dataclass


@dataclass(frozen=True, slots=True)
class BlockKind:
    """``count`` blocks of a grid with the same bounds.

    ``slack_cycles`` is lambda, ``work_cycles`` Y. ``busiest_cycles`` is the work of the busiest
    sub-core, section by section; None if sub-cores share units, so that it is of no use.
    ``meets_barriers``: its warps wait for each other. ``sectors`` are those of 32 bytes that it has
    the memory of the GPU serve, ``outside_sectors`` of which lie in no array that is set aside in a
    cache (None: all).
    """

    count: int
    slack_cycles: int
    work_cycles: int
    busiest_cycles: int | None = None
    meets_barriers: bool = True
    sectors: int = 0
    outside_sectors: int | None = None

    @property
    def not_set_aside(self) -> int:
        """Sectors in no array that is set aside in a cache: all, if nothing is said of them."""
        return self.sectors if self.outside_sectors is None else self.outside_sectors


@dataclass(frozen=True, slots=True)
class CoRunner:
    """Other users that the memory of the GPU serves beside the launch.

    In any stretch of t cycles the memory is busy with them for at most ``burst_cycles + rate * t``,
    with ``rate < 1``.
    """

    burst_cycles: int
    rate: Fraction

    def __post_init__(self) -> None:
        if self.burst_cycles < 0 or not 0 <= self.rate < 1:
            raise ValueError("a co-runner leaves the memory some time")


@dataclass(frozen=True, slots=True)
class SetAside:
    """Arrays that a launch keeps in a cache before the memory (docs/methods/first-touch.md).

    The cache takes ``cache_cycles_per_1024_sectors`` of all sectors. The memory moves at most
    ``moved_sectors`` of these arrays, however often they are accessed.
    """

    cache_cycles_per_1024_sectors: int
    moved_sectors: int


@dataclass(frozen=True, slots=True)
class MemoryServer:
    """The memory of the GPU: what 1024 sectors take of it, and who shares it.

    ``cycles_per_1024_sectors`` has what a cache before it takes. ``set_aside``: what need not be
    fetched each time.
    """

    cycles_per_1024_sectors: int = 0
    co_runner: CoRunner | None = None
    set_aside: SetAside | None = None

    def busy(self, sectors: int, outside: int | None = None) -> int:
        """Cycles in which the memory serves so many sectors, rounded up once.

        ``outside`` of them, or all, are not in arrays that are set aside.
        """
        return -(-self._work(sectors, outside) // self._own_divisor)

    @property
    def divisor(self) -> int:
        """The number of :meth:`parts` of a cycle."""
        divisor = self._own_divisor
        return divisor if self.co_runner is None else divisor * (1 - self.co_runner.rate).numerator

    def parts(self, cycles: int, sectors: int, outside: int | None = None) -> int:
        """A bound of ``cycles`` with :meth:`waiting` added, in parts of a cycle: affine in all.

        Rounded up it is just that; with a co-runner of rate r, where two numbers are rounded up one
        after the other, it may be more, by less than ``1 + 1 / (1 - r)``.
        """
        divisor, own = self._own_divisor, self._work(sectors, outside)
        if self.co_runner is None:
            return divisor * cycles + own
        others = self.co_runner
        total = divisor * (cycles + others.burst_cycles) + own + divisor - 1
        return total * (1 - others.rate).denominator

    def waiting(self, cycles: int, sectors: int, outside: int | None = None) -> int:
        """What is added to a bound of ``cycles`` for waiting behind :meth:`busy` and others."""
        own = self.busy(sectors, outside)
        if self.co_runner is None:
            return own
        others = self.co_runner
        return ceil((cycles + own + others.burst_cycles) / (1 - others.rate)) - cycles

    @property
    def _own_divisor(self) -> int:
        cache = 0 if self.set_aside is None else self.set_aside.cache_cycles_per_1024_sectors
        return 1024 // gcd(1024, self.cycles_per_1024_sectors, cache)

    def _work(self, sectors: int, outside: int | None) -> int:
        """The time that the sectors take, in parts of a cycle as the server alone has them."""
        scale = 1024 // self._own_divisor
        each = self.cycles_per_1024_sectors // scale
        if self.set_aside is None:
            return each * sectors
        cache = self.set_aside.cache_cycles_per_1024_sectors // scale
        moved = (sectors if outside is None else outside) + self.set_aside.moved_sectors
        return cache * sectors + (each - cache) * moved


@dataclass(frozen=True, slots=True)
class Dispatch:
    """How blocks come to the SMs of a GPU.

    ``delay_cycles``: a slot is free for at most so many cycles in which the launcher could start a
    block, while there is one. ``gap_cycles``: at least so many between the starts of two blocks.
    ``breadth_first``: no SM ever holds more than ``ceil(blocks / sms)`` blocks. ``memory`` is what
    all SMs share.
    """

    sms: int
    resident_blocks: int
    delay_cycles: int = 0
    gap_cycles: int = 0
    breadth_first: bool = False
    memory: MemoryServer = MemoryServer()

    def __post_init__(self) -> None:
        if self.sms < 1 or self.resident_blocks < 1:
            raise ValueError("a grid needs an SM that holds a block")
        if self.delay_cycles < 0 or self.gap_cycles < 0:
            raise ValueError("delays are 0 cycles or more")


class GridForm(Enum):
    """Which form of the theorem gave the bound (docs/methods/grid.md)."""

    ONE_SM = "one SM"
    FEWEST = "fewest"
    SPLIT = "split"
    MEAN = "mean"


@dataclass(frozen=True, slots=True)
class GridBound:
    """No run of the grid takes more than ``cycles``, the sum of its parts.

    ``work``: initiations on an SM before the last start of a block, or altogether. ``slack``: of
    the blocks that pass through one slot, with the delays of dispatch, and of the last block.
    ``tail``: work that may be left when the last block starts. ``launcher``: its gaps. ``memory``:
    waiting at the memory of the GPU.
    """

    form: GridForm
    work_cycles: int
    slack_cycles: int
    tail_cycles: int
    launcher_cycles: int
    resident_blocks: int
    memory_cycles: int = 0

    @property
    def cycles(self) -> int:
        """The bound."""
        own = self.work_cycles + self.slack_cycles + self.tail_cycles + self.launcher_cycles
        return own + self.memory_cycles


def bound_grid(kinds: Sequence[BlockKind], dispatch: Dispatch) -> GridBound:
    """The least of the forms. Raises ValueError for a grid without blocks.

    Cost: sorting the kinds, and about 30 look-ups for each doubling of the blocks.
    """
    grid = _Grid(kinds, dispatch)
    forms = [_one_sm(grid)] if dispatch.sms == 1 else [_fewest(grid), _split(grid), _mean(grid)]
    least = min(forms, key=lambda bound: bound.cycles)
    sectors = sum(kind.count * kind.sectors for kind in kinds)
    outside = sum(kind.count * kind.not_set_aside for kind in kinds)
    return replace(least, memory_cycles=dispatch.memory.waiting(least.cycles, sectors, outside))


def bounds_by_residency(
    kinds: Sequence[BlockKind], dispatch: Dispatch, least: int = 1
) -> tuple[GridBound, ...]:
    """The bounds for ``least`` up to ``dispatch.resident_blocks`` resident blocks.

    More residents may make it larger (the tail) or smaller (slack that overlaps). Numbers above
    that of the blocks change nothing and are left out. Cost: one bound for each number.
    """
    most = min(dispatch.resident_blocks, sum(kind.count for kind in kinds))
    return tuple(
        bound_grid(kinds, replace(dispatch, resident_blocks=resident))
        for resident in range(min(least, most), most + 1)
    )


def affine_bound(kind: BlockKind, dispatch: Dispatch, least_resident: int, overhead: int) -> int:
    """A bound of blocks all alike, affine in one of their figures or their number.

    In parts of a cycle (``dispatch.memory.divisor``), with ``overhead`` cycles of the launch. It
    holds for each number of resident blocks from ``least_resident`` to that of ``dispatch``, and is
    that of the forms ``one SM`` and ``fewest`` if these are the same. ``split``, ``mean`` and
    blocks side by side may give less. Cost: constant.
    """
    memory = dispatch.memory
    cycles = _alike(kind, dispatch, least_resident)
    sectors, outside = kind.count * kind.sectors, kind.count * kind.not_set_aside
    return memory.parts(cycles, sectors, outside) + overhead * memory.divisor


def _alike(kind: BlockKind, dispatch: Dispatch, least_resident: int) -> int:
    """The form that :func:`affine_bound` takes, without what the memory adds."""
    blocks, work = kind.count, kind.work_cycles
    slack = kind.slack_cycles + dispatch.delay_cycles
    launcher = dispatch.gap_cycles * (blocks - 1)
    alone = slack + (work if kind.busiest_cycles is None else kind.busiest_cycles)
    if dispatch.sms == 1:
        passed = (blocks - 1) // least_resident
        return min(blocks * work + passed * slack + slack, blocks * alone) + launcher
    before = (blocks - 1) // dispatch.sms
    together = min(dispatch.resident_blocks, blocks)
    if dispatch.breadth_first:
        together = min(together, before + 1)
    start = 0
    if before >= least_resident:
        start = min((before // least_resident) * slack + before * work, before * alone)
    return start + min(slack + together * work, together * alone) + launcher


class _Largest:
    """Sums of the largest numbers of a multiset: ``of(n)`` adds up n of them (all, if fewer)."""

    def __init__(self, numbers: Sequence[tuple[int, int]]) -> None:
        """``numbers`` are pairs of a number >= 0 and how often it is in the multiset."""
        ordered = sorted(numbers, reverse=True)
        self._values = [value for value, _ in ordered]
        self._counts = list(accumulate((count for _, count in ordered), initial=0))
        self._sums = list(accumulate((value * count for value, count in ordered), initial=0))
        self.total = self._sums[-1]
        self.most = self._values[0]

    def of(self, n: int) -> int:
        n = min(n, self._counts[-1])
        place = max(bisect_left(self._counts, n) - 1, 0)
        return self._sums[place] + (n - self._counts[place]) * self._values[place]


@dataclass(frozen=True, slots=True)
class _Span:
    """The cycles of a bound in two parts: work, and slack with the delays of dispatch."""

    work: int
    slack: int

    @property
    def cycles(self) -> int:
        return self.work + self.slack


def _least(spans: Iterable[_Span]) -> _Span:
    return min(spans, key=lambda span: span.cycles)


class _Grid:
    """A grid's blocks as the forms need them; slack always includes the delay of dispatch."""

    def __init__(self, kinds: Sequence[BlockKind], dispatch: Dispatch) -> None:
        kinds = [kind for kind in kinds if kind.count]
        if not kinds:
            raise ValueError("a grid has a block")
        delay = dispatch.delay_cycles
        self.dispatch, self.sms, self.slots = dispatch, dispatch.sms, dispatch.resident_blocks
        self.blocks = sum(kind.count for kind in kinds)
        self.slack = _Largest([(kind.slack_cycles + delay, kind.count) for kind in kinds])
        self.work = _Largest([(kind.work_cycles, kind.count) for kind in kinds])
        alone = [
            (kind.slack_cycles + delay + kind.busiest_cycles, kind.count)
            for kind in kinds
            if kind.busiest_cycles is not None
        ]
        self.alone = _Largest(alone) if len(alone) == len(kinds) else None
        busiest = [(kind.busiest_cycles or 0, kind.count) for kind in kinds]
        is_free = self.alone is not None and not any(kind.meets_barriers for kind in kinds)
        self.busiest = _Largest(busiest) if is_free else None
        together = min(self.slots, self.blocks)
        if dispatch.breadth_first:
            together = min(together, -(-self.blocks // self.sms))
        self.together = together  # on an SM, at most, when the last one starts

    def before(self, blocks: int) -> _Span:
        """When some slot of an SM that was given ``blocks`` is free again, at the latest."""
        slack = min(self.slack.of(blocks // self.slots), self.slack.of(blocks) // self.slots)
        return _Span(self.work.of(blocks), slack)

    def in_series(self, blocks: int) -> Iterator[_Span]:
        """When an SM has ended ``blocks`` one after another; empty if single times are unknown."""
        if self.alone is not None:
            slack = self.slack.of(blocks)
            yield _Span(self.alone.of(blocks) - slack, slack)

    def side_by_side(self, blocks: int, passed: int, slack: int) -> Iterator[_Span]:
        """The time of an SM that was given ``blocks``; in one slot ``passed`` of them gave way.

        Each time that one does, the blocks of the other slots may delay one more sub-core.
        """
        if self.busiest is not None:
            again = passed * (min(self.slots, blocks) - 1) * self.busiest.most
            yield _Span(self.busiest.of(blocks) + again, slack)

    def last_start(self, blocks: int) -> _Span:
        """The last start, less its own delay, where an SM was given ``blocks`` before.

        A slot that was never used is free from the beginning.
        """
        passed = blocks // self.slots
        if not passed:
            return _Span(0, 0)
        beside = self.side_by_side(blocks, passed - 1, self.slack.of(passed))
        return _least([self.before(blocks), *self.in_series(blocks), *beside])

    def end(self, blocks: int) -> _Span:
        """When all blocks have ended on an SM that was given ``blocks``."""
        before, last = self.before(blocks - 1), self.slack.most
        passed = (blocks - 1) // self.slots
        beside = self.side_by_side(blocks, passed, self.slack.of(passed) + last)
        own = _Span(self.work.of(blocks), before.slack + last)
        return _least([own, *self.in_series(blocks), *beside])

    @cached_property
    def tail(self) -> _Span:
        """The time from the last start, less its own delay, to the end of all blocks."""
        together, last = self.together, self.slack.most
        beside = self.side_by_side(together, 0, last)
        own = _Span(self.work.of(together), last)
        return _least([own, *self.in_series(together), *beside])

    def answer(self, form: GridForm, span: _Span, tail: int) -> GridBound:
        """The bound of a form from its ``span`` without the tail, and the ``tail``."""
        launcher = self.dispatch.gap_cycles * (self.blocks - 1)
        return GridBound(form, span.work, span.slack, tail, launcher, self.slots)

    def after(self, form: GridForm, start: _Span) -> GridBound:
        """The bound of a form from the last start, less its own delay."""
        span = _Span(start.work, start.slack + self.tail.slack)
        return self.answer(form, span, self.tail.work)


def _one_sm(grid: _Grid) -> GridBound:
    """G2: all the work, the slack of the slot with the least, and that of the last block."""
    last = grid.slack.most
    mean = _Span(grid.work.total, (grid.slack.total - last) // grid.slots + last)
    return grid.answer(GridForm.ONE_SM, _least([mean, grid.end(grid.blocks)]), 0)


def _fewest(grid: _Grid) -> GridBound:
    """G3, first form: some SM was given at most ``(B - 1) / S`` blocks before the last start."""
    return grid.after(GridForm.FEWEST, grid.last_start((grid.blocks - 1) // grid.sms))


def _split(grid: _Grid) -> GridBound:
    """G3 by cases: n blocks came to the SM of the last one that ends, before the last start.

    They bound that end (it grows with n), and the others the last start (it falls with n).
    """

    def own(n: int) -> GridBound:
        return grid.answer(GridForm.SPLIT, grid.end(n + 1), 0)

    def others(n: int) -> GridBound:
        fewest = (grid.blocks - 1 - n) // (grid.sms - 1)
        return grid.after(GridForm.SPLIT, grid.last_start(fewest))

    first = _first(grid.blocks, lambda n: own(n).cycles >= others(n).cycles)
    at = [others(first)] if first < grid.blocks else []
    before = [own(first - 1)] if first else []
    return max((*at, *before), key=lambda bound: bound.cycles)


def _first(end: int, holds: Callable[[int], bool]) -> int:
    """The first of 0 .. end - 1 from which on something holds; ``end`` if it never does."""
    low, high = 0, end
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _mean(grid: _Grid) -> GridBound:
    """G3, second form: both bounds of ``split``, weighed 1 : S - 1, in which n does not occur."""
    other_sms = grid.sms - 1
    last, tail = grid.slack.most, grid.tail
    slack = grid.slack.total - last + grid.slots * (last + other_sms * tail.slack)
    work = grid.slots * (grid.work.total + other_sms * tail.work)
    cycles = (slack + work) // (grid.sms * grid.slots)
    work, left = grid.work.total // grid.sms, other_sms * tail.work // grid.sms
    least = grid.answer(GridForm.MEAN, _Span(work, cycles - work - left), left)
    for alone in grid.in_series(grid.blocks):
        total = (alone.cycles + other_sms * tail.cycles) // grid.sms
        work = alone.work // grid.sms
        series = grid.answer(GridForm.MEAN, _Span(work, total - work - left), left)
        least = min(least, series, key=lambda bound: bound.cycles)
    return least
