"""Branches of which it is not known who goes where: each way is walked, and their ends are joined.

Who may go several ways is a lane, a warp as a whole, or all warps of the block alike; the ways are
the sides of a branch, the targets of a table, or the places that the exits of a loop lead to.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from ptxwcet.flow.graph.cfg import BlockId
from ptxwcet.flow.graph.loops import Loop
from ptxwcet.flow.shapes.pattern import Agreement
from ptxwcet.flow.values.value import Cause, CauseKind, Mask
from ptxwcet.flow.walk.guards import assume, restore
from ptxwcet.flow.walk.path import Path, PathChoice, PathFork, PathGone, PathParts, Visit
from ptxwcet.flow.walk.reachability import Reach, Reachability
from ptxwcet.flow.walk.sides import join_registers, note_way_out, walk_way_out
from ptxwcet.flow.walk.state import Snapshot, WalkState
from ptxwcet.flow.walk.stops import Infeasible, Refused, Undecided, no_meeting
from ptxwcet.flow.walk.unresolved import Branch, Side, Way

_REGISTERS_IN_A_STEP = 256
"""Registers that are joined in the time of an instruction: some kernels have thousands."""


def walk_both_sides(
    walk: WalkState, branch: Branch, meeting: int | None, inside: Loop | None
) -> tuple[int, Mask]:
    """Walks both sides of an unresolved branch, as :func:`walk_alternatives` does.

    A barrier on a side that a warp takes as a whole is refused since other warps may wait on the
    other side; it is fine if these have ended, which shows where lanes are followed.
    """
    if meeting is None:
        raise no_meeting(walk.graph.last(branch.block))
    if branch.agreement is not Agreement.WARP or branch.lane_by_lane:
        return walk_alternatives(walk, branch, meeting, inside)
    before = walk.snapshot()
    try:
        return walk_alternatives(walk, branch, meeting, inside)
    except (Refused, Undecided) as refused:
        if not _is_for_barrier(walk, refused, branch.block):
            raise
    walk.restore(before)
    by_lane = replace(branch, lane_by_lane=True)
    return walk_both_sides(walk, by_lane, walk.graph.meeting(branch.block), None)


def walk_alternatives(
    walk: WalkState, branch: Branch, meeting: int, inside: Loop | None
) -> tuple[int, Mask]:
    """Walks each way on from a branch up to where all of them meet, and joins what is known there.

    Each starts from the state at the branch. A way that facts exclude leaves nothing. Returns the
    meeting and the lanes that arrive there. ``inside`` is a loop around, which the ways may leave.
    """
    before = walk.snapshot()
    walk.spend(len(before.registers) // _REGISTERS_IN_A_STEP, walk.graph.last(branch.block))
    try:
        sides = _sides_in_some_order(walk, branch, before, (meeting, inside))
    except Infeasible as infeasible:
        walk.contradict(infeasible.reason, before.reachability.reach)
        uncertain = replace(branch, reach=Reach.PERHAPS)
        sides = _sides_in_some_order(walk, uncertain, before, (meeting, inside))
    if len(sides) > 1 and not branch.agreement:
        _require_no_barrier(walk, branch, sides)
    _join(walk, branch, before, sides)
    _record(walk, branch, meeting, sides)
    return meeting, reduce(np.logical_or, [side.arrived for side in sides])


def _sides_in_some_order(
    walk: WalkState, branch: Branch, before: Snapshot, stop: tuple[int, Loop | None]
) -> list[Side]:
    """Walks the sides that facts do not exclude. Raises Infeasible if there is none.

    Where a barrier is on the first of two sides, that is fine if the lanes of the other one have
    exited before.
    """
    try:
        return _sides(walk, branch, before, stop)
    except (Refused, Undecided) as refused:
        if branch.is_by_warp or len(branch.ways) > 2:
            raise
        if not _is_for_barrier(walk, refused, branch.block):
            raise
    walk.restore(before)
    backwards = replace(branch, ways=branch.ways[::-1])
    return _sides(walk, backwards, before, stop)[::-1]


def _sides(
    walk: WalkState, branch: Branch, before: Snapshot, stop: tuple[int, Loop | None]
) -> list[Side]:
    """Walks the ways in their order; the state is that ``before`` them again."""
    sides: list[Side] = []
    excluded: Infeasible | None = None
    for way in branch.ways:
        walk.go_back(before)
        walk.reachability = _reachability_on_side(before.reachability, branch, sides)
        for side in sides:  # lanes of others that have ended do not wait
            walk.state.alive &= ~(side.way.mask & ~way.mask & ~side.alive)
        assumed = assume(walk, branch.condition, holds=way.taken)
        try:
            path, arrived = _walk_way(walk, branch, way, stop)
        except Infeasible as infeasible:
            excluded = infeasible
            continue
        restore(walk, assumed)
        state = walk.state
        sides.append(Side(way, path, arrived, state.registers, state.alive, walk.reachability))
    walk.go_back(before)
    if excluded is not None and not sides:
        raise excluded
    return sides


def _reachability_on_side(
    reachability: Reachability, branch: Branch, sides: Collection[Side]
) -> Reachability:
    """Returns who comes to a side of a branch, others having been walked before."""
    reachability = reachability.exact_if(branch.is_by_warp).reached(branch.reach)
    if branch.agreement is Agreement.BLOCK:
        return reachability
    if branch.is_by_warp or not sides or any(side.arrives for side in sides):
        return reachability.parted(branch.block, branch.causes)
    return reachability


def _walk_way(
    walk: WalkState, branch: Branch, way: Way, stop: tuple[int, Loop | None]
) -> tuple[Path, Mask]:
    """Walks one way up to the meeting, or out of the loop around that it may leave."""
    meeting, inside = stop
    edge = branch.block, way.target
    with walk.recorded.side(branch.before(way), edge, chosen=branch.is_by_warp):
        walk.check_depth(way.target)
        reached, arrived = walk.region(way.target, way.mask, meeting, inside)
        if reached != meeting and arrived.any():
            arrived = _leave_loop(walk, branch, (reached, arrived), way.mask)
        return tuple(walk.recorded.nodes), arrived


def _leave_loop(walk: WalkState, branch: Branch, place: tuple[int, Mask], mask: Mask) -> Mask:
    """Notes that a side that all lanes have taken leaves the loop; nobody is left in it."""
    if branch.stray is not None:
        raise branch.stray
    reached, arrived = place
    last = walk.recorded.last
    meeting = walk.graph.meeting(last.block) if isinstance(last, Visit) else None
    if not np.array_equal(arrived, mask) or not walk.may_meet(meeting):
        raise Undecided(walk.graph.last(branch.block), branch.causes)
    behind = walk_way_out(walk, branch, reached, mask, meeting)
    note_way_out(walk, branch, ((), behind), (meeting, mask), taken=True)
    return np.zeros_like(mask)


def _require_no_barrier(walk: WalkState, branch: Branch, sides: Collection[Side]) -> None:
    """Requires that no side has a barrier, as lanes that diverge may execute either side first: one
    that waits would wait for the other.

    This also refuses sides whose lanes end, since they have not ended if theirs comes last. Raises
    Refused (PW222), or Undecided where facts would tell the way.
    """
    if not any(walk.steps.have_barrier(side.path) for side in sides):
        return
    index = walk.graph.last(branch.block)
    if any(cause.kind in (CauseKind.PARAMETER, CauseKind.LAUNCH) for cause in branch.causes):
        raise Undecided(index, branch.causes)
    raise Refused(
        "PW222",
        index,
        "lanes of a warp may part here, and those of one side wait at a barrier while "
        "those of the other have not returned yet",
        "return by a branch to the end of the kernel, or move the barrier out of the branch",
    )


def _is_for_barrier(walk: WalkState, refused: Refused | Undecided, block: int) -> bool:
    """Returns whether a barrier that not all may reach was refused for this branch."""
    if isinstance(refused, Undecided):
        return refused.instruction == walk.graph.last(block)
    return refused.code == "PW222"


def _join(walk: WalkState, branch: Branch, before: Snapshot, sides: Sequence[Side]) -> None:
    """Joins what is known where the sides meet.

    Behind sides of which a warp takes one as a whole it is that of those which arrive. A lane is
    alive that is so behind one of its sides.
    """
    joined = [side for side in sides if side.arrives] if branch.is_by_warp else []
    joined = joined or list(sides)
    causes = branch.causes
    if not causes:
        causes = frozenset({Cause(CauseKind.LOOP, walk.cfg.name(BlockId(branch.block)))})
    join_registers(walk, [(side.way.mask, side.registers) for side in joined], causes)
    alive = before.alive & ~branch.everyone
    for side in joined:
        alive = alive | side.way.mask & side.alive
    walk.state.alive = alive
    walk.endings += any(side.may_have_ended for side in sides)
    is_certain = all(side.is_certain for side in sides)
    reachability = before.reachability.exact_if(_is_exact(branch, joined))
    reachability = reachability.gone_as(*(side.reachability for side in joined))
    walk.reachability = reachability.reached(
        before.reachability.reach if is_certain else Reach.PERHAPS
    )


def _is_exact(branch: Branch, sides: Sequence[Side]) -> bool:
    """Returns whether the same lanes are where the sides meet, whichever way was taken."""
    if branch.is_by_warp:
        first = sides[0]
        return all(
            side.reachability.is_exact
            and np.array_equal(side.alive, first.alive)
            and np.array_equal(side.arrived, first.arrived)
            for side in sides
        )
    walked = reduce(np.logical_or, [side.way.mask for side in sides])
    has_lost = bool((branch.everyone & ~walked).any())  # lanes whose only way facts exclude
    return not has_lost and all(side.is_whole for side in sides)


def _record(walk: WalkState, branch: Branch, meeting: int, sides: Sequence[Side]) -> None:
    """Records what a warp, or a part of it, executes at a branch whose sides were walked."""
    site = None
    if branch.agreement is Agreement.BLOCK:
        site = branch.block if branch.site is None else branch.site
    if branch.by_parts:
        walk.diverged[-1].meetings.add(walk.graph.meeting(branch.block))
    if len(sides) == 1:
        (side,) = sides
        nodes = (*side.way.nodes, *side.path)
        is_shown = site is not None and walk.may_pair
        walk.recorded.add(*((PathChoice((nodes,), site),) if is_shown else nodes))
        return
    if branch.is_by_warp:
        ended: Path = (PathGone(),)
        ways = tuple(
            (*side.way.nodes, *side.path, *(ended if side.may_have_ended else ())) for side in sides
        )
        walk.recorded.add(PathChoice(ways, site, branch.if_race_free, by_parts=branch.by_parts))
        return
    paths = tuple(side.path for side in sides)
    if walk.graph.switches(branch.block):
        walk.recorded.add(PathParts(len(paths), paths))
        return
    first, second = paths
    straight, jumps = branch.ways[0].target == meeting, walk.graph.jumps(branch.block)
    walk.recorded.add(PathFork(branch.block, first, second, straight, jumps))
