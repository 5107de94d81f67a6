"""Computes a bound of the grid from bounds of its blocks (docs/methods/grid.md).

``S`` SMs hold up to ``R`` blocks each. While blocks wait, an SM receives its n-th block within
``delta`` cycles of the end of its first ``n - R`` blocks; the launcher starts blocks at least
``gap`` cycles apart. A block has a slack ``lambda`` (its time beyond the cycles in which it is
charged, however the others treat it) and a work ``Y`` (all its initiations). Several forms are
proved, and the least counts:

    one SM     one block of R, at most, waits for another, and all for the work
    fewest     the SM that was given the fewest blocks bounds the last start; then a tail follows
    split      the SM of the last block got n blocks, the others share the rest: worst n
    mean       both sides of ``split``, weighed 1 : S - 1, so that n does not occur

The charge of a section of a block depends on its class (Theorem M): *light*, all its work or that
of the busiest sub-core and extras, and slack only in its slot; *heavy*, the work of the busiest
sub-core and its slack, always. Any choice of classes gives a bound; a few are tried, for each part
of a form. The least counts.

Waiting at the memory that all SMs share is added to each form: all sectors of the grid, once; and
fewer where arrays are in persisting L2. Where warps poll mbarriers all of that is a part of the
cycles, the other cycles are for polls (docs/methods/mbarriers.md).

Example: 100 blocks of lambda 300 and Y 200 on 4 SMs with 2 slots: ``fewest`` has 24 blocks before
the last start, 12 in a slot: 12 * 300 + 24 * 200 + (300 + 2 * 200) = 9,100.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from enum import Enum
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from math import ceil, gcd

from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass


@dataclass(frozen=True, slots=True)
class Stretch:
    """The charge of a block ``times`` over: for a section, or for sections of which it chooses.

    ``slack_cycles`` is lambda there, ``work_cycles`` the work on all sub-cores, ``busiest_cycles``
    the work of the busiest in each of its ``sections``, ``others`` the work of other sub-cores with
    the number of each. ``carried_cycles``: the longest wait of its sections for earlier work of
    others (carry-in). For sections of which the block chooses these are the largest of any choice,
    and ``others`` are those of all.
    """

    times: int
    slack_cycles: int
    work_cycles: int
    busiest_cycles: int
    others: tuple[tuple[int, int], ...] = ()
    carried_cycles: int = 0
    sections: int = 1


def sums_of(way: Iterable[Stretch]) -> tuple[int, int, int, int, int]:
    """Returns the sums of slack, work, work of busiest sub-cores, carry-in and sections."""
    slack = work = busiest = carried = sections = 0
    for stretch in way:
        slack += stretch.times * stretch.slack_cycles
        work += stretch.times * stretch.work_cycles
        busiest += stretch.times * stretch.busiest_cycles
        carried += stretch.times * stretch.carried_cycles
        sections += stretch.times * stretch.sections
    return slack, work, busiest, carried, sections


def chosen_stretch(times: int, ways: Sequence[Sequence[Stretch]]) -> Stretch:
    """Returns the stretch of a block that takes one of the ``ways`` each of ``times`` times."""
    slack, work, busiest, carried, sections = map(max, zip(*map(sums_of, ways), strict=True))
    others = tuple((cycles, n * s.times) for way in ways for s in way for cycles, n in s.others)
    return Stretch(times, slack, work, busiest, others, carried, sections)


@dataclass(frozen=True, slots=True)
class BlockKind:
    """A number of blocks of a grid, ``count``, with the same bounds.

    ``slack_cycles`` is lambda, ``work_cycles`` Y. ``busiest_cycles`` is the work of the busiest
    sub-core, section by section; None if sub-cores share units, so that it is of no use.
    ``stretches``: all three piece by piece, where known. ``sectors`` are those of 32 bytes that the
    memory of the GPU serves for it, ``outside_sectors`` the part of them in no array in persisting
    L2 (None: all). ``serial_cycles``, if known: the charge as work without slack, of serialised
    groups of warps with partial barriers. ``polling`` is the share of its cycles in which it may
    poll mbarriers in addition to its work.
    """

    count: int
    slack_cycles: int
    work_cycles: int
    busiest_cycles: int | None = None
    stretches: tuple[Stretch, ...] = ()
    sectors: int = 0
    outside_sectors: int | None = None
    serial_cycles: int | None = None
    polling: Fraction = Fraction(0)

    @property
    def not_set_aside(self) -> int:
        """The sectors in no array in persisting L2: all, if unknown."""
        return self.sectors if self.outside_sectors is None else self.outside_sectors

    @property
    def in_groups(self) -> BlockKind | None:
        """The same blocks with all of their charge as work, serialised.

        None where sub-cores share units.
        """
        serial = self.serial_cycles
        if serial is None:
            if self.busiest_cycles is None:
                return None
            serial = self.slack_cycles + self.busiest_cycles
        return replace(self, slack_cycles=0, work_cycles=serial, busiest_cycles=None, stretches=())


@dataclass(frozen=True, slots=True)
class CoRunner:
    """The other users of the GPU's memory during the launch.

    In any t consecutive cycles the memory is busy with them for at most ``burst_cycles + rate *
    t``, with ``rate < 1``.
    """

    burst_cycles: int
    rate: Fraction

    def __post_init__(self) -> None:
        if self.burst_cycles < 0 or not 0 <= self.rate < 1:
            raise ValueError("a co-runner leaves the memory some time")


@dataclass(frozen=True, slots=True)
class SetAside:
    """The arrays that a launch keeps in a cache before the memory (docs/methods/first-touch.md).

    The cache takes ``cache_cycles_per_1024_sectors`` of all sectors. The memory moves at most
    ``moved_sectors`` of these arrays, however often they are accessed.
    """

    cache_cycles_per_1024_sectors: int
    moved_sectors: int


@dataclass(frozen=True, slots=True)
class MemoryServer:
    """The memory of the GPU: its time for 1024 sectors, and its other users.

    ``cycles_per_1024_sectors`` includes the time of a cache before it. ``set_aside``: the arrays
    that need not be fetched each time.
    """

    cycles_per_1024_sectors: int = 0
    co_runner: CoRunner | None = None
    set_aside: SetAside | None = None

    def busy(self, sectors: int, outside: int | None = None) -> int:
        """Returns the cycles in which the memory serves this many sectors, rounded up once.

        ``outside`` of them, or all, are not in arrays in persisting L2.
        """
        return -(-self._work(sectors, outside) // self._own_divisor)

    @property
    def divisor(self) -> int:
        """The number of :meth:`parts` of a cycle."""
        divisor = self._own_divisor
        return divisor if self.co_runner is None else divisor * (1 - self.co_runner.rate).numerator

    def parts(self, cycles: int, sectors: int, outside: int | None = None) -> int:
        """Returns a bound of ``cycles`` plus :meth:`waiting`, in parts of a cycle: affine in all.

        Rounded up it is exactly that sum; with a co-runner of rate r, where two numbers are rounded
        up in sequence, it may be more, by less than ``1 + 1 / (1 - r)``.
        """
        divisor, own = self._own_divisor, self._work(sectors, outside)
        if self.co_runner is None:
            return divisor * cycles + own
        others = self.co_runner
        total = divisor * (cycles + others.burst_cycles) + own + divisor - 1
        return total * (1 - others.rate).denominator

    def waiting(self, cycles: int, sectors: int, outside: int | None = None) -> int:
        """Returns the growth of a bound of ``cycles`` by the waiting after :meth:`busy`."""
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
        """Returns the time of the sectors, in parts of a cycle without co-runners."""
        scale = 1024 // self._own_divisor
        each = self.cycles_per_1024_sectors // scale
        if self.set_aside is None:
            return each * sectors
        cache = self.set_aside.cache_cycles_per_1024_sectors // scale
        moved = (sectors if outside is None else outside) + self.set_aside.moved_sectors
        return cache * sectors + (each - cache) * moved


@dataclass(frozen=True, slots=True)
class Dispatch:
    """The dispatch of blocks to the SMs of a GPU.

    ``delay_cycles``: while blocks wait, an SM receives its n-th at most this many cycles, in which
    the launcher could start one, after its first ``n - resident_blocks`` have ended, or earlier.
    ``gap_cycles``: the least time between the starts of two blocks. ``breadth_first``: no SM ever
    holds more than ``ceil(blocks / sms)`` blocks. ``memory`` is shared by all SMs.
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
    """The form of the theorem that gave the bound (docs/methods/grid.md)."""

    ONE_SM = "one SM"
    FEWEST = "fewest"
    SPLIT = "split"
    MEAN = "mean"


