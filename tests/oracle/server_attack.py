"""Random grids with servers behind the units against the product's bounds, and false statements."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial

from grid_attack import FAMILIES, Family, kind_of, mixed, order_of, random_classes, random_grid
from grid_machine import Block, Grid, Op
from server_machine import (
    Served,
    ServedGrid,
    arrays,
    at_memory,
    cache_of,
    longest_run,
    longest_runs,
    memory_of,
    path_of,
    served_demand,
)

from ptxwcet.bounds.analysis import analyse_block
from ptxwcet.bounds.grid import (
    CoRunner,
    Dispatch,
    MemoryServer,
    SetAside,
    bound_grid,
)
from ptxwcet.bounds.safe import bound_safe
from ptxwcet.machine.loader import load_machine
from ptxwcet.machine.model import Figure, FunctionalUnit, Machine
from ptxwcet.warp.program import (
    Barrier,
    BlockWorkload,
    Scoreboard,
    TimedInstruction,
    WarpClass,
    WarpProgram,
)

ATTACKED = tuple(
    replace(family, delay=0, gap=0)
    for family in FAMILIES
    if family.name in ("general", "one-sm", "tail", "sub-cores", "alike", "latencies", "free")
)


def random_served(family: Family, seed: int) -> ServedGrid:
    """A grid of a family in which some operations go on to the servers."""
    grid = random_grid(family, seed)
    rng = random.Random(f"served {family.name} {seed}")
    share, path, memory = rng.random(), rng.choice((0, 1, 4, 12)), rng.choice((0, 1, 5, 20))

    def served(op: Op) -> Op:
        if op.is_barrier or rng.random() > share:
            return op
        on_path, in_memory = rng.randint(0, path), rng.randint(0, memory)
        plain = (op.unit, op.init, op.lat, op.reads, op.is_barrier, op.bubble)
        return Served(*plain, on_path, in_memory)

    kinds = tuple(tuple(tuple(map(served, warp)) for warp in block) for block in grid.kinds)
    burst, rate = rng.choice((0, 0, 5, 30)), rng.choice((0, 0, 40, 128))
    whole = replace(grid, kinds=kinds, breadth=False, shared=False, servers=1, gap=0, delay=0)
    return ServedGrid(whole, posted=rng.random() < 0.4, burst=burst, rate=rate)


def longest(served: ServedGrid, seed: int, runs: int) -> int:
    """The longest of some runs, in some order of the blocks."""
    order = list(order_of(served.grid))
    random.Random(seed).shuffle(order)
    made = arrays(served, tuple(order))
    found = int(longest_run(*made, seed % (1 << 31), runs, 40, served.grid.late))
    assert found >= 0, "a run does not end"
    return found


def longest_and_at_path(served: ServedGrid, seed: int, runs: int) -> tuple[int, int]:
    """As :func:`longest`, and the longest time that an access spends at the path."""
    order = list(order_of(served.grid))
    random.Random(seed).shuffle(order)
    made = arrays(served, tuple(order))
    found = longest_runs(*made, seed % (1 << 31), runs, 40, served.grid.late)
    assert found[0] >= 0, "a run does not end"
    return int(found[0]), int(found[1])


def co_runner(served: ServedGrid) -> CoRunner | None:
    if not served.burst and not served.rate:
        return None
    return CoRunner(served.burst, Fraction(served.rate, 256))


def claimed(served: ServedGrid, *, path: bool = True, memory: bool = True) -> int:
    """What the product says; without one of the servers, a statement that is false."""
    grid = served.grid
    said = [served_demand(block, grid.cores) for block in grid.kinds]
    kinds = [
        replace(
            kind_of(count, one.units, path=one.path if path else 0),
            sectors=one.memory if memory else 0,
        )
        for one, count in zip(said, grid.counts, strict=True)
    ]
    server = MemoryServer(1024, co_runner(served) if memory else None)
    dispatch = Dispatch(grid.sms, grid.slots, memory=server)
    return bound_grid(kinds, dispatch).cycles


def claimed_with_classes(served: ServedGrid, seed: int) -> int:
    """Theorem M computed a second time, with classes drawn at random."""
    grid = served.grid
    said = [served_demand(block, grid.cores) for block in grid.kinds]
    demands = tuple(one.units for one in said)
    classes = random_classes(grid, demands, seed)
    own = mixed(grid, demands, classes, paths=tuple(one.path for one in said))
    asked = sum(one.memory * count for one, count in zip(said, grid.counts, strict=True))
    return own + MemoryServer(1024, co_runner(served)).waiting(own, asked)


# --- arrays that are set aside in a cache ---------------------------------------------------------


CROWDED = Family(
    "crowded",
    "many accesses to few units",
    sms=(2, 4),
    slots=(3, 4),
    cores=(1, 2),
    blocks=(9, 24),
    warps=(2, 4),
    length=(3, 6),
    sections=(1, 1),
    init=1,
    latency=2,
    delay=0,
    gap=0,
    oddities=False,
)


@dataclass(frozen=True)
class Kept:
    """A grid with a cache: what a sector takes of it is 1, of the memory ``each``, and so many
    sectors are in a unit.
    """

    served: ServedGrid
    each: int
    unit_sectors: int


def random_kept(family: Family, seed: int) -> Kept:
    """A grid of a family whose operations go to a cache, many of them for units that it keeps."""
    grid = random_grid(family, seed)
    rng = random.Random(f"kept {family.name} {seed}")
    share, path, each = rng.random(), rng.choice((0, 1, 4)), rng.choice((1, 3, 8))
    units, unit_sectors, inside = rng.randint(1, 3), rng.randint(1, 3), rng.choice((0.5, 0.9, 1.0))
    if family is CROWDED:
        share, path, inside = 1.0, 0, 1.0

    def served(op: Op) -> Op:
        if op.is_barrier or rng.random() > share:
            return op
        plain = (op.unit, op.init, op.lat, op.reads, op.is_barrier, op.bubble)
        sectors = rng.randint(1, unit_sectors)
        unit = rng.randrange(units) if rng.random() < inside else -1
        asked = sectors * each, sectors, unit, unit_sectors * each
        return Served(*plain, rng.randint(0, path), *asked)

    kinds = tuple(tuple(tuple(map(served, warp)) for warp in block) for block in grid.kinds)
    burst, rate = rng.choice((0, 0, 5)), rng.choice((0, 0, 64))
    whole = replace(grid, kinds=kinds, breadth=False, shared=False, servers=1, gap=0, delay=0)
    posted = rng.random() < 0.4
    return Kept(ServedGrid(whole, posted, burst, rate, kept=units), each, unit_sectors)


def claimed_kept(kept: Kept, *, cache: int = 1, moves: int = 3) -> int:
    """What the product says; with fewer moves of a unit, or without the cache, what is false."""
    grid = kept.served.grid
    kinds = []
    for block, count in zip(grid.kinds, grid.counts, strict=True):
        said = served_demand(block, grid.cores)
        ops = [op for warp in block for op in warp]
        outside = sum(cache_of(op) for op in ops if at_memory(op)[2] < 0)
        kind = kind_of(count, said.units, path=said.path)
        kinds.append(replace(kind, sectors=sum(map(cache_of, ops)), outside_sectors=outside))
    moved = moves * kept.served.kept * kept.unit_sectors
    aside = SetAside(1024 * cache, moved)
    server = MemoryServer(1024 * (kept.each + cache), co_runner(kept.served), aside)
    return bound_grid(kinds, Dispatch(grid.sms, grid.slots, memory=server)).cycles


# --- a path that keeps up -------------------------------------------------------------------------


FED = Family(
    "fed",
    "few warps that do nothing but feed the path",
    sms=(1, 2),
    slots=(1, 3),
    cores=(1, 3),
    blocks=(1, 4),
    warps=(1, 4),
    units=(1, 2),
    length=(2, 5),
    sections=(1, 2),
    init=1,
    latency=6,
    delay=0,
    gap=0,
    oddities=False,
)


def random_fed(family: Family, seed: int) -> ServedGrid:
    """A grid of a family in which the path keeps up with all that feeds it."""
    grid = random_grid(family, seed)
    rng = random.Random(f"fed {family.name} {seed}")
    share, path, memory = rng.random(), rng.randint(1, 4), rng.choice((0, 0, 3))
    units = sorted({op.unit for op in _ops(grid)})
    feeding = rng.sample(units, min(len(units), rng.randint(1, 2)))
    feeders, spare = grid.cores * len(feeding), rng.choice((0, 0, 1, 5))
    if family is FED:
        share, spare = max(share, 0.6), 0

    def fed(op: Op) -> Op:
        if op.is_barrier or op.unit not in feeding or rng.random() > share:
            return op
        on_path, in_memory = rng.randint(1, path), rng.randint(0, memory)
        init = feeders * on_path + rng.randint(0, spare)
        plain = (op.unit, init, op.lat, op.reads, op.is_barrier, op.bubble)
        return Served(*plain, on_path, in_memory)

    kinds = tuple(tuple(tuple(map(fed, warp)) for warp in block) for block in grid.kinds)
    burst, rate = rng.choice((0, 0, 0, 5)), rng.choice((0, 0, 0, 40))
    whole = replace(grid, kinds=kinds, breadth=False, shared=False, servers=1, gap=0, delay=0)
    posted = rng.random() < 0.4
    return ServedGrid(whole, posted, burst, rate, feeders=feeders)


def keeping_up(served: ServedGrid, *, burst: bool = True) -> ServedGrid:
    """The grid without a path, in the place of which is latency: as the theorem has it.

    Without the ``burst``, false: as if nothing ever waited.
    """
    longest = max(map(path_of, _ops(served.grid)), default=0)

    def late(op: Op) -> Op:
        if not isinstance(op, Served) or not op.path:
            return op
        waits = served.feeders * longest if burst else op.path
        return replace(op, path=0, lat=op.lat + waits)

    kinds = tuple(tuple(tuple(map(late, warp)) for warp in block) for block in served.grid.kinds)
    return replace(served, grid=replace(served.grid, kinds=kinds))


# --- one block: SAFE ------------------------------------------------------------------------------


def machine_of(cores: int, units: int) -> Machine:
    """A machine whose memory takes a cycle a sector."""
    plain = load_machine("orin-ecrts2025-memory")
    assert plain.memory is not None
    each = Figure(1024, plain.memory.line_cycles.evidence, "test")
    return replace(
        plain,
        schedulers_per_sm=cores,
        units=tuple(FunctionalUnit(f"u{n}", cores) for n in range(units)),
        memory=replace(plain.memory, server_cycles_per_1024_sectors=each),
    )


def workload_of(block: Block) -> BlockWorkload:
    """A block as the product sees it: what servers take is part of the latency."""

    def node(op: Op, place: int) -> TimedInstruction | Barrier:
        timed = TimedInstruction(
            f"u{op.unit}",
            op.init,
            op.takes,
            tuple(f"r{read}" for read in op.reads),
            (f"r{place}",),
            bubble_cycles=op.bubble,
            path_cycles=path_of(op),
            sectors=memory_of(op),
        )
        return Barrier(timed) if op.is_barrier else timed

    classes = tuple(
        WarpClass(WarpProgram(tuple(node(op, n) for n, op in enumerate(warp))), (number,))
        for number, warp in enumerate(block)
    )
    return BlockWorkload(classes, Scoreboard.RAW)


def safe_of(block: Block, cores: int, *, waits: bool = True) -> int:
    """SAFE of a block that has its SM and the memory to itself."""
    units = 1 + max((op.unit for warp in block for op in warp), default=0)
    found = bound_safe(analyse_block(workload_of(block), machine_of(cores, units)))
    return found.cycles if waits else found.cycles - found.memory_cycles


def meets_alike(block: Block) -> bool:
    """Whether all warps meet the same barriers, as SAFE wants it."""
    return len({sum(op.is_barrier for op in warp) for warp in block}) == 1


@dataclass
class Tally:
    """What came of some cases."""

    cases: int = 0
    runs: int = 0
    exceeded: int = 0
    equal: int = 0
    tightest: float = 0.0
    tried: Counter[str] = field(default_factory=Counter)
    broken: Counter[str] = field(default_factory=Counter)
    witnesses: list[str] = field(default_factory=list)
    less: int = 0  # where a path that keeps up is less than one that need not
    as_claimed: int = 0  # where an access spends as long at the path as is claimed

    def add(self, longest: int, bound: int, runs: int, what: object) -> None:
        self.cases += 1
        self.runs += runs
        self.equal += longest == bound
        if longest > bound:
            self.exceeded += 1
            self.witnesses.append(f"{longest} > {bound}: {what}")
        self.tightest = max(self.tightest, longest / max(bound, 1))

    def claim(self, at_path: int, most: int, what: object) -> None:
        self.as_claimed += at_path == most
        if at_path > most:
            self.exceeded += 1
            self.witnesses.append(f"{at_path} > {most} at the path: {what}")

    def control(self, name: str, longest: int, bound: int) -> None:
        self.tried[name] += 1
        self.broken[name] += longest > bound


def attack_grids(family: Family, seeds: range, runs: int) -> Tally:
    """Launches with both servers, posted stores and others' traffic."""
    tally = Tally()
    for seed in seeds:
        served = random_served(family, seed)
        if not all(any(block) for block in served.grid.kinds):
            continue  # blocks without instructions are of no interest, and take a cycle here
        found = longest(served, seed, runs)
        bound = min(claimed(served), claimed_with_classes(served, seed))
        tally.add(found, bound, runs, served)
        if any(path_of(op) for op in _ops(served.grid)):
            tally.control("path dropped", found, claimed(served, path=False))
        if any(memory_of(op) for op in _ops(served.grid)):
            tally.control("memory dropped", found, claimed(served, memory=False))
    return tally


