"""What a launch makes of each branch: who takes it alike, and whether it is decided.

Both come from the path analysis: who agrees from :mod:`ptxwcet.flow.shapes.uniformity` and facts,
what is decided from the walks that found the paths. Where there are no paths, only who agrees is
known.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from ptxwcet.flow.flow_graph import FlowGraph
from ptxwcet.flow.graph.cfg import BlockId
from ptxwcet.flow.launch import BoundOrigin, Outcome, PlacedFacts
from ptxwcet.flow.shapes.pattern import Agreement
from ptxwcet.flow.walk.path import (
    BlockPaths,
    Path,
    PathChoice,
    PathEnd,
    PathFork,
    Visit,
    loop_entries,
    nodes_in,
)
from ptxwcet.support.records import dataclass


class BranchClass(Enum):
    """Who goes the same way whenever a warp comes to a branch."""

    BLOCK = "uniform over the block"
    WARP = "uniform over the warp"
    DIVERGENT = "divergent"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class BranchKind:
    """A branch at the end of ``block``: its class, and ``how`` it goes, for people.

    ``is_decided``: the analysis knows how it goes in every visit; None without paths.
    """

    block: BlockId
    kind: BranchClass
    is_decided: bool | None
    how: str


def classify_branches(
    graph: FlowGraph, facts: PlacedFacts, pieces: Iterable[BlockPaths] | None
) -> tuple[BranchKind, ...]:
    """All branches that lead to two places, in the order of their blocks.

    ``pieces`` are the paths that were found for the launch with this graph, None if it is refused.
    Cost: linear in the paths.
    """
    seen = None if pieces is None else _Seen.of(pieces, graph)
    branches = [one.id for one in graph.cfg.blocks if graph.cfg.has_two_ways(one.id)]
    return tuple(_kind(graph, facts, block, seen) for block in branches)


def _kind(graph: FlowGraph, facts: PlacedFacts, block: BlockId, seen: _Seen | None) -> BranchKind:
    stated = facts.uniform.get(block)
    proven, race_free = graph.agreements[block], graph.agreements.without_races(block)
    kind = {Agreement.BLOCK: BranchClass.BLOCK, Agreement.WARP: BranchClass.WARP}.get(
        max(proven, race_free), BranchClass.UNKNOWN
    )
    why = " (if the kernel has no data races)" if race_free > proven else ""
    if stated == "block" or (stated == "warp" and kind is BranchClass.UNKNOWN):
        kind, why = BranchClass.BLOCK if stated == "block" else BranchClass.WARP, " (stated)"
    if seen is None:
        return BranchKind(block, kind, None, f"not analysed{why}")
    if block in seen.open:
        return BranchKind(block, kind, False, f"not decided{why}")
    ways = {taken for taken in (True, False) if (block, taken) in seen.visits}
    if not ways:
        return BranchKind(block, kind, True, "never reached")
    if block in seen.parted:
        return BranchKind(block, BranchClass.DIVERGENT, True, "decided: lanes part")
    if kind is BranchClass.UNKNOWN:
        kind = BranchClass.WARP
    how = "taken at times"
    if len(ways) == 1:
        how = "always taken" if True in ways else "never taken"
    return BranchKind(block, kind, True, f"decided: {how}{why}")


@dataclass(frozen=True, slots=True)
class _Seen:
    """The visits of paths, and the blocks whose branches are open or part lanes."""

    visits: frozenset[Outcome]
    open: frozenset[int]
    parted: frozenset[int]

    @staticmethod
    def of(pieces: Iterable[BlockPaths], graph: FlowGraph) -> _Seen:
        visits: set[Outcome] = set()
        open_: set[int] = set(graph.work.unresolved_branches)
        for piece in pieces:
            for warp in piece.warps:
                _collect(warp.nodes, visits, open_)
                open_.update(
                    source
                    for entry in loop_entries(warp.nodes)
                    if entry.origin is BoundOrigin.USER
                    for source, _ in graph.forest.loops[entry.loop].exits
                )
        return _Seen(frozenset(visits), frozenset(open_), frozenset(graph.work.parting))


def _collect(nodes: Path, visits: set[Outcome], opened: set[int]) -> None:
    for node in nodes_in(nodes):
        match node:
            case Visit(block, taken):
                visits.add((block, taken))
            case PathChoice(alternatives, by_parts=True):
                opened.update(way[0].block for way in alternatives if isinstance(way[0], Visit))
            case PathFork(block):
                opened.add(block)
                visits.update(((block, True), (block, False)))
            case PathEnd(leave, rest, stay):
                opened.add(stay.block)
                visits.update((one.block, one.taken) for one in (leave, *rest, stay))
