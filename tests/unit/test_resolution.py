"""A resolution is a single path that the workload allows, and every allowed path is found."""

from __future__ import annotations

import pytest

from ptxwcet.simulator.resolution import resolve_workload
from ptxwcet.warp.program import (
    BlockWorkload,
    Choice,
    Node,
    Repeat,
    Scoreboard,
    TimedInstruction,
    Unordered,
    WarpClass,
    WarpProgram,
    unroll,
)

pytestmark = pytest.mark.fast


def block(*body: Node) -> BlockWorkload:
    return BlockWorkload((WarpClass(WarpProgram(body), (0, 1)),), Scoreboard.RAW)


A, B, C = (TimedInstruction(unit, 1, 0) for unit in "ABC")
OPEN = block(Unordered((A,), (B, C)), Repeat(3, (Choice(((A,), (C,))),), 2))


def units(workload: BlockWorkload) -> str:
    nodes = unroll(workload.classes[0].program.body)
    return "".join(node.unit for node in nodes if isinstance(node, TimedInstruction))


def test_first_sides_and_largest_counts_without_a_seed() -> None:
    assert units(resolve_workload(OPEN, None)) == "ABCAAA"


def test_random_resolutions_are_all_the_allowed_ones() -> None:
    found = {units(resolve_workload(OPEN, seed)) for seed in range(200)}
    orders, loops = ("ABC", "BCA"), ("AA", "CC", "AAA", "CCC")
    assert found == {order + loop for order in orders for loop in loops}
    assert units(resolve_workload(OPEN, 5)) == units(resolve_workload(OPEN, 5))


def test_a_single_path_is_left_alone() -> None:
    workload = block(A, Repeat(4, (B,)))
    assert resolve_workload(workload, 7) is workload


def test_an_empty_choice_is_nothing() -> None:
    assert units(resolve_workload(block(A, Choice(())), 1)) == "A"