def attack_kept(family: Family, seeds: range, runs: int) -> Tally:
    """Launches with a cache that keeps units; and with one that does not."""
    tally = Tally()
    for seed in seeds:
        kept = random_kept(family, seed)
        if not all(any(block) for block in kept.served.grid.kinds):
            continue
        found, bound = longest(kept.served, seed, runs), claimed_kept(kept)
        tally.add(found, bound, runs, kept)
        if not any(cache_of(op) for op in _ops(kept.served.grid)):
            continue
        tally.control("cache dropped", found, claimed_kept(kept, cache=0))
        tally.control("units dropped", found, claimed_kept(kept, moves=0))
        other = longest(replace(kept.served, false=2), seed, runs)
        tally.control("nothing is kept", other, bound)
    return tally


def attack_fed(family: Family, seeds: range, runs: int) -> Tally:
    """Launches, and their first blocks alone, where the path keeps up; and where it does not.

    What each access spends at the path is held against the theorem, and the end against the bound.
    """
    tally = Tally()
    for seed in seeds:
        whole = random_fed(family, seed)
        if not all(any(block) for block in whole.grid.kinds):
            continue
        block = whole.grid.kinds[0]
        one = replace(whole.grid, kinds=(block,), counts=(1,), sms=1, slots=1)
        for served in (whole, ServedGrid(one, feeders=whole.feeders)):
            is_one = served is not whole
            if is_one and not meets_alike(block):
                continue

            bound = partial(_claimed_or_safe, is_one=is_one, seed=seed)
            late = bound(keeping_up(served))
            found, at_path = longest_and_at_path(served, seed, runs)
            tally.add(found, late, runs, served)
            most = served.feeders * max(map(path_of, _ops(served.grid)), default=0)
            if not most:
                continue
            tally.claim(at_path, most, served)
            tally.less += late < bound(served)
            tally.control("nothing waits", found, bound(keeping_up(served, burst=False)))
            for name, changed in false_paths(served):
                found, at_path = longest_and_at_path(changed, seed, runs)
                tally.control(f"{name}: an access", at_path, most)
                tally.control(f"{name}: the end", found, late)
    return tally


