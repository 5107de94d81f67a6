"""Random grids against the bound of ``ptxwcet/bounds/grid.py``, and statements that must fail.

A case is a function of family, seed and index. Bounds come from the definitions of
``grid_machine.py``, runs from ``grid_machine_fast.py``: nothing of the product is between them but
``bound_grid``.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from grid_machine import EARLY, GREEDY, LATE, Block, Demand, Grid, Op, Warp, demand
from grid_machine_fast import EXTRA, HEAVY, LIGHT, Clock, all_runs, image, many_runs, nominal

from ptxwcet.bounds.grid import BlockKind, Dispatch, Stretch, bound_grid


@dataclass(frozen=True)
class Family:
    """What is drawn: inclusive ranges."""

    name: str
    title: str
    sms: tuple[int, int] = (1, 3)
    slots: tuple[int, int] = (1, 3)
    cores: tuple[int, int] = (1, 3)
    blocks: tuple[int, int] = (1, 10)
    kinds: tuple[int, int] = (1, 3)
    warps: tuple[int, int] = (1, 3)
    units: tuple[int, int] = (1, 3)
    length: tuple[int, int] = (0, 4)  # of a section
    sections: tuple[int, int] = (1, 3)
    init: int = 3
    latency: int = 8
    delay: int = 2
    gap: int = 2
    oddities: bool = True  # early exits, bubbles, shared units, several servers, late exits
    strings: int = 0  # warps are strings of so many alike at most, behind a load or not
    carried: bool = False  # strings may wait for loads of earlier sections


FAMILIES = (
    Family("general", "everything"),
    Family("one-sm", "one SM and one issue port", sms=(1, 1), cores=(1, 1)),
    Family("tail", "several SMs, few blocks more than slots", sms=(2, 4), blocks=(2, 8), delay=0),
    Family("sub-cores", "several sub-cores with barriers", sms=(1, 2), cores=(2, 3), warps=(2, 4)),
    Family(
        "free",
        "several sub-cores without barriers",
        cores=(2, 3),
        warps=(2, 4),
        sections=(1, 1),
        length=(0, 6),
    ),
    Family("alike", "all blocks alike", kinds=(1, 1), blocks=(2, 12), warps=(1, 4)),
    Family(
        "strings",
        "loads, and strings of instructions that wait for them, on 2 sub-cores",
        sms=(1, 2),
        slots=(2, 3),
        cores=(2, 2),
        blocks=(2, 6),
        kinds=(2, 4),
        warps=(2, 2),
        units=(1, 1),
        sections=(1, 3),
        delay=0,
        gap=0,
        oddities=False,
        strings=8,
    ),
    Family(
        "beside",
        "strings without barriers on 2 to 4 sub-cores",
        sms=(1, 2),
        slots=(2, 4),
        cores=(2, 4),
        blocks=(2, 12),
        warps=(2, 4),
        units=(1, 1),
        sections=(1, 1),
        delay=1,
        gap=1,
        oddities=False,
        strings=8,
    ),
    Family(
        "carried",
        "strings that wait for loads of earlier sections",
        sms=(1, 1),
        slots=(2, 3),
        cores=(2, 2),
        blocks=(2, 4),
        kinds=(2, 3),
        warps=(2, 2),
        units=(1, 1),
        sections=(2, 4),
        delay=0,
        gap=0,
        oddities=False,
        strings=16,
        carried=True,
    ),
    Family("latencies", "long latencies, initiations of 1", init=1, latency=20, length=(1, 3)),
    Family("initiations", "long initiations, short latencies", init=8, latency=2),
)

TINY = Family(
    "tiny",
    "for all schedules",
    sms=(1, 2),
    slots=(1, 2),
    cores=(1, 2),
    blocks=(2, 3),
    kinds=(1, 2),
    warps=(1, 2),
    units=(1, 2),
    length=(0, 2),
    sections=(1, 2),
    init=3,
    latency=4,
    delay=1,
    gap=1,
)


def random_grid(family: Family, seed: int) -> Grid:
    """A grid of a family."""
    rng = random.Random(f"{family.name} {seed}")
    odd = family.oddities and rng.random() < 0.5
    warps, units = rng.randint(*family.warps), rng.randint(*family.units)
    rows = rng.randint(*family.sections)
    timing = [(rng.randint(1, family.init), rng.randint(0, family.latency)) for _ in range(units)]
    fixed = rng.random() < 0.5

    def block() -> Block:
        if family.strings:
            most = rng.randint(2, family.strings)
            return _strings(rng, most, rows, warps, carried=family.carried)
        return tuple(warp(rng.randint(1, rows) if odd else rows) for _ in range(warps))

    def warp(parts: int) -> Warp:
        ops: list[Op] = []
        for part in range(parts):
            for _ in range(rng.randint(*family.length)):
                ops.append(one(len(ops)))
            if part < parts - 1:
                ops.append(replace(one(len(ops)), is_barrier=True))
        return tuple(ops)

    def one(place: int) -> Op:
        unit = rng.randrange(units)
        init, lat = timing[unit]
        if not fixed:
            init, lat = rng.randint(1, family.init), rng.randint(0, family.latency)
        reads = tuple(rng.sample(range(place), min(place, rng.choice((0, 0, 1, 1, 2)))))
        return Op(unit, init, lat, reads, bubble=rng.randint(0, 2) if odd else 0)

    kinds = tuple(block() for _ in range(rng.randint(*family.kinds)))
    total = rng.randint(*family.blocks)
    counts = [0] * len(kinds)
    for _ in range(total):
        counts[rng.randrange(len(kinds))] += 1
    return Grid(
        kinds,
        tuple(counts),
        sms=rng.randint(*family.sms),
        slots=rng.randint(*family.slots),
        cores=rng.randint(*family.cores),
        delay=rng.choice((0, rng.randint(0, family.delay))),
        gap=rng.choice((0, 0, rng.randint(0, family.gap))),
        breadth=rng.random() < 0.3,
        late=int(odd and rng.random() < 0.5),
        shared=odd and rng.random() < 0.3,
        servers=rng.randint(1, 2) if odd else 1,
        turns=rng.choice((GREEDY, EARLY, LATE, LATE)),
    )


def _strings(rng: random.Random, most: int, parts: int, warps: int, *, carried: bool) -> Block:
    """Warps of which each waits for a load, is a string of instructions, both or neither.

    ``carried``: for a load of an earlier section, too, some of which take longer.
    """

    def part(loaded: int | None) -> list[Op]:
        load = rng.random() < 0.5
        rest = rng.choice((0, 0, 1, most))
        waits = load and rng.random() < 0.7
        late = most * rng.randint(1, 3) if carried else most
        reads: tuple[int, ...] = (-1,) if waits else ()
        if carried and loaded is not None and rng.random() < 0.6:
            reads = (loaded,)
        return [Op(0, 1, late)] * load + [Op(0, reads=reads)] * rest

    def warp() -> Warp:
        ops: list[Op] = []
        for number in range(parts):
            first = len(ops)
            loads = [place for place, op in enumerate(ops) if op.lat]
            own = part(rng.choice(loads) if loads else None)
            ops += [replace(op, reads=tuple(first if r < 0 else r for r in op.reads)) for op in own]
            if number < parts - 1:
                ops.append(Op(0, is_barrier=True))
        return tuple(ops)

    return tuple(warp() for _ in range(warps))


# --- statements -----------------------------------------------------------------------------------


Demands = tuple[Demand, ...]
Statement = Callable[[Grid, Demands], int | None]
"""A claimed bound; None where it claims nothing."""


def theorem(grid: Grid, demands: Demands) -> int:
    """What the product says."""
    return _bound(grid, demands, breadth=grid.breadth)


def kind_of(count: int, said: Demand, *, shared: bool = False, path: int = 0) -> BlockKind:
    """Blocks as the product knows them, by the definitions."""
    stretches = tuple(
        Stretch(
            1,
            part.slack,
            sum(part.works),
            max(part.works),
            tuple((work, 1) for work in sorted(part.works)[:-1]),
            max(part.carried, default=0),
        )
        for part in said.parts
    )
    stretches += (Stretch(1, 0, path, path, sections=0),) * (path > 0)
    if shared:
        return BlockKind(count, said.slack, said.work + path)
    return BlockKind(count, said.slack, said.work + path, said.busiest + path, stretches)


def pieces_of(kind: BlockKind, bubble: int = 0) -> list[tuple[Stretch, list[int]]]:
    """The stretches; those of sections may wait for a bubble."""
    out = []
    for one in kind.stretches:
        others = sorted(work for work, n in one.others for _ in range(n))
        late = max(bubble * one.sections, one.carried_cycles)
        out.append((replace(one, others=(), carried_cycles=late), others))
    return out


def bubble_of(block: Block) -> int:
    """The longest bubble of a barrier: the product does not ask which one opens which section."""
    return max((op.bubble for warp in block for op in warp if op.is_barrier), default=0)


def _bound(grid: Grid, demands: Demands, *, breadth: bool) -> int:
    kinds = [
        kind_of(count, one, shared=grid.shared)
        for one, count in zip(demands, grid.counts, strict=True)
    ]
    dispatch = Dispatch(grid.sms, grid.slots, grid.delay, grid.gap, breadth)
    return bound_grid(kinds, dispatch).cycles


# --- sections of different classes ----------------------------------------------------------------


Classes = tuple[tuple[int, ...], ...]
"""The class of each section of each kind."""


def random_classes(grid: Grid, demands: Demands, seed: int) -> Classes:
    """All alike, of two classes or of all three."""
    rng = random.Random(f"classes {seed}")
    choices = ((LIGHT,), (HEAVY,), (EXTRA,), (LIGHT, HEAVY), (HEAVY, EXTRA), (LIGHT, HEAVY, EXTRA))
    drawn = (LIGHT,) if grid.shared else rng.choice(choices)
    return tuple(tuple(rng.choice(drawn) for _ in one.parts) for one in demands)


@dataclass(frozen=True)
class _Classed:
    """A block with classes: x, u, how many sections, what may count again."""

    slack: int
    work: int
    sections: int
    others: tuple[int, ...]
    second: int


def _late(said: Demand, classes: tuple[int, ...], number: int) -> int:
    """What a heavy section may have to wait for results and bubbles of those that are not."""
    carried = said.parts[number].carried
    return max((late for late, of in zip(carried, classes, strict=False) if of != HEAVY), default=0)


def clock_of(said: Demand, classes: tuple[int, ...], *, carry: bool = True) -> Clock:
    """What each section of a block adds to the clocks of its slot and of its SM."""
    rows = []
    for number, (part, of) in enumerate(zip(said.parts, classes, strict=True)):
        always = part.slack + (_late(said, classes, number) if carry else 0)
        heavy = of == HEAVY
        rows.append((of, 0 if heavy else part.slack, always if heavy else 0, max(part.works)))
    return tuple(rows)


def _classed(
    grid: Grid, said: Demand, classes: tuple[int, ...], *, carry: bool, slack: bool, once: bool
) -> _Classed:
    clock = clock_of(said, classes, carry=carry)
    work = others = 0
    extra: list[list[int]] = []
    for part, (of, _, always, busiest) in zip(said.parts, clock, strict=True):
        work += sum(part.works) if of == LIGHT else busiest + (always if slack else 0)
        if of == EXTRA:
            extra.append(sorted(part.works, reverse=True)[1:])
    others = tuple(work for one in extra for work in one)
    waits = sum(in_slot for _, in_slot, _, _ in clock) + grid.delay
    sections = 1 if once else len(said.parts)
    return _Classed(
        waits, work, sections, others, max((max(one, default=0) for one in extra), default=0)
    )


def mixed(
    grid: Grid,
    demands: Demands,
    classes: Classes,
    *,
    carry: bool = True,
    slack: bool = True,
    extras: bool = True,
    once: bool = False,
    paths: tuple[int, ...] = (),
) -> int:
    """Theorem M, from its words and from nothing of the product; or something false.

    ``paths``: the cycles of each kind at the memory path of its SM.

    Without what is carried, without the slack of heavy sections, without extras, or with as many as
    if a block were one section.
    """
    kinds = [
        _classed(grid, one, of, carry=carry, slack=slack, once=once)
        for one, of in zip(demands, classes, strict=True)
    ]
    if paths:
        kinds = [replace(k, work=k.work + n) for k, n in zip(kinds, paths, strict=True)]
    blocks = [kind for kind, n in zip(kinds, grid.counts, strict=True) for _ in range(n)]
    total, sms, slots = len(blocks), grid.sms, grid.slots
    together = min(slots, total)
    if grid.breadth:
        together = min(together, -(-total // sms))
    second = max(block.second for block in blocks)

    def most(what: Callable[[_Classed], int], n: int) -> int:
        return sum(sorted(map(what, blocks), reverse=True)[:n])

    def waits(block: _Classed) -> int:
        return block.slack

    def work(n: int, switches: int) -> int:
        given = [k for k, m in zip(kinds, grid.counts, strict=True) for _ in range(min(m, n))]
        again = sorted((work for block in given for work in block.others), reverse=True)
        beside = again[: switches * (min(slots, n) - 1)] if extras else []
        return most(lambda block: block.work, n) + sum(beside)

    def parts(n: int) -> int:
        return most(lambda block: block.sections, n)

    def end(n: int) -> int:
        chain = -(-n // slots)
        return most(waits, chain) + work(n, parts(chain) - 1)

    def start(n: int) -> int:
        passed = n // slots
        return most(waits, passed) + work(n, parts(passed) - 1) if passed else 0

    tail = most(waits, 1) + work(together, parts(1) - 1)
    closed = grid.gap * (total - 1)
    if sms == 1:
        return end(total) + closed
    split = max(min(end(n + 1), start((total - 1 - n) // (sms - 1)) + tail) for n in range(total))
    each = second * (min(slots, total) - 1) if extras else 0  # E: at most, for each section
    chains = most(lambda block: block.slack + each * block.sections, -(-total // slots))
    mean = (chains - each + work(total, 0) + (sms - 1) * tail) // sms
    return min(start((total - 1) // sms) + tail, split, mean) + closed


def _all(grid: Grid, demands: Demands) -> Iterator[Demand]:
    for one, count in zip(demands, grid.counts, strict=True):
        yield from [one] * count


def without_tail(grid: Grid, demands: Demands) -> int | None:
    """G3 in the mean form, the work that may be left at the last start forgotten."""
    if grid.sms == 1 or grid.gap:
        return None
    blocks = list(_all(grid, demands))
    slack = [one.slack + grid.delay for one in blocks]
    places = grid.sms * grid.slots
    work = sum(one.work for one in blocks)
    return (work * grid.slots + sum(slack) - max(slack)) // places + max(slack)


def busiest_in_waves(grid: Grid, demands: Demands) -> int | None:
    """One SM: each section its busiest sub-core, then waves of slack. Refuted."""
    if grid.sms > 1 or grid.gap or grid.cores == 1 or grid.shared:
        return None
    blocks = list(_all(grid, demands))
    waves = -(-len(blocks) // grid.slots)
    slack = max(one.slack for one in blocks) + grid.delay
    return sum(one.busiest for one in blocks) + waves * slack


def without_exits(grid: Grid, _: Demands) -> int | None:
    """A1 dropped: an exited warp counts late, and no cycle is charged for that."""
    if not grid.late:
        return None
    return theorem(grid, tuple(demand(b, grid.cores, exits=False) for b in grid.kinds))


def evenly(grid: Grid, demands: Demands) -> int | None:
    """One SM: slack of the slot with the least, the mean of all. False if blocks take turns."""
    if grid.sms > 1 or grid.gap:
        return None
    slack = [one.slack + grid.delay for one in _all(grid, demands)]
    work = sum(one.work for one in _all(grid, demands))
    return work + (sum(slack) - max(slack)) // grid.slots + max(slack)


def with_breadth(grid: Grid, demands: Demands) -> int | None:
    """A2 dropped: dispatch taken for breadth first where it is not."""
    if grid.breadth or grid.blocks > grid.sms * grid.slots:
        return None
    return _bound(grid, demands, breadth=True)


def without_peaks(grid: Grid, _: Demands) -> int | None:
    """Slack taken for max(0, L - own), the issues inside of a section forgotten."""
    return theorem(grid, tuple(demand(b, grid.cores, peaks=False) for b in grid.kinds))


def _all_of(of: int, **false: bool) -> Statement:
    """Theorem M with all sections of one class, and something false."""

    def statement(grid: Grid, demands: Demands) -> int | None:
        if grid.cores == 1 or grid.shared:
            return None
        return mixed(grid, demands, tuple((of,) * len(one.parts) for one in demands), **false)

    return statement


CONTROLS: dict[str, tuple[str, Statement]] = {
    "tail": ("the tail term dropped", without_tail),
    "evenly": ("slack of slots: their mean", evenly),
    "busiest": ("busiest sub-core, then waves", busiest_in_waves),
    "exits": ("A1 dropped: nothing for exits that count late", without_exits),
    "breadth": ("A2 dropped: breadth first where it is not", with_breadth),
    "extras": ("all X, no extras", _all_of(EXTRA, extras=False)),
    "once": ("all X, extras as if a block had no barriers", _all_of(EXTRA, once=True)),
    "slack": ("all H, without lambda", _all_of(HEAVY, slack=False)),
}
"""Statements that are false; for each the words that the page has for it."""


CLOCKS: dict[str, tuple[str, dict[str, bool]]] = {
    "carry": ("H without what others leave behind (the clock)", {"carry": False}),
}
"""Clocks that are false, looked at where loads are waited for in later sections."""


OPEN: dict[str, tuple[str, Statement]] = {
    "peaks": ("slack max(0, L - own), without its issues", without_peaks),
}
"""Statements that are not proved, and that no run has refuted."""


# --- attacking ------------------------------------------------------------------------------------


@dataclass
class Tally:
    """What came of some cases."""

    cases: int = 0
    runs: int = 0
    exceeded: int = 0
    clock_exceeded: int = 0
    equal: int = 0
    tightest: float = 0.0
    ratios: list[float] = field(default_factory=list)
    controls: dict[str, list[int]] = field(default_factory=dict)
    worst_controls: dict[str, float] = field(default_factory=dict)
    witnesses: list[str] = field(default_factory=list)

    def add(
        self, grid: Grid, demands: Demands, classes: Classes, longest: int, excess: int, runs: int
    ) -> None:
        """One case: the longest of its runs, and the clock's largest excess over all cycles."""
        claimed = min(theorem(grid, demands), mixed(grid, demands, classes))
        self.cases += 1
        self.runs += runs
        self.clock_exceeded += excess > 0
        if longest > claimed or excess > 0:
            self.exceeded += longest > claimed
            self.witnesses.append(f"{longest} > {claimed}, excess {excess}: {grid} {classes}")
        if longest:
            self.ratios.append(claimed / longest)
            self.tightest = max(self.tightest, longest / max(claimed, 1))
            self.equal += longest == claimed
        for name, (_, statement) in {**CONTROLS, **OPEN}.items():
            false = statement(grid, demands)
            if false is not None:
                row = self.controls.setdefault(name, [0, 0])
                row[0] += 1
                row[1] += longest > false
                if longest > false:
                    over = longest / max(false, 1)
                    self.worst_controls[name] = max(over, self.worst_controls.get(name, 0))


