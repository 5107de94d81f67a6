"""Random blocks with joins against the theorem of docs/methods/barriers.md, and what is false.

A case is a function of family and seed. Programs are drawn along a list of phases of the block, so
that some order of events completes them all; whether every order does is for ``event_graph``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from join_machine import (
    Block,
    DeadlockError,
    Graph,
    Join,
    Machine,
    NoGraphError,
    Op,
    Run,
    Said,
    event_graph,
    run_blocks,
    say,
)
from schedules import all_choices

from ptxwcet.bounds.grid import BlockKind, Dispatch, bound_grid


@dataclass(frozen=True)
class Family:
    """What is drawn: inclusive ranges."""

    name: str
    warps: tuple[int, int] = (2, 4)
    cores: tuple[int, int] = (1, 3)
    units: tuple[int, int] = (1, 3)
    phases: tuple[int, int] = (1, 6)
    objects: tuple[int, int] = (1, 3)
    length: tuple[int, int] = (0, 3)
    init: int = 3
    latency: int = 8
    slots: tuple[int, int] = (1, 1)
    sms: tuple[int, int] = (1, 1)
    blocks: tuple[int, int] = (1, 1)
    ring: bool = False


FAMILIES = (
    Family("general"),
    Family("latencies", init=1, latency=20, length=(1, 3)),
    Family("initiations", init=8, latency=2),
    Family("one-port", cores=(1, 1), units=(1, 2)),
    Family("ring", ring=True, length=(0, 2)),
    Family("slots", slots=(1, 3), blocks=(2, 5), phases=(1, 3), length=(0, 2)),
    Family("sms", slots=(1, 2), sms=(2, 3), blocks=(2, 7), phases=(1, 3), length=(0, 2)),
)
TINY = Family(
    "tiny",
    warps=(2, 3),
    cores=(1, 2),
    units=(1, 2),
    phases=(1, 3),
    objects=(1, 2),
    length=(0, 2),
    init=3,
    latency=4,
)


@dataclass(frozen=True)
class Case:
    """Blocks, and the machine that they run on."""

    blocks: tuple[Block, ...]
    machine: Machine


def random_case(family: Family, seed: int) -> Case:
    """A case of a family."""
    rng = random.Random(f"{family.name} {seed}")
    odd = rng.random() < 0.4
    machine = Machine(
        rng.randint(*family.cores),
        shared=odd and rng.random() < 0.3,
        servers=rng.randint(1, 2) if odd else 1,
        slots=rng.randint(*family.slots),
        sms=rng.randint(*family.sms),
    )
    kinds = [_block(family, rng, odd=odd) for _ in range(rng.randint(1, 2))]
    return Case(tuple(rng.choice(kinds) for _ in range(rng.randint(*family.blocks))), machine)


def _block(family: Family, rng: random.Random, *, odd: bool) -> Block:
    count, units = rng.randint(*family.warps), rng.randint(*family.units)
    timing = [(rng.randint(1, family.init), rng.randint(0, family.latency)) for _ in range(units)]
    fixed = rng.random() < 0.5
    warps: list[list[Op]] = [[] for _ in range(count)]

    def op(w: int, join: Join | None = None) -> None:
        place = len(warps[w])
        unit = rng.randrange(units)
        init, lat = timing[unit]
        if not fixed:
            init, lat = rng.randint(1, family.init), rng.randint(0, family.latency)
        reads = tuple(rng.sample(range(place), min(place, rng.choice((0, 0, 1, 1, 2)))))
        bubble = rng.randint(0, 2) if odd else 0
        warps[w].append(Op(unit, init, lat, reads, bubble, join))

    def some(w: int) -> None:
        for _ in range(rng.randint(*family.length)):
            op(w)

    joins: list[list[Join]] = [[] for _ in range(count)]
    for name, members in _phases(family, rng, count):
        for w, waits in members:
            joins[w].append(Join(name, len(members), waits))
    row = joins[rng.randrange(count)]
    if len(row) > 1 and rng.random() < 0.2:  # out of order: some of these are refused
        at = rng.randrange(len(row) - 1)
        row[at], row[at + 1] = row[at + 1], row[at]
    for w, row in enumerate(joins):
        for join in row:
            some(w)
            op(w, join)
    for w in range(count):
        some(w)
    return tuple(map(tuple, warps))


def _phases(
    family: Family, rng: random.Random, count: int
) -> Iterator[tuple[int, list[tuple[int, bool]]]]:
    """Phases in an order in which they are over: object, and who arrives there and waits or not."""
    if family.ring:
        producers = rng.randint(1, count - 1)
        stages = rng.randint(1, 3)
        for n in range(rng.randint(1, family.phases[1])):
            stage = n % stages
            for first in (True, False):
                if first and n < stages:
                    continue  # the slot is empty
                members = [(w, (w < producers) == first) for w in range(count)]
                yield 2 * stage + first, members
        return
    objects = rng.randint(*family.objects)
    for _ in range(rng.randint(*family.phases)):
        members = rng.sample(range(count), rng.randint(1, count))
        waiting = rng.choice((0.3, 0.7, 1.0))
        yield rng.randrange(objects), [(w, rng.random() < waiting) for w in members]


CONTROLS = ("own", "others", "latency", "slack", "work", "order")
"""What is left out of the claim, one at a time: an edge to the next stretch of a warp, one to those
of others; what is in flight; the slack of groups; the work of all sub-cores but the first; that
phases are known to be over.
"""

# --- statements -----------------------------------------------------------------------------------


def graphs_of(case: Case, *, ordered: bool = True) -> dict[Block, Graph] | None:
    """The graph of each kind of block; None if one has none."""
    try:
        return {block: event_graph(block, ordered=ordered) for block in case.blocks}
    except NoGraphError:
        return None


def claimed(case: Case, said: list[Said], *, without: str = "") -> int:
    """The bound of blocks on an empty machine: G2 and G3, as the product has them."""
    dispatch = Dispatch(case.machine.sms, case.machine.slots, 0, 0, breadth_first=False)
    least = 1 if without == "work" else 0
    along = [BlockKind(1, one.slack, one.works[0][0] if least else one.work) for one in said]
    serial = [BlockKind(1, 0, one.serial) for one in said]
    forms = (along,) if without else (along, serial)
    bound = min(bound_grid(kinds, dispatch).cycles for kinds in forms)
    return bound if without or len(said) > 1 else min(bound, said[0].apart)


@dataclass
class Tally:
    """What came of an attack."""

    cases: int = 0
    refused: int = 0
    runs: int = 0
    exceeded: int = 0
    clocks: int = 0
    serial: int = 0
    equal: int = 0
    tightest: float = 0.0
    witnesses: list[tuple[str, int]] = field(default_factory=list)


def _policies(rng: random.Random) -> Iterator[Callable[[int], int]]:
    yield lambda _: 0
    yield lambda n: n - 1
    while True:
        yield rng.randrange
        likely = rng.random()
        yield lambda n, p=likely: 0 if rng.random() < p else n - 1  # type: ignore[misc]


def attack(
    family: Family,
    seeds: Iterable[int],
    *,
    runs: int = 12,
    sharp: bool = True,
    without: str = "",
    ordered: bool = True,
) -> Tally:
    """Random runs of random cases against the bound and, in each cycle, the clocks."""
    tally = Tally()
    for seed in seeds:
        case = random_case(family, seed)
        graphs = graphs_of(case, ordered=ordered)
        if graphs is None:
            tally.refused += 1
            continue
        tally.cases += 1
        said = [
            say(one, graphs[one], case.machine, sharp=sharp, without=without) for one in case.blocks
        ]
        bound = claimed(case, said, without=without)
        rng = random.Random(seed)
        best = 0
        for number, choose in zip(range(runs), _policies(rng), strict=False):
            run = _one(case, choose, said, rng if number % 2 else None)
            tally.runs += 1
            if run is None or run.cycles > bound:
                tally.exceeded += 1
                tally.witnesses.append((family.name, seed))
            if run is None:
                continue
            best = max(best, run.cycles)
            tally.clocks += run.exceeded > 0
            tally.serial += run.serial_exceeded > 0
            if max(run.exceeded, run.serial_exceeded) > 0:
                tally.witnesses.append((family.name, seed))
        tally.equal += best == bound
        tally.tightest = max(tally.tightest, best / max(bound, 1))
    return tally


def _one(
    case: Case, choose: Callable[[int], int], said: list[Said], rng: random.Random | None
) -> Run | None:
    """A run, with shorter times if there is ``rng``; None for a deadlock."""

    def shorter(block: int, warp: int, place: int) -> tuple[int, int]:
        assert rng is not None
        op = case.blocks[block][warp][place]
        if rng.random() < 0.6:
            return op.init, op.lat
        return rng.randint(1, op.init), rng.randint(0, op.lat)

    try:
        return run_blocks(case.blocks, case.machine, choose, shorter if rng else None, said)
    except DeadlockError:
        return None


# --- all schedules --------------------------------------------------------------------------------


def all_runs(case: Case, most: int = 4000) -> Iterator[Run | None]:
    """The runs of all schedules, up to ``most``; None for each that ends in a deadlock."""
    for choose in islice(all_choices(), most):
        try:
            yield run_blocks(case.blocks, case.machine, choose)
        except DeadlockError:
            yield None


def search_all(seeds: Iterable[int], *, most: int = 4000, without: str = "") -> Tally:
    """All schedules of tiny blocks: ends, who met whom, and that no one waits for ever."""
    tally = Tally()
    for seed in seeds:
        case = random_case(TINY, seed)
        graphs = graphs_of(case, ordered=without != "order")
        if graphs is None:
            tally.refused += 1
            continue
        said = [say(block, graphs[block], case.machine, sharp=True) for block in case.blocks]
        bound, best, met = claimed(case, said), 0, None
        runs = 0
        for run in all_runs(case, most):
            runs += 1
            if run is None or run.cycles > bound or met not in (None, run.phases):
                tally.exceeded += 1
                tally.witnesses.append((TINY.name, seed))
                break
            met, best = run.phases, max(best, run.cycles)
        tally.runs += runs
        tally.cases += runs < most
        tally.equal += best == bound
    return tally
