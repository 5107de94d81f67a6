"""Choices of a block are paired by their order: what is decided is none of the open ones."""

from __future__ import annotations

import pytest
from parsing import parse_kernel
from refusals import refusal_of

from ptxwcet.bounds.analysis import analyse_block
from ptxwcet.flow.graph.cfg import build_cfg
from ptxwcet.flow.walk.path import Path, PathChoice, Visit, WarpPath
from ptxwcet.machine.loader import load_machine
from ptxwcet.timing.cost import InstructionCosts
from ptxwcet.timing.programs import build_workload

pytestmark = pytest.mark.fast

TEXT = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k()
{
.reg .pred %p<2>;
@%p1 bra SKIP;
bar.sync 0;
SKIP: ret;
}
"""
KERNEL = parse_kernel(TEXT)
MACHINE = load_machine("orin-ecrts2025")
WAITS: Path = (Visit(0, False), Visit(1, False))
DECIDED: Path = (Visit(0, True),)
OPEN: Path = (PathChoice(((Visit(0, True),), WAITS), 0),)
END: Path = (Visit(2, False),)


def bounded(*paths: Path) -> None:
    costs, cfg = InstructionCosts(MACHINE, 32 * len(paths)), build_cfg(KERNEL)
    warps = tuple(WarpPath(path, (warp,)) for warp, path in enumerate(paths))
    analyse_block(build_workload(warps, KERNEL, cfg, costs, MACHINE.scoreboard), MACHINE, ())


def test_decided_and_open_visits_in_another_order() -> None:
    assert refusal_of(bounded, (*DECIDED, *OPEN, *END), (*OPEN, *DECIDED, *END)).code == "PW502"


@pytest.mark.parametrize("path", [(*DECIDED, *OPEN, *END), (*OPEN, *OPEN, *END)])
def test_visits_in_the_same_order(path: Path) -> None:
    bounded(path, path)