def order_of(grid: Grid) -> tuple[int, ...]:
    """The kinds of all blocks, in some order."""
    return tuple(kind for kind, count in enumerate(grid.counts) for _ in range(count))


def attack(family: Family, seeds: range, runs: int = 40) -> Tally:
    """Random grids of a family, each run ``runs`` times."""
    tally = Tally()
    for seed in seeds:
        grid = random_grid(family, seed)
        found = longest_by_chance(grid, seed, runs)
        tally.add(grid, *found, runs)
        for name, (_, false) in CLOCKS.items() if family.carried else ():
            row = tally.controls.setdefault(name, [0, 0])
            row[0] += 1
            row[1] += above_clock(found[1], runs, **false)(grid, seed) > 0
    return tally


def demands_of(grid: Grid) -> Demands:
    """By the definitions, of each kind."""
    return tuple(demand(block, grid.cores) for block in grid.kinds)


def clocks_of(demands: Demands, classes: Classes, *, carry: bool = True) -> tuple[Clock, ...]:
    return tuple(clock_of(one, of, carry=carry) for one, of in zip(demands, classes, strict=True))


def longest_by_chance(grid: Grid, seed: int, runs: int) -> tuple[Demands, Classes, int, int]:
    """Demands, some classes, the longest of some runs in random orders, the clock's excess."""
    demands = demands_of(grid)
    classes = random_classes(grid, demands, seed)
    made = image(grid, order_of(grid), clocks_of(demands, classes))
    cells = (made.shape, made.kind_of, made.lengths, made.ops, made.demand)
    longest, excess = many_runs(*cells, seed % (1 << 31), runs, 50, 60)
    assert longest >= 0, "a run does not end"
    return demands, classes, longest, excess


