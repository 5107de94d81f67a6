"""Checks that all classes of warps arrive equally at the decisions of the block.

A branch whose operands are the same for all warps at their n-th visits of it is decided alike at
each n-th visit, and a loop that such branches end has the same trip count at each n-th entry. Where
barriers depend on it, the choices of warps that were walked separately are paired by their order.
That is correct only if the n-th choice of one class is the n-th visit in each class.

This holds if all classes have the same *skeleton*: the tree of a path reduced to visits of such
branches, decided or open, entries and iterations of such loops, and the nodes around these. Proof,
along the tree in the order of execution: if all decisions so far were the same in two classes, both
have visited each of these branches equally often, since every visit is in the skeleton; so the next
open one is the same visit of the same branch for both, and is decided alike. A class that has ended
visits no further branch: its skeleton may be a prefix of another one.

Exits of a loop are alternatives in the order of the walk, and equal exits of several passes are a
single alternative. So the n-th exit of one class is the n-th of another only if both leave at the
same places, and in the same passes where several exits leave at one place: each exit records this
(``PathChoice.taken_in``). Paths that differ only in this are not equal, so that a class of warps
has a single order.

Products of warpgroups (docs/methods/warpgroups.md) have further requirements: the warps of a
warpgroup are of one class, and it is certain where they arrive at a product.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from ptxwcet.flow.graph.cfg import ControlFlowGraph
from ptxwcet.flow.walk.path import (
    Path,
    PathChoice,
    PathEnd,
    PathFork,
    PathGone,
    PathLoop,
    PathNode,
    PathParts,
    PathRepeat,
    PathUnordered,
    Visit,
    may_end,
    parts_of,
    visited_blocks,
)
from ptxwcet.ir.kernel import Kernel
from ptxwcet.machine.model import Machine
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.timing.demand import used_units
from ptxwcet.warp.program import (
    WARPGROUP,
    BlockChoice,
    BlockRepeat,
    Node,
    Repeat,
    TimedInstruction,
    WarpClass,
)
from ptxwcet.warp.segments import has_named_join
from ptxwcet.warp.structure import bodies, entered, issued, joining

_Skeleton = tuple[object, ...]


def require_alike(paths: Sequence[Path], places: frozenset[int]) -> None:
    """Raises PtxwcetError (PW502) if classes of warps arrive at ``places`` differently.

    ``places`` are the blocks whose branches, or the loops around them, decide for the whole block
    which barriers it meets. Cost: linear in the paths.
    """
    if len(paths) < 2 or not places:
        return
    skeletons = sorted((_skeleton(nodes, places) for nodes in paths), key=len)
    for shorter, longer in pairwise(skeletons):
        if shorter != longer[: len(shorter)]:
            raise PtxwcetError(
                Diagnostic(
                    "PW502",
                    "a branch or a loop decides which barriers the block meets, and its warps come "
                    "to it in different ways",
                    help="all warps must meet the same sequence of barriers: give the facts that "
                    "decide the branch, or how often the loop runs",
                )
            )


def _skeleton(nodes: Path, places: frozenset[int]) -> _Skeleton:
    return tuple(_bones(nodes, places))


def _bones(nodes: Path, places: frozenset[int]) -> Iterator[object]:
    for node in nodes:
        parts = tuple(_skeleton(part, places) for part in parts_of(node))
        is_there, what = _place(node, places)
        if is_there or any(parts):
            ends = _ends(node.alternatives, node.site) if isinstance(node, PathChoice) else ()
            yield *what, *parts, ends


def _place(node: PathNode, places: frozenset[int]) -> tuple[bool, tuple[object, ...]]:
    """Returns whether a node is itself of the skeleton, and what tells it from other nodes."""
    match node:
        case Visit(block):
            return block in places, (block,)
        case PathEnd(leave):
            return leave.block in places, ("end", leave.block)
        case PathGone():
            return False, ()
        case PathRepeat(count, least, body, together, step):
            is_named = together is not None and together.site in places
            is_there = is_named or (step != 0 and next(visited_blocks(body)) in places)
            return is_there, ("repeat", str(count), str(least), together, step)
        case PathLoop(loop, body):
            return next(visited_blocks(body)) in places, ("loop", loop)
        case PathChoice(_, site, taken_in=taken_in):
            return site in places, ("choice", site, taken_in)
        case PathUnordered():
            return False, ("both",)
        case PathFork(block):
            return block in places, ("sides", block)
        case PathParts(least=least):
            return False, ("parts", least)


def _ends(alternatives: tuple[Path, ...], site: int | None) -> tuple[int, ...]:
    """Returns the ends that distinguish several exits of a loop, or the two sides of a branch.

    The end is the last block of each path, which also identifies how a loop with a known decision
    ends. The two sides of a branch are distinguished by their order.
    """
    first = [way[0] if way else None for way in alternatives]
    outcomes = {visit.taken for visit in first if isinstance(visit, Visit) and visit.block == site}
    if len(alternatives) == 2 and len(outcomes) == 2:
        return ()
    return tuple(next(reversed([*visited_blocks(way)]), -1) for way in alternatives)


def require_warpgroups(
    classes: Sequence[WarpClass],
    paths: Sequence[Path],
    kernel: Kernel,
    cfg: ControlFlowGraph,
    machine: Machine,
) -> None:
    """Raises PtxwcetError (PW403) for products without a proved bound. ``paths``: of classes.

    Products need whole warpgroups whose warps have one program, wherever all warps of the block
    take the same path; each of the four warps has a sub-core with units of its own, and issues only
    products to the unit of products.
    """
    groups = [
        (group, products, path)
        for group, path in zip(classes, paths, strict=True)
        if (products := joining(group.program.body))
    ]
    if not groups:
        return
    used = frozenset[str]().union(*(used_units(group.program.body) for group, _, _ in groups))
    shared = [unit.name for unit in machine.units if unit.name in used and unit.count != WARPGROUP]
    for group, products, path in groups:
        origins = {product.origin for product in products}
        places = frozenset(
            block.id for block in cfg.blocks if origins & {*range(block.start, block.end)}
        )
        open_ = joining(_undecided(group.program.body))
        reason = ""
        if any(has_named_join(each.program.body) for each in classes):
            reason = "warps of the block meet at barriers of a part of it, too"
        elif machine.schedulers_per_sm != WARPGROUP:
            reason = f"machine {machine.name} has no four schedulers, one for each of its warps"
        elif shared:
            reason = f"the sub-cores of machine {machine.name} share units: {', '.join(shared)}"
        elif not _is_whole(group.warps):
            reason = "the four warps of a warpgroup do not all take the same path to it"
        elif open_:
            reason = "whether or how often warps come to it is not known"
        elif _may_have_ended(path, places):
            reason = "some warps may have ended before they come to it"
        elif beside := _beside(group.program.body, products):
            reason = f"its warps use {beside} of their sub-cores otherwise, too"
        if reason:
            raise PtxwcetError(unproved((open_ or products)[0], kernel, reason))


def _may_have_ended(nodes: Path, places: frozenset[int]) -> bool:
    """Returns whether a warp may have ended before it arrives at one of the blocks.

    Cost: linear in the tree, times its depth.
    """
    ended = False
    for node in nodes:
        ends, comes = may_end((node,)), not places.isdisjoint(visited_blocks((node,)))
        goes_round = isinstance(node, PathRepeat | PathLoop)
        again = ends and (goes_round or (isinstance(node, PathParts) and node.least > 0))
        if comes and (ended or again):
            return True
        if any(_may_have_ended(part, places) for part in parts_of(node)):
            return True
        ended |= ends
    return False


def _beside(body: Sequence[Node], products: Sequence[TimedInstruction]) -> str:
    """Returns a unit of products to which a body also issues other instructions, or "".

    A warp may run ahead of its warpgroup, and its instructions may precede a product in the queue.
    """
    own = {p.unit for p in products}
    others = (found for node in entered(body) if (found := issued(node)) and not found.joins)
    return next((u.unit for u in others if u.unit in own), "")


def unproved(product: TimedInstruction, kernel: Kernel, reason: str) -> Diagnostic:
    """Returns the refusal of a product without a proved bound."""
    instruction = kernel.instructions[product.origin]
    return Diagnostic(
        "PW403",
        f"{instruction.mnemonic}: no bound is proved for this product of a warpgroup: {reason}",
        instruction.span,
        notes=("it waits for all four warps, as a barrier does (docs/methods/warpgroups.md)",),
    )


def _is_whole(warps: Sequence[int]) -> bool:
    return {w - w % WARPGROUP + n for w in warps for n in range(WARPGROUP)} <= {*warps}


def _undecided(body: Sequence[Node]) -> tuple[Node, ...]:
    """Returns the parts of a body in which warps may differ, in path or in iteration count."""
    out: list[Node] = []
    for node in body:
        match node:
            case TimedInstruction():
                pass
            case BlockRepeat() | BlockChoice() | Repeat(exact=True):
                for inner in bodies(node):
                    out += _undecided(inner)
            case _:
                out.append(node)
    return tuple(out)
