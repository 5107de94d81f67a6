"""Which branch-divergent edges of a kernel are shown, and how each stands to the published set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from ptxwcet.flow.graph.cfg import Edge
from ptxwcet.flow.graph.control_flow import ControlFlow
from ptxwcet.flow.graph.divergence import add_branch_divergent_edges, complete_divergent_edges


class DivergentSet(Enum):
    """Which branch-divergent edges are asked for; see :mod:`ptxwcet.flow.graph.divergence`."""

    NONE = "none"
    PUBLISHED = "published"
    COMPLETE = "complete"


class EdgeStanding(Enum):
    """Whether a diverged warp takes an edge, and whether the published algorithm finds it."""

    PUBLISHED = "divergent: a diverged warp takes it; in the published set"
    UNPUBLISHED = "divergent, but missing from the published set"
    IMPOSSIBLE = "in the published set, but no warp takes it"
    UNDECIDED = "divergent (loops are irreducible: the published set is undefined)"


@dataclass(frozen=True, slots=True)
class StandingEdges:
    """Divergent edges in ascending order with their standing.

    ``is_published_defined``: the graph is reducible, so that the published algorithm applies.
    """

    edges: Mapping[Edge, EdgeStanding]
    is_published_defined: bool


def select_divergent_edges(flow: ControlFlow, shown: DivergentSet) -> StandingEdges:
    """The edges of a set: the complete one, or the published one, which may have impossible edges.

    Raises PtxwcetError (PW234) for too many. Cost: that of both sets.
    """
    cfg, forest, postdominators = flow.cfg, flow.forest, flow.postdominators
    is_defined = forest.is_reducible
    if shown is DivergentSet.NONE or (shown is DivergentSet.PUBLISHED and not is_defined):
        return StandingEdges({}, is_defined)
    complete = complete_divergent_edges(cfg, postdominators).edges
    if not is_defined:
        return StandingEdges(dict.fromkeys(complete, EdgeStanding.UNDECIDED), is_defined)
    published = add_branch_divergent_edges(cfg, forest, postdominators).edges
    complete_edges, published_edges = frozenset(complete), frozenset(published)
    return StandingEdges(
        {
            edge: _standing(edge in complete_edges, edge in published_edges)
            for edge in (complete if shown is DivergentSet.COMPLETE else published)
        },
        is_defined,
    )


def _standing(is_taken: bool, is_published: bool) -> EdgeStanding:
    if not is_taken:
        return EdgeStanding.IMPOSSIBLE
    return EdgeStanding.PUBLISHED if is_published else EdgeStanding.UNPUBLISHED
