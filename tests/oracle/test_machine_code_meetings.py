"""How often a warp issues what waits for lanes that have parted: executed, and as it is charged.

Each group of lanes that comes to a BSYNC issues it, however few they are. A path has one visit of
its block, so that timing has to charge it once for each group that may come.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sass_execution
from places import DATA

from ptxwcet.emulator.launch import EmulatedLaunch
from ptxwcet.flow.launch import Launch
from ptxwcet.machine.loader import load_machine
from ptxwcet.sass.lowering import read_program
from ptxwcet.sass.translation import translated_program
from ptxwcet.support.source import SourceFile
from ptxwcet.timing.launch_costs import LaunchCosts

LISTING = Path(DATA) / "sass" / "meeting_86.sass"


def issued(threads: int, monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """How often the warp issues each BSYNC in a run, by its address; each has one meeting."""
    module = read_program(SourceFile("k.cubin", LISTING.read_text(encoding="utf-8")))
    found: Counter[int] = Counter()
    original = sass_execution._Block.do_bsync

    def counted(self: Any, instruction: Any, *given: Any) -> None:
        found[instruction.start] += 1
        original(self, instruction, *given)

    monkeypatch.setattr(sass_execution._Block, "do_bsync", counted)
    launch = EmulatedLaunch((threads, 1, 1), (1, 1, 1), (np.zeros(256, np.int32), 3))
    (kernel,) = module.kernels
    program = sass_execution.Program(kernel, module)
    program.keeps_apart = True
    sass_execution.run_machine_code(program, launch)
    return found


def charged(threads: int, listing: Path = LISTING, name: str = "BSYNC") -> dict[int, int]:
    """How often each BSYNC is charged at a visit of its block, by its place in the text."""
    module = read_program(SourceFile("k.cubin", listing.read_text(encoding="utf-8")))
    (kernel,) = translated_program(module).kernels
    costs = LaunchCosts(kernel, Launch((threads, 1, 1)), load_machine("orin-ecrts2025"))
    return {
        one.start: len(costs.nodes(index, one))
        for index, one in enumerate(kernel.instructions)
        if one.mnemonic == name
    }


@pytest.mark.parametrize("threads", [1, 5, 32])
def test_each_group_that_comes_is_charged(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    executed, most = issued(threads, monkeypatch), charged(threads)
    assert executed
    assert all(times <= most[place] for place, times in executed.items())


def test_lanes_come_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    assert max(issued(32, monkeypatch).values()) == 8  # they leave the loop in 8 iterations
    assert sorted(charged(32).values())[-1] == 32  # which is not known
    assert set(charged(1).values()) == {1}


def test_an_indexed_branch_parts_lanes_as_many_ways_as_it_has_targets() -> None:
    """A BRX of 32 targets by data, each with a store: each lane comes by itself."""
    assert set(charged(32, LISTING.with_name("switched_86.sass")).values()) == {32}
    assert set(charged(5, LISTING.with_name("switched_86.sass")).values()) == {5}