def search_all(
    grid: Grid, seed: int = 0, most: int = 20_000
) -> tuple[Demands, Classes, int, int, int] | None:
    """Demands, some classes, the longest of *all* runs in all orders, the clock's excess, how many
    there are; None: too many.
    """
    demands = demands_of(grid)
    classes = random_classes(grid, demands, seed)
    longest, excess, total = 0, -(1 << 40), 0
    for order in sorted(set(itertools.permutations(order_of(grid)))):
        made = image(grid, order, clocks_of(demands, classes))
        cells = (made.shape, made.kind_of, made.lengths, made.ops, made.demand)
        found, above, runs = all_runs(*cells, nominal(made), most)
        if runs < 0:
            return None
        longest, excess, total = max(longest, found), max(excess, above), total + runs
    return demands, classes, longest, excess, total


Measure = Callable[[Grid, int], float]
"""What climbs look for, of a grid and a seed."""


def ratio_to(statement: Statement, runs: int = 20) -> Measure:
    """Longest run / claim; 2 if the clock is exceeded."""

    def ratio(grid: Grid, seed: int) -> float:
        demands, classes, longest, excess = longest_by_chance(grid, seed, runs)
        claimed = statement(grid, demands)
        if statement is theorem:
            if excess > 0:
                return 2.0
            claimed = min(claimed or 0, mixed(grid, demands, classes))
        return longest / claimed if claimed else 0.0

    return ratio


