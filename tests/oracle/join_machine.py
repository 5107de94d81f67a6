"""Blocks whose warps meet at joins, written from docs/methods/barriers.md and from nothing else.

A warp is a tuple of operations; one with a ``join`` is an arrival at an object of its block, at
which it waits or not. ``run_blocks`` is the machine of the model in plain Python, cycle by cycle:
who issues, and which slot the next block comes to, is asked of ``choose``. ``event_graph`` finds
the phases of a block or says why there are none; ``say`` what is claimed of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Join:
    """An arrival: at which object, how many complete a phase, whether the warp waits for that."""

    name: int
    count: int
    waits: bool = True


@dataclass(frozen=True)
class Op:
    """An instruction; ``reads`` are places of earlier ones in its warp."""

    unit: int
    init: int = 1
    lat: int = 0
    reads: tuple[int, ...] = ()
    bubble: int = 0
    join: Join | None = None


Warp = tuple[Op, ...]
Block = tuple[Warp, ...]


@dataclass(frozen=True)
class Machine:
    """SMs with slots and sub-cores; ``servers`` of each queue of a unit, which sub-cores share."""

    cores: int = 1
    shared: bool = False
    servers: int = 1
    slots: int = 1
    sms: int = 1


# --- the claim ------------------------------------------------------------------------------------


def stretches(warp: Warp) -> list[tuple[int, int]]:
    """First and last place (exclusive) of each stretch: it ends with a wait, or with the warp."""
    ends = [place + 1 for place, op in enumerate(warp) if op.join is not None and op.join.waits]
    return list(zip([0, *ends], [*ends, len(warp)], strict=True))


@dataclass(frozen=True)
class Alone:
    """What a stretch takes alone on a clean machine: the largest s(k) - O(k) up to each of its
    arrivals and of all, L - own, and its charges.
    """

    arrivals: tuple[int, ...]
    peak: int
    rest: int
    own: int

    @property
    def slack(self) -> int:
        return max(self.peak, self.rest)


def alone(warp: Warp, first: int, last: int) -> Alone:
    """By the definitions."""
    free: dict[int, int] = {}
    ready: dict[int, int] = {}
    t = own = length = most = 0
    arrivals = []
    for place in range(first, last):
        op = warp[place]
        t = max([t, *(ready.get(read, 0) for read in op.reads)])
        most = max(most, t - own)
        dispatch = max(t, free.get(op.unit, 0))
        free[op.unit] = dispatch + op.init
        ready[place] = dispatch + op.init + op.lat
        own += op.init
        t += 1 + op.bubble
        waits = op.join is not None and op.join.waits
        length = max(length, ready[place], t if waits else 0)
        if op.join is not None:
            arrivals.append(most)
    return Alone(tuple(arrivals), most, length - own, own)


@dataclass(frozen=True)
class Arrival:
    """The n-th arrival of a stretch of a warp."""

    warp: int
    stretch: int
    number: int


@dataclass(frozen=True)
class Graph:
    """For each stretch of each warp the arrivals that open it, its own wait included.

    ``groups`` are the stretches that one phase opens (warp, stretch), those of the start first.
    """

    opened_by: tuple[tuple[tuple[Arrival, ...], ...], ...]
    groups: tuple[tuple[tuple[int, int], ...], ...]


class NoGraphError(Exception):
    """Why a block has no static phases."""


@dataclass
class _Object:
    phase: int = 0
    count: int = 0
    arrived: list[Arrival] = field(default_factory=list)
    knowledge: list[dict[int, int]] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)


def event_graph(block: Block, *, ordered: bool = True) -> Graph:
    """The phases of a block, found along one order of events. ``ordered`` False leaves out that
    a phase must be known to be over by whoever arrives at the next one.
    """
    joins = [[op.join for op in warp if op.join is not None] for warp in block]
    places = [0] * len(block)
    numbers = [0] * len(block)
    knows: list[dict[int, int]] = [{} for _ in block]  # phases that are over before
    blocked = [False] * len(block)
    objects: dict[int, _Object] = {}
    opened: list[list[tuple[Arrival, ...]]] = [[()] for _ in block]
    groups = [tuple((w, 0) for w in range(len(block)))]
    moved = True
    while moved:
        moved = False
        for w, row in enumerate(joins):
            while not blocked[w] and places[w] < len(row):
                moved = True
                join = row[places[w]]
                here = objects.setdefault(join.name, _Object())
                if ordered and knows[w].get(join.name, 0) < here.phase:
                    raise NoGraphError("arrives before it knows the phase before to be over")
                if here.arrived and here.count != join.count:
                    raise NoGraphError("counts differ")
                if any(other.warp == w for other in here.arrived):
                    raise NoGraphError("arrives twice")
                here.count = join.count
                here.arrived.append(Arrival(w, len(opened[w]) - 1, numbers[w]))
                here.knowledge.append(knows[w])
                places[w] += 1
                numbers[w] += 1
                if join.waits:
                    numbers[w] = 0
                    blocked[w] = True
                    here.waiting.append(w)
                if len(here.arrived) == join.count:
                    here.phase += 1
                    knowledge: dict[int, int] = {join.name: here.phase}
                    for known in here.knowledge:
                        for name, phase in known.items():
                            knowledge[name] = max(phase, knowledge.get(name, 0))
                    for waiter in here.waiting:
                        blocked[waiter] = False
                        knows[waiter] = dict(knowledge)
                        opened[waiter].append(tuple(here.arrived))
                    groups.append(tuple((v, len(opened[v]) - 1) for v in here.waiting))
                    objects[join.name] = _Object(here.phase)
    if any(here.arrived for here in objects.values()):
        raise NoGraphError("a phase is not completed")
    return Graph(tuple(map(tuple, opened)), tuple(groups))


@dataclass(frozen=True)
class Said:
    """What the theorems say of a block: P and lambda of each stretch, lambda and y of each group.

    ``group_of`` has the group of each stretch; ``part_of`` the part of each warp, of those that
    meet somehow, ``parts`` lambda and y of what of each group is of a part, and ``part_works`` all
    initiations of each part.
    """

    clock: tuple[tuple[tuple[int, int], ...], ...]
    groups: tuple[tuple[int, int], ...]
    works: tuple[tuple[int, ...], ...]
    group_of: tuple[tuple[int, ...], ...]
    work: int
    part_of: tuple[int, ...] = ()
    parts: tuple[tuple[tuple[int, int], ...], ...] = ()
    part_works: tuple[int, ...] = ()

    @property
    def slack(self) -> int:
        """lambda of the block: the heaviest way through its graph."""
        return max((start + slack for row in self.clock for start, slack in row), default=0)

    @property
    def serial(self) -> int:
        """Group after group."""
        return sum(slack + work for slack, work in self.groups)

    @property
    def apart(self) -> int:
        """Each part group after group, beside the others: these as they are, or group by group."""
        serial = [sum(slack + most for slack, most in groups) for groups in self.parts]
        least = list(map(min, serial, self.part_works))
        return max((own + sum(least) - least[n] for n, own in enumerate(serial)), default=0)


def parts_of(block: Block) -> list[int]:
    """For each warp the number of its part: warps that arrive at one object are of one part."""
    names = [{op.join.name for op in warp if op.join is not None} for warp in block]
    part = list(range(len(block)))
    for one in range(len(block)):
        for other in range(one):
            if names[one] & names[other]:
                part = [part[other] if each == part[one] else each for each in part]
    order = sorted(set(part))
    return [order.index(each) for each in part]


def say(
    block: Block, graph: Graph, machine: Machine, *, sharp: bool = False, without: str = ""
) -> Said:
    """What is claimed; ``sharp``: what an arrival lets others wait for is its issue alone.

    ``without`` leaves out an edge: of a warp to its next stretch ("own"), of an arrival to the
    stretches of others ("others"); or a part of slack: "latency", "issues".
    """
    rows = [[alone(warp, *part) for part in stretches(warp)] for warp in block]
    slack = [
        [
            max(0 if without == "issues" else one.peak, 0 if without == "latency" else one.rest)
            for one in row
        ]
        for row in rows
    ]
    known: dict[tuple[int, int], int] = {}

    def start(w: int, n: int) -> int:
        if (w, n) not in known:
            before = [0]
            for arrival in graph.opened_by[w][n]:
                v, m = arrival.warp, arrival.stretch
                if without == ("own" if v == w else "others"):
                    continue
                after = slack[v][m]
                if sharp and v != w:
                    after = rows[v][m].arrivals[arrival.number]
                before.append(start(v, m) + after)
            known[w, n] = max(before)
        return known[w, n]

    clock = tuple(
        tuple((start(w, n), own) for n, own in enumerate(row)) for w, row in enumerate(slack)
    )
    cores = 1 if machine.shared else machine.cores
    groups, works = [], []
    group_of = [[0] * len(row) for row in rows]
    for number, members in enumerate(graph.groups):
        on = [0] * cores
        for w, n in members:
            on[w % cores] += rows[w][n].own
            group_of[w][n] = number
        most = max((slack[w][n] for w, n in members), default=0)
        groups.append((0 if without == "slack" else most, max(on)))
        works.append(tuple(on))
    part_of = parts_of(block)
    apart: list[list[tuple[int, int]]] = [[] for _ in set(part_of)]
    totals = [0] * len(apart)
    for members in graph.groups:
        for part, found in enumerate(apart):
            on = [0] * cores
            for w, n in members:
                if part_of[w] == part:
                    on[w % cores] += rows[w][n].own
            most = max((slack[w][n] for w, n in members if part_of[w] == part), default=0)
            found.append((0 if without == "slack" else most, max(on)))
            totals[part] += sum(on)
    return Said(
        clock,
        tuple(groups),
        tuple(works),
        tuple(map(tuple, group_of)),
        work(block),
        tuple(part_of),
        tuple(map(tuple, apart)),
        tuple(totals),
    )


def work(block: Block) -> int:
    """Y: all initiations."""
    return sum(op.init for warp in block for op in warp)


# --- the machine ----------------------------------------------------------------------------------

Choose = Callable[[int], int]
"""Which of so many: asked only where there are two or more."""

Actual = Callable[[int, int, int], tuple[int, int]]
"""Initiation and latency of an operation of a warp of a block, by their numbers."""


@dataclass(eq=False)
class _Running:
    ops: Warp
    core: int
    number: int
    next: int = 0
    earliest: int = 0
    end: int = 0
    stretch: int = 0
    joins: int = 0
    waits: bool = False
    ready: dict[int, int] = field(default_factory=dict)


@dataclass(eq=False)
class _Resident:
    index: int
    start: int
    warps: list[_Running]
    arrived: dict[int, list[tuple[_Running, int, bool]]] = field(default_factory=dict)

    def is_over(self, cycle: int) -> bool:
        return all(w.next == len(w.ops) and not w.waits and w.end <= cycle for w in self.warps)


class DeadlockError(Exception):
    """No warp will issue any more."""


@dataclass
class Run:
    """The end of the last block; by what the clocks were exceeded at most.

    ``phases``: who arrived at each (block, object, phase), by warp and number of its join.
    """

    cycles: int = 0
    exceeded: int = -(10**9)
    serial_exceeded: int = -(10**9)
    phases: dict[tuple[int, int, int], frozenset[tuple[int, int]]] = field(default_factory=dict)


@dataclass
class _Open:
    """A group of stretches of a block: whether it is open, what of it is issued and is not."""

    slack: int
    most: int
    left: list[int]
    issued: list[int]
    is_open: bool = False

    def counts(self, core: int) -> int:
        return self.issued[core] if self.left[core] else self.most


class _Clocks:
    """The claims in each cycle: t <= P + lambda + Y(t) for each warp that is not done, and
    t <= D(t) + F_q(t) for each sub-core.
    """

    def __init__(self, machine: Machine, said: Sequence[Said], out: Run) -> None:
        self.said, self.out = said, out
        self.passed = [0] * machine.slots * machine.sms  # lambda of the blocks ended in a slot
        self.spent = [0] * machine.sms  # Y of each SM
        self.cores = 1 if machine.shared else machine.cores
        self.groups: dict[tuple[int, int], dict[tuple[int, int], _Open]] = defaultdict(dict)

    def start(self, sm: int, block: _Resident) -> None:
        said = self.said[block.index]
        for number in range(len(said.groups)):
            for part, groups in enumerate((said.groups, *said.parts), -1):
                new = _Open(*groups[number], [0] * self.cores, [0] * self.cores)
                self.groups[sm, part][block.index, number] = new
        for w in block.warps:
            stretch = 0
            for op in w.ops:
                for group in self._both(sm, block, w, stretch):
                    group.left[w.core % self.cores] += 1
                stretch += op.join is not None and op.join.waits

    def _both(self, sm: int, block: _Resident, w: _Running, stretch: int) -> list[_Open]:
        """The group of a stretch, and what of it is of the part of its warp."""
        said = self.said[block.index]
        key = block.index, said.group_of[w.number][stretch]
        return [self.groups[sm, part][key] for part in (-1, said.part_of[w.number])]

    def issue(self, sm: int, block: _Resident, w: _Running, op: Op) -> None:
        self.spent[sm] += op.init
        for group in self._both(sm, block, w, w.stretch):
            group.left[w.core % self.cores] -= 1
            group.issued[w.core % self.cores] += op.init

    def look(self, cycle: int, slots: Sequence[tuple[int, list[_Resident]]]) -> None:
        """All claims at the begin of a cycle, after what opens in it is open."""
        busy = set()
        for number, (sm, held) in enumerate(slots):
            for block in held:
                said = self.said[block.index]
                for w in block.warps:
                    if not w.waits:
                        for group in self._both(sm, block, w, w.stretch):
                            group.is_open = True
                    if w.next == len(w.ops) and not w.waits and w.end <= cycle:
                        continue
                    busy.add((sm, -1))
                    if len(self.said) == 1:
                        busy.add((sm, said.part_of[w.number]))
                    start, slack = said.clock[w.number][w.stretch]
                    claim = self.passed[number] + start + slack + self.spent[sm]
                    self.out.exceeded = max(self.out.exceeded, cycle - claim)
        for sm, part in busy:
            opened = [one for one in self.groups[sm, part].values() if one.is_open]
            waits = sum(one.slack for one in opened)
            if part >= 0:  # beside what the others issue
                waits += self.spent[sm] - sum(sum(one.issued) for one in opened)
            for core in range(self.cores):
                claim = waits + sum(one.counts(core) for one in opened)
                self.out.serial_exceeded = max(self.out.serial_exceeded, cycle - claim)


def run_blocks(
    blocks: tuple[Block, ...],
    machine: Machine,
    choose: Choose,
    actual: Actual | None = None,
    said: Sequence[Said] = (),
) -> Run:
    """Runs blocks, which start in their order as slots are free.

    ``said`` has what is claimed of each block: then that is looked at in each cycle.
    """
    out = Run()
    clocks = _Clocks(machine, said, out) if said else None
    slots: list[tuple[int, list[_Resident]]] = [
        (sm, []) for sm in range(machine.sms) for _ in range(machine.slots)
    ]
    queues: dict[tuple[int, int, int], list[int]] = {}
    phases: dict[tuple[int, int], int] = {}
    started = cycle = idle = 0
    while True:
        for number, (_, held) in enumerate(slots):
            if held and held[0].is_over(cycle):
                out.cycles = max(out.cycles, cycle)
                if clocks is not None:
                    clocks.passed[number] += said[held[0].index].slack
                held.clear()
        while started < len(blocks):
            free = [number for number, (_, held) in enumerate(slots) if not held]
            if not free:
                break
            number = free[choose(len(free)) if len(free) > 1 else 0]
            ops = blocks[started]
            warps = [
                _Running(one, (n + number * len(ops)) % machine.cores, n, earliest=cycle)
                for n, one in enumerate(ops)
            ]
            new = _Resident(started, cycle, warps)
            started += 1
            if clocks is not None:
                clocks.start(slots[number][0], new)
            if not new.is_over(cycle):
                slots[number][1].append(new)
        if started == len(blocks) and not any(held for _, held in slots):
            return out
        if clocks is not None:
            clocks.look(cycle, slots)
        issued = False
        for sm in range(machine.sms):
            resident = [held[0] for at, held in slots if at == sm and held]
            for core in range(machine.cores):
                eligible = [
                    (block, w)
                    for block in resident
                    for w in block.warps
                    if w.core == core
                    and w.next < len(w.ops)
                    and not w.waits
                    and w.earliest <= cycle
                    and all(w.ready[read] <= cycle for read in w.ops[w.next].reads)
                ]
                if not eligible:
                    continue
                issued = True
                block, w = eligible[choose(len(eligible)) if len(eligible) > 1 else 0]
                op = w.ops[w.next]
                init, lat = (op.init, op.lat)
                if actual is not None:
                    init, lat = actual(block.index, w.number, w.next)
                if clocks is not None:
                    clocks.issue(sm, block, w, op)
                at = (sm, 0 if machine.shared else core, op.unit)
                queue = queues.setdefault(at, [0] * machine.servers)
                server = queue.index(min(queue))
                queue[server] = max(cycle, queue[server]) + init
                w.ready[w.next] = queue[server] + lat
                w.end = max(w.end, queue[server] + lat)
                w.next += 1
                w.earliest = cycle + 1 + op.bubble
                if op.join is not None:
                    w.joins += 1
                    w.waits = op.join.waits
                    w.stretch += w.waits
                    _arrive(block, w, op.join, cycle, phases, out)
        idle = 0 if issued else idle + 1
        if idle > 2000:
            raise DeadlockError
        cycle += 1


def _arrive(
    block: _Resident,
    w: _Running,
    join: Join,
    cycle: int,
    phases: dict[tuple[int, int], int],
    out: Run,
) -> None:
    arrived = block.arrived.setdefault(join.name, [])
    arrived.append((w, w.joins - 1, join.waits))
    if len(arrived) == join.count:
        phase = phases.get((block.index, join.name), 0)
        phases[block.index, join.name] = phase + 1
        out.phases[block.index, join.name, phase] = frozenset(
            (one.number, place) for one, place, _ in arrived
        )
        for one, _, waits in arrived:
            if waits:
                one.waits = False
                one.earliest = max(one.earliest, cycle + 1)
        block.arrived[join.name] = []
