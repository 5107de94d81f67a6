"""Grids of tiny blocks on several SMs, written from docs/methods/grid.md and from nothing else.

Blocks are tuples of warps, warps tuples of operations that name the earlier ones of their warp of
which they read the results. ``run_grid`` is the machine of the model in plain Python, cycle by
cycle; who issues, where a block starts and whether the dispatcher still waits is asked of
``choose``. What the theorems need of a block is computed here too, by the definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Op:
    """An instruction; ``reads`` are places of earlier ones in its warp."""

    unit: int
    init: int = 1
    lat: int = 0
    reads: tuple[int, ...] = ()
    is_barrier: bool = False
    bubble: int = 0

    @property
    def takes(self) -> int:
        """What its result takes behind its initiation, alone."""
        return self.lat


GREEDY, EARLY, LATE = range(3)
"""A place is given away within the delay of the end of its block; or, of that and of the end of all
blocks that began before on this SM, EARLY at any time between them, LATE not before.
"""

Warp = tuple[Op, ...]
Block = tuple[Warp, ...]


@dataclass(frozen=True)
class Grid:
    """Blocks by kind and the machine above them. ``breadth``: an SM with the fewest is served.

    ``late``: a warp that has ended in cycle C counts as arrived in C, so that others go on in C + 1
    (0: they go on in C). ``shared``: all sub-cores of an SM share their units. ``servers``: of each
    queue of a unit. ``turns``: when the place of a block is given away, of GREEDY, EARLY, LATE.
    """

    kinds: tuple[Block, ...]
    counts: tuple[int, ...]
    sms: int = 1
    slots: int = 1
    cores: int = 1
    delay: int = 0
    gap: int = 0
    breadth: bool = False
    late: int = 0
    shared: bool = False
    servers: int = 1
    turns: int = 0

    @property
    def blocks(self) -> int:
        return sum(self.counts)


# --- what the theorems need of a block ------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """A section of a block: lambda, and the work of each sub-core.

    ``carried``: for each section before it, the longest of what its results may still take that
    this one waits for, and of the bubbles of the barrier that opens this one.
    """

    slack: int
    works: tuple[int, ...]
    carried: tuple[int, ...] = ()


@dataclass(frozen=True)
class Demand:
    """lambda, Y, and the work of the busiest sub-core, section by section."""

    parts: tuple[Part, ...]

    @property
    def slack(self) -> int:
        return sum(part.slack for part in self.parts)

    @property
    def work(self) -> int:
        return sum(sum(part.works) for part in self.parts)

    @property
    def busiest(self) -> int:
        return sum(max(part.works) for part in self.parts)


def sections(warp: Warp) -> Iterator[tuple[int, int]]:
    """First and last place (exclusive) of each section; the last one may be empty."""
    first = 0
    for place, op in enumerate(warp):
        if op.is_barrier:
            yield first, place + 1
            first = place + 1
    yield first, len(warp)


def slack_alone(warp: Warp, first: int, last: int, *, peaks: bool = True) -> int:
    """max( max_k s(k) - O(k), L - own ) of a section alone on a clean machine."""
    free: dict[int, int] = {}
    ready: dict[int, int] = {}
    t = own = length = most = 0
    for place in range(first, last):
        op = warp[place]
        t = max([t, *(ready.get(read, 0) for read in op.reads)])
        most = max(most, t - own)
        dispatch = max(t, free.get(op.unit, 0))
        free[op.unit] = dispatch + op.init
        ready[place] = dispatch + op.init + op.takes
        length = max(length, ready[place])
        own += op.init
        t += 1 + op.bubble
        if op.is_barrier:
            length = max(length, t)
    return max(most if peaks else 0, length - own)


def demand(block: Block, cores: int, *, exits: bool = True, peaks: bool = True) -> Demand:
    """By the definitions. ``exits`` False leaves out the cycle for warps that exit early (A1),
    ``peaks`` False the issues inside of a section.
    """
    rows = [list(sections(warp)) for warp in block]
    parts = []
    for number in range(max(map(len, rows), default=0)):
        present = [(w, row[number]) for w, row in enumerate(rows) if number < len(row)]
        slack = max(slack_alone(block[w], *part, peaks=peaks) for w, part in present)
        last = [number == len(rows[w]) - 1 for w, _ in present]
        if exits and any(last) and not all(last):
            slack += 1
        on = [0] * cores
        for w, (a, b) in present:
            on[w % cores] += sum(op.init for op in block[w][a:b])
        carried = [
            max(_carried(block[w], rows[w][p], part) for w, part in present) for p in range(number)
        ]
        parts.append(Part(slack, tuple(on), tuple(carried)))
    return Demand(tuple(parts))


def _carried(warp: Warp, earlier: tuple[int, int], part: tuple[int, int]) -> int:
    """What of an earlier section of a warp may still keep it from going on in a section."""
    read = {place for op in warp[part[0] : part[1]] for place in op.reads}
    late = [warp[place].takes for place in range(*earlier) if place in read]
    bubble = warp[earlier[1] - 1].bubble if earlier[1] == part[0] else 0
    return max([bubble, *late])


# --- the machine ----------------------------------------------------------------------------------

Choose = Callable[[str, int], int]
"""Which of so many: asked only where there are two or more. What is asked: sm, issue."""

Actual = Callable[[int, int, int], tuple[int, int]]
"""Initiation and latency of an operation of a warp of a block, by their numbers."""


@dataclass(eq=False)
class _Running:
    ops: Warp
    core: int
    block: _Resident
    number: int
    next: int = 0
    earliest: int = 0
    end: int = 0
    waits: bool = False
    ready: dict[int, int] = field(default_factory=dict)


@dataclass(eq=False)
class _Resident:
    index: int
    start: int
    warps: list[_Running] = field(default_factory=list)

    def is_over(self, cycle: int) -> bool:
        return all(w.next == len(w.ops) and not w.waits and w.end <= cycle for w in self.warps)


@dataclass(eq=False)
class _Slot:
    sm: int
    number: int
    block: _Resident | None = None
    age: int = 0


@dataclass
class _Given:
    """The blocks that an SM was given, in turn, and since when which of its places are promised.

    ``since[n]``: how many cycles the launcher had been open when the first n had all ended.
    """

    blocks: list[int] = field(default_factory=list)
    since: list[int] = field(default_factory=lambda: [0])

    def end(self, done: Mapping[int, object], opened: int) -> None:
        """Notes how many of the first have all ended."""
        while len(self.since) <= len(self.blocks) and self.blocks[len(self.since) - 1] in done:
            self.since.append(opened)

    def age(self, slots: int, opened: int) -> int | None:
        """For how many open cycles the next block has been promised; None: it is not yet."""
        before = max(0, len(self.blocks) + 1 - slots)
        return opened - self.since[before] if before < len(self.since) else None


@dataclass(frozen=True)
class Run:
    """The end of the last block; SM, slot, start and end of each."""

    cycles: int
    blocks: tuple[tuple[int, int, int, int], ...]


def run_grid(grid: Grid, order: tuple[int, ...], choose: Choose, actual: Actual) -> Run:
    """Runs the blocks, which start in the ``order`` of kinds given."""
    slots = [_Slot(sm, n) for sm in range(grid.sms) for n in range(grid.slots)]
    queues: dict[tuple[int, int, int], list[int]] = {}
    done: dict[int, tuple[int, int, int, int]] = {}
    given = [_Given() for _ in range(grid.sms)]
    started = cycle = gate = opened = 0
    while True:
        _open_barriers([slot.block for slot in slots if slot.block], cycle, grid.late)
        for slot in slots:
            if slot.block and slot.block.is_over(cycle):
                block = slot.block
                done[block.index] = (slot.sm, slot.number, block.start, cycle)
                slot.block, slot.age = None, 0
        for one in given:
            one.end(done, opened)
        while started < len(order) and cycle >= gate:
            ages = [one.age(grid.slots, opened) for one in given]
            chosen = _free_slot(grid, slots, ages if grid.turns else None, choose)
            if chosen is None:
                break
            ops = grid.kinds[order[started]]
            new = _Resident(started, cycle)
            new.warps = [
                _Running(one, (n + chosen.number * len(ops)) % grid.cores, new, n, earliest=cycle)
                for n, one in enumerate(ops)
            ]
            chosen.block = new
            given[chosen.sm].blocks.append(started)
            started += 1
            gate = cycle + grid.gap
            if new.is_over(cycle):
                done[new.index] = (chosen.sm, chosen.number, cycle, cycle)
                chosen.block, chosen.age = None, 0
                given[chosen.sm].end(done, opened)
        if cycle >= gate:
            opened += 1
            for slot in slots:
                slot.age += slot.block is None
        if started == len(order) and all(slot.block is None for slot in slots):
            ends = [end for *_, end in done.values()]
            return Run(max(ends), tuple(done[n] for n in range(len(order))))
        for sm in range(grid.sms):
            resident = [s.block for s in slots if s.sm == sm and s.block is not None]
            for core in range(grid.cores):
                _issue(grid, (sm, core, cycle), resident, queues, choose, actual)
        cycle += 1


def _free_slot(
    grid: Grid, slots: list[_Slot], promised: list[int | None] | None, choose: Choose
) -> _Slot | None:
    """Where the next block starts, if now; ``promised``: the age of each SM's next place."""
    free = [slot for slot in slots if slot.block is None]
    if not free:
        return None

    def age(slot: _Slot) -> int:
        said = slot.age if promised is None else promised[slot.sm]
        return -1 if said is None else said

    forced = any(age(slot) >= grid.delay for slot in free)
    if grid.breadth:
        held = dict.fromkeys(range(grid.sms), 0)
        for slot in slots:
            held[slot.sm] += slot.block is not None
        least = min(held[slot.sm] for slot in free)
        free = [slot for slot in free if held[slot.sm] == least]
    elif forced:
        free = [slot for slot in free if age(slot) >= grid.delay]
    if grid.turns == LATE and not forced:
        free = [slot for slot in free if age(slot) >= 0]
    offers = sorted({slot.sm for slot in free})
    options = len(offers) + (not forced)
    which = choose("sm", options) if options > 1 else 0
    if which == len(offers):
        return None
    return next(slot for slot in free if slot.sm == offers[which])