@dataclass(frozen=True, slots=True)
class GridBound:
    """An upper bound on every run of the grid: ``cycles``, the sum of its parts.

    ``work``: initiations on an SM before the last start of a block, or altogether. ``slack``: the
    slack of blocks that wait for one another, with the delays of dispatch, of the last block, and
    of the heavy sections of all blocks. ``tail``: work that may remain when the last block starts.
    ``launcher``: its gaps. ``memory``: waiting at the memory of the GPU. ``polling``: the part of
    all that time that warps waiting for mbarriers may take.
    """

    form: GridForm
    work_cycles: int
    slack_cycles: int
    tail_cycles: int
    launcher_cycles: int
    resident_blocks: int
    memory_cycles: int = 0
    polling_cycles: int = 0

    @property
    def cycles(self) -> int:
        """The bound."""
        own = self.work_cycles + self.slack_cycles + self.tail_cycles + self.launcher_cycles
        return own + self.memory_cycles + self.polling_cycles


def bound_grid(kinds: Sequence[BlockKind], dispatch: Dispatch) -> GridBound:
    """Returns the least of the forms. Raises ValueError for a grid without blocks, PtxwcetError
    (PW504) if polls could take every cycle.

    Cost: sorting kinds and stretches, and about 50 look-ups for each doubling of the blocks.
    """
    forms = (_bound(blocks, dispatch) for blocks in _known_blocks(kinds, dispatch))
    return min(forms, key=lambda bound: bound.cycles)


