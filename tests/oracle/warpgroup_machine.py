"""Launches of blocks of warpgroups, written from docs/methods/warpgroups.md and nothing else.

One SM of four sub-cores and some slots, plain Python, cycle by cycle. A warp is a tuple of
operations that name the earlier ones of their warp of which they read the results. Everything that
the page leaves open is asked of ``choose``: who issues, how long things take, in which order
requests of one cycle come to a queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from random import Random

from schedules import all_choices

CORES = 4


class Kind(Enum):
    PLAIN = "plain"
    BARRIER = "barrier"  # of the whole block
    PRODUCT = "product"  # of the warpgroup


@dataclass(frozen=True)
class Op:
    unit: str
    init: int = 1
    lat: int = 0
    reads: tuple[int, ...] = ()
    kind: Kind = Kind.PLAIN
    bubble: int = 0


Warp = tuple[Op, ...]
Block = tuple[Warp, ...]
Choose = Callable[[str, int], int]
"""Picks one of so many, for a reason."""


@dataclass(frozen=True)
class Rules:
    """What may be dropped, one rule at a time.

    ``holds``: a warp issues nothing more until its warpgroup has issued the product, too. That is
    no rule of the page: hardware runs ahead.
    ``early``: a quarter may come to its queue as soon as its own warp has issued the product, or
    later, but before the other warps have.
    ``whole``: results of a product are there when all four quarters are done, not the own one.
    ``shared``: units that the sub-cores share.
    """

    holds: bool = False
    early: bool = False
    whole: bool = False
    shared: frozenset[str] = frozenset()
    slots: int = 1


@dataclass(eq=False)
class _Request:
    op: Op
    init: int
    lat: int
    begin: int | None = None
    quarters: list[_Request] = field(default_factory=list)
    joined: bool = False
    number: tuple[int, int] | None = None

    def is_behind(self, other: _Request) -> bool:
        """Whether both are products of one warp, and the other one stands before."""
        if self.number is None or other.number is None:
            return False
        return self.number[0] == other.number[0] and self.number[1] > other.number[1]

    def done(self, cycle: int) -> bool:
        return all(
            one.begin is not None and one.begin + one.init + one.lat <= cycle
            for one in self.quarters or [self]
        )


@dataclass
class _Running:
    """A warp of a block that has started."""

    program: Warp
    core: int
    group: int
    place: int = 0
    earliest: int = 0
    waits: Kind | None = None
    requests: dict[int, _Request] = field(default_factory=dict)
    products: int = 0

    def is_over(self, cycle: int) -> bool:
        issued = self.place == len(self.program) and self.waits is None
        return issued and all(one.done(cycle) for one in self.requests.values())


class Machine:
    """``run`` gives the cycle in which the last block has left the SM."""

    def __init__(self, blocks: tuple[Block, ...], rules: Rules, choose: Choose) -> None:
        self.waiting = deque(blocks)
        self.rules, self.choose = rules, choose
        self.resident: list[list[_Running]] = []
        self.queues: dict[tuple[str, int], deque[_Request]] = {}
        self.serving: dict[tuple[str, int], _Request] = {}
        self.cycle = 0
        self.ahead: list[tuple[_Running, int, bool]] = []

    def run(self, most: int = 100_000) -> int:
        while True:
            self.open_barriers()
            self.resident = [
                one for one in self.resident if not all(w.is_over(self.cycle) for w in one)
            ]
            while self.waiting and len(self.resident) < self.rules.slots:
                self.start(self.waiting.popleft())
            if not self.resident:
                return self.cycle
            assert self.cycle < most, "nothing goes on"
            self.serve()
            entering: list[tuple[tuple[str, int], _Request]] = []
            for core in range(CORES):
                entering += self.issue(core)
            entering += self.join()
            entering += self.enter_early()
            self.enter(entering)
            self.serve()
            self.cycle += 1

    def start(self, block: Block) -> None:
        self.resident.append(
            [_Running(warp, n % CORES, n // CORES, 0, self.cycle) for n, warp in enumerate(block)]
        )

    def serve(self) -> None:
        for queue, waiting in self.queues.items():
            now = self.serving.get(queue)
            if now is not None and now.begin is not None and now.begin + now.init > self.cycle:
                continue
            if waiting:
                self.serving[queue] = one = waiting.popleft()
                one.begin = self.cycle

    def open_barriers(self) -> None:
        for block in self.resident:
            if all(w.waits is Kind.BARRIER or w.is_over(self.cycle) for w in block):
                for warp in block:
                    if warp.waits is Kind.BARRIER:
                        warp.waits = None

    def eligible(self, warp: _Running) -> bool:
        if warp.place == len(warp.program) or warp.waits or self.cycle < warp.earliest:
            return False
        op = warp.program[warp.place]
        return all(warp.requests[read].done(self.cycle) for read in op.reads)

    def issue(self, core: int) -> Iterator[tuple[tuple[str, int], _Request]]:
        found = [w for block in self.resident for w in block if w.core == core]
        found = [warp for warp in found if self.eligible(warp)]
        if not found:
            return
        warp = found[self.choose("issue", len(found))]
        op = warp.program[warp.place]
        request = _Request(op, 1 + self.upto("init", op.init - 1), self.upto("lat", op.lat))
        warp.requests[warp.place] = request
        warp.place += 1
        warp.earliest = self.cycle + 1 + op.bubble
        if op.kind is Kind.PRODUCT:
            request.number = id(warp), warp.products
            warp.products += 1
            if self.rules.holds:
                warp.waits = Kind.PRODUCT
            elif self.rules.early and (when := self.choose("early", 3)):
                self.ahead.append((warp, warp.products - 1, when == 1))
            return
        if op.kind is Kind.BARRIER:
            warp.waits = Kind.BARRIER
        yield self.queue(op, core), request

    def upto(self, what: str, most: int) -> int:
        """Times anywhere at or below the model's; the model's is the first choice."""
        return most - self.choose(what, most + 1) if most else 0

    def queue(self, op: Op, core: int) -> tuple[str, int]:
        return op.unit, 0 if op.unit in self.rules.shared else core

    def join(self) -> Iterator[tuple[tuple[str, int], _Request]]:
        """Products that all four warps of a warpgroup have issued by now go to their queues."""
        for block in self.resident:
            for first in range(0, len(block), CORES):
                group = block[first : first + CORES]
                while min(warp.products for warp in group) > self.joined(group):
                    number = self.joined(group)
                    requests = [self.product(warp, number) for warp in group]
                    for warp, one in zip(group, requests, strict=True):
                        if self.rules.holds:
                            warp.waits = None
                        has_entered, one.joined = bool(one.quarters), True
                        one.quarters = requests if self.rules.whole else [one]
                        if not has_entered:
                            yield self.queue(one.op, warp.core), one

    def enter_early(self) -> Iterator[tuple[tuple[str, int], _Request]]:
        """Quarters that do not wait for the others, behind those of the products before."""
        for warp, number, at_once in self.ahead:
            one = self.product(warp, number)
            before = self.products(warp)[:number]
            if not at_once and self.choose("come", 4):
                continue
            if not one.quarters and all(each.quarters for each in before):
                one.quarters = [one]
                yield self.queue(one.op, warp.core), one
        self.ahead = [one for one in self.ahead if not self.product(*one[:2]).quarters]

    def joined(self, group: list[_Running]) -> int:
        """How many products of a warpgroup have gone to their queues."""
        return sum(1 for one in self.products(group[0]) if one.joined)

    def products(self, warp: _Running) -> list[_Request]:
        return [one for one in warp.requests.values() if one.op.kind is Kind.PRODUCT]

    def product(self, warp: _Running, number: int) -> _Request:
        return self.products(warp)[number]

    def enter(self, entering: list[tuple[tuple[str, int], _Request]]) -> None:
        """What comes to one queue in one cycle stands there in any order."""
        for queue in dict.fromkeys(queue for queue, _ in entering):
            requests = [one for name, one in entering if name == queue]
            while requests:
                # but products of a warp in its order
                first = [one for one in requests if not any(map(one.is_behind, requests))]
                one = first[self.choose("order", len(first))]
                requests.remove(one)
                self.queues.setdefault(queue, deque()).append(one)


def run(blocks: tuple[Block, ...], rules: Rules, choose: Choose) -> int:
    return Machine(blocks, rules, choose).run()


def by_chance(random: Random, *, jitter: bool = True, bias: float = 0.0) -> Choose:
    """Choices at random; with a bias mostly the last of those that may issue."""

    def choose(why: str, count: int) -> int:
        if why in ("init", "lat") and not (jitter and random.random() < 0.3):
            return 0
        if why == "issue" and random.random() < bias:
            return count - 1
        return random.randrange(count)

    return choose


def all_runs(blocks: tuple[Block, ...], rules: Rules, most: int) -> Iterator[int]:
    """The ends of all schedules with the model's times; raises OverflowError beyond ``most``."""
    for number, pick in enumerate(all_choices()):
        if number == most:
            raise OverflowError

        def choose(why: str, count: int, pick: Callable[[int], int] = pick) -> int:
            return 0 if why in ("init", "lat") or count == 1 else pick(count)

        yield run(blocks, rules, choose)
