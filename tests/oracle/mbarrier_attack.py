"""Random blocks with mbarriers against J1 of docs/methods/joins.md, and what is false of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from mbarrier_machine import (
    ENGINE,
    Block,
    Claim,
    Count,
    DeadlockError,
    Give,
    Graph,
    NotStaticError,
    Op,
    Product,
    Run,
    Take,
    Wait,
    claim,
    graph_of,
    run,
)

CONTROLS = ("own", "others", "round", "after", "copies", "registers", "slack", "work", "polls")
"""What is left out of the claim, one at a time."""
CONDITIONS = ("order", "seen", "asked", "sealed", "early")
"""What is left out of what static means."""


def random_block(seed: int, *, tiny: bool = False) -> Block:
    """A block along a list of phases: some order of events completes them all."""
    rng = random.Random(f"mbarriers {seed} {tiny}")
    count = rng.randint(2, 3 if tiny else 4)
    objects = rng.randint(1, 2 if tiny else 3)
    expects = tuple(rng.randint(1, 2 if tiny else 3) for _ in range(objects))
    warps: list[list[Op]] = [[] for _ in range(count)]
    most = 3 if tiny else 9
    units = rng.randint(1, 2)
    poll = rng.randint(0, units - 1), rng.randint(1, 2), rng.randint(0, 2 if tiny else 8)
    branch = (rng.randint(0, units - 1), 1, rng.randint(0, 1), rng.choice((0, 0, 2)))
    careful = rng.choice((0.5, 0.9, 1.0))

    def some(w: int, least: int = 0) -> None:
        for _ in range(rng.randint(least, 1 if tiny else 2)):
            place = len(warps[w])
            reads = tuple(rng.sample(range(place), min(place, rng.choice((0, 0, 1)))))
            init, lat = rng.randint(1, 3), rng.randint(0, 3 if tiny else most)
            warps[w].append(Op(rng.randrange(units), init, lat, reads))

    def wait(w: int, name: int, parity: int) -> None:
        some(w)
        unit, init, lat = poll
        warps[w].append(Op(unit, init, lat, (), Wait(name, parity, *branch)))
        warps[w].append(Op(branch[0], branch[1], branch[2], (len(warps[w]) - 1,)))

    def late_arrival(w: int) -> tuple[int, ...]:
        """Small copies that an arrival is behind, and others before them; mostly none."""
        if rng.random() > 0.25:
            return ()
        for _ in range(rng.randint(1, 2)):
            late = rng.randint(1, 6 if tiny else 40)
            copies_of[w].append(len(warps[w]))
            warps[w].append(Op(rng.randrange(units), rng.randint(1, 3), late))
        return tuple(copies_of[w])

    copies_of: list[list[int]] = [[] for _ in range(count)]
    phases = [0] * objects
    waited: set[tuple[int, int, int]] = set()
    many = rng.randint(1, 3 if tiny else 7)
    free, handing = handed_over(rng, count, many)
    for number in range(many + 1):
        for w, does in handing.get(number, ()):
            some(w)
            warps[w].append(Op(poll[0], 1, rng.randint(0, 3 if tiny else 12), (), does))
        if number == many:
            break
        o = rng.randrange(objects)
        p = phases[o]
        comers = [rng.randrange(count) for _ in range(expects[o])]
        copies = [rng.randrange(count) for _ in range(rng.choice((0, 0, 1, 2)))]
        for w in {*comers, *copies}:
            if p and (w, o, p - 1) not in waited and rng.random() < careful:
                wait(w, o, (p - 1) % 2)
                waited.add((w, o, p - 1))
        bytes_ = [16 * rng.randint(1, 3) for _ in copies]
        owing = rng.randrange(len(comers))
        for w, size in zip(copies, bytes_, strict=True):
            init = rng.randint(1, 4)
            after = rng.randint(0, 4 if tiny else 25)
            some(w)
            warps[w].append(Op(ENGINE, init, 0, (), Count(o, brings=size, after=after)))
        for n, w in enumerate(comers):
            some(w)
            owes = sum(bytes_) if n == owing else 0
            lat = rng.randint(0, 2 if tiny else 6)
            if owes and rng.random() < 0.3:
                warps[w].append(Op(poll[0], 1, lat, (), Count(o, owes=owes)))
                owes = 0
            late = () if owes else late_arrival(w)
            after = rng.randint(1, 4 if tiny else 12) if late else 0
            warps[w].append(Op(poll[0], 1, lat, (), Count(o, 1, owes, 0, after, late)))
        for w in rng.sample(range(count), rng.randint(0, count)):
            wait(w, o, p % 2)
            waited.add((w, o, p))
        if rng.random() < 0.15:  # a wait that passes at once, or for what is to come
            wait(rng.randrange(count), o, (p + 1) % 2)
        phases[o] += 1
    for w in range(count):
        some(w)
    again = rng.choice((12, 30, 100)) if tiny else rng.choice((20, 60, 200))
    return Block(tuple(map(tuple, warps)), expects, again, free)


def handed_over(
    rng: random.Random, count: int, many: int
) -> tuple[int, dict[int, list[tuple[int, Give | Take]]]]:
    """Registers that nobody has, and who gives up and takes some, before which event; mostly none.

    What is given up and free is what is taken, or a little more.
    """
    if rng.random() > 0.3:
        return 0, {}
    out: dict[int, list[tuple[int, Give | Take]]] = {}
    takers = rng.sample(range(count), rng.randint(1, count - 1))
    givers = [rng.randrange(count) for _ in range(rng.randint(1, 2))]
    takes = [rng.randint(1, 4) for _ in takers]
    gives = [rng.randint(1, 4) for _ in givers]
    free = max(0, sum(takes) - sum(gives)) + rng.choice((0, 0, 1))
    for w, amount in zip(givers, gives, strict=True):
        out.setdefault(rng.randint(0, many), []).append((w, Give(amount)))
    for w, amount in zip(takers, takes, strict=True):
        out.setdefault(rng.randint(0, many), []).append((w, Take(amount)))
    return free, out


def ring(seed: int) -> Block:
    """A producer with bulk copies, consumers, a ring of stages; empty mbarriers pass at first."""
    rng = random.Random(f"ring {seed}")
    consumers, stages, tiles = rng.randint(1, 3), rng.randint(1, 4), rng.randint(1, 9)
    expects = (1,) * stages + (consumers,) * stages
    warps: list[list[Op]] = [[] for _ in range(1 + consumers)]
    lat, branch = rng.randint(0, 12), (0, 1, 0, rng.randint(0, 2))

    def wait(w: int, name: int, parity: int) -> None:
        warps[w].append(Op(1, 1, lat, (), Wait(name, parity, *branch)))
        warps[w].append(Op(0, 1, 0, (len(warps[w]) - 1,)))

    init, after = rng.randint(1, 20), rng.randint(0, 60)
    work = [[(rng.randint(0, 1), rng.randint(1, 3), rng.randint(0, 9)) for _ in range(3)]
            for _ in range(1 + consumers)]  # fmt: skip
    for i in range(tiles):
        stage, parity = i % stages, i // stages % 2
        wait(0, stages + stage, 1 - parity)
        warps[0].append(Op(1, 1, lat, (), Count(stage, 1, 64)))
        warps[0].append(Op(ENGINE, init, 0, (), Count(stage, brings=64, after=after)))
        for w in range(1, 1 + consumers):
            wait(w, stage, parity)
            for unit, each, late in work[w]:
                reads = (len(warps[w]) - 1,) if rng.random() < 0.5 else ()
                warps[w].append(Op(unit, each, late, reads))
            warps[w].append(Op(1, 1, lat, (len(warps[w]) - 1,), Count(stages + stage, 1)))
    return Block(tuple(map(tuple, warps)), expects, rng.choice((40, 100)))


def broken(left_out: str, seed: int) -> Block:
    """A block that lacks one condition, or whose polls take cycles from a warp that computes."""
    rng = random.Random(f"{left_out} {seed}")

    def some(most: int, unit: int = 1) -> tuple[Op, ...]:
        chain = range(rng.randint(0, most))
        return tuple(
            Op(unit, rng.randint(1, 4), rng.randint(0, 9), (n - 1,) if n else ()) for n in chain
        )

    def asking(name: int, parity: int) -> tuple[Op, Op]:
        return Op(0, 1, rng.randint(0, 3), (), Wait(name, parity)), Op(0, 1, 0)

    one = Op(0, 1, rng.randint(0, 3), (), Count(0, 1))
    match left_out:
        case "order":
            return Block(((*some(3), one), (*some(3), one)), (1,), 50)
        case "seen":
            late = (*some(3), *asking(0, 0))
            return Block((late, (one, *asking(0, 0), *some(1), one)), (1,), 50)
        case "asked":
            second = (*asking(0, 0), *some(2), one)
            asks = (*some(1), *asking(0, 1), Op(0, 1, 0, (), Count(1, 1)))
            return Block(((*some(2), one), second, asks, asking(1, 0)), (1, 1), 50)
        case "early":
            gives = (*some(3), one, *asking(0, 0), Op(0, 1, 0, (), Give(1)))
            takes = (Op(0, 1, 0, (), Take(1)), *some(3), one)
            return Block((gives, takes), (1,), 50, 1)
        case "registers":
            late = Op(1, 1, rng.randint(20, 90))
            gives = (late, Op(0, 1, rng.randint(0, 3), (0,), Give(2)))
            takes = (Op(0, 1, rng.randint(0, 9), (), Take(2)), *some(3))
            return Block((gives, takes, takes[:1]), (1,), 50, 2)
        case "sealed":
            adds = Op(0, 1, 0, (), Count(0, owes=16))
            brings = Op(ENGINE, rng.randint(1, 3), 0, (), Count(0, brings=16, after=3))
            return Block(((*some(2), adds, brings), (*some(2), one)), (1,), 50)
        case _:
            works = tuple(Op(0, 1, 0, (n - 1,) if n else ()) for n in range(rng.randint(60, 200)))
            count = rng.randint(2, 4)
            return Block(((*works, one), *[asking(0, 0)] * count), (1,), 3 * count + 3)


def with_products(seed: int) -> Block:
    """A ring whose consumers are one or two warpgroups that multiply together, on four cores."""
    rng = random.Random(f"products {seed}")
    groups, stages, tiles = rng.randint(1, 2), rng.randint(1, 3), rng.randint(1, 4)
    consumers = 4 * groups
    expects = (1,) * stages + (consumers,) * stages
    lat, branch = rng.randint(0, 8), (0, 1, 0, rng.randint(0, 2))
    init, after = rng.randint(1, 20), rng.randint(0, 40)

    def wait(row: list[Op], name: int, parity: int) -> None:
        row.append(Op(1, 1, lat, (), Wait(name, parity, *branch)))
        row.append(Op(0, 1, 0, (len(row) - 1,)))

    producer: list[Op] = []
    rows: list[list[Op]] = [[] for _ in range(groups)]
    handing = random.Random(f"handed over {seed}")
    if handing.random() < 0.5:
        late = handing.randint(0, 60)
        producer += [Op(2, 1, late), Op(0, 1, 0, (0,), Give(consumers))]
        for row in rows:
            row.append(Op(0, handing.randint(1, 3), handing.randint(0, 9), (), Take(1)))
    free = handing.randint(0, consumers)
    for i in range(tiles):
        stage, parity = i % stages, i // stages % 2
        wait(producer, stages + stage, 1 - parity)
        producer.append(Op(1, 1, lat, (), Count(stage, 1, 64)))
        producer.append(Op(ENGINE, init, 0, (), Count(stage, brings=64, after=after)))
        for row in rows:
            wait(row, stage, parity)
            for _ in range(rng.randint(0, 3)):
                place = len(row)
                reads = (place - 1,) if rng.random() < 0.5 else ()
                joint = Product() if rng.random() < 0.6 else None
                unit = 2 if joint else rng.randint(0, 2)
                row.append(Op(unit, rng.randint(1, 9), rng.randint(0, 9), reads, joint))
            row.append(Op(1, 1, lat, (len(row) - 1,), Count(stages + stage, 1)))
    beside = [
        tuple(
            Op(rng.randint(0, 2), rng.randint(1, 5), rng.randint(0, 9))
            for _ in range(rng.randint(0, 12))
        )
        for _ in range(rng.randint(0, 3))
    ]
    warps = [tuple(row) for row in rows for _ in range(4)]
    return Block((*warps, tuple(producer), *beside), expects, rng.choice((200, 400)), free)


@dataclass
class Tally:
    """What came of an attack."""

    cases: int = 0
    refused: int = 0
    runs: int = 0
    exceeded: int = 0
    clocks: int = 0
    parted: int = 0
    equal: int = 0
    tightest: float = 0.0
    witnesses: list[int] = field(default_factory=list)


def judged(block: Block, *, without: str = "") -> tuple[Graph, Claim] | None:
    """Graph and claim of a block; None if its phases are not static."""
    try:
        graph = graph_of(block, without=without)
        return graph, claim(block, graph, without=without)
    except NotStaticError:
        return None


def wrong(block: Block, graph: Graph, found: Run | None, said: Claim) -> str:
    """What a run (None: a deadlock) contradicts."""
    phase_of = {node: p for (_, p), nodes in graph.phases.items() for node in nodes}
    if found is None or found.phases != phase_of:
        return "phases"
    if any(found.told[node] <= target for node, target in graph.target.items()):
        return "phases"
    if found.cycles > said.bound:
        return "bound"
    return "clock" if found.exceeded > 0 else ""


def _one(block: Block, cores: int, choose: Callable[[int], int], said: Claim, *,
         shorter: Callable[[int], int] | None = None) -> Run | None:  # fmt: skip
    try:
        return run(block, cores, choose, said, shorter=shorter)
    except DeadlockError:
        return None


def attack(
    blocks: Iterable[tuple[int, Block]], *, runs: int = 10, without: str = "", cores: int = 0
) -> Tally:
    """Random runs of blocks against bound, clock and phases."""
    tally = Tally()
    for seed, block in blocks:
        found = judged(block, without=without)
        if found is None:
            tally.refused += 1
            continue
        tally.cases += 1
        graph, said = found
        rng, best = random.Random(seed), 0
        for number in range(runs):
            many = cores or rng.randint(1, 3)
            choose: Callable[[int], int] = rng.randrange
            if number < 2:
                choose = (lambda _: 0) if number else (lambda n: n - 1)
            shorter = None
            if number % 3 == 2:
                shorter = lambda n: 0 if rng.random() < 0.5 else rng.randrange(n)  # noqa: B023, E731
            one = _one(block, many, choose, said, shorter=shorter)
            tally.runs += 1
            what = wrong(block, graph, one, said)
            if what:
                tally.witnesses.append(seed)
            tally.exceeded += what == "bound"
            tally.clocks += what == "clock"
            tally.parted += what == "phases"
            best = max(best, 0 if one is None else one.cycles)
        tally.equal += best == said.bound
        tally.tightest = max(tally.tightest, best / max(1, said.bound))
    return tally


def all_runs(block: Block, cores: int, said: Claim, most: int) -> Iterator[Run | None]:
    """The runs of all schedules of a block, up to ``most``."""
    script: list[int] = []
    for _ in range(most):
        asked: list[int] = []

        def choose(n: int) -> int:
            asked.append(n)  # noqa: B023
            if len(asked) > len(script):  # noqa: B023
                script.append(0)
            return script[len(asked) - 1]  # noqa: B023

        yield _one(block, cores, choose, said)
        del script[len(asked) :]
        while script and script[-1] + 1 == asked[len(script) - 1]:
            script.pop()
        if not script:
            return
        script[-1] += 1


def search_all(seeds: Iterable[int], *, most: int = 1500, without: str = "") -> Tally:
    """All schedules of tiny blocks."""
    tally = Tally()
    for seed in seeds:
        block = random_block(seed, tiny=True)
        found = judged(block, without=without)
        if found is None:
            tally.refused += 1
            continue
        graph, said = found
        runs = 0
        for one in all_runs(block, 1 + seed % 2, said, most):
            runs += 1
            if wrong(block, graph, one, said):
                tally.exceeded += 1
                tally.witnesses.append(seed)
                break
        tally.runs += runs
        tally.cases += runs < most
    return tally


def blocks(first: int, last: int) -> Iterator[tuple[int, Block]]:
    """Blocks of both kinds."""
    for seed in range(first, last):
        yield seed, ring(seed) if seed % 3 == 0 else random_block(seed)