def _known_blocks(kinds: Sequence[BlockKind], dispatch: Dispatch) -> list[_Blocks]:
    """Returns the blocks; with partial barriers also with their serial part as work."""
    ways = [kinds]
    if any(kind.serial_cycles is not None for kind in kinds):
        in_groups = [kind.in_groups for kind in kinds]
        grouped = [kind for kind in in_groups if kind is not None]
        ways += [grouped] if len(grouped) == len(kinds) else []
    return [_Blocks(way, dispatch.delay_cycles) for way in ways]


def _bound(blocks: _Blocks, dispatch: Dispatch) -> GridBound:
    grid = _Grid(blocks, dispatch)
    forms = [_one_sm(grid)] if dispatch.sms == 1 else [_fewest(grid), _split(grid), _mean(grid)]
    least = min(forms, key=lambda bound: bound.cycles)
    waiting = dispatch.memory.waiting(least.cycles, blocks.sectors, blocks.outside_sectors)
    whole = replace(least, memory_cycles=waiting)
    if not grid.polling:
        return whole
    others = dispatch.memory.co_runner
    left = 1 if others is None else 1 - others.rate
    if grid.polling >= left:
        raise PtxwcetError(_no_time_left())
    cycles = ceil(whole.cycles * left / (left - grid.polling))
    return replace(whole, polling_cycles=cycles - whole.cycles)


def _no_time_left() -> Diagnostic:
    return Diagnostic(
        "PW504",
        "warps that ask mbarriers whether a phase is over could issue in each cycle, those of all "
        "blocks on an SM together",
    )


