"""Natural loops and irreducible regions against their definitions, on random graphs."""

from __future__ import annotations

import networkx as nx
from flow_graphs import graph_with, loops_in
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import drawn

from ptxwcet.flow.graph.cfg import ControlFlowGraph


@st.composite
def graphs(draw: st.DrawFn) -> ControlFlowGraph:
    count = draw(st.integers(1, 14))
    targets = st.lists(st.integers(0, count), min_size=1, max_size=2, unique=True)
    drawn = draw(st.lists(targets, min_size=count, max_size=count))
    return graph_with(drawn)


def digraph_of(cfg: ControlFlowGraph) -> nx.DiGraph:
    digraph = nx.DiGraph()
    digraph.add_nodes_from(cfg.reverse_postorder)
    digraph.add_edges_from(cfg.edges())
    return digraph


def removed_by(digraph: nx.DiGraph, block: int) -> nx.DiGraph:
    copy = digraph.copy()
    copy.remove_node(block)
    return copy


@settings(max_examples=drawn(300), deadline=None)
@given(graphs())
def test_loops_are_the_natural_loops_of_the_back_edges(cfg: ControlFlowGraph) -> None:
    digraph = digraph_of(cfg)
    expected: dict[int, set[int]] = {}
    for u, v in digraph.edges:
        # v dominates u: removing v leaves no path from the entry to u
        if v in (cfg.entry, u) or not nx.has_path(removed_by(digraph, v), cfg.entry, u):
            without = removed_by(digraph, v)
            into = {u} | (nx.ancestors(without, u) if u != v else set())
            expected.setdefault(v, {v}).update(into if u != v else {v})
    forest = loops_in(cfg)
    assert {loop.header: set(loop.body) for loop in forest.loops} == expected
    for loop in forest.loops:
        assert set(loop.latches) == {u for u, v in forest.back_edges if v == loop.header}
        assert set(loop.exits) == {
            (u, v) for u, v in digraph.edges if u in loop.body and v not in loop.body
        }


@settings(max_examples=drawn(300), deadline=None)
@given(graphs())
def test_nesting_follows_from_the_bodies(cfg: ControlFlowGraph) -> None:
    forest = loops_in(cfg)
    for loop in forest.loops:
        around = [o for o in forest.loops if o.body > loop.body]
        assert loop.depth == len(around) + 1
        parent = min(around, key=lambda o: len(o.body)).id if around else None
        assert loop.parent == parent
        assert parent is None or parent < loop.id
        assert set(loop.children) == {o.id for o in forest.loops if o.parent == loop.id}
    for block in cfg.reverse_postorder:
        holding = [o for o in forest.loops if block in o.body]
        smallest = min(holding, key=lambda o: len(o.body)).id if holding else None
        assert forest.loop_of[block] == smallest
        assert [o.depth for o in forest.around(block)] == list(range(len(holding), 0, -1))


@settings(max_examples=drawn(300), deadline=None)
@given(graphs())
def test_irreducible_regions_are_the_cycles_left_without_back_edges(cfg: ControlFlowGraph) -> None:
    digraph = digraph_of(cfg)
    forest = loops_in(cfg)
    digraph.remove_edges_from(forest.back_edges)
    assert forest.is_reducible == nx.is_directed_acyclic_graph(digraph)
    regions = [set(region.blocks) for region in forest.irreducible]
    assert sorted(map(sorted, regions)) == sorted(
        sorted(c) for c in nx.strongly_connected_components(digraph) if len(c) > 1
    )
    for region in forest.irreducible:
        entered = {v for u, v in digraph.edges if v in region.blocks and u not in region.blocks}
        assert set(region.entries) == entered | ({cfg.entry} & set(region.blocks))
        assert len(region.entries) >= 2


@settings(max_examples=drawn(200), deadline=None)
@given(graphs())
def test_reducible_exactly_if_intervals_collapse_to_one_block(cfg: ControlFlowGraph) -> None:
    """Hecht and Ullman's T1-T2: drop self-loops, merge blocks that have one predecessor."""
    digraph = digraph_of(cfg)
    changed = True
    while changed:
        digraph.remove_edges_from([(u, v) for u, v in digraph.edges if u == v])
        changed = False
        for block in list(digraph.nodes):
            before = list(digraph.predecessors(block))
            if len(before) == 1 and block != cfg.entry:
                digraph.add_edges_from((before[0], t) for t in digraph.successors(block))
                digraph.remove_node(block)
                changed = True
                break
    assert loops_in(cfg).is_reducible == (len(digraph) == 1)
