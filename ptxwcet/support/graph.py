"""The door to networkx, imported on first use: most kernels need none of it.

Vertices are integers from 0; a graph is a sequence of successor collections.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


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