def above_clock(classes: Classes, runs: int = 20, *, carry: bool = True) -> Measure:
    """How far the clock is exceeded, with these classes."""

    def excess(grid: Grid, seed: int) -> float:
        demands = demands_of(grid)
        made = image(grid, order_of(grid), clocks_of(demands, classes, carry=carry))
        cells = (made.shape, made.kind_of, made.lengths, made.ops, made.demand)
        return float(many_runs(*cells, seed % (1 << 31), runs, 50, 60)[1])

    return excess


def climb(grid: Grid, seed: int, steps: int, measure: Measure) -> tuple[float, Grid]:
    """Hill climbing: the largest that is found, and its grid."""
    rng = random.Random(seed)
    best, found = grid, measure(grid, rng.randrange(1 << 30))
    for _ in range(steps):
        other = mutated(best, rng)
        value = measure(other, rng.randrange(1 << 30))
        if value >= found:
            best, found = other, value
    return found, best


def mutated(grid: Grid, rng: random.Random) -> Grid:
    """A grid with one thing changed."""
    kinds = [list(map(list, block)) for block in grid.kinds]
    block = rng.choice(kinds)
    warp = rng.choice(block)
    place = rng.randrange(len(warp) + 1)
    free = [n for n, op in enumerate(warp) if not op.is_barrier]
    what = rng.randrange(6)
    if what == 0 and len(warp) < 10:
        return _put(grid, kinds, warp, place, Op(rng.randrange(2), 1, 0))
    if what == 1 and free:
        return _drop(grid, kinds, warp, rng.choice(free))
    if what in (2, 3) and warp:
        place = rng.randrange(len(warp))
        op = warp[place]
        change = rng.randrange(3)
        if change == 0:
            op = replace(op, init=max(1, op.init + rng.choice((-1, 1, 3))))
        elif change == 1:
            op = replace(op, lat=max(0, op.lat + rng.choice((-2, -1, 1, 4, 8))))
        else:
            reads = tuple(rng.sample(range(place), min(place, rng.randint(0, 2))))
            op = replace(op, reads=reads)
        warp[place] = op
        return _made(grid, kinds)
    if what == 4:
        counts = list(grid.counts)
        kind = rng.randrange(len(counts))
        counts[kind] = max(0, counts[kind] + rng.choice((-1, 1)))
        if 0 < sum(counts) <= 14:
            return replace(grid, counts=tuple(counts))
    if what == 5:
        least = 1 if grid.slots == 1 else 2
        return replace(grid, slots=max(least, min(4, grid.slots + rng.choice((-1, 1)))))
    return grid


