"""The door to networkx, imported on first use: most kernels need none of it.

Vertices are integers from 0; a graph is a sequence of successor collections.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def labelled_graph(
    nodes: Iterable[tuple[str, Mapping[str, Any]]],
    edges: Iterable[tuple[str, str, Mapping[str, Any]]],
) -> Any:
    """A ``networkx.DiGraph`` of named nodes and edges with attributes. Cost: linear."""
    import networkx as nx

    graph = nx.DiGraph()
    for name, attributes in nodes:
        graph.add_node(name, **attributes)
    for source, target, attributes in edges:
        graph.add_edge(source, target, **attributes)
    return graph


def cyclic_components(successors: Sequence[Iterable[int]]) -> tuple[frozenset[int], ...]:
    """The strongly connected components that contain a cycle, by their smallest vertex.

    Cost: linear in vertices and edges, and once the import of networkx.
    """
    import networkx as nx

    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(successors)))
    graph.add_edges_from((u, v) for u, targets in enumerate(successors) for v in targets)
    components = (frozenset(component) for component in nx.strongly_connected_components(graph))
    cyclic = (c for c in components if len(c) > 1 or any(graph.has_edge(v, v) for v in c))
    return tuple(sorted(cyclic, key=min))
