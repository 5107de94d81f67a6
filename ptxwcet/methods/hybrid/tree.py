"""Tree-based calculation of the warp-specific WCET ([B] II-C).

Leaves are transitions, inner vertices sequences, alternatives and loops; a sequence takes the sum
of its parts, an alternative the maximum, a loop its bound times the body. The tree itself is not
made: loops are taken in from the inside out, each as time spent at the ipoint that it begins at,
and what sequences and alternatives without a loop take is the longest of their ways.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

from ptxwcet.claims import Refusal
from ptxwcet.methods.hybrid.ipg import Ipg
from ptxwcet.methods.hybrid.observations import LoopCounts
from ptxwcet.support.graph import topological_order

_SINK = -1
_NO_LOOP = Refusal("transitions make a cycle that is no loop: there is no tree")
Edges: TypeAlias = list[tuple[int, int, int]]
"""Source, target, and what it takes."""


def tree_wcet(ipg: Ipg, worst: Mapping[int, int], loops: Sequence[LoopCounts]) -> int | Refusal:
    """The warp-specific WCET by the tree; ``worst`` holds the observed transitions.

    Refused if a warp diverged between two sides (such transitions make cycles that no loop bounds),
    if a loop is entered at several ipoints or goes on at another one than where it is entered (its
    header is no ipoint), or if a transition iterates two loops. Cost: linear in the transitions for
    each loop.
    """
    if any(not ipg.transitions[number].is_ordinary for number in worst):
        return Refusal("a diverged warp passes from side to side: such a graph has no tree")
    heads: list[tuple[int, LoopCounts]] = []
    iterating: set[int] = set()
    for counts in loops:
        own = {number for number in counts.loop.iterations if number in worst}
        if not own:
            continue
        head = _head(ipg, counts, worst)
        if head is None or own & iterating:
            return Refusal("a loop without a single first ipoint has no tree")
        iterating |= own
        heads.append((head, counts))
    steps = {n: (ipg.transitions[n].source, ipg.transitions[n].target, worst[n]) for n in worst}
    forward = [step for number, step in steps.items() if number not in iterating]
    spent: dict[int, int] = {}
    for head, counts in sorted(heads, key=lambda one: (len(one[1].loop.ipoints), -one[1].loop.id)):
        loop = counts.loop
        edges = [row for row in forward if row[0] in loop.ipoints and row[1] in loop.ipoints]
        again = [steps[number] for number in loop.iterations if number in worst]
        body = _longest(head, _SINK, edges + [(row[0], _SINK, row[2]) for row in again], spent)
        if body is None:
            return _NO_LOOP
        spent[head] = spent.get(head, 0) + counts.most_iterations * body
    whole = _longest(ipg.placement.start, ipg.placement.end, forward, spent)
    return _NO_LOOP if whole is None else whole


def _head(ipg: Ipg, row: LoopCounts, observed: Collection[int]) -> int | None:
    """Where the loop is entered and goes on; None if these are several ipoints."""
    numbers = {*row.loop.entries, *row.loop.iterations}
    targets = {ipg.transitions[number].target for number in numbers if number in observed}
    return targets.pop() if len(targets) == 1 else None


def _longest(source: int, sink: int, edges: Edges, spent: Mapping[int, int]) -> int | None:
    """The longest way from ``source`` to ``sink``, with what is ``spent`` before leaving a vertex.

    None if there is a cycle or no way.
    """
    order = topological_order(source, ((start, target) for start, target, _ in edges))
    leaving: dict[int, list[tuple[int, int]]] = {}
    for start, target, cycles in edges:
        leaving.setdefault(start, []).append((target, cycles))
    longest = {sink: 0}
    for vertex in reversed(order or ()):
        ways = [cycles + longest[t] for t, cycles in leaving.get(vertex, ()) if t in longest]
        if ways and vertex != sink:
            longest[vertex] = spent.get(vertex, 0) + max(ways)
    return longest.get(source)
