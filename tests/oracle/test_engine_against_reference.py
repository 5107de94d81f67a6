"""The compiled engine against the plain reference: two programs, one machine.

Cycles, every event, and where every cycle of every warp went must agree, for all policies, with
jitter, barriers of the block and of a part of it, products of warpgroups, several sub-cores and
several servers.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import drawn
from warp_nodes import instructions, served

from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.engine import Simulator
from ptxwcet.simulator.policies import Jitter, Policy
from ptxwcet.simulator.reference import reference_run
from ptxwcet.simulator.run import SimulatedRun
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.warp.program import (
    Barrier,
    BlockWorkload,
    Node,
    PartialBarrier,
    Repeat,
    Scoreboard,
    WarpClass,
    WarpProgram,
)

CONFIGURATIONS = [
    SmConfiguration(),
    SmConfiguration(2),
    SmConfiguration(3, {"A": 1, "B": 3, "C": 6}),
    SmConfiguration(2, {"A": 1, "B": 3}),
    SmConfiguration(1, {"A": 2, "C": 3}),
    SmConfiguration(memory_cycles=79),
    SmConfiguration(2, {"A": 1}, memory_cycles=1500),
    SmConfiguration(4),
]
INSTRUCTIONS = instructions(
    "ABC", "abcd", unique_names=False, latencies=(0, 1, 3, 7, 20), bubbles=(0, 0, 1, 2)
)
SERVED = served(INSTRUCTIONS, 1500)


PRODUCTS = INSTRUCTIONS.map(lambda one: replace(one, joins=True))


def bodies(leaves: st.SearchStrategy[Node] = SERVED) -> st.SearchStrategy[tuple[Node, ...]]:
    def wider(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
        body = st.lists(inner, min_size=1, max_size=3).map(tuple)
        return st.builds(Repeat, st.integers(0, 4), body)

    return st.lists(st.recursive(leaves, wider, max_leaves=4), max_size=4).map(tuple)


@st.composite
def barriers(draw: st.DrawFn, count: int) -> Node:
    """Of the block, under one of two names, or of some warps, who may only arrive."""
    instruction = replace(draw(INSTRUCTIONS), origin=draw(st.integers(5, 6)))
    if draw(st.integers(0, 3)):
        return Barrier(instruction, draw(st.sampled_from(("0", "0", "0", "1"))))
    return PartialBarrier(instruction, "2", draw(st.integers(1, count)), draw(st.booleans()))


@st.composite
def workloads(draw: st.DrawFn) -> BlockWorkload:
    """Warps that may well deadlock: then both programs must say so."""
    count = draw(st.integers(1, 6))
    programs: list[tuple[Node, ...]] = []
    shared = [draw(barriers(count)) for _ in range(draw(st.integers(0, 2)))]
    for _ in range(draw(st.integers(1, min(3, count)))):
        body = draw(bodies())
        for barrier in shared if draw(st.integers(0, 4)) else shared[1:]:
            section = (barrier, *draw(bodies()))
            times = draw(st.sampled_from((1, 1, 1, 3)))
            body = (*body, Repeat(times, section))
        programs.append(body)
    dealt = [draw(st.integers(0, len(programs) - 1)) for _ in range(count)]
    classes = tuple(
        WarpClass(WarpProgram(program), tuple(w for w in range(count) if dealt[w] == index))
        for index, program in enumerate(programs)
    )
    return BlockWorkload(classes, draw(st.sampled_from(Scoreboard)))


@st.composite
def warpgroups(draw: st.DrawFn) -> BlockWorkload:
    """One or two of them, alike or not, with warps beside them; a few are not whole."""
    leaves: st.SearchStrategy[Node] = st.one_of(SERVED, PRODUCTS)
    groups = draw(st.sampled_from((3, 4, 4, 4, 8, 8)))
    programs = [(draw(PRODUCTS), *draw(bodies(leaves))) for _ in range(draw(st.integers(1, 2)))]
    dealt = [warp // 4 % len(programs) for warp in range(groups)]
    programs.append(draw(bodies()))
    dealt += [len(programs) - 1] * draw(st.integers(0, 2))
    if draw(st.booleans()):
        meet = Barrier(replace(draw(INSTRUCTIONS), origin=5))
        programs = [(*one, meet, *draw(bodies())) for one in programs]
    classes = tuple(
        WarpClass(WarpProgram(program), tuple(w for w, kind in enumerate(dealt) if kind == index))
        for index, program in enumerate(programs)
    )
    return BlockWorkload(
        tuple(one for one in classes if one.warps), draw(st.sampled_from(Scoreboard))
    )


def run_of_reference(
    workload: BlockWorkload,
    configuration: SmConfiguration,
    policy: Policy,
    seed: int,
    jitter: Jitter,
) -> SimulatedRun | None:
    """The run; None for a deadlock."""
    try:
        return reference_run(workload, configuration, policy, seed=seed, jitter=jitter)
    except PtxwcetError as error:
        if error.diagnostics[0].code != "PW532":
            raise
        return None


@settings(max_examples=drawn(150), deadline=None)
@given(
    st.one_of(workloads(), warpgroups()),
    st.sampled_from(Policy),
    st.sampled_from(CONFIGURATIONS),
    st.sampled_from((0, 0, 30, 100)),
    st.integers(0, 2**62),
)
def test_both_simulators_agree(
    workload: BlockWorkload,
    policy: Policy,
    configuration: SmConfiguration,
    percent: int,
    seed: int,
) -> None:
    jitter = Jitter(percent, seed // 3)
    simulator = Simulator(workload, configuration)
    expected = run_of_reference(workload, configuration, policy, seed, jitter)
    if expected is None:
        with pytest.raises(PtxwcetError, match="deadlock"):
            simulator.run(policy, seed=seed, jitter=jitter)
        return
    found = simulator.run(policy, seed=seed, jitter=jitter, record=10_000)
    assert found == expected
    skipped = simulator.run(policy, seed=seed, jitter=jitter)
    assert replace(skipped, stepped=found.stepped, events=found.events) == found
