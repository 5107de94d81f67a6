"""Loops of warps that meet, against the same written out: what comes before and behind the loop,
and how fast each warp is, differ, so that times of the past count when periods are skipped.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from thoroughness import drawn

from ptxwcet.bounds.joins import JoinedSection
from ptxwcet.validate.cases import Case
from ptxwcet.warp.program import (
    Barrier,
    BlockWorkload,
    Mbarrier,
    Node,
    PartialBarrier,
    Repeat,
    Scoreboard,
    TimedInstruction,
    WarpClass,
    WarpProgram,
)

COUNTS = 2, 3, 5, 9, 40
WAITED = 31
"""Where a warp waits while periods are skipped, and had come there last."""
Rows = list[tuple[list[Node], list[Node], list[Node]]]
"""Of each warp what it executes before, in and behind its loop."""


class Drawn:
    """A ring of some stages between one warp and others, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(f"loops {seed}")
        self.stages, self.others = self.random.randint(1, 3), self.random.randint(1, 3)
        self.pace = [self.random.choice((5, 60, 60, 400)) for _ in range(1 + self.others)]

    def timed(self, latency: int) -> TimedInstruction:
        pick = self.random.choice
        reads = pick(((), ("x",)))
        return TimedInstruction(pick("AB"), self.random.randint(1, 4), latency, reads, ("x",))

    def some(self, most: int, latency: int) -> list[Node]:
        many = self.random.randint(0, most)
        return [self.timed(self.random.choice((0, 5, latency))) for _ in range(many)]

    def begin(self) -> list[Node]:
        return self.some(3, self.random.choice((300, 3000)))

    def at(self, name: str, what: Mbarrier | None, *, waits: bool = False) -> Node:
        timed = TimedInstruction("A", 1, self.random.choice((0, 3, 9)), (), ("y",))
        return PartialBarrier(timed, name, 1 + self.others, waits, what)

    def pair(self, name: str, *, waits: bool) -> Node:
        """Of two warps."""
        timed = TimedInstruction("A", 1, self.random.choice((0, 3, 9)), (), ("y",))
        return PartialBarrier(timed, name, 2, waits)

    def wait(self, name: str, parity: int) -> Node:
        again = self.random.choice((0, 8, 30, 90))
        asks = Mbarrier(parity=parity, round_cycles=again, poll_cycles=2, again_cycles=10**6)
        return self.at(name, asks, waits=True)


def with_mbarriers(ring: Drawn) -> Rows:
    first: list[Node] = []
    for parity in (0, 1):
        for stage in range(ring.stages):
            copy = Mbarrier(brings=64, after_cycles=ring.random.choice((0, 40, 200, 1500)))
            first += [ring.wait(f"e{stage}", 1 - parity), *ring.some(2, ring.pace[0])]
            first += [ring.at(f"f{stage}", Mbarrier(arrivals=1, owes=64))]
            first += [ring.at(f"f{stage}", copy), *ring.some(1, 60)]
    last = ring.some(2, 60)
    if ring.random.random() < 0.5:
        last += [ring.wait(f"e{stage}", 1) for stage in range(ring.stages)] + ring.some(2, 60)
    rows: Rows = [(ring.begin(), first, last)]
    for pace in ring.pace[1:]:
        body: list[Node] = []
        for parity in (0, 1):
            for stage in range(ring.stages):
                body += [ring.wait(f"f{stage}", parity), *ring.some(2, pace)]
                body += [ring.at(f"e{stage}", Mbarrier(arrivals=1)), *ring.some(1, pace)]
        rows.append((ring.begin(), body, ring.some(2, 60)))
    return rows


def with_names(ring: Drawn) -> Rows:
    def all_empty(*, waits: bool) -> list[Node]:
        return [ring.at(f"e{stage}", None, waits=waits) for stage in range(ring.stages)]

    rows: Rows = []
    for number, pace in enumerate(ring.pace):
        awaited, told = ("f", "e") if number else ("e", "f")
        body: list[Node] = []
        for stage in range(ring.stages):
            body += [ring.at(f"{awaited}{stage}", None, waits=True), *ring.some(2, pace)]
            body += [ring.at(f"{told}{stage}", None), *ring.some(1, pace)]
        before = [*ring.begin(), *(all_empty(waits=False) if number else [])]
        behind = [] if number else all_empty(waits=True)
        rows.append((before, body, [*behind, *ring.some(2, 60)]))
    return rows


def with_one_beside(ring: Drawn) -> Rows:
    """Warps that each meet the one before and the one behind them, once in each iteration: one may
    have come to the next meeting long before the loop of another goes round.
    """
    rows: Rows = []
    last = ring.others
    for number, pace in enumerate(ring.pace):
        body: list[Node] = []
        if number:
            body += [*ring.some(2, pace), ring.pair(f"g{number}", waits=number % 2 == 1)]
            body += [*ring.some(1, pace), ring.pair(f"k{number}", waits=number % 2 == 0)]
        if number < last:
            body += [*ring.some(2, pace), ring.pair(f"g{number + 1}", waits=number % 2 == 1)]
            body += [*ring.some(1, pace), ring.pair(f"k{number + 1}", waits=number % 2 == 0)]
        rows.append((ring.begin(), [*body, *ring.some(1, pace)], ring.some(2, 60)))
    return rows


def sections(ring: Drawn, rows: Rows, count: int, *, written: bool) -> list[JoinedSection | None]:
    """What is proved of the block whose loops have so many iterations."""
    plain = TimedInstruction("A", 1, 0)
    inits = {"e": ring.others, "f": 1}
    begun = tuple(
        PartialBarrier(plain, f"{kind}{stage}", 0, False, Mbarrier(expects=expected))
        for kind, expected in inits.items()
        for stage in range(ring.stages)
    )
    counting = any(isinstance(one, PartialBarrier) and one.mbarrier for one in rows[0][1])
    order = random.Random(ring.stages).sample(range(len(rows)), len(rows))
    classes = []
    for number, place in enumerate(order):
        before, body, behind = rows[place]
        loop = tuple(body) * count if written else (Repeat(count, tuple(body)),)
        head = (*(begun if not number else ()), Barrier(plain)) if counting else ()
        classes.append(WarpClass(WarpProgram((*head, *before, *loop, *behind)), (number,)))
    workload = BlockWorkload(tuple(classes), Scoreboard.RAW)
    case = Case("", workload, schedulers=2, servers=(("A", 2), ("B", 2)))
    return [one.joined for one in case.analyse().sections]


@pytest.mark.parametrize("kind", [with_mbarriers, with_names, with_one_beside])
def test_what_is_skipped_is_what_is_written_out(kind: Callable[[Drawn], Rows]) -> None:
    for seed in (*range(drawn(50)), WAITED):
        ring = Drawn(seed)
        rows = kind(ring)
        for count in COUNTS:
            written = sections(ring, rows, count, written=True)
            assert written[-1] is not None
            assert sections(ring, rows, count, written=False) == written, (seed, count)
