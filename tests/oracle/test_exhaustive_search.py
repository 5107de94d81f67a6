"""The compiled exhaustive search: known worst cases, naive enumeration, every policy's run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from known_blocks import DIFFERING, GOLDEN, LATENCIES, ONE_INIT, SAME
from refusals import refusal_of
from schedules import all_choices
from thoroughness import drawn
from warp_nodes import instructions
from warp_nodes import timed as i

from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.engine import Simulator
from ptxwcet.simulator.exhaustive import WorstCase, search_worst
from ptxwcet.simulator.policies import Policy
from ptxwcet.simulator.reference import reference_run
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.warp.program import (
    Barrier,
    BlockWorkload,
    PartialBarrier,
    Scoreboard,
    TimedInstruction,
    WarpClass,
    WarpProgram,
)

Step = TimedInstruction | Barrier | PartialBarrier
Path = tuple[Step, ...]
CONFIGURATIONS = [
    SmConfiguration(),
    SmConfiguration(2),
    SmConfiguration(2, {"A": 1}),
    SmConfiguration(1, {"A": 2}),
]
INSTRUCTIONS = instructions(
    "AAB", "abc", most_names=1, latencies=(0, 0, 1, 3, 7), bubbles=(0, 0, 0, 2)
)


def block(*paths: Path, scoreboard: Scoreboard = Scoreboard.RAW) -> BlockWorkload:
    classes: dict[Path, list[int]] = {}
    for warp, path in enumerate(paths):
        classes.setdefault(path, []).append(warp)
    return BlockWorkload(
        tuple(WarpClass(WarpProgram(path), tuple(warps)) for path, warps in classes.items()),
        scoreboard,
    )


@pytest.mark.parametrize(
    ("paths", "worst", "states"),
    [
        pytest.param((GOLDEN, GOLDEN), 18, 25, id="paper example 1"),
        pytest.param(DIFFERING, 8, 28, id="differing"),
        pytest.param((SAME, SAME), 11, 28, id="identical"),
        pytest.param((ONE_INIT, ONE_INIT), 21, 195, id="one initiation per unit"),
        pytest.param(LATENCIES, 48, 452, id="latencies"),
    ],
)
def test_published_worst_cases(paths: tuple[Path, ...], worst: int, states: int) -> None:
    found = search_worst(block(*paths), SmConfiguration())
    assert (found.cycles, found.states) == (worst, states)
    assert replayed(block(*paths), SmConfiguration(), found) == worst


def replayed(workload: BlockWorkload, configuration: SmConfiguration, found: WorstCase) -> int:
    """The witness on the plain simulator, which checks that every issue is a legal one."""
    schedule = iter(found.schedule)

    def choose(cycle: int, core: int, eligible: tuple[int, ...]) -> int:
        warp = next(schedule)
        assert warp in eligible
        return warp

    run = reference_run(workload, configuration, Policy.OLDEST, choose=choose)
    assert next(schedule, None) is None
    return run.cycles


# --- random blocks --------------------------------------------------------------------------------


@st.composite
def blocks(draw: st.DrawFn) -> BlockWorkload:
    """Two to four warps, equal ones among them, barriers of all and of two warps."""
    kinds = []
    barriers: list[Step] = [
        Barrier(draw(INSTRUCTIONS)),
        PartialBarrier(draw(INSTRUCTIONS), "1", 2, draw(st.booleans())),
    ]
    shared = draw(st.lists(st.sampled_from(barriers), max_size=1))
    for _ in range(2):
        first = tuple(draw(st.lists(INSTRUCTIONS, max_size=2)))
        second = tuple(draw(st.lists(INSTRUCTIONS, max_size=2)))
        kinds.append((*first, *shared, *second))
    dealt = draw(st.lists(st.integers(0, 1), min_size=2, max_size=4))
    paths = [kinds[kind] for kind in dealt]
    return block(*paths, scoreboard=draw(st.sampled_from(Scoreboard)))


def searched(workload: BlockWorkload, configuration: SmConfiguration) -> WorstCase | None:
    """The worst case; None if a schedule deadlocks."""
    try:
        return search_worst(workload, configuration)
    except PtxwcetError as error:
        if error.diagnostics[0].code != "PW532":
            raise
        return None


def every_run(workload: BlockWorkload, configuration: SmConfiguration) -> Iterator[int]:
    """The lengths of all schedules, one by one: no states, no merging, no symmetry."""
    for pick in all_choices():

        def choose(
            cycle: int, core: int, eligible: tuple[int, ...], pick: Callable[[int], int] = pick
        ) -> int:
            return eligible[pick(len(eligible))]

        yield reference_run(workload, configuration, Policy.OLDEST, choose=choose).cycles


@settings(max_examples=drawn(60), deadline=None)
@given(blocks(), st.sampled_from(CONFIGURATIONS))
def test_equal_to_naive_enumeration(
    workload: BlockWorkload, configuration: SmConfiguration
) -> None:
    found = searched(workload, configuration)
    if found is None:
        with pytest.raises(PtxwcetError):
            list(every_run(workload, configuration))
        return
    lengths = list(islice(every_run(workload, configuration), 1000))
    assert max(lengths) <= found.cycles
    if len(lengths) < 1000:
        assert max(lengths) == found.cycles
    assert replayed(workload, configuration, found) == found.cycles


@settings(max_examples=drawn(150), deadline=None)
@given(blocks(), st.sampled_from(CONFIGURATIONS))
def test_symmetry_changes_only_the_number_of_states(
    workload: BlockWorkload, configuration: SmConfiguration
) -> None:
    reduced = searched(workload, configuration)
    if reduced is None:
        return
    whole = search_worst(workload, configuration, symmetry=False)
    assert reduced.cycles == whole.cycles
    assert reduced.states <= whole.states
    simulator = Simulator(workload, configuration)
    for policy, seed in product(Policy, range(2)):
        assert simulator.cycles(policy, seed=seed) <= reduced.cycles
    assert replayed(workload, configuration, reduced) == reduced.cycles


def test_equal_warps_are_interchangeable() -> None:
    four = block(GOLDEN, GOLDEN, GOLDEN, GOLDEN)
    reduced = search_worst(four, SmConfiguration())
    whole = search_worst(four, SmConfiguration(), symmetry=False)
    assert reduced.cycles == whole.cycles
    assert 10 * reduced.states < whole.states


def test_refuses_above_its_cap() -> None:
    many = block(*[ONE_INIT] * 4)
    refusal = refusal_of(search_worst, many, SmConfiguration(), most_states=1000)
    assert refusal.code == "PW534"
    assert "1,000 states" in refusal.message


def test_deadlock_is_reported() -> None:
    barrier = Barrier(i("A", 1, 0))
    other = replace(barrier, name="1")
    assert (
        refusal_of(
            search_worst, block((barrier, i("A", 1, 0)), (other, i("A", 1, 0))), SmConfiguration()
        ).code
        == "PW532"
    )


def test_nothing_to_run() -> None:
    assert search_worst(block((), ()), SmConfiguration()).cycles == 0
    assert search_worst(block((), GOLDEN), SmConfiguration()).cycles == 14