def _made(grid: Grid, kinds: list[list[list[Op]]]) -> Grid:
    return replace(grid, kinds=tuple(tuple(map(tuple, block)) for block in kinds))


def _put(grid: Grid, kinds: list[list[list[Op]]], warp: list[Op], place: int, op: Op) -> Grid:
    moved = [replace(o, reads=tuple(r + (r >= place) for r in o.reads)) for o in warp]
    warp[:] = [*moved[:place], op, *moved[place:]]
    return _made(grid, kinds)


def _drop(grid: Grid, kinds: list[list[list[Op]]], warp: list[Op], place: int) -> Grid:
    rest = [*warp[:place], *warp[place + 1 :]]
    warp[:] = [
        replace(o, reads=tuple(r - (r > place) for r in o.reads if r != place)) for o in rest
    ]
    return _made(grid, kinds)


# --- shrinking ------------------------------------------------------------------------------------


def shrunk(grid: Grid, remains: Callable[[Grid], bool], most: int = 600) -> Grid:
    """A grid with one thing less, again and again, as long as ``remains`` holds of it.

    A function of its arguments. Cost: at most ``most`` calls of ``remains``.
    """
    progress = True
    while progress:
        progress = False
        for other in smaller(grid):
            if not most:
                return grid
            most -= 1
            if remains(other):
                grid, progress = other, True
                break
    return grid


