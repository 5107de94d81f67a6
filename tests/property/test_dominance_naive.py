"""Dominators and post-dominators against the definition (remove a block) and against networkx."""

from __future__ import annotations

import networkx as nx
from flow_graphs import graph_with
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import drawn

from ptxwcet.flow.graph.cfg import BasicBlock, BlockId, ControlFlowGraph, Transfer, assemble_cfg
from ptxwcet.flow.graph.dominance import DominatorTree, compute_dominators, compute_postdominators


@st.composite
def graphs(draw: st.DrawFn, largest: int = 9) -> ControlFlowGraph:
    """Any graph: unreachable blocks, endless loops, irreducible regions, no way to the exit."""
    count = draw(st.integers(1, largest))
    targets = st.lists(st.integers(0, count), min_size=1, max_size=3, unique=True)
    drawn = draw(st.lists(targets, min_size=count, max_size=count))
    return graph_with(drawn)


def reached(cfg: ControlFlowGraph, start: int, backwards: bool, without: int = -1) -> set[int]:
    neighbours = cfg.predecessors if backwards else cfg.successors
    seen: set[int] = set()
    pending = [start] if start != without else []
    while pending:
        block = pending.pop()
        if block not in seen:
            seen.add(block)
            pending.extend(n for n in neighbours[block] if n != without)
    return seen


def check_by_removal(cfg: ControlFlowGraph, tree: DominatorTree, backwards: bool) -> None:
    covered = reached(cfg, tree.root, backwards)
    for b in map(BlockId, range(len(cfg.blocks))):
        assert tree.covers(b) == (b in covered)
        for a in map(BlockId, range(len(cfg.blocks))):
            expected = b in covered and b not in reached(cfg, tree.root, backwards, without=a)
            assert tree.dominates(a, b) == expected
            assert tree.strictly_dominates(a, b) == (expected and a != b)


def check_by_networkx(cfg: ControlFlowGraph, tree: DominatorTree, backwards: bool) -> None:
    digraph = nx.DiGraph()
    digraph.add_nodes_from(range(len(cfg.blocks)))
    digraph.add_edges_from((v, u) if backwards else (u, v) for u, v in cfg.edges())
    expected = dict(nx.immediate_dominators(digraph, tree.root))
    expected.pop(tree.root, None)  # older versions map the root to itself
    ours = {b: d for b, d in enumerate(tree.immediate) if d is not None}
    assert ours == {b: d for b, d in expected.items() if d is not None}


@settings(max_examples=drawn(300), deadline=None)
@given(graphs())
def test_dominators_are_the_blocks_whose_removal_cuts_off(cfg: ControlFlowGraph) -> None:
    check_by_removal(cfg, compute_dominators(cfg), backwards=False)


@settings(max_examples=drawn(300), deadline=None)
@given(graphs())
def test_postdominators_are_the_blocks_whose_removal_cuts_off(cfg: ControlFlowGraph) -> None:
    check_by_removal(cfg, compute_postdominators(cfg), backwards=True)


@settings(max_examples=drawn(150), deadline=None)
@given(graphs(largest=40))
def test_both_trees_agree_with_networkx(cfg: ControlFlowGraph) -> None:
    check_by_networkx(cfg, compute_dominators(cfg), backwards=False)
    check_by_networkx(cfg, compute_postdominators(cfg), backwards=True)


@settings(max_examples=drawn(150), deadline=None)
@given(graphs(largest=40))
def test_the_immediate_dominator_is_the_nearest_strict_one(cfg: ControlFlowGraph) -> None:
    tree = compute_dominators(cfg)
    for b in cfg.reverse_postorder:
        nearest = tree.immediate[b]
        if nearest is None:
            assert b == cfg.entry
            continue
        assert tree.strictly_dominates(nearest, b)
        for a in cfg.reverse_postorder:
            if tree.strictly_dominates(a, b):
                assert tree.dominates(a, nearest)


def test_a_long_chain_needs_no_recursion() -> None:
    count = 20_000
    blocks = [BasicBlock(BlockId(i), i, i + 1) for i in range(count)]
    # every block may leave for the end: the pattern that defeats walking up the tree
    chain = [
        Transfer((BlockId(count), BlockId(i + 1))[: 2 - (i == count - 1)]) for i in range(count)
    ]
    cfg = assemble_cfg(blocks, chain)
    dominators = compute_dominators(cfg)
    assert dominators.immediate[cfg.exit] == 0
    assert dominators.immediate[count - 1] == count - 2
    assert set(compute_postdominators(cfg).immediate[:-1]) == {cfg.exit}