def bounds_by_residency(
    kinds: Sequence[BlockKind], dispatch: Dispatch, least: int = 1
) -> tuple[GridBound, ...]:
    """Returns the bounds for ``least`` up to ``dispatch.resident_blocks`` resident blocks.

    More residents may make it larger (the tail) or smaller (slack that overlaps). Numbers above the
    number of blocks change nothing and are left out. Cost: one bound for each number.
    """
    prepared = _known_blocks(kinds, dispatch)
    most = min(dispatch.resident_blocks, prepared[0].count)
    return tuple(
        min(
            (_bound(blocks, replace(dispatch, resident_blocks=resident)) for blocks in prepared),
            key=lambda bound: bound.cycles,
        )
        for resident in range(min(least, most), most + 1)
    )


def affine_bound(kind: BlockKind, dispatch: Dispatch, least_resident: int, overhead: int) -> int:
    """Returns a bound of equal blocks, affine in one of their figures or their number.

    It is in parts of a cycle (``dispatch.memory.divisor``), with ``overhead`` cycles of the launch.
    It holds for each number of resident blocks from ``least_resident`` to that of ``dispatch``, and
    equals the forms ``one SM`` and ``fewest`` with all sections of one class, light without extras
    or heavy, if these are the same. ``split``, ``mean`` and other classes may give less. It does
    not hold for blocks that poll mbarriers. Cost: constant.
    """
    assert not kind.polling, "a bound of blocks that poll is no affine function"
    memory = dispatch.memory
    cycles = _alike(kind, dispatch, least_resident)
    sectors, outside = kind.count * kind.sectors, kind.count * kind.not_set_aside
    return memory.parts(cycles, sectors, outside) + overhead * memory.divisor