def smaller(grid: Grid) -> Iterator[Grid]:
    """Grids with one block, SM, slot, sub-core, oddity or instruction less, or shorter times."""
    for kind, count in enumerate(grid.counts):
        if count and grid.blocks > 1:
            yield replace(grid, counts=_with(grid.counts, kind, count - 1))
        if not count and len(grid.kinds) > 1:
            kinds = grid.kinds[:kind] + grid.kinds[kind + 1 :]
            yield replace(grid, kinds=kinds, counts=grid.counts[:kind] + grid.counts[kind + 1 :])
    for name in ("sms", "slots", "cores", "servers"):
        if getattr(grid, name) > 1:
            yield replace(grid, **{name: getattr(grid, name) - 1})
    for name in ("delay", "gap", "late", "turns"):
        if getattr(grid, name):
            yield replace(grid, **{name: 0})
    for kind, block in enumerate(grid.kinds):
        for number, warp in enumerate(block):
            for place, op in enumerate(warp):
                kinds_of_one = [list(map(list, one)) for one in grid.kinds]
                if not op.is_barrier and sum(map(len, block)) > 1:
                    yield _drop(grid, kinds_of_one, kinds_of_one[kind][number], place)
                for change in ({"init": 1}, {"lat": 0}, {"bubble": 0}, {"reads": ()}):
                    other = replace(op, **change)  # type: ignore[arg-type]
                    if other != op:
                        kinds_of_one = [list(map(list, one)) for one in grid.kinds]
                        kinds_of_one[kind][number][place] = other
                        yield _made(grid, kinds_of_one)


def _with(counts: tuple[int, ...], place: int, value: int) -> tuple[int, ...]:
    return (*counts[:place], value, *counts[place + 1 :])