def _open_barriers(resident: list[_Resident], cycle: int, late: int) -> None:
    for block in resident:
        waiting = [w for w in block.warps if w.waits]
        rest = [w for w in block.warps if not w.waits]
        if waiting and all(w.next == len(w.ops) and w.end + late <= cycle for w in rest):
            for w in waiting:
                w.waits = False
                w.earliest = max(w.earliest, cycle)


def _issue(
    grid: Grid,
    place: tuple[int, int, int],
    resident: list[_Resident],
    queues: dict[tuple[int, int, int], list[int]],
    choose: Choose,
    actual: Actual,
) -> None:
    sm, core, cycle = place
    eligible = [
        w
        for block in resident
        for w in block.warps
        if w.core == core
        and w.next < len(w.ops)
        and not w.waits
        and w.earliest <= cycle
        and all(w.ready[read] <= cycle for read in w.ops[w.next].reads)
    ]
    if not eligible:
        return
    warp = eligible[choose("issue", len(eligible)) if len(eligible) > 1 else 0]
    op = warp.ops[warp.next]
    init, lat = actual(warp.block.index, warp.number, warp.next)
    queue = queues.setdefault((sm, 0 if grid.shared else core, op.unit), [0] * grid.servers)
    server = queue.index(min(queue))
    queue[server] = max(cycle, queue[server]) + init
    warp.ready[warp.next] = queue[server] + lat
    warp.end = max(warp.end, queue[server] + lat)
    warp.next += 1
    warp.waits = op.is_barrier
    warp.earliest = cycle + 1 + op.bubble