def _claimed_or_safe(served: ServedGrid, *, is_one: bool, seed: int) -> int:
    if is_one:
        return safe_of(served.grid.kinds[0], served.grid.cores)
    return min(claimed(served), claimed_with_classes(served, seed))


def false_paths(served: ServedGrid) -> Iterator[tuple[str, ServedGrid]]:
    """Machines that are not as the theorem wants them."""
    yield "times before the path vary", replace(served, false=3)
    yield "feeders are faster than is said", replace(served, false=4)
    yield "accesses are longer than they may be", replace(served, feeders=1)
    yield "in any order", replace(served, false=5)


def attack_blocks(family: Family, seeds: range, runs: int) -> Tally:
    """One block alone: SAFE."""
    tally = Tally()
    for seed in seeds:
        whole = random_served(family, seed)
        grid = whole.grid
        block = grid.kinds[0]
        if not meets_alike(block) or not any(block):
            continue
        one = replace(grid, kinds=(block,), counts=(1,), sms=1, slots=1)
        found = longest(ServedGrid(one), seed, runs)
        tally.add(found, safe_of(block, grid.cores), runs, one)
        if any(path_of(op) or memory_of(op) for op in _ops(one)):
            tally.control("waiting dropped", found, safe_of(block, grid.cores, waits=False))
    return tally


def _ops(grid: Grid) -> Iterator[Op]:
    return (op for block in grid.kinds for warp in block for op in warp)
