"""Loops of kernels in the shapes that compilers write, and where blocks join again."""

from __future__ import annotations

import pytest
from flow_graphs import graph_with, loops_in
from refusals import refusal_of

from ptxwcet.flow.graph.cfg import BlockId, ControlFlowGraph
from ptxwcet.flow.graph.dominance import compute_postdominators
from ptxwcet.flow.graph.loops import MAX_LOOP_DEPTH

pytestmark = pytest.mark.fast


def test_rotated_loop_of_one_block() -> None:
    cfg = graph_with([(1,), (1, 2), (3,)])
    (loop,) = loops_in(cfg).loops
    assert (loop.header, loop.latches, loop.body, loop.exits) == (1, (1,), {1}, ((1, 2),))
    assert loop.depth == 1


def test_while_loop_tests_at_its_header() -> None:
    cfg = graph_with([(1,), (2, 3), (1,), (4,)])
    forest = loops_in(cfg)
    (loop,) = forest.loops
    assert (loop.header, loop.latches, loop.body, loop.exits) == (1, (2,), {1, 2}, ((1, 3),))
    assert forest.loop_of == (None, 0, 0, None, None)
    assert compute_postdominators(cfg).immediate == (1, 3, 1, 4, None)


def test_two_latches_make_one_loop() -> None:
    forest = loops_in(graph_with([(1,), (2, 3), (1,), (1, 4), (5,)]))
    (loop,) = forest.loops
    assert loop.latches == (2, 3)
    assert forest.back_edges == {(2, 1), (3, 1)}


def test_nest_of_three_with_a_break() -> None:
    # 1 { 2 { 3 { 3 } 4 -> 6 (break out of two) } 5 } 6
    cfg = graph_with([(1,), (2,), (3,), (3, 4), (2, 5, 6), (1, 6), (7,)])
    forest = loops_in(cfg)
    assert [(one.header, one.depth, one.parent) for one in forest.loops] == [
        (1, 1, None),
        (2, 2, 0),
        (3, 3, 1),
    ]
    assert [sorted(one.body) for one in forest.loops] == [[1, 2, 3, 4, 5], [2, 3, 4], [3]]
    assert forest.loops[1].exits == ((4, 5), (4, 6))
    assert forest.loops[0].children == (1,)
    assert [one.header for one in forest.around(BlockId(3))] == [3, 2, 1]
    assert forest.loop_at(BlockId(2)) == forest.loops[1]
    assert forest.loop_at(BlockId(4)) is None


def test_the_entry_may_be_a_header() -> None:
    forest = loops_in(graph_with([(1, 2), (0,), (3,)]))
    assert forest.loops[0].header == 0
    assert forest.loops[0].body == {0, 1}


def test_an_irreducible_region_inside_a_loop() -> None:
    # loop 1..4; 2 and 3 go round each other and are both entered from 1
    forest = loops_in(graph_with([(1,), (2, 3), (3,), (2, 4), (1, 5), (6,)]))
    assert not forest.is_reducible
    (region,) = forest.irreducible
    assert (region.blocks, region.entries) == ((2, 3), (2, 3))
    assert [one.header for one in forest.loops] == [1]
    assert forest.loops[0].body == {1, 2, 3, 4}


def nest(depth: int) -> ControlFlowGraph:
    """``depth`` headers, the innermost loop a single block, then the latches outwards."""
    heads = [(i + 1,) for i in range(depth - 1)]
    tails = [(depth - 1 - i, depth + i) for i in range(depth)]
    return graph_with([*heads, *tails])


def test_the_deepest_nest_that_is_accepted() -> None:
    forest = loops_in(nest(MAX_LOOP_DEPTH))
    assert [one.depth for one in forest.loops] == list(range(1, MAX_LOOP_DEPTH + 1))


def test_a_nest_that_is_too_deep_is_refused() -> None:
    assert refusal_of(loops_in, nest(MAX_LOOP_DEPTH + 1)).code == "PW231"
