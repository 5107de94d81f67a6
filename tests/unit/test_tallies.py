"""Where totals become tallies, how visits are counted, and closed forms that are easily wrong."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from parsing import parse_file
from places import FLOW

from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.flow.facts.totals import count_visits
from ptxwcet.flow.graph.cfg import build_cfg
from ptxwcet.flow.launch import PlacedTotal
from ptxwcet.flow.walk.path import (
    AffineCount,
    PathEnd,
    PathFork,
    PathNode,
    PathParts,
    PathRepeat,
    Visit,
    WarpPath,
)
from ptxwcet.machine.loader import load_machine
from ptxwcet.opened.request import Request
from ptxwcet.timing.cost import InstructionCosts
from ptxwcet.timing.demand import find_limits
from ptxwcet.timing.phases import profile_warp
from ptxwcet.timing.programs import build_workload
from ptxwcet.warp.program import Repeat, Scoreboard, Tally, TimedInstruction

pytestmark = pytest.mark.fast

MACHINE = load_machine("orin-ecrts2025")
KERNEL = next(one for one in parse_file(FLOW / "totals.ptx").kernels if one.name == "rows")
HERE, OTHER = Visit(3, False), Visit(2, False)
TOTAL = PlacedTotal("visits", "a test", 2, frozenset({(3, True), (3, False)}))
END = PathEnd(Visit(2, True), (), OTHER)


def times(most: int, least: int, *body: PathNode) -> PathRepeat:
    return PathRepeat(AffineCount(most), AffineCount(least), body)


def is_tallied(*nodes: PathNode) -> bool:
    costs = InstructionCosts(MACHINE, 32)
    path = WarpPath(nodes, (0,))
    cfg = build_cfg(KERNEL)
    workload = build_workload((path,), KERNEL, cfg, costs, Scoreboard.RAW, totals=(TOTAL,))
    return bool(find_limits(workload.classes[0].program.body))


@pytest.mark.parametrize(
    ("nodes", "tallied"),
    [
        ((times(5, 5, HERE),), True),
        ((times(5, 0, HERE),), True),
        ((END, times(5, 1, HERE)), False),  # the run may end before what must follow
        ((END, times(5, 0, HERE)), True),
        ((times(5, 0, HERE, END),), False),
        ((PathFork(2, (HERE,), (), straight=True, jumps=True),), True),
        ((PathFork(3, (), (), straight=True, jumps=True),), True),  # however it goes
        ((PathParts(2, ((times(5, 0, HERE),),), 1),), False),
        ((PathParts(2, ((times(5, 0, HERE),),)),), False),
    ],
)
def test_what_is_tallied(nodes: tuple[PathNode, ...], tallied: bool) -> None:
    assert is_tallied(*nodes) == tallied


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ((times(4, 4, PathRepeat(AffineCount(1), AffineCount(1), (HERE,), step=2)),), (16, 16)),
        ((times(4, 2, HERE, HERE),), (4, 8)),
        ((times(4, 2, HERE), END), (0, 4)),
        ((PathFork(2, (HERE,), (HERE, HERE), straight=False, jumps=True),), (1, 3)),
        ((PathParts(3, ((HERE,),), 1), PathParts(2, ((HERE, HERE), (HERE,)))), (0, 7)),
    ],
)
def test_visits_are_counted(nodes: tuple[PathNode, ...], expected: tuple[int, int]) -> None:
    assert count_visits(nodes, TOTAL.visits) == expected


def test_a_queue_that_grows_by_less_than_nothing_is_left_alone() -> None:
    """Iterations that cost more than they bring are not taken: the long queue of A stays."""
    a, b = TimedInstruction("A", 1, 0), TimedInstruction("B", 1, 0)
    inner = Repeat(5, (Tally("n", 9), a), 0)
    body = (TimedInstruction("A", 500, 0), Repeat(300, (inner, b)), a)
    profile = profile_warp(body, Scoreboard.RAW, {"n": 3})
    assert profile.isolated_cycles == 501


def test_calls_that_must_happen_contradict_a_smaller_total(tmp_path: Path) -> None:
    ptx = FLOW / "functions.ptx"
    digest = hashlib.sha256(ptx.read_bytes()).hexdigest()
    facts = tmp_path / "facts.toml"
    for total in (5, 6):
        call = f'[[call]]\nkernel = "triangle"\nfunction = "_Z3sumPKfii"\ntotal = {total}\n'
        facts.write_text(f'ptx = "sha256:{digest}"\n{call}')
        request = Request(
            str(ptx), ("triangle",), block="32", parameters=("n=6",), facts_file=str(facts)
        )
        (row,) = bound_file(request).kernels
        if total == 6:
            assert isinstance(row, KernelAnalysis)
            continue
        assert not isinstance(row, KernelAnalysis)
        assert row.diagnostics[0].code == "PW217"
        assert "says 5 calls of sum" in row.diagnostics[0].render()
        assert "at least 6" in row.diagnostics[0].render()
