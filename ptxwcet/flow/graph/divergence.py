"""Branch-divergent edges: transfers between blocks that only a diverged warp makes.

When the threads of a warp disagree at a branch, the sides are executed one after the other, each up
to the branch's immediate post-dominator, where the threads join again. So at the end of one side
control passes to the start of another, a transfer that the control-flow graph does not have::

    b -> s -> m,  b -> t -> m        side s, then side t:  b, s, t, m        divergent edge s -> t

The edges are kept apart from the graph: they make it irreducible even where it is acyclic, so loops
are found first, without them (Betts and Donaldson, "Estimating the WCET of GPU-accelerated
applications using hybrid analysis", ECRTS 2013, IV-C).

:func:`add_branch_divergent_edges` is their algorithm as published (Fig. 3). It does not cover every
transfer (see docs/methods/branch-divergent-edges.md); :func:`complete_divergent_edges` is ours and
gives exactly the transfers of a warp that reconverges at immediate post-dominators.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum

from ptxwcet.flow.graph.cfg import BlockId, ControlFlowGraph, Edge
from ptxwcet.flow.graph.control_flow import ControlFlow
from ptxwcet.flow.graph.dominance import DominatorTree
from ptxwcet.flow.graph.loops import LoopForest
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.graph import reachable
from ptxwcet.support.records import dataclass

MAX_DIVERGENT_EDGES = 200_000
"""Most edges that are enumerated. Their number can be quadratic in the branches that share a
post-dominator; a compiled kernel of 647 blocks (a histogram of CUB) has 234."""


@dataclass(frozen=True, slots=True)
class DivergentEdges:
    """Divergent edges that are not edges of the graph, ascending.

    ``branches`` are the branches that were considered. ``unresolved`` are those among them without
    a post-dominator (no path leads to the exit): their divergent edges are unknown and missing.
    """

    edges: tuple[Edge, ...]
    branches: tuple[BlockId, ...]
    unresolved: tuple[BlockId, ...] = ()


def forward_branches(cfg: ControlFlowGraph, forest: LoopForest) -> tuple[BlockId, ...]:
    """The forward branches of the graph without its back edges (Betts and Donaldson, IV-A).

    A block with several successors there; if it is a loop header, only if all are in its loop.
    """
    return tuple(
        block for block in sorted(cfg.reverse_postorder) if _is_forward(cfg, forest, block)
    )


def _is_forward(cfg: ControlFlowGraph, forest: LoopForest, block: BlockId) -> bool:
    forward = [t for t in cfg.successors[block] if (block, t) not in forest.back_edges]
    if len(forward) < 2:
        return False
    loop = forest.loop_at(block)
    return loop is None or loop.body.issuperset(forward)


def add_branch_divergent_edges(
    cfg: ControlFlowGraph, forest: LoopForest, postdominators: DominatorTree
) -> DivergentEdges:
    """ADD-BRANCH-DIVERGENT-EDGES, exactly as in Fig. 3 of Betts and Donaldson (ECRTS 2013).

    ``pred`` and ``succ`` are those of the given graph throughout, not of the growing one. Where the
    post-dominator is a loop header, only those of its predecessors are considered that the branch
    reaches without passing it. Raises ValueError for an irreducible graph, for which the algorithm
    is not defined, and PtxwcetError (PW234) for more than ``MAX_DIVERGENT_EDGES``.
    Cost: O(blocks * edges) bit operations for the sets, and one membership test a branch and
    predecessor of its post-dominator.
    """
    if not forest.is_reducible:
        raise ValueError("branch-divergent edges are defined for reducible graphs only")
    reachable = _reaching_sets(cfg, forest)
    branches = forward_branches(cfg, forest)
    unresolved = []
    edges: set[Edge] = set()
    for branch in branches:
        merge = postdominators.immediate[branch]
        if merge is None:
            unresolved.append(branch)
            continue
        for p in _merging(cfg, forest, reachable, branch, merge):
            successors = cfg.successors[branch]
            new = [s for s in successors if not reachable[p] >> s & 1]
            edges.update((p, s) for s in new or successors)
        _check_number(edges)
    return DivergentEdges(_not_in(cfg, edges), branches, tuple(unresolved))


def _reaching_sets(cfg: ControlFlowGraph, forest: LoopForest) -> list[int]:
    """For each block the set of blocks that reach it without back edges, as bits (lines 1-4)."""
    reachable = [0] * len(cfg.blocks)
    for block in cfg.reverse_postorder:
        bits = 1 << block
        for p in cfg.predecessors[block]:
            if (p, block) not in forest.back_edges:
                bits |= reachable[p]
        reachable[block] = bits
    return reachable


def _merging(
    cfg: ControlFlowGraph,
    forest: LoopForest,
    reachable: list[int],
    branch: BlockId,
    merge: BlockId,
) -> tuple[BlockId, ...]:
    """The predecessors of line 7; for a loop header those on a way from the branch to it."""
    loop = forest.loop_at(merge)
    if loop is None:
        return cfg.predecessors[merge]
    inside = branch in loop.body
    return tuple(
        p
        for p in cfg.predecessors[merge]
        if reachable[p] >> branch & 1 and (p in loop.body) == inside
    )


@dataclass(frozen=True, slots=True)
class DeferredTransfers:
    """Which branches can have put off which transfer: edge ``p -> s`` to branches before ``s``.

    At the end of one side in ``p``, the warp goes on with side ``s`` of such a branch ``b``: it
    makes the transfer ``b -> s`` then. Pairs that are edges of the graph too are among them.
    """

    causes: Mapping[Edge, tuple[BlockId, ...]]
    branches: tuple[BlockId, ...]
    unresolved: tuple[BlockId, ...]


def find_deferred_transfers(
    cfg: ControlFlowGraph, postdominators: DominatorTree
) -> DeferredTransfers:
    """All transfers that a warp puts off while it executes another side; see below.

    Raises PtxwcetError (PW234) for more than ``MAX_DIVERGENT_EDGES``. Cost: as
    :func:`complete_divergent_edges`.
    """
    branches = tuple(
        block for block in sorted(cfg.reverse_postorder) if len(cfg.successors[block]) > 1
    )
    unresolved = []
    branches_of: dict[Edge, list[BlockId]] = {}
    for branch in branches:
        merge = postdominators.immediate[branch]
        if merge is None:
            unresolved.append(branch)
            continue
        sides = [s for s in cfg.successors[branch] if s != merge]
        if len(sides) < 2:
            continue
        for side in sides:
            ends = [
                p for p in reachable(cfg.successors, [side], (merge,)) if merge in cfg.successors[p]
            ]
            for edge in ((p, other) for p in ends for other in sides if other != side):
                causes = branches_of.setdefault(edge, [])
                if not causes or causes[-1] != branch:
                    causes.append(branch)
        _check_number(branches_of)
    causes_of = {edge: tuple(branches_of[edge]) for edge in sorted(branches_of)}
    return DeferredTransfers(causes_of, branches, tuple(unresolved))


def complete_divergent_edges(
    cfg: ControlFlowGraph, postdominators: DominatorTree
) -> DivergentEdges:
    """All divergent edges, and no others, of a warp that reconverges at post-dominators.

    For a branch ``b`` with immediate post-dominator ``m`` there is an edge from a predecessor ``p``
    of ``m`` to a successor ``s`` of ``b`` other than ``m`` if some other successor of ``b`` reaches
    ``p`` without passing ``m``. Any graph will do, irreducible ones too. Raises PtxwcetError
    (PW234) for more than ``MAX_DIVERGENT_EDGES``.
    Cost: O(branches * edges), the edges being those between a branch and its post-dominator.
    """
    found = find_deferred_transfers(cfg, postdominators)
    return DivergentEdges(_not_in(cfg, found.causes), found.branches, found.unresolved)


def _not_in(cfg: ControlFlowGraph, found: Collection[Edge]) -> tuple[Edge, ...]:
    """The edges that the graph does not have: an edge that exists stays ordinary."""
    return tuple(sorted((p, s) for p, s in found if s not in cfg.successors[p]))


def _check_number(found: Collection[Edge]) -> None:
    if len(found) > MAX_DIVERGENT_EDGES:
        raise PtxwcetError(
            Diagnostic(
                "PW234",
                f"the kernel has more than {MAX_DIVERGENT_EDGES} branch-divergent edges",
                help="too many of its branches join at one place; leave the edges out "
                "(--divergent none) or split the kernel",
            )
        )


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
