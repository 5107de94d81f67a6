"""The assumptions that stated facts bring with them: what is assumed, and who says so."""

from __future__ import annotations

import pytest
from parsing import parse_kernel

from ptxwcet.flow.facts.assumptions import fact_assumptions
from ptxwcet.flow.launch import BoundOrigin, Launch, PlacedFacts
from ptxwcet.flow.walk.path import AffineCount, BlockPaths, PathLoop, WarpPath

pytestmark = pytest.mark.fast

LAUNCH = Launch((32, 1, 1))
KERNEL = parse_kernel(
    ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n"
)


def assumed(
    facts: PlacedFacts, user: range, launch: Launch = LAUNCH, given: tuple[str, ...] = ()
) -> dict[str, tuple[str, str]]:
    """Text and source by key, for paths with six loops, those of ``user`` bounded by the user."""
    loops = tuple(
        PathLoop(
            number,
            (),
            AffineCount(5),
            BoundOrigin.USER if number in user else BoundOrigin.ANALYSIS,
            "",
        )
        for number in range(6)
    )
    paths = BlockPaths((0, 0, 0), (0, 0, 0), (WarpPath(loops, (0,)),))
    found = fact_assumptions(paths, facts, launch, given, kernel=KERNEL)
    return {one.key: (one.text, one.source) for one in found}


SOURCES = {number: f"facts.toml:{number}" for number in range(6)}


def test_facts_that_were_not_needed_are_not_assumed() -> None:
    facts = PlacedFacts(dict.fromkeys(range(6), 5), loop_sources=SOURCES, marked=frozenset({0}))
    assert assumed(facts, range(0)) == {}


def test_loops_bounded_by_the_user() -> None:
    facts = PlacedFacts(loop_sources={1: "a", 2: "b", 3: "a"}, marked=frozenset({0, 3}))
    found = assumed(facts, range(1, 4))
    text, source = found["user-loop-bounds"]
    assert source == "a, b"
    assert text == "the loop bounds of a, b hold for every thread and every entry of the loop"
    assert found["asm-comment-loops"][1] == "a"


def test_many_sources() -> None:
    (row,) = assumed(PlacedFacts(loop_sources=SOURCES), range(6)).values()
    assert row[1] == "facts.toml:0, facts.toml:1, facts.toml:2, facts.toml:3 and 2 more"


def test_branches_and_ranges() -> None:
    facts = PlacedFacts(
        never=frozenset({(1, True)}),
        exclusive=(((2, True), (3, False)),),
        uniform={4: "warp"},
        branch_sources={(1, True): "f:1", (2, True): "f:2", (3, False): "f:2"},
    )
    found = assumed(facts, range(0), Launch((32, 1, 1), ranges={"n": (1, 9)}))
    assert found["infeasible-branches"][1] == "f:1"
    assert found["exclusive-branches"][1] == "f:2"
    assert "n in 1..9" in found["parameter-ranges"][0]
    assert "uniform-branches" in found


def test_memory_that_the_launch_file_gives() -> None:
    found = assumed(PlacedFacts(), range(0), given=("table", "k_param_2"))
    assert found["launch-memory"][0].endswith("table, k_param_2")
