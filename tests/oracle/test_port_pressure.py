"""Ports, chains and a warp alone, against machines that run the loop for long.

Alone: the simulator, whose warp issues cycle by cycle. Chains: a machine written here that has no
units and no order of issues, so that an instruction starts once its registers are ready.
"""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction

import pytest

from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.engine import Simulator
from ptxwcet.simulator.policies import Policy
from ptxwcet.timing.pressure import PortUse, Pressure, pressure_of
from ptxwcet.warp.program import (
    BlockWorkload,
    Choice,
    Node,
    Repeat,
    Scoreboard,
    TimedInstruction,
    WarpClass,
    WarpProgram,
    unroll,
)

BEFORE, PERIOD = 1_500, 840  # iterations until it repeats; a multiple of all periods up to 8
EMPTY = SmConfiguration()


def random_body(rng: random.Random, *, served: bool = False) -> tuple[Node, ...]:
    """Up to seven instructions, on three units and four registers, some of them in a loop."""

    def one(number: int) -> TimedInstruction:
        path, sectors = (rng.randint(0, 9), rng.randint(0, 3)) if served else (0, 0)
        return TimedInstruction(
            rng.choice("ABC"),
            rng.choice((1, 1, 2, 5)),
            path + sectors + rng.choice((0, 3, 9, 20)),
            tuple(f"r{rng.randrange(4)}" for _ in range(rng.randint(0, 2))),
            (f"r{rng.randrange(4)}",) if rng.random() < 0.8 else (),
            conditional=rng.random() < 0.2,
            bubble_cycles=int(rng.random() < 0.1),
            origin=number,
            path_cycles=path,
            sectors=sectors,
        )

    body: list[Node] = [one(number) for number in range(rng.randint(1, 7))]
    if rng.random() < 0.2:
        body[rng.randrange(len(body))] = Repeat(3, (one(7), one(8)))
    return tuple(body)


def simulated(body: tuple[Node, ...], board: Scoreboard, shape: SmConfiguration) -> Fraction:
    """Cycles an iteration of one warp in the long run."""
    ends = []
    for count in (BEFORE, BEFORE + PERIOD):
        program = WarpProgram((Repeat(count, body),))
        workload = BlockWorkload((WarpClass(program, (0,)),), board)
        ends.append(Simulator(workload, shape).cycles(Policy.LRR))
    return Fraction(ends[1] - ends[0], PERIOD)


def without_units(body: tuple[Node, ...], board: Scoreboard) -> Fraction:
    """Cycles an iteration where nothing but registers is waited for."""
    ready = dict.fromkeys((f"r{n}" for n in range(4)), 0)
    seen = []
    once = list(unroll(body))
    for iteration in range(1, 121):
        for step in once:
            assert isinstance(step, TimedInstruction)
            waits = step.reads if board is Scoreboard.RAW else (*step.reads, *step.writes)
            # what waits for no iteration before is ready at once
            start = max((ready[name] for name in waits), default=-(10**9))
            done = start + step.initiation_cycles + step.latency_cycles
            for name in step.writes:
                ready[name] = max(done, ready[name]) if step.conditional else done
        if iteration in (60, 120):
            seen.append(max(ready.values()))
    return Fraction(max(seen[1] - seen[0], 0), 60)  # 60: all periods up to 6


def by_port(found: Pressure) -> list[Fraction]:
    ports = [found.issue, *found.units.values(), found.path]
    assert all(port.total == sum(port.by_instruction.values()) for port in ports)
    return [Fraction(port.total) for port in ports]


@pytest.mark.parametrize("board", Scoreboard)
def test_a_warp_alone_takes_what_is_said_and_no_less_than_ports_and_chain(
    board: Scoreboard,
) -> None:
    reached = Counter[str]()
    for seed in range(120):
        body = random_body(random.Random(seed))
        found = pressure_of(body, board)
        assert found.alone is not None
        assert found.chain is not None
        taken = simulated(body, board, EMPTY)
        assert found.alone.each == taken, seed
        assert found.chain.each == without_units(body, board), seed
        busiest = max(by_port(found))
        assert taken >= max(busiest, found.chain.each), seed
        kind = "ports" if taken == busiest else "chain" if taken == found.chain.each else "order"
        reached[kind] += 1
        executed = Counter(step.origin for step in unroll(body))  # type: ignore[union-attr]
        for step in {step.origin: step for step in unroll(body)}.values():  # type: ignore[union-attr]
            assert isinstance(step, TimedInstruction)
            times = executed[step.origin]
            assert (
                found.units[step.unit].by_instruction[step.origin] == times * step.initiation_cycles
            )
            assert found.issue.by_instruction[step.origin] == times * (1 + step.bubble_cycles)
    assert min(reached.values()) >= 5
    assert len(reached) == 3


def test_servers_behind_the_units_only_add_to_it() -> None:
    shape = SmConfiguration(memory_cycles=1024)
    reached = 0
    for seed in range(30):
        body = random_body(random.Random(seed), served=True)
        found = pressure_of(body, Scoreboard.RAW)
        assert found.alone is not None
        least = max(*by_port(found), Fraction(found.sectors.total), found.alone.each)
        taken = simulated(body, Scoreboard.RAW, shape)
        assert taken >= least, seed
        reached += taken == least
    assert reached > 3


def test_by_hand() -> None:
    load = TimedInstruction("M", 1, 20, writes=("v",), origin=0)
    use = TimedInstruction("F", 2, 3, ("v", "s"), ("s",), origin=1)
    found = pressure_of((load, use), Scoreboard.RAW)
    assert found.chain is not None
    assert found.alone is not None
    assert (found.chain.cycles, found.chain.iterations, found.chain.origins) == (5, 1, (1,))
    assert found.alone.each == 22  # the next load is issued behind the use, which waits for this
    assert found.units == {"F": PortUse({1: 2}, 2), "M": PortUse({0: 1}, 1)}
    # a value that comes round in two iterations: a -> b in the next one -> a in the one after
    first = TimedInstruction("A", 1, 9, ("b",), ("t",), origin=0)
    other = TimedInstruction("A", 1, 5, ("a",), ("b",), origin=1)
    move = TimedInstruction("B", 1, 0, ("t",), ("a",), origin=2)
    found = pressure_of((other, first, move), Scoreboard.RAW)
    assert found.chain is not None
    assert (found.chain.cycles, found.chain.iterations) == (6 + 10 + 1, 1)
    found = pressure_of((first, other, move), Scoreboard.RAW)
    assert found.chain is not None
    assert (found.chain.cycles, found.chain.iterations) == (17, 2)
    assert set(found.chain.origins) == {0, 1, 2}


def test_of_iterations_that_differ_there_is_the_most_and_no_chain() -> None:
    short = TimedInstruction("A", 1, 0, origin=0)
    long = TimedInstruction("A", 4, 0, origin=1)
    found = pressure_of((Choice(((short, short), (long,))),), Scoreboard.RAW)
    assert (found.chain, found.alone) == (None, None)
    assert found.units == {"A": PortUse({0: 2, 1: 4}, 4)}
    assert found.issue == PortUse({0: 2, 1: 1}, 2)
