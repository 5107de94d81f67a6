"""Kernels that were bounded below what they execute, each for a belief of the walk that was wrong.

``late_end``: what the lanes that end a loop execute before they meet those that have left it early
was taken for done by all. ``parted_exit``: behind a loop that lanes leave by parting, an unknown
register was bounded by what the loop adds to it, though it was loaded on the way out.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from path_attack import attack, machine

from ptxwcet.flow.facts import Launch
from ptxwcet.ptx.parser import parse_module
from ptxwcet.support.source import SourceFile

DATA = Path(__file__).parents[1] / "data" / "unsound"
LAUNCH = Launch((32, 1, 1))

BOUNDED = ["late_end"]
REFUSED = ["parted_exit"]


@pytest.mark.parametrize("name", [*BOUNDED, *REFUSED])
def test_no_execution_exceeds_what_is_said_of_it(name: str) -> None:
    path = DATA / f"{name}.ptx"
    (kernel,) = parse_module(SourceFile(path.name, path.read_text())).kernels
    found = attack(kernel, LAUNCH, machine(), seed=1, executions=40, steps=4000)
    assert not found.violations
    assert (found.code is None) == (name in BOUNDED)
