"""Servers behind the units (docs/methods/memory-servers.md): a small part of the attack."""

from dataclasses import replace

import pytest
from grid_attack import Family, bubble_of, kind_of, pieces_of
from grid_machine import Grid, Op
from server_attack import (
    ATTACKED,
    attack_blocks,
    attack_grids,
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


def test_what_a_warp_does_later_overtakes() -> None:
    """The others' work alone does not bound a warp: its own later instructions may go first."""
    first = (Served(0, 1, 0, memory=10), Served(1, 1, 0, memory=5))
    block = (first, (Op(0, 3, 0),))
    grid = Grid((block,), (1,), cores=1)
    found = max(longest(ServedGrid(grid), seed, 50) for seed in range(20))
    assert found > safe_of(block, 1, waits=False)
    assert found <= safe_of(block, 1)
