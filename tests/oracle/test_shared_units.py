"""SAFE on units with several servers and units that sub-cores share, against all schedules."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import drawn
from warp_nodes import instructions

from ptxwcet.bounds.analysis import BlockAnalysis, analyse_block
from ptxwcet.bounds.gub import bound_gub
from ptxwcet.bounds.lower import bound_lower
from ptxwcet.bounds.safe import bound_safe
from ptxwcet.claims import Refusal
from ptxwcet.machine.loader import load_machine
from ptxwcet.machine.model import FunctionalUnit
from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.engine import Simulator
from ptxwcet.simulator.exhaustive import search_worst
from ptxwcet.simulator.policies import Jitter, Policy
from ptxwcet.warp.program import (
    Barrier,
    BlockWorkload,
    Scoreboard,
    TimedInstruction,
    WarpClass,
    WarpProgram,
)

Path = tuple[TimedInstruction | Barrier, ...]
# schedulers, servers of A and of B: several, shared by all, by neighbours, one queue for two
SHAPES = [(1, 2, 3), (2, 1, 2), (2, 1, 1), (2, 4, 1), (3, 1, 3), (2, 3, 2), (4, 2, 1)]
INSTRUCTIONS = instructions(
    "AAB", "abc", most_names=1, most_initiation=6, latencies=(0, 0, 1, 3, 7), bubbles=(0, 0, 0, 2)
)


def analysis_of(workload: BlockWorkload, shape: tuple[int, int, int]) -> BlockAnalysis:
    schedulers, servers_a, servers_b = shape
    machine = replace(
        load_machine(),
        schedulers_per_sm=schedulers,
        units=(FunctionalUnit("A", servers_a), FunctionalUnit("B", servers_b)),
        timings=MappingProxyType({}),
    )
    return analyse_block(workload, machine)


def configuration_of(shape: tuple[int, int, int]) -> SmConfiguration:
    return SmConfiguration(shape[0], {"A": shape[1], "B": shape[2]})


@st.composite
def blocks(draw: st.DrawFn, most: int) -> BlockWorkload:
    count = draw(st.integers(2, 4))
    barrier: Path = (Barrier(TimedInstruction("A", 2, 1)),) if draw(st.booleans()) else ()
    kinds: list[Path] = []
    for _ in range(draw(st.integers(1, 2))):
        first = tuple(draw(st.lists(INSTRUCTIONS, max_size=most)))
        kinds.append((*first, *barrier, *draw(st.lists(INSTRUCTIONS, max_size=most))))
    dealt = [draw(st.integers(0, len(kinds) - 1)) for _ in range(count)]
    classes = tuple(
        WarpClass(WarpProgram(kind), tuple(w for w in range(count) if dealt[w] == index))
        for index, kind in enumerate(kinds)
    )
    return BlockWorkload(classes, draw(st.sampled_from(Scoreboard)))


@settings(max_examples=drawn(150), deadline=None)
@given(blocks(2), st.sampled_from(SHAPES))
def test_safe_covers_every_schedule(workload: BlockWorkload, shape: tuple[int, int, int]) -> None:
    bound = bound_safe(analysis_of(workload, shape)).cycles
    assert search_worst(workload, configuration_of(shape)).cycles <= bound


@settings(max_examples=drawn(150), deadline=None)
@given(blocks(6), st.sampled_from(SHAPES), st.integers(0, 1000))
def test_safe_covers_policies_and_jitter(
    workload: BlockWorkload, shape: tuple[int, int, int], seed: int
) -> None:
    bound = bound_safe(analysis_of(workload, shape)).cycles
    simulator = Simulator(workload, configuration_of(shape))
    for policy in Policy:
        for percent in (0, 50):
            jitter = Jitter(percent, seed)
            assert simulator.cycles(policy, seed=seed, jitter=jitter) <= bound


def test_initiations_elsewhere_count_on_a_shared_unit_only() -> None:
    """Two warps on two sub-cores: on one shared server the second waits, on two it does not."""
    long = WarpProgram((TimedInstruction("A", 5, 0), TimedInstruction("B", 1, 0)))
    workload = BlockWorkload((WarpClass(long, (0, 1)),), Scoreboard.RAW)
    private = bound_safe(analysis_of(workload, (2, 2, 2))).cycles
    shared = bound_safe(analysis_of(workload, (2, 1, 2))).cycles
    assert (private, shared) == (5, 10)
    assert search_worst(workload, SmConfiguration(2, {"A": 1, "B": 2})).cycles == 10


@pytest.mark.parametrize("shape", [(1, 2, 1), (2, 1, 2)])
def test_other_methods_refuse(shape: tuple[int, int, int]) -> None:
    program = WarpProgram((TimedInstruction("A", 5, 0),))
    workload = BlockWorkload((WarpClass(program, (0, 1)),), Scoreboard.RAW)
    analysis = analysis_of(workload, shape)
    for method in (bound_gub, bound_lower):
        outcome = method(analysis)
        assert isinstance(outcome, Refusal)
        assert "private server" in outcome.reason
