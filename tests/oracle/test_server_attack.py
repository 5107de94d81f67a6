"""Servers behind the units (docs/methods/memory-servers.md): a small part of the attack."""

import pytest
from grid_attack import Family
from grid_machine import Grid, Op
from server_attack import ATTACKED, attack_blocks, attack_grids, longest, safe_of
from server_machine import Served, ServedGrid


@pytest.mark.parametrize("family", ATTACKED, ids=[one.name for one in ATTACKED])
def test_launches(family: Family) -> None:
    tally = attack_grids(family, range(150), 20)
    assert tally.witnesses == []
    assert sum(tally.broken.values()) > 0


@pytest.mark.parametrize("family", ATTACKED, ids=[one.name for one in ATTACKED])
def test_blocks(family: Family) -> None:
    tally = attack_blocks(family, range(200), 20)
    assert tally.witnesses == []


def test_what_a_warp_does_later_overtakes() -> None:
    """The others' work alone does not bound a warp: its own later instructions may go first."""
    first = (Served(0, 1, 0, memory=10), Served(1, 1, 0, memory=5))
    block = (first, (Op(0, 3, 0),))
    grid = Grid((block,), (1,), cores=1)
    found = max(longest(ServedGrid(grid), seed, 50) for seed in range(20))
    assert found > safe_of(block, 1, waits=False)
    assert found <= safe_of(block, 1)
