"""Skipping repetitions of the joint state changes nothing but the number of steps."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusal_of
from thoroughness import drawn
from warp_nodes import instructions, served

from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.engine import Simulator
from ptxwcet.simulator.policies import Policy
from ptxwcet.warp.program import (
    Barrier,
    BlockWorkload,
    Node,
    Repeat,
    Scoreboard,
    TimedInstruction,
    WarpClass,
    WarpProgram,
)

DETERMINISTIC = [policy for policy in Policy if policy is not Policy.RANDOM]
BARRIER = Barrier(TimedInstruction("A", 1, 2, origin=7))
INSTRUCTIONS = instructions(
    "ABC", "abcd", unique_names=False, latencies=(0, 1, 3, 7, 20), bubbles=(0, 0, 1)
)
SERVED = served(INSTRUCTIONS, 1500)


def bodies() -> st.SearchStrategy[tuple[Node, ...]]:
    """Loops inside loops, with small and large counts; what runs long has to repeat."""

    def wider(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
        body = st.lists(inner, min_size=1, max_size=3).map(tuple)
        return st.builds(Repeat, st.sampled_from((1, 2, 3, 9, 40)), body)

    return st.lists(st.recursive(SERVED, wider, max_leaves=4), max_size=4).map(tuple)


@st.composite
def workloads(draw: st.DrawFn) -> BlockWorkload:
    count = draw(st.integers(1, 5))
    rounds = draw(st.sampled_from((0, 0, 1, 30)))
    programs = []
    for _ in range(draw(st.integers(1, min(2, count)))):
        body = draw(bodies())
        if rounds:
            body = (*body, Repeat(rounds, (*draw(bodies()), BARRIER, *draw(bodies()))))
        programs.append(WarpProgram(body))
    dealt = [draw(st.integers(0, len(programs) - 1)) for _ in range(count)]
    classes = tuple(
        WarpClass(program, tuple(w for w in range(count) if dealt[w] == index))
        for index, program in enumerate(programs)
    )
    return BlockWorkload(classes, draw(st.sampled_from(Scoreboard)))


CONFIGURATIONS = [
    SmConfiguration(),
    SmConfiguration(2),
    SmConfiguration(2, {"A": 1, "B": 4}),
    SmConfiguration(1, {"A": 3}),
    SmConfiguration(memory_cycles=79),
    SmConfiguration(2, {"A": 1}, memory_cycles=1500),
]


@settings(max_examples=drawn(150), deadline=None)
@given(workloads(), st.sampled_from(DETERMINISTIC), st.sampled_from(CONFIGURATIONS))
def test_skipping_changes_nothing(
    workload: BlockWorkload, policy: Policy, configuration: SmConfiguration
) -> None:
    simulator = Simulator(workload, configuration)
    whole = simulator.run(policy, skip_repeats=False)
    skipped = simulator.run(policy)
    assert whole.stepped == whole.instructions == simulator.instructions
    assert replace(skipped, stepped=whole.stepped) == whole
    for warp in whole.warps:
        spent = warp.stalls.cycles + warp.drain_cycles + warp.finished_cycles
        assert spent == whole.cycles


def sgemm_like(count: int) -> BlockWorkload:
    load = TimedInstruction("GMEM", 1, 203, ("p",), ("x",))
    multiply = TimedInstruction("SP", 1, 7, ("x", "s"), ("s",))
    step = TimedInstruction("INT", 2, 6, ("p",), ("p",))
    inner = Repeat(count, (multiply, step))
    body = (load, BARRIER, inner, BARRIER)
    program = WarpProgram((step, Repeat(count, body)))
    return BlockWorkload((WarpClass(program, tuple(range(32))),), Scoreboard.RAW_WAW)


@pytest.mark.parametrize("policy", DETERMINISTIC)
def test_cost_does_not_grow_with_trip_counts(policy: Policy) -> None:
    """A thousand and a million iterations of both loops: steps within a small factor."""
    few = Simulator(sgemm_like(1000), SmConfiguration()).run(policy)
    many = Simulator(sgemm_like(10**6), SmConfiguration()).run(policy)
    assert many.instructions > 10**13
    assert many.stepped <= 2 * few.stepped < 10**6
    assert few.repeats
    assert many.repeats


def test_a_growing_queue_never_repeats() -> None:
    """Stores enter a unit faster than it takes them: the run is stepped whole, or refused."""
    store = TimedInstruction("DP", 64, 4)
    program = WarpProgram((Repeat(5000, (store,)),))
    block = BlockWorkload((WarpClass(program, (0, 1)),), Scoreboard.RAW)
    simulator = Simulator(block, SmConfiguration())
    run = simulator.run(Policy.LRR)
    assert run.cycles == 64 * 10_000 + 4
    assert not run.repeats
    assert refusal_of(simulator.run, Policy.LRR, limit=9_999).code == "PW533"
