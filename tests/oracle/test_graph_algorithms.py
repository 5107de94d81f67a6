"""Strongly connected components, and what is reached, against networkx."""

from __future__ import annotations

import random

import networkx
import pytest

from ptxwcet.support.graph import cyclic_components, reachable


def drawn(seed: int) -> tuple[random.Random, list[list[int]], networkx.DiGraph]:
    """Successors at random, and the same graph."""
    draw = random.Random(seed)
    size = draw.randint(1, 12)
    edges = draw.randint(0, 2 * size)
    successors: list[list[int]] = [[] for _ in range(size)]
    for _ in range(edges):
        successors[draw.randrange(size)].append(draw.randrange(size))
    graph = networkx.DiGraph()
    graph.add_nodes_from(range(size))
    graph.add_edges_from((u, v) for u, row in enumerate(successors) for v in row)
    return draw, successors, graph


@pytest.mark.parametrize("seed", range(60))
def test_what_is_reached_is_what_networkx_reaches_without_some_vertices(seed: int) -> None:
    draw, successors, graph = drawn(seed)
    starts = draw.choices(range(len(successors)), k=draw.randint(0, 3))
    without = draw.choices(range(len(successors)), k=draw.randint(0, 3))
    graph.remove_nodes_from(without)
    ways = [{one} | networkx.descendants(graph, one) for one in starts if one in graph]
    assert reachable(successors, starts, without) == set().union(*ways)


@pytest.mark.parametrize("seed", range(60))
def test_components_are_those_of_networkx(seed: int) -> None:
    _, successors, graph = drawn(seed)
    found = map(frozenset, networkx.strongly_connected_components(graph))
    expected = [one for one in found if len(one) > 1 or graph.has_edge(min(one), min(one))]
    assert cyclic_components(successors) == tuple(sorted(expected, key=min))


def test_long_chains_need_no_recursion() -> None:
    size = 20_000
    ring = [[(vertex + 1) % size] for vertex in range(size)]
    assert cyclic_components(ring) == (frozenset(range(size)),)


def test_a_long_chain_is_not_searched_for_each_component() -> None:
    size = 100_000  # a minute if what is open is searched whenever a component is closed
    chain = [[vertex + 1] for vertex in range(size - 1)] + [[]]
    assert cyclic_components(chain) == ()
