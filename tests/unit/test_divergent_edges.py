"""Branch-divergent edges at the borders of their definition."""

from __future__ import annotations

import pytest
from flow_graphs import graph_with, loops_in
from refusals import refusal_of

from ptxwcet.flow.graph.cfg import ControlFlowGraph
from ptxwcet.flow.graph.divergence import (
    DivergentEdges,
    add_branch_divergent_edges,
    complete_divergent_edges,
    forward_branches,
)
from ptxwcet.flow.graph.dominance import compute_postdominators

pytestmark = pytest.mark.fast


def published(cfg: ControlFlowGraph) -> DivergentEdges:
    forest = loops_in(cfg)
    return add_branch_divergent_edges(cfg, forest, compute_postdominators(cfg))


def branches(cfg: ControlFlowGraph) -> tuple[int, ...]:
    return forward_branches(cfg, loops_in(cfg))


def test_if_then_else_passes_from_one_side_to_the_other() -> None:
    divergent = published(graph_with([(1, 2), (3,), (3,), (4,)]))
    assert divergent.edges == ((1, 2), (2, 1))
    assert [target for source, target in divergent.edges if source == 1] == [2]


def test_if_then_adds_nothing() -> None:
    """The branch precedes its post-dominator itself; 0 -> 1, 0 -> 2 and 1 -> 2 stay ordinary."""
    assert published(graph_with([(1, 2), (2,), (3,)])).edges == ()


def test_a_header_with_a_way_out_is_no_forward_branch() -> None:
    assert branches(graph_with([(1,), (2, 3), (1,), (4,)])) == ()


def test_a_header_whose_successors_are_all_inside_is_one() -> None:
    assert branches(graph_with([(1,), (2, 3), (4,), (4,), (1, 5), (6,)])) == (1,)


def test_a_latch_is_one_only_with_two_successors_besides_the_back_edge() -> None:
    assert branches(graph_with([(1,), (1, 2), (3,)])) == ()
    assert branches(graph_with([(1,), (2,), (1, 3, 4), (4,), (5,)])) == (2,)


def test_an_irreducible_graph_has_no_published_edges_but_complete_ones() -> None:
    cfg = graph_with([(1, 2), (2, 3), (1, 3), (4,)])
    with pytest.raises(ValueError, match="reducible"):
        published(cfg)
    assert complete_divergent_edges(cfg, compute_postdominators(cfg)).edges == ((1, 1), (2, 2))


def test_a_branch_that_cannot_reach_the_exit_is_unresolved() -> None:
    cfg = graph_with([(1, 4), (2, 3), (1,), (1,)])
    assert published(cfg).unresolved == (1,)
    assert complete_divergent_edges(cfg, compute_postdominators(cfg)).unresolved == (1,)


def test_too_many_edges_are_refused() -> None:
    ways = 700  # each block may leave for a block of its own; all join at the end
    chain = [(i + 1, ways + i + 1) for i in range(ways)]
    cfg = graph_with([*chain, (2 * ways + 1,), *[(2 * ways + 1,)] * ways])
    for enumerate_edges in (
        lambda: published(cfg),
        lambda: complete_divergent_edges(cfg, compute_postdominators(cfg)),
    ):
        assert refusal_of(enumerate_edges).code == "PW234"
