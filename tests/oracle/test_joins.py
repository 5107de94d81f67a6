"""The theorems of docs/methods/barriers.md against a machine that knows nothing of the product."""

from __future__ import annotations

import pytest
from join_attack import CONTROLS, FAMILIES, TINY, Family, attack, search_all
from join_machine import (
    DeadlockError,
    Join,
    Machine,
    NoGraphError,
    Op,
    event_graph,
    run_blocks,
    say,
)


@pytest.mark.parametrize("family", [*FAMILIES, TINY], ids=lambda one: one.name)
def test_no_run_exceeds_a_bound_or_a_clock(family: Family) -> None:
    tally = attack(family, range(60), runs=8)
    assert tally.witnesses == []
    assert tally.cases > 10


def test_no_schedule_of_a_tiny_block_exceeds_the_bound_or_has_other_phases() -> None:
    tally = search_all(range(60), most=1500)
    assert tally.witnesses == []
    assert tally.cases > 20
    assert tally.equal > 3  # some schedules reach it


@pytest.mark.parametrize("control", [one for one in CONTROLS if one not in ("order", "slack")])
def test_each_part_of_the_claim_along_the_graph_is_needed(control: str) -> None:
    found = [attack(family, range(60), runs=6, without=control) for family in FAMILIES[:2]]
    assert sum(one.exceeded + one.clocks for one in found) > 0


def test_groups_need_their_slack() -> None:
    assert attack(FAMILIES[0], range(20), runs=4, without="slack").serial > 0


def test_phases_must_be_known_to_be_over() -> None:
    assert search_all(range(60), most=300, without="order").exceeded > 0


def test_an_arrival_too_early_completes_a_phase_for_another() -> None:
    """The producer arrives twice: if both are first, the consumer waits for ever."""
    producer = (Op(0, join=Join(1, 2, waits=False)), Op(0, join=Join(1, 2, waits=False)))
    consumer = (Op(0, join=Join(1, 2)), Op(0, join=Join(1, 2)))
    block = (consumer, producer)
    with pytest.raises(NoGraphError, match="knows"):
        event_graph(block)
    event_graph(block, ordered=False)
    with pytest.raises(DeadlockError):
        run_blocks((block,), Machine(), lambda n: n - 1)


def test_a_block_of_two_groups_takes_the_slower_one() -> None:
    """Each pair meets twice; the pairs have nothing to do with each other."""
    pair = [
        (Op(0, 1, lat), Op(0, reads=(0,), join=Join(name, 2))) for name, lat in ((1, 9), (2, 5))
    ]
    block = tuple(warp for warp in pair for _ in range(2))
    machine = Machine(cores=4)
    said = say(block, event_graph(block), machine)
    assert (said.slack, said.work) == (9, 8)
    assert said.serial == 9 + 2 + 0 + 0
    run = run_blocks((block,), machine, lambda _: 0, said=[said])
    assert run.cycles == 11 <= min(said.slack + said.work, said.serial)