def _alike(kind: BlockKind, dispatch: Dispatch, least_resident: int) -> int:
    """Returns the form that :func:`affine_bound` takes, without the addition for the memory."""
    blocks, delay = kind.count, dispatch.delay_cycles
    slack = kind.slack_cycles + delay
    alone = kind.slack_cycles
    alone += kind.work_cycles if kind.busiest_cycles is None else kind.busiest_cycles

    def least(passed: int, charged: int) -> int:
        return min(passed * slack + charged * kind.work_cycles, passed * delay + charged * alone)

    launcher = dispatch.gap_cycles * (blocks - 1)
    if dispatch.sms == 1:
        return least((blocks - 1) // least_resident + 1, blocks) + launcher
    before = (blocks - 1) // dispatch.sms
    together = min(dispatch.resident_blocks, blocks)
    if dispatch.breadth_first:
        together = min(together, before + 1)
    start = least(before // least_resident, before) if before >= least_resident else 0
    return start + least(1, together) + launcher


class _Largest:
    """Sums of the largest numbers of a multiset: ``of(n)`` adds up n of them (all, if fewer)."""

    def __init__(self, numbers: Sequence[tuple[int, int]]) -> None:
        """Takes ``numbers``, pairs of a number >= 0 and its multiplicity in the multiset."""
        ordered = sorted(numbers, reverse=True)
        self._values = [value for value, _ in ordered]
        self._counts = list(accumulate((count for _, count in ordered), initial=0))
        self._sums = list(accumulate((value * count for value, count in ordered), initial=0))
        self.total = self._sums[-1]
        self.most = self._values[0]

    def of(self, n: int) -> int:
        if n >= self._counts[-1]:
            return self.total
        if n <= self._counts[1]:
            return n * self.most
        place = bisect_left(self._counts, n) - 1
        return self._sums[place] + (n - self._counts[place]) * self._values[place]


@dataclass(frozen=True, slots=True)
class _Span:
    """The cycles of a bound in two parts: work, and slack with the delays of dispatch."""

    work: int
    slack: int

    @property
    def cycles(self) -> int:
        return self.work + self.slack

    def after(self, slack: int) -> _Span:
        return _Span(self.work, self.slack + slack)


def _least(spans: Iterable[_Span]) -> _Span:
    return min(spans, key=lambda span: span.cycles)


_UNKNOWN = 1 << 62  # sections of a block with unknown parts: all extras count
_MOST_PRICES = 8


class _Sums:
    """The blocks of a grid with classes of their sections; slack includes the delay of dispatch."""

    def __init__(
        self,
        kinds: Iterable[tuple[int, Sequence[Stretch]]],
        delay_cycles: int,
        heavy: frozenset[Stretch],
    ) -> None:
        """Takes ``kinds``: numbers of blocks, each with its stretches."""
        rows = []
        others: list[tuple[int, int, int]] = []
        for count, pieces in kinds:
            light = [s for s in pieces if s not in heavy]
            slack, work, busiest, _, sections = sums_of(light)
            waits, _, least, carried, more = sums_of(s for s in pieces if s in heavy)
            always = waits + (carried if sections else 0)
            x, least = slack + delay_cycles, least + always
            rows.append((count, x, always, busiest + least, work + least, sections + more))
            for s in light:
                others += [(cycles, n * s.times, count) for cycles, n in s.others]
        self.rows, self.others = rows, sorted(others, reverse=True)
        self.most = max((cycles for cycles, _, _ in others), default=0)

        def largest(place: int) -> _Largest:
            return _Largest([(row[place], row[0]) for row in rows])

        self.slack, self.always, self.busiest, self.summed = map(largest, (1, 2, 3, 4))
        self.sections = largest(5)


class _Classed:
    """The blocks of a grid with classes of their sections, for a number of blocks per SM.

    The charge of light sections is bounded in two ways: by their work on all sub-cores, and by the
    work on the busiest with extras: one of the others for each further block, each time that the
    clock of a slot changes to another sub-core, which happens once per section.
    """

    def __init__(self, sums: _Sums, slots: int, blocks: int) -> None:
        self.slots, self.others, self.sections = slots, sums.others, sums.sections
        self.slack, self.always = sums.slack, sums.always
        self.busiest, self.summed = sums.busiest, sums.summed
        self.each = sums.most * (min(slots, blocks) - 1)  # the most extras of a section
        # slack, and extras of every section
        rows = [(row[1] + self.each * row[5], row[0]) for row in sums.rows] if self.each else []
        self.extended = _Largest(rows) if rows else sums.slack

    def extras(self, blocks: int, numbers: int) -> int:
        """Returns the largest sum of ``numbers`` of the others of ``blocks`` blocks."""
        total = 0
        for cycles, n, count in self.others:
            taken = min(n * min(count, blocks), numbers)
            total += taken * cycles
            numbers -= taken
            if not numbers:
                break
        return total

    def charged(self, blocks: int, switches: int) -> _Span:
        """Returns the charge of ``blocks`` blocks, in any slots, for ``switches`` of sub-core."""
        extras = self.extras(blocks, switches * (min(self.slots, blocks) - 1))
        least = min(self.summed.of(blocks), self.busiest.of(blocks) + extras)
        always = self.always.of(blocks)
        return _Span(least - always, always)

    def last_start(self, blocks: int) -> _Span:
        """Returns the last start, less its own delay, of an SM with ``blocks`` blocks before.

        A slot that was never used is free from the beginning.
        """
        passed = blocks // self.slots
        if not passed:
            return _Span(0, 0)
        return self.charged(blocks, self.sections.of(passed) - 1).after(self.slack.of(passed))

    def end(self, blocks: int) -> _Span:
        """Returns the time when all ``blocks`` blocks of an SM have ended."""
        chain = -(-blocks // self.slots)
        return self.charged(blocks, self.sections.of(chain) - 1).after(self.slack.of(chain))

    def tail(self, together: int) -> _Span:
        """Returns the time from the last start, less its delay, to the end of its blocks."""
        return self.charged(together, self.sections.most - 1).after(self.slack.most)


def _as_one(kind: BlockKind) -> Stretch:
    """Returns a stretch for the sections of a block of which only the sums are known."""
    work = kind.work_cycles
    busiest = work if kind.busiest_cycles is None else kind.busiest_cycles
    others = ((work - busiest, 1),)
    return Stretch(1, kind.slack_cycles, work, busiest, others, sections=_UNKNOWN)


class _Blocks:
    """The blocks of a grid, with the sums that do not depend on the number of blocks per SM."""

    def __init__(self, kinds: Sequence[BlockKind], delay_cycles: int) -> None:
        kinds = [kind for kind in kinds if kind.count]
        if not kinds:
            raise ValueError("a grid has a block")
        self.count = sum(kind.count for kind in kinds)
        self.sectors = sum(kind.count * kind.sectors for kind in kinds)
        self.outside_sectors = sum(kind.count * kind.not_set_aside for kind in kinds)
        self.differ = len(kinds) > 1 or kinds[0].busiest_cycles != kinds[0].work_cycles
        if any(kind.busiest_cycles is None for kind in kinds):
            kinds = [replace(kind, busiest_cycles=None, stretches=()) for kind in kinds]
            self.differ = False
        self._pieces = [(kind.count, kind.stretches or (_as_one(kind),)) for kind in kinds]
        self._shares = [(kind.polling, kind.count) for kind in kinds]
        self._delay_cycles = delay_cycles
        self._weights = Counter[Stretch]()
        self._switches = 0
        for kind in kinds:
            for stretch in kind.stretches:
                self._weights[stretch] += kind.count * stretch.times
                self._switches += kind.count * stretch.times * stretch.sections
        self._sums: dict[frozenset[Stretch], _Sums] = {}

    def polling(self, blocks: int) -> Fraction:
        """Returns the share of the cycles of an SM that polls of this many blocks may take."""
        share = Fraction(0)
        for own, count in sorted(self._shares, reverse=True):
            share += own * min(count, blocks)
            blocks -= min(count, blocks)
        return share

    def sums(self, heavy: frozenset[Stretch]) -> _Sums:
        """Returns the sums with these stretches heavy, and all others light."""
        if heavy not in self._sums:
            self._sums[heavy] = _Sums(self._pieces, self._delay_cycles, heavy)
        return self._sums[heavy]

    def choices(self, together: int) -> Iterator[frozenset[Stretch]]:
        """Yields candidate sets of heavy stretches for a given number of resident blocks."""
        yield frozenset()
        if self.differ:
            yield frozenset(stretch for _, pieces in self._pieces for stretch in pieces)
            yield from self._mixed(together)

    def _mixed(self, together: int) -> Iterator[frozenset[Stretch]]:
        """Yields classes that differ by section, if they promise less; any choice is sound.

        The extras are a number of largest values: at most a price for each, plus the excess of
        values above the price. For a price each section has the class in which it costs least.
        """
        prices = sorted({0, *(cycles for s in self._weights for cycles, _ in s.others)})
        candidates: list[tuple[int, frozenset[Stretch]]] = []
        for price in prices[:: -(-len(prices) // _MOST_PRICES)]:
            total, heavy = price * self._switches * (together - 1), set[Stretch]()
            for stretch, count in self._weights.items():
                extras = sum(n * max(0, cycles - price) for cycles, n in stretch.others)
                light = stretch.slack_cycles + together * extras
                always = together * (stretch.slack_cycles + stretch.carried_cycles)
                if always < light:
                    heavy.add(stretch)
                total += count * min(always, light)
            candidates.append((total, frozenset(heavy)))
        _, best = min(candidates, key=lambda stretch: stretch[0])
        if 0 < len(best) < len(self._weights):
            yield best


class _Grid:
    """The blocks of a grid as the forms need them, with some choices of classes."""

    def __init__(self, blocks: _Blocks, dispatch: Dispatch) -> None:
        self.dispatch, self.sms, self.slots = dispatch, dispatch.sms, dispatch.resident_blocks
        self.blocks = blocks.count
        together = min(self.slots, self.blocks)
        if dispatch.breadth_first:
            together = min(together, -(-self.blocks // self.sms))
        self.together = together  # the most blocks on an SM when the last one starts
        self.polling = blocks.polling(together)
        choices = map(blocks.sums, blocks.choices(together))
        self.ways = [_Classed(sums, self.slots, self.blocks) for sums in choices]

    def last_start(self, blocks: int) -> _Span:
        """Returns the last start, less its own delay, of an SM with ``blocks`` blocks before."""
        return _least(way.last_start(blocks) for way in self.ways)

    def end(self, blocks: int) -> _Span:
        """Returns the time when all ``blocks`` blocks of an SM have ended."""
        return _least(way.end(blocks) for way in self.ways)

    @cached_property
    def tail(self) -> _Span:
        """The time from the last start, less its own delay, to the end of all blocks.

        Polls may have queued up before as much work when it begins.
        """
        span = _least(way.tail(self.together) for way in self.ways)
        if not 0 < self.polling < 1:
            return span
        return _Span(ceil(span.work / (1 - self.polling)), span.slack)

    def answer(self, form: GridForm, span: _Span, tail: int) -> GridBound:
        """Returns the bound of a form from its ``span`` without the tail, and the ``tail``."""
        launcher = self.dispatch.gap_cycles * (self.blocks - 1)
        return GridBound(form, span.work, span.slack, tail, launcher, self.slots)

    def after(self, form: GridForm, start: _Span) -> GridBound:
        """Returns the bound of a form from the last start, less its own delay."""
        span = _Span(start.work, start.slack + self.tail.slack)
        return self.answer(form, span, self.tail.work)


def _one_sm(grid: _Grid) -> GridBound:
    """Returns G2: all the work, and the slack of blocks in sequence, at most one of R."""
    return grid.answer(GridForm.ONE_SM, grid.end(grid.blocks), 0)


def _fewest(grid: _Grid) -> GridBound:
    """Returns G3, first form: an SM had at most ``(B - 1) / S`` blocks before the last start."""
    return grid.after(GridForm.FEWEST, grid.last_start((grid.blocks - 1) // grid.sms))


def _split(grid: _Grid) -> GridBound:
    """Returns G3 by cases: n blocks start before the last one on the SM that ends last.

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
    """Returns the first of 0 .. end - 1 from which a predicate holds; ``end`` if none."""
    low, high = 0, end
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _mean(grid: _Grid) -> GridBound:
    """Returns G3, second form: both bounds of ``split``, weighed 1 : S - 1, in which n cancels."""
    others, tail, chains = grid.sms - 1, grid.tail, -(-grid.blocks // grid.slots)

    def of(way: _Classed, charged: _Span, slack: _Largest, unused: int) -> GridBound:
        """Returns the form; ``slack`` may have extras per block, the last with ``unused`` less."""

        def mean(waits: _Largest, unused: int, work: int) -> int:
            return (waits.of(chains) - unused + work) // grid.sms

        cycles = mean(slack, unused, charged.cycles + others * tail.cycles)
        left = others * tail.work // grid.sms
        waits = mean(way.slack, 0, charged.slack + others * tail.slack)
        return grid.answer(GridForm.MEAN, _Span(cycles - left - waits, waits), left)

    bounds = []
    for way in grid.ways:
        always = way.always.total
        summed = _Span(way.summed.total - always, always)
        bounds.append(of(way, summed, way.slack, 0))
        if way.each:
            busiest = _Span(way.busiest.total - always, always)
            bounds.append(of(way, busiest, way.extended, way.each))
    return min(bounds, key=lambda bound: bound.cycles)
