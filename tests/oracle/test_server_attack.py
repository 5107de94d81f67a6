"""Servers behind the units (docs/methods/memory-servers.md): a small part of the attack."""

from dataclasses import replace

import pytest
from grid_attack import Family, bubble_of, kind_of, pieces_of
from grid_machine import Grid, Op
from server_attack import (
    ATTACKED,
    FED,
    attack_blocks,
    attack_fed,
    attack_grids,
    keeping_up,
    longest,
    machine_of,
    random_served,
    safe_of,
    workload_of,
)
from server_machine import Served, ServedGrid, arrays, first_come_run, served_demand

from ptxwcet.bounds.analysis import analyse_block
from ptxwcet.bounds.grid_demand import block_kind
from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.engine import Simulator
from ptxwcet.simulator.policies import Policy
from ptxwcet.simulator.reference import reference_run


@pytest.mark.every(2)
@pytest.mark.parametrize("family", ATTACKED, ids=[one.name for one in ATTACKED])
def test_launches(family: Family) -> None:
    tally = attack_grids(family, range(90), 20)
    assert tally.witnesses == []
    assert sum(tally.broken.values()) > 0


@pytest.mark.every(2)
@pytest.mark.parametrize("family", ATTACKED, ids=[one.name for one in ATTACKED])
def test_blocks(family: Family) -> None:
    tally = attack_blocks(family, range(100), 20)
    assert tally.witnesses == []


@pytest.mark.parametrize("family", ATTACKED, ids=[one.name for one in ATTACKED])
def test_the_product_charges_what_the_attack_does(family: Family) -> None:
    """Launches are attacked with what the definitions say of a block: so does the product."""
    charged = 0
    for seed in range(60):
        grid = random_served(family, seed).grid
        for block in grid.kinds:
            units = 1 + max((op.unit for warp in block for op in warp), default=0)
            kind = block_kind(analyse_block(workload_of(block), machine_of(grid.cores, units)), 1)
            said = served_demand(block, grid.cores)
            assert kind.work_cycles == said.units.work + said.path
            assert kind.busiest_cycles == said.units.busiest + said.path
            assert kind.sectors == said.memory
            # the barriers of a block of one warp are ordinary instructions, if that is less
            is_less = kind.slack_cycles < said.units.slack and len(block) == 1
            assert kind.slack_cycles == said.units.slack or is_less
            if len(block) > 1:
                expected = kind_of(1, said.units, path=said.path)
                assert pieces_of(kind) == pieces_of(expected, bubble_of(block))
            charged += bool(said.path and said.memory)
    assert charged


@pytest.mark.parametrize("family", ATTACKED, ids=[one.name for one in ATTACKED])
def test_the_simulators_are_this_machine(family: Family) -> None:
    """A block alone, the oldest warp first, servers in the order of arrival: to the cycle."""
    waited = 0
    for seed in range(60):
        grid = random_served(family, seed).grid
        for block in grid.kinds:
            if not any(block):
                continue
            one = replace(grid, kinds=(block,), counts=(1,), sms=1, slots=1)
            expected = first_come_run(*arrays(ServedGrid(one), (0,)))
            shape = SmConfiguration(grid.cores, memory_cycles=1024)
            workload = workload_of(block)
            assert Simulator(workload, shape).cycles(Policy.OLDEST) == expected
            assert reference_run(workload, shape, Policy.OLDEST).cycles == expected
            without = SmConfiguration(grid.cores)
            waited += Simulator(workload, without).cycles(Policy.OLDEST) != expected
    assert waited


FEWER = (FED, *ATTACKED[1::2])


@pytest.mark.parametrize("family", FEWER, ids=[one.name for one in FEWER])
def test_a_path_that_keeps_up(family: Family) -> None:
    """No access spends more at the path than the theorem says, and some spend just that."""
    tally = attack_fed(family, range(15), 20)
    assert tally.witnesses == []
    assert tally.as_claimed > 0
    assert tally.less > 0
    assert sum(tally.broken.values()) > 0


def longest_of(served: ServedGrid) -> int:
    return max(longest(served, seed, 20) for seed in range(5))


def test_both_sub_cores_come_at_once() -> None:
    """4 cycles in the units, then 2 at the path for either: nothing less than Q p will do."""
    access = Served(0, 4, 0, path=2)
    served = ServedGrid(Grid((((access,), (access,)),), (1,), cores=2), feeders=2)
    assert safe_of(keeping_up(served).grid.kinds[0], 2) == 8
    assert longest_of(served) == 8
    assert safe_of(keeping_up(served, burst=False).grid.kinds[0], 2) == 6


def test_the_time_before_the_path_must_not_vary() -> None:
    """The first is late, so that the last waits for it, and is late after that."""
    served = ServedGrid(Grid((((Served(0, 2, 4, path=2),) * 3,),), (1,)), feeders=1)
    assert safe_of(keeping_up(served).grid.kinds[0], 1) == 4 + 2 + 4 + 2
    assert longest_of(served) == 12
    assert longest_of(replace(served, false=3)) == 14


def test_feeders_must_not_be_faster_than_is_said() -> None:
    """Twelve accesses of the one warp stand before the last of the other, and its 60 cycles."""
    many = (Served(0, 4, 0, path=2),) * 12
    other = (*(Op(1, 1, 0),) * 12, Served(0, 4, 0, path=2), Op(1, 60, 0, reads=(12,)))
    served = ServedGrid(Grid(((many, other),), (1,), cores=2), feeders=2)
    bound = safe_of(keeping_up(served).grid.kinds[0], 2)
    assert bound == 12 + 4 + 4 + 60
    assert longest_of(served) <= bound < longest_of(replace(served, false=4))


def test_an_access_must_not_take_more_than_its_unit() -> None:
    """4 cycles in the unit of either sub-core and 4 at the path of both: what waits grows."""
    many = (Served(0, 4, 0, path=4),) * 12
    block = (many, (*many, Op(1, 60, 0, reads=(11,))))
    served = ServedGrid(Grid((block,), (1,), cores=2), feeders=2)
    bound = safe_of(keeping_up(served).grid.kinds[0], 2)
    assert bound == 12 * 4 + 8 + 60
    assert longest_of(replace(served, feeders=1)) > bound


def test_what_a_warp_does_later_overtakes() -> None:
    """The others' work alone does not bound a warp: its own later instructions may go first."""
    first = (Served(0, 1, 0, memory=10), Served(1, 1, 0, memory=5))
    block = (first, (Op(0, 3, 0),))
    grid = Grid((block,), (1,), cores=1)
    found = max(longest(ServedGrid(grid), seed, 50) for seed in range(20))
    assert found > safe_of(block, 1, waits=False)
    assert found <= safe_of(block, 1)
