"""Tree-based calculation of the warp-specific WCET ([B] II-C).

Leaves are transitions, inner vertices sequences, alternatives and loops; a sequence takes the sum
of its parts, an alternative the maximum, a loop its bound times the body. Equal subtrees are one
object, so that a graph that is no nest of these constructs has a small tree too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

from ptxwcet.claims import Refusal
from ptxwcet.methods.hybrid.ipg import Ipg
from ptxwcet.methods.hybrid.observations import LoopCounts
from ptxwcet.methods.hybrid.regions import Edges, region_tree
from ptxwcet.methods.hybrid.tree_nodes import Iteration, Leaf, Serial, TimingTree

_SINK = -1
Heads: TypeAlias = Mapping[int, list[LoopCounts]]
"""The loops that begin at an ipoint, outer before inner."""


def tree_wcet(ipg: Ipg, worst: Mapping[int, int], loops: Sequence[LoopCounts]) -> int | Refusal:
    """The warp-specific WCET by the tree; ``worst`` holds the observed transitions.

    Refused where there is no tree: see build_tree. Cost: quadratic in the ipoints.
    """
    tree = build_tree(ipg, worst, loops)
    return tree if isinstance(tree, Refusal) else evaluate(tree, worst)


def build_tree(
    ipg: Ipg, observed: Collection[int], loops: Sequence[LoopCounts]
) -> TimingTree | Refusal:
    """The tree of the observed transitions.

    Refused if a warp diverged between two sides (such transitions make cycles that no loop bounds),
    if a loop is entered at several ipoints or goes on at another one than where it is entered (its
    header is no ipoint), or if a transition iterates two loops. Cost: quadratic in the ipoints.
    """
    if any(not ipg.transitions[number].is_ordinary for number in observed):
        return Refusal("a diverged warp passes from side to side: such a graph has no tree")
    heads: dict[int, list[LoopCounts]] = {}
    iterating: set[int] = set()
    for counts in loops:
        own = {number for number in counts.loop.iterations if number in observed}
        if not own:
            continue
        head = _head(ipg, counts, observed)
        if head is None or own & iterating:
            return Refusal("a loop without a single first ipoint has no tree")
        iterating |= own
        heads.setdefault(head, []).append(counts)
    forward: Edges = {}
    for number in observed:
        if number not in iterating:
            transition = ipg.transitions[number]
            forward.setdefault(transition.source, []).append((transition.target, Leaf(number)))
    return _Builder(ipg, observed, forward, heads).build()


def _head(ipg: Ipg, row: LoopCounts, observed: Collection[int]) -> int | None:
    """Where the loop is entered and goes on; None if these are several ipoints."""
    numbers = {*row.loop.entries, *row.loop.iterations}
    targets = {ipg.transitions[number].target for number in numbers if number in observed}
    return targets.pop() if len(targets) == 1 else None


class _Builder:
    def __init__(self, ipg: Ipg, observed: Collection[int], forward: Edges, heads: Heads) -> None:
        self._ipg = ipg
        self._observed = observed
        self._forward = forward
        self._heads = heads
        self._attached: dict[int, list[TimingTree]] = {}

    def build(self) -> TimingTree | Refusal:
        """Inner loops first: each becomes a vertex before all that follows its head."""
        pairs = [(head, row) for head, loops in self._heads.items() for row in loops]
        size = {row.loop.id: len(row.loop.ipoints) for _, row in pairs}
        for head, counts in sorted(
            pairs, key=lambda pair: (size[pair[1].loop.id], -pair[1].loop.id)
        ):
            body = self._body(head, counts)
            if body is None:
                return Refusal("transitions make a cycle that is no loop: there is no tree")
            # outer loops come later and stand before the inner ones of the same head
            self._attached.setdefault(head, []).insert(0, Iteration(counts.most_iterations, body))
        placement = self._ipg.placement
        whole = region_tree(placement.start, placement.end, self._forward, self._attached)
        if whole is None:
            return Refusal("transitions make a cycle that is no loop: there is no tree")
        return whole

    def _body(self, head: int, counts: LoopCounts) -> TimingTree | None:
        """One iteration: from the head to a transition that goes on."""
        loop = counts.loop
        inside: Edges = {
            source: [(target, tree) for target, tree in targets if target in loop.ipoints]
            for source, targets in self._forward.items()
            if source in loop.ipoints
        }
        for number in loop.iterations:
            if number in self._observed:
                source = self._ipg.transitions[number].source
                inside.setdefault(source, []).append((_SINK, Leaf(number)))
        return region_tree(head, _SINK, inside, self._attached)


def evaluate(tree: TimingTree, worst: Mapping[int, int]) -> int:
    """The WCET of a tree by the rules of [B] II-C. Cost: linear in its vertices."""
    wcets: dict[int, int] = {}
    pending: list[TimingTree] = [tree]
    while pending:
        node = pending[-1]
        parts = _parts(node)
        missing = [part for part in parts if id(part) not in wcets]
        if missing:
            pending += missing
            continue
        pending.pop()
        times = [wcets[id(part)] for part in parts]
        if isinstance(node, Leaf):
            wcets[id(node)] = worst[node.transition]
        elif isinstance(node, Iteration):
            wcets[id(node)] = node.bound * times[0]
        else:
            wcets[id(node)] = sum(times) if isinstance(node, Serial) else max(times)
    return wcets[id(tree)]


def _parts(node: TimingTree) -> tuple[TimingTree, ...]:
    if isinstance(node, Leaf):
        return ()
    return (node.body,) if isinstance(node, Iteration) else node.parts
