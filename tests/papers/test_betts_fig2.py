"""Betts and Donaldson, ECRTS 2013, Fig. 2: the graph and its seven branch-divergent edges."""

from __future__ import annotations

import pytest
from flow_graphs import graph_with, loops_in

from ptxwcet.flow.graph.cfg import ControlFlowGraph, Transfer, assemble_cfg
from ptxwcet.flow.graph.divergence import (
    add_branch_divergent_edges,
    complete_divergent_edges,
    forward_branches,
)
from ptxwcet.flow.graph.dominance import compute_postdominators

pytestmark = pytest.mark.fast

# Block names of the figure -> edges, in the figure's order.
FIGURE = {6: (7, 12), 7: (8, 10), 8: (9,), 9: (15,), 10: (11,), 11: (14,), 12: (10, 13)}
FIGURE |= {13: (14,), 14: (15,), 15: ()}
ADDED = {(9, 12), (14, 7), (14, 12), (9, 10), (14, 8), (11, 13), (13, 10)}


def figure_graph() -> ControlFlowGraph:
    names = sorted(FIGURE)
    return graph_with([[t - 6 for t in FIGURE[name]] or [len(names)] for name in names])


def test_exactly_the_seven_edges_of_the_figure() -> None:
    cfg = figure_graph()
    forest = loops_in(cfg)
    divergent = add_branch_divergent_edges(cfg, forest, compute_postdominators(cfg))
    assert {(p + 6, s + 6) for p, s in divergent.edges} == ADDED
    assert divergent.unresolved == ()


def test_forward_branches_and_postdominators_of_the_text() -> None:
    cfg = figure_graph()
    forest = loops_in(cfg)
    postdominators = compute_postdominators(cfg)
    branches = forward_branches(cfg, forest)
    merges = {b + 6: (postdominators.immediate[b] or 0) + 6 for b in branches}
    assert merges == {6: 15, 7: 15, 12: 14}


def test_the_graph_itself_is_left_alone_and_has_no_loop() -> None:
    cfg = figure_graph()
    forest = loops_in(cfg)
    assert forest.loops == ()
    assert forest.is_reducible
    assert {(u + 6, v + 6) for u, v in cfg.edges()} == {
        (u, v) for u, targets in FIGURE.items() for v in targets
    } | {(15, 16)}


def test_divergent_edges_would_make_it_irreducible() -> None:
    """The text, IV-C: an irreducible loop between b11 and b13, so loops must be found first."""
    cfg = figure_graph()
    forest = loops_in(cfg)
    divergent = add_branch_divergent_edges(cfg, forest, compute_postdominators(cfg))
    transfers = [
        Transfer((*targets, *(target for source, target in divergent.edges if source == block)))
        for block, targets in enumerate(cfg.successors[:-1])
    ]
    enhanced = assemble_cfg(cfg.blocks[:-1], transfers)
    regions = loops_in(enhanced).irreducible
    assert any({11 - 6, 13 - 6} <= set(region.blocks) for region in regions)


def test_on_this_graph_every_published_edge_is_taken_by_some_warp_and_no_other() -> None:
    cfg = figure_graph()
    forest = loops_in(cfg)
    postdominators = compute_postdominators(cfg)
    published = add_branch_divergent_edges(cfg, forest, postdominators)
    assert published.edges == complete_divergent_edges(cfg, postdominators).edges
