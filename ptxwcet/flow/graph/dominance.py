"""Dominators and post-dominators of a control-flow graph.

A block ``a`` dominates ``b`` if every path from the entry to ``b`` passes ``a``; it post-dominates
``b`` if every path from ``b`` to the virtual exit passes ``a``. Both relations are trees, computed
by the same algorithm on the graph and on the reversed graph: Lengauer and Tarjan, "A fast algorithm
for finding dominators in a flowgraph" (TOPLAS 1979), the simple version with path compression. Its
O(edges log blocks) holds for every graph, however contrived.
"""

from __future__ import annotations

from collections.abc import Sequence

from ptxwcet.flow.graph.cfg import BlockId, ControlFlowGraph
from ptxwcet.support.records import dataclass


@dataclass(frozen=True, slots=True)
class DominatorTree:
    """Immediate dominators by block id, and constant-time queries.

    ``immediate[b]`` is None for the root and for blocks outside the tree: those that the entry does
    not reach (dominators), or that do not reach the exit (post-dominators). ``first`` and ``last``
    delimit the subtree of each block in a preorder of the tree; ``first`` is -1 outside.
    """

    root: BlockId
    immediate: tuple[BlockId | None, ...]
    first: tuple[int, ...]
    last: tuple[int, ...]

    def covers(self, block: BlockId) -> bool:
        """Whether the relation is defined for ``block``."""
        return self.first[block] >= 0

    def dominates(self, a: BlockId, b: BlockId) -> bool:
        """Whether ``a`` dominates ``b``; a covered block dominates itself. Cost: O(1)."""
        return 0 <= self.first[a] <= self.first[b] <= self.last[a]

    def strictly_dominates(self, a: BlockId, b: BlockId) -> bool:
        """Whether ``a`` dominates ``b`` and differs from it. Cost: O(1)."""
        return a != b and self.dominates(a, b)


def compute_dominators(cfg: ControlFlowGraph) -> DominatorTree:
    """The dominator tree, rooted at the entry. Cost: O(edges log blocks)."""
    return _dominator_tree(cfg.successors, cfg.predecessors, cfg.entry)


def compute_postdominators(cfg: ControlFlowGraph) -> DominatorTree:
    """The post-dominator tree, rooted at the virtual exit. Cost: O(edges log blocks).

    Blocks from which no path leads to the exit are not covered. Paths that never end do not count:
    a block may have a post-dominator although it can also enter an endless loop.
    """
    return _dominator_tree(cfg.predecessors, cfg.successors, cfg.exit)


def _dominator_tree(
    successors: Sequence[Sequence[BlockId]],
    predecessors: Sequence[Sequence[BlockId]],
    root: BlockId,
) -> DominatorTree:
    preorder, parent = _depth_first(successors, root)
    number = [-1] * len(successors)
    for position, block in enumerate(preorder):
        number[block] = position
    incoming = [[number[p] for p in predecessors[b] if number[p] >= 0] for b in preorder]
    above = _immediate_dominators(parent, incoming)
    immediate: list[BlockId | None] = [None] * len(successors)
    for position in range(1, len(preorder)):
        immediate[preorder[position]] = preorder[above[position]]
    first, last = _subtree_intervals(preorder, above, len(successors))
    return DominatorTree(root, tuple(immediate), first, last)


def _depth_first(
    successors: Sequence[Sequence[BlockId]], root: BlockId
) -> tuple[list[BlockId], list[int]]:
    """Depth-first preorder from ``root`` and each position's parent position (step 1 in TOPLAS)."""
    preorder: list[BlockId] = []
    parent: list[int] = []
    seen: set[BlockId] = set()
    stack: list[tuple[BlockId, int]] = [(root, 0)]
    while stack:
        block, above = stack.pop()
        if block in seen:
            continue
        seen.add(block)
        position = len(preorder)
        preorder.append(block)
        parent.append(above)
        stack.extend([(target, position) for target in successors[block] if target not in seen])
    return preorder, parent


def _immediate_dominators(parent: Sequence[int], incoming: Sequence[Sequence[int]]) -> list[int]:
    """Immediate dominators of the positions of a depth-first preorder; 0 is the root.

    ``semi``, ``best`` and ``bucket`` are the paper's semi, label and bucket; ``forest`` is its
    ancestor, -1 for a root of the forest of linked vertices.
    """
    size = len(parent)
    semi = list(range(size))
    best = list(range(size))
    forest = [-1] * size
    above = [0] * size
    bucket: list[list[int]] = [[] for _ in range(size)]
    for w in range(size - 1, 0, -1):
        lowest = w
        for v in incoming[w]:  # step 2: the semidominator of w
            candidate = semi[_best_above(v, forest, best, semi)]
            lowest = min(lowest, candidate)
        semi[w] = lowest
        bucket[lowest].append(w)
        p = parent[w]
        forest[w] = p
        for v in bucket[p]:  # step 3: implicit immediate dominators
            u = _best_above(v, forest, best, semi)
            above[v] = u if semi[u] < p else p
        bucket[p].clear()
    for w in range(1, size):  # step 4: the explicit ones, in preorder
        if above[w] != semi[w]:
            above[w] = above[above[w]]
    return above


def _best_above(v: int, forest: list[int], best: list[int], semi: list[int]) -> int:
    """The paper's EVAL: the vertex of least ``semi`` on the forest path to ``v``, root excluded."""
    if forest[v] < 0:
        return v
    path: list[int] = []
    u = v
    while forest[forest[u]] >= 0:
        path.append(u)
        u = forest[u]
    for w in reversed(path):  # compress, topmost first
        a = forest[w]
        if semi[best[a]] < semi[best[w]]:
            best[w] = best[a]
        forest[w] = forest[a]
    return best[v]


def _subtree_intervals(
    preorder: Sequence[BlockId], above: Sequence[int], size: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Preorder interval of each block's subtree in the dominator tree.

    A dominator precedes what it dominates in ``preorder``, so sizes add up from the back and
    intervals are handed out from the front.
    """
    weight = [1] * len(preorder)
    for position in range(len(preorder) - 1, 0, -1):
        weight[above[position]] += weight[position]
    begin = [0] * len(preorder)
    free = [1] * len(preorder)
    for position in range(1, len(preorder)):
        upper = above[position]
        begin[position] = free[upper]
        free[upper] += weight[position]
        free[position] = begin[position] + 1
    first = [-1] * size
    last = [-1] * size
    for position, block in enumerate(preorder):
        first[block] = begin[position]
        last[block] = begin[position] + weight[position] - 1
    return tuple(first), tuple(last)
