"""The adversary finds the known worst cases, and what it finds can be run again."""

from __future__ import annotations

import pytest
from known_blocks import GOLDEN, ONE_INIT, SAME, Path

from ptxwcet.simulator.adversary import search_long_schedule
from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.engine import Simulator
from ptxwcet.simulator.policies import Policy
from ptxwcet.warp.program import BlockWorkload, Scoreboard, WarpClass, WarpProgram

pytestmark = pytest.mark.fast


def simulator_of(*paths: Path) -> Simulator:
    classes = tuple(WarpClass(WarpProgram(path), (w,)) for w, path in enumerate(paths))
    return Simulator(BlockWorkload(classes, Scoreboard.RAW), SmConfiguration())


@pytest.mark.parametrize(
    ("paths", "worst"),
    [
        pytest.param((GOLDEN, GOLDEN), 18, id="paper example 1"),
        pytest.param((SAME, SAME), 11, id="identical"),
        pytest.param((ONE_INIT, ONE_INIT), 21, id="one initiation per unit"),
    ],
)
def test_known_worst_cases_are_found(paths: tuple[Path, ...], worst: int) -> None:
    simulator = simulator_of(*paths)
    found = search_long_schedule(simulator, len(paths), runs=2000)
    assert found.cycles == worst
    assert simulator.run_script(found.decisions).cycles == worst
    assert max(simulator.cycles(policy) for policy in Policy) < worst or worst == 18


def test_decisions_of_a_policy_repeat_its_run() -> None:
    simulator = simulator_of(GOLDEN, SAME, ONE_INIT)
    for policy in Policy:
        run = simulator.decide(policy, seed=3)
        assert run.cycles == simulator.cycles(policy, seed=3)
        again = simulator.run_script(run.decisions)
        assert again.cycles == run.cycles
        assert (again.decisions == run.decisions).all()


def test_search_is_repeatable_and_keeps_its_budget() -> None:
    simulator = simulator_of(GOLDEN, SAME, ONE_INIT)
    one = search_long_schedule(simulator, 3, runs=120, seed=5)
    two = search_long_schedule(simulator, 3, runs=120, seed=5)
    assert one.runs == 120
    assert (one.cycles, one.origin) == (two.cycles, two.origin)
    assert search_long_schedule(simulator, 3, runs=1).runs == 1


def test_a_single_warp_has_one_schedule() -> None:
    assert search_long_schedule(simulator_of(GOLDEN), 1).cycles == 14
