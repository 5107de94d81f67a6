"""Branch-divergent edges against all executions of a warp of a few threads.

The oracle explores every state of a SIMT stack machine: threads split at a branch in every way,
sides run in every order, each until the branch's immediate post-dominator, which the oracle finds
on its own (by removing blocks). The transfers that it sees are exactly those that can happen.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, permutations, product

import pytest
from flow_graphs import graph_with, loops_in
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import drawn

from ptxwcet.flow.graph.cfg import ControlFlowGraph
from ptxwcet.flow.graph.divergence import add_branch_divergent_edges, complete_divergent_edges
from ptxwcet.flow.graph.dominance import compute_postdominators

Edges = set[tuple[int, int]]
Successors = list[list[int]]  # the last block is the exit and has none


def graph(successors: Successors) -> ControlFlowGraph:
    return graph_with(successors[:-1])


def published(successors: Successors) -> Edges:
    cfg = graph(successors)
    forest = loops_in(cfg)
    return set(add_branch_divergent_edges(cfg, forest, compute_postdominators(cfg)).edges)


def complete(successors: Successors) -> Edges:
    cfg = graph(successors)
    return set(complete_divergent_edges(cfg, compute_postdominators(cfg)).edges)


# ---- the oracle ------------------------------------------------------------------------------


def reachable(successors: Successors, start: int, without: int = -1) -> set[int]:
    seen, pending = {start}, [start]
    while pending:
        for target in successors[pending.pop()]:
            if target not in seen and target != without:
                seen.add(target)
                pending.append(target)
    return seen


def reconvergence(successors: Successors, block: int) -> int:
    """Immediate post-dominator: of the blocks whose removal cuts ``block`` off, the nearest."""
    exit_block = len(successors) - 1
    cuts = [
        other
        for other in range(len(successors))
        if other != block
        and (other == exit_block or exit_block not in reachable(successors, block, other))
    ]
    # the nearest post-dominator is post-dominated by all the others
    return next(
        c
        for c in cuts
        if all(o in (c, exit_block) or exit_block not in reachable(successors, c, o) for o in cuts)
    )


Stack = tuple[tuple[int, int, frozenset[int]], ...]
"""Entries (next block, reconvergence block, threads), the executing one last."""


def steps(successors: Successors, merges: dict[int, int], stack: Stack) -> Iterator[Stack]:
    """All stacks after the block on top has been executed."""
    (block, rejoin, threads), below = stack[-1], stack[:-1]
    members = sorted(threads)
    for choice in product(successors[block], repeat=len(members)):
        sides = {
            s: frozenset(t for t, c in zip(members, choice, strict=True) if c == s)
            for s in set(choice)
        }
        if len(sides) == 1:
            yield settle((*below, (choice[0], rejoin, threads)))
            continue
        merge = merges[block]
        for order in permutations(sides):
            waiting = tuple((s, merge, sides[s]) for s in order)
            yield settle((*below, (merge, rejoin, threads), *waiting))


def settle(stack: Stack) -> Stack:
    """The stack without the entries on top that have reached their reconvergence."""
    while stack and stack[-1][0] == stack[-1][1]:
        stack = stack[:-1]
    return stack


def transfers(successors: Successors, threads: int) -> Edges:
    """All transfers between consecutively executed blocks, in any execution of one warp."""
    exit_block = len(successors) - 1
    merges = {
        b: reconvergence(successors, b)
        for b in range(exit_block)
        if len(successors[b]) > 1 and exit_block in reachable(successors, b)
    }
    start: Stack = ((0, exit_block, frozenset(range(threads))),)
    seen, pending = {start}, [start]
    found: Edges = set()
    while pending:
        stack = pending.pop()
        for after in steps(successors, merges, stack):
            found.add((stack[-1][0], after[-1][0] if after else exit_block))
            if after and after not in seen:
                seen.add(after)
                pending.append(after)
    return found


def divergent(successors: Successors, threads: int = 2) -> Edges:
    """The transfers of a warp that the graph does not have."""
    plain = {(u, v) for u, targets in enumerate(successors) for v in targets}
    return transfers(successors, threads) - plain


# ---- random graphs ---------------------------------------------------------------------------


@st.composite
def graphs(draw: st.DrawFn, ways: int = 2, loops: bool = True) -> Successors:
    """Graphs of 1 to 6 blocks and the exit; every block is reachable and reaches the exit."""
    count = draw(st.integers(1, 6))
    lowest = 0 if loops else 1
    drawn = [
        draw(
            st.lists(
                st.integers(lowest if loops else block + 1, count),
                min_size=1,
                max_size=ways,
                unique=True,
            )
        )
        for block in range(count)
    ]
    successors = [*drawn, []]
    for block in range(count):
        if count not in reachable(successors, block):
            successors[block] = [block + 1]  # all later blocks reach the exit already or will
    kept = sorted(reachable(successors, 0))
    number = {block: position for position, block in enumerate(kept)}
    return [[number[target] for target in successors[block]] for block in kept]


@settings(max_examples=drawn(250), deadline=None)
@given(graphs(ways=3))
def test_complete_edges_are_exactly_the_transfers_of_a_warp(successors: Successors) -> None:
    assert complete(successors) == divergent(successors)


@settings(max_examples=drawn(60), deadline=None)
@given(graphs(ways=2))
def test_more_threads_make_no_other_transfers(successors: Successors) -> None:
    assert divergent(successors, threads=3) == divergent(successors, threads=2)


@settings(max_examples=drawn(250), deadline=None)
@given(graphs(ways=2, loops=False))
def test_published_edges_cover_acyclic_graphs_of_two_way_branches(successors: Successors) -> None:
    assert divergent(successors) <= published(successors)


# ---- where the published algorithm falls short -----------------------------------------------

COUNTEREXAMPLES = {
    # an indirect branch, no loop: two of three sides reach block 2, so only the third is expected
    "three-way branch": ([[1, 2, 3], [2], [3], []], {(2, 1), (2, 2)}),
    # the least of all: a block that repeats, goes on to 1 or ends
    "three-way loop": ([[0, 1, 2], [2], []], {(1, 0), (1, 1)}),
    # the least with two-way branches, a loop with a break: neither its header (one successor is
    # outside) nor its latch (one successor besides the back edge) is a forward branch
    "two exits": ([[1, 2], [0, 3], [3], []], {(1, 2), (2, 1), (2, 2)}),
    # one way out: threads that go round again and meet the side that the others wait at
    "one exit target": ([[1, 2], [0, 3], [3, 1], []], {(2, 2)}),
    # one exit edge (4 -> 5), but a conditional `continue` in block 2: latch, no forward branch
    "continue": ([[2, 4], [0], [0, 3], [4], [1, 5], []], {(0, 3), (3, 0), (3, 3)}),
}


@pytest.mark.parametrize("name", COUNTEREXAMPLES)
def test_published_edges_miss_transfers(name: str) -> None:
    successors, missed = COUNTEREXAMPLES[name]
    assert divergent(successors) - published(successors) == missed
    assert divergent(successors) == complete(successors)


def forward_branches_of_the_whole_graph(successors: Successors) -> list[int]:
    """The other reading: successors are those of the graph, back edges included."""
    forest = loops_in(graph(successors))
    found = []
    for block, targets in enumerate(successors):
        loops = [loop for loop in forest.loops if loop.header == block]
        if len(targets) > 1 and all(loop.body.issuperset(targets) for loop in loops):
            found.append(block)
    return found


def published_by_the_other_reading(successors: Successors) -> Edges:
    """Fig. 3 written once more, from the paper, with those forward branches."""
    forest = loops_in(graph(successors))
    without = [
        [t for t in targets if (p, t) not in forest.back_edges]
        for p, targets in enumerate(successors)
    ]
    found: Edges = set()
    for branch in forward_branches_of_the_whole_graph(successors):
        merge = reconvergence(successors, branch)
        for p, targets in enumerate(successors):
            if merge in targets:
                new = [s for s in successors[branch] if p not in reachable(without, s)]
                found |= {(p, s) for s in new or successors[branch]}
    return {(p, s) for p, s in found if s not in successors[p]}


@pytest.mark.parametrize("name", ["two exits", "one exit target", "continue"])
def test_only_the_last_row_depends_on_how_successors_are_read(name: str) -> None:
    successors, missed = COUNTEREXAMPLES[name]
    left = divergent(successors) - published_by_the_other_reading(successors)
    assert left == (set() if name == "continue" else missed)


@pytest.mark.parametrize(("ways", "blocks"), [(3, 1), (2, 2)])
def test_there_is_no_smaller_counterexample(ways: int, blocks: int) -> None:
    """All reducible graphs that can end, with fewer blocks than the least one above."""
    choices = [
        list(targets)
        for size in range(1, ways + 1)
        for targets in combinations(range(blocks + 1), size)
    ]
    for chosen in product(choices, repeat=blocks):
        successors: Successors = [*map(list, chosen), []]
        if any(blocks not in reachable(successors, block) for block in range(blocks)):
            continue
        cfg = graph(successors)
        if not cfg.unreachable and loops_in(cfg).is_reducible:
            assert divergent(successors) <= published(successors)


def test_published_edges_may_be_impossible() -> None:
    """Branches 0 and 1 share their post-dominator 4: 3 -> 2 is added, but 3 never precedes 2.

    Line 7 of Fig. 3 takes every predecessor of the post-dominator, reached from the branch or not.
    """
    successors: Successors = [[1, 3], [2, 4], [4], [4], []]
    assert published(successors) - divergent(successors) == {(3, 2)}


def test_a_loop_header_as_postdominator_gives_its_entry_no_edges() -> None:
    """0 -> 1 (header) -> 2 -> {3, 4} -> 1: the sides meet at the header, which 0 enters too."""
    successors: Successors = [[1], [2, 5], [3, 4], [1], [1], []]
    assert published(successors) == {(3, 4), (4, 3)} == divergent(successors)


def test_sides_that_meet_at_the_header_of_a_later_loop() -> None:
    """0 -> {1, 2} -> 3, a loop 3 <-> 4: its latch comes after the sides have met."""
    successors: Successors = [[1, 2], [3], [3], [4, 5], [3], []]
    assert published(successors) == {(1, 2), (2, 1)} == divergent(successors)
