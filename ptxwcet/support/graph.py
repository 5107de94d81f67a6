"""Provides graph algorithms, and the only access to networkx, which the main job does not import.

Vertices are integers from 0; a graph is a sequence of successor collections.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, TypeVar

Vertex = TypeVar("Vertex", bound=int)


def labelled_graph(
    nodes: Iterable[tuple[str, Mapping[str, Any]]],
    edges: Iterable[tuple[str, str, Mapping[str, Any]]],
) -> Any:
    """Returns a ``networkx.DiGraph`` of named nodes and edges with attributes. Cost: linear."""
    import networkx as nx

    graph = nx.DiGraph()
    for name, attributes in nodes:
        graph.add_node(name, **attributes)
    for source, target, attributes in edges:
        graph.add_edge(source, target, **attributes)
    return graph


def reachable(
    successors: Sequence[Iterable[Vertex]] | Mapping[Vertex, Iterable[Vertex]],
    starts: Iterable[Vertex],
    without: Container[int | None] = (),
) -> set[Vertex]:
    """Returns ``starts`` and all vertices on paths from them that avoid ``without``. Linear."""
    reached: set[Vertex] = set()
    pending = [*starts]
    while pending:
        vertex = pending.pop()
        if vertex not in reached and vertex not in without:
            reached.add(vertex)
            pending += successors[vertex]
    return reached


def topological_order(source: int, edges: Iterable[tuple[int, int]]) -> list[int] | None:
    """Returns the vertices reached from ``source``, each before its successors; None for a cycle.

    Cost: linear.
    """
    import networkx as nx

    graph = nx.DiGraph(edges)
    graph.add_node(source)
    reached = graph.subgraph({source, *nx.descendants(graph, source)})
    try:
        return list(nx.topological_sort(reached))
    except nx.NetworkXUnfeasible:
        return None


def cyclic_components(successors: Sequence[Iterable[int]]) -> tuple[frozenset[int], ...]:
    """Returns the strongly connected components that contain a cycle, by their smallest vertex.

    Tarjan, Depth-first search and linear graph algorithms, 1972, without recursion: graphs of
    kernels are deeper than Python's stack. Cost: linear in vertices and edges.
    """
    targets = [tuple(targets) for targets in successors]
    numbers: dict[int, int] = {}  # in order of discovery
    lowest: dict[int, int] = {}  # the number of a reached vertex, and of an open component
    opened: list[int] = []  # vertices whose component is still unknown
    is_open = [False] * len(targets)
    components = []
    for root in range(len(targets)):
        calls = [] if root in numbers else [(root, iter(targets[root]))]
        while calls:
            vertex, ahead = calls[-1]
            if vertex not in numbers:
                numbers[vertex] = lowest[vertex] = len(numbers)
                opened.append(vertex)
                is_open[vertex] = True
            for target in ahead:
                if target not in numbers:
                    calls.append((target, iter(targets[target])))
                    break
                if is_open[target]:
                    lowest[vertex] = min(lowest[vertex], numbers[target])
            else:
                calls.pop()
                if calls:
                    above = calls[-1][0]
                    lowest[above] = min(lowest[above], lowest[vertex])
                if lowest[vertex] == numbers[vertex]:
                    members = []
                    while is_open[vertex]:
                        members.append(opened.pop())
                        is_open[members[-1]] = False
                    components.append(frozenset(members))
    cyclic = (c for c in components if len(c) > 1 or any(v in targets[v] for v in c))
    return tuple(sorted(cyclic, key=min))
