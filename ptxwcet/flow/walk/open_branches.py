"""Branches that are not decided: lanes or warps may go either way, end, or leave a loop."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import reduce

import numpy as np

from ptxwcet.flow.graph.cfg import BlockId
from ptxwcet.flow.graph.loops import Loop
from ptxwcet.flow.shapes.pattern import Agreement
from ptxwcet.flow.values.value import Cause, CauseKind, Mask
from ptxwcet.flow.walk.open_branch import OpenBranch, Side, Way
from ptxwcet.flow.walk.path import (
    Path,
    PathChoice,
    PathEnd,
    PathFork,
    PathGone,
    PathNode,
    PathPart,
    Visit,
)
from ptxwcet.flow.walk.sides import (
    both_sides,
    meet_registers,
    narrow,
    reach_behind,
    walk_side,
    walked,
    widen,
)
from ptxwcet.flow.walk.standing import Reach
from ptxwcet.flow.walk.state import WalkState
from ptxwcet.flow.walk.stops import Infeasible, Refused, Undecided, no_meeting


def fork(walk: WalkState, sides: OpenBranch) -> tuple[int, Mask]:
    """Both sides of a branch of which each lane may go one way, or of which lanes may be gone.

    Each side starts from the state at the branch. Where they meet, a register is known in a
    lane that may have come either way only if both sides agree on it. A side that facts exclude
    leaves nothing.
    """
    block = sides.block
    join = walk.graph.meeting(block)
    if join is None:
        raise no_meeting(walk.graph.last(block))
    before = walk.snapshot()
    try:
        walked_sides = _forked(walk, sides, join, Reach.ON_SIDE)
    except Infeasible as infeasible:
        walk.contradict(infeasible.reason, before.standing.reach)
        walk.go_back(before)
        walked_sides = _forked(walk, sides, join, Reach.PERHAPS)
    causes = sides.causes or frozenset({Cause(CauseKind.LOOP, walk.cfg.name(BlockId(block)))})
    if len(walked_sides) == 2 and not sides.agreement:
        _require_no_barrier(walk, sides, walked_sides.values())
    lost = _lanes_without_way(walk, sides, walked_sides)
    state = walk.state
    if len(walked_sides) == 2:
        meet_registers(walk, walked_sides[True], walked_sides[False], causes)
    else:
        (only,) = walked_sides.values()
        state.registers = only.registers
    state.alive = before.alive & ~(sides.taken[1] | sides.fallthrough[1])
    for side in walked_sides.values():
        state.alive = state.alive | side.mask & side.alive
    arrive = not any(np.count_nonzero(side.mask & ~side.arrived) for side in walked_sides.values())
    exact = before.standing.exact_if(arrive and not lost)
    walk.standing = exact.gone_as(*(side.standing for side in walked_sides.values()))
    reach_behind(walk, before, walked_sides.values())
    _record_fork(walk, sides, join, walked_sides)
    return join, reduce(np.logical_or, [side.arrived for side in walked_sides.values()])


def _require_no_barrier(walk: WalkState, sides: OpenBranch, walked_sides: Collection[Side]) -> None:
    """Lanes that part may execute either side first: one that waits would wait for the other.

    This also refuses sides whose lanes end, since they have not ended if theirs comes last. Raises
    Refused (PW222), or Undecided where facts would tell the way.
    """
    if not any(walk.steps.have_barrier(side.path) for side in walked_sides):
        return
    index = walk.graph.last(sides.block)
    if any(cause.kind in (CauseKind.PARAMETER, CauseKind.LAUNCH) for cause in sides.causes):
        raise Undecided(index, sides.causes)
    raise Refused(
        "PW222",
        index,
        "lanes of a warp may part here, and those of one side wait at a barrier while "
        "those of the other have not returned yet",
        "return by a branch to the end of the kernel, or move the barrier out of the branch",
    )


def _forked(walk: WalkState, sides: OpenBranch, join: int, reach: Reach) -> dict[bool, Side]:
    """The sides of a branch whose lanes may part, the one that it leads to first if that can be."""
    before = walk.snapshot()
    walk.standing = walk.standing.exact_if(False)
    try:
        return both_sides(walk, sides, join, (True, False), reach)
    except (Refused, Undecided) as refused:
        if not _is_barriers(walk, refused, sides.block):
            raise
        # a barrier is fine on the side that goes on if the lanes of the other one have exited
        walk.restore(before)
        walk.standing = walk.standing.exact_if(False)
        return both_sides(walk, sides, join, (False, True), reach)


def _lanes_without_way(walk: WalkState, sides: OpenBranch, walked_sides: Collection[bool]) -> bool:
    """Whether there are lanes in the mask whose only way is a side that facts exclude."""
    (_, taken), (_, fallthrough) = sides.taken, sides.fallthrough
    if True not in walked_sides:
        return bool((taken & ~fallthrough).any())
    return False not in walked_sides and bool((fallthrough & ~taken).any())


def _record_fork(
    walk: WalkState, sides: OpenBranch, join: int, walked_sides: Mapping[bool, Side]
) -> None:
    """What a warp executes at a branch whose sides were walked."""
    block, jumps = sides.block, walk.graph.jumps(sides.block)
    if len(walked_sides) == 1:
        ((taken, only),) = walked_sides.items()
        walk.trail.add(Visit(block, taken=taken and jumps), *only.path)
        return
    straight = sides.taken[0] == join
    walk.trail.add(
        PathFork(block, walked_sides[True].path, walked_sides[False].path, straight, jumps)
    )


def choose(
    walk: WalkState, sides: OpenBranch, meeting: int, inside: Loop | None
) -> tuple[int, Mask]:
    """Both sides of a branch that all lanes of a warp take alike: one of them is executed.

    A side that facts exclude leaves nothing.
    """
    block = sides.block
    before = walk.snapshot()
    if sides.agreement is not Agreement.BLOCK:
        walk.standing = walk.standing.parted(block, sides.causes)
    try:
        walked_sides = _chosen(walk, sides, meeting, inside)
    except (Refused, Undecided) as refused:
        if sides.agreement is Agreement.BLOCK or not _is_barriers(walk, refused, block):
            raise
        walk.restore(before)  # fine if the warps of the other side have ended
        return fork(walk, sides)
    _join(walk, sides, list(walked_sides.values()))
    walk.standing = replace(walk.standing, apart=before.standing.apart)
    reach_behind(walk, before, walked_sides.values())
    _record_choice(walk, sides, walked_sides)
    return meeting, reduce(np.logical_or, [side.arrived for side in walked_sides.values()])


def _chosen(
    walk: WalkState, sides: OpenBranch, meeting: int, inside: Loop | None
) -> dict[bool, Side]:
    """The sides of a branch that a warp takes as a whole, less one that facts exclude."""
    reach = walk.standing.reach
    try:
        return _feasible(walk, sides, meeting, inside, Reach.ON_SIDE)
    except Infeasible as infeasible:
        walk.contradict(infeasible.reason, reach)
        return _feasible(walk, sides, meeting, inside, Reach.PERHAPS)


def _feasible(
    walk: WalkState, sides: OpenBranch, meeting: int, inside: Loop | None, reach: Reach
) -> dict[bool, Side]:
    """The sides that facts do not exclude. Raises Infeasible if there is none."""
    before = walk.snapshot()
    walked_sides: dict[bool, Side] = {}
    for (target, mask), taken in ((sides.taken, True), (sides.fallthrough, False)):
        walk.go_back(before)
        walk.standing = walk.standing.reached(reach)
        narrowed = narrow(walk, sides, taken=taken)
        way = Way(sides, taken=taken and walk.graph.jumps(sides.block))
        try:
            path, arrived = walk_side(walk, target, mask, meeting, way=way, inside=inside)
        except Infeasible:
            if not taken and not walked_sides:
                walk.go_back(before)
                raise
            continue
        widen(walk, narrowed)
        walked_sides[taken] = walked(walk, path, mask, arrived)
    del walk.trail.nodes[before.nodes :]
    return walked_sides


def _record_choice(walk: WalkState, sides: OpenBranch, walked_sides: Mapping[bool, Side]) -> None:
    """What a warp, or a part of it, executes at a branch that it takes as a whole."""
    block, jumps = sides.block, walk.graph.jumps(sides.block)
    if sides.is_part:
        walk.scattered[-1].meetings.add(walk.graph.meeting(block))
    if len(walked_sides) == 1:
        ((taken, only),) = walked_sides.items()
        way = Visit(block, taken=taken and jumps), *only.path
        is_shown = sides.agreement is Agreement.BLOCK and walk.may_pair
        walk.trail.add(*((PathChoice((way,), block),) if is_shown else way))
        return
    taken_path, fallthrough_path = (
        (*side.path, PathGone()) if side.may_have_ended else side.path
        for side in (walked_sides[True], walked_sides[False])
    )
    if sides.is_part:
        walk.trail.add(PathPart(block, taken_path, fallthrough_path, jumps))
        return
    ways = (Visit(block, taken=jumps), *taken_path), (Visit(block, taken=False), *fallthrough_path)
    site = block if sides.agreement is Agreement.BLOCK else None
    walk.trail.add(PathChoice(ways, site, sides.if_race_free))


def _is_barriers(walk: WalkState, refused: Refused | Undecided, block: int) -> bool:
    """Whether a barrier that some warps or lanes may not reach was refused for this branch."""
    if isinstance(refused, Undecided):
        return refused.instruction == walk.graph.last(block)
    return refused.code == "PW222"


def _join(walk: WalkState, sides: OpenBranch, walked_sides: list[Side]) -> None:
    """The state after one of two sides, all lanes of a warp having taken the same."""
    state = walk.state
    arriving = [side for side in walked_sides if side.arrived.any()]
    if len(arriving) == 1:
        (only,) = arriving
        state.registers, state.alive = only.registers, only.alive
        walk.standing = only.standing
        return
    if len(walked_sides) == 1:  # nobody arrives
        walked_sides = [*walked_sides, *walked_sides]
    left, right = walked_sides
    meet_registers(walk, left, right, sides.causes)
    state.alive = left.alive | right.alive
    same = np.array_equal(left.alive, right.alive) and np.array_equal(left.arrived, right.arrived)
    exact = left.standing.exact_if(right.standing.is_exact and same)
    walk.standing = exact.gone_as(left.standing, right.standing)


def end_early(walk: WalkState, stay: PathNode, leave: Visit, last: tuple[Visit, ...]) -> None:
    """Records a branch at which lanes go straight to the end of the kernel and others go on.

    They may wait there for the others, which then execute ``stay``, or execute the end before the
    others come to their next barrier, which does not wait for threads that have exited.
    """
    if (leave, *last) == (stay,):
        walk.trail.add(stay)
    else:
        walk.trail.add(PathChoice(((stay,), (leave, *last)), early=last))


def may_end(walk: WalkState, sides: OpenBranch, meeting: int | None) -> tuple[int, Mask]:
    """Lanes may go straight to the end of the kernel; the others go on.

    Lanes that go only end, so the warp goes on as if they had ended here.
    """
    block, jumps = sides.block, walk.graph.jumps(sides.block)
    ends_when_taken = sides.taken[0] == meeting
    on, mask = sides.fallthrough if ends_when_taken else sides.taken
    leave = Visit(block, taken=jumps and ends_when_taken)
    last = ending(walk, meeting)
    walk.standing = walk.standing.reached(Reach.PERHAPS)
    walk.endings += 1
    stay = PathEnd(leave, last, Visit(block, taken=jumps and not ends_when_taken))
    if sides.agreement or meeting is None or walk.graph.way_out(meeting, on) is None:
        walk.trail.add(stay)
    else:
        end_early(walk, stay, leave, last)
    if not sides.agreement:
        walk.standing = walk.standing.gone()
    if not walk.is_proving and not bool((walk.state.alive & ~mask).any()):
        narrow(walk, sides, taken=not ends_when_taken)  # no lane waits that it does not hold for
    return on, mask


def way_to_the_end(walk: WalkState, *sides: int) -> int | None:
    """The side of a branch outside of loops whose lanes do some work and end; others may wait."""
    if walk.trail.loops or walk.scattered:
        return None
    return walk.graph.way_out(*sides, working=True)


def work_before_end(walk: WalkState, way: tuple[int, Mask]) -> tuple[Visit, ...]:
    """What lanes execute on a way to the end that has no branch."""
    before = walk.snapshot()
    walk.standing = walk.standing.exact_if(False).reached(Reach.PERHAPS)
    path, _ = walk_side(walk, *way, walk.cfg.exit)
    walk.go_back(before)
    visits = tuple(one for one in path if isinstance(one, Visit))
    assert len(visits) == len(path), "there is no branch and no loop on the way"
    return visits


def may_work_and_end(walk: WalkState, sides: OpenBranch, working: int) -> tuple[int, Mask]:
    """Lanes may do some work and end; the others go on.

    They are no longer waited for at barriers then: who waits there waits for their work, too. When
    they do it is as open as for those that only end (:func:`end_early`). If all lanes have gone,
    the program goes on, which takes no less.
    """
    block, jumps = sides.block, walk.graph.jumps(sides.block)
    ends_when_taken = sides.taken[0] == working
    way, (on, mask) = sides.taken, sides.fallthrough
    if not ends_when_taken:
        way, (on, mask) = sides.fallthrough, sides.taken
    last = work_before_end(walk, way)
    leave, stay = (
        Visit(block, taken=jumps and is_taken is ends_when_taken) for is_taken in (True, False)
    )
    walk.standing = walk.standing.reached(Reach.PERHAPS).gone()
    walk.endings += 1
    ways: tuple[Path, ...] = ((stay,), (leave, *last), (leave, *last, PathGone()))
    walk.trail.add(PathChoice(ways, early=last))
    if not walk.is_proving and not bool((walk.state.alive & ~mask).any()):
        narrow(walk, sides, taken=not ends_when_taken)
    return on, mask


def ending(walk: WalkState, block: int | None) -> tuple[Visit, ...]:
    """A visit of the last block before the end, if it has one."""
    return () if block in (None, walk.cfg.exit) else (Visit(block, taken=False),)


def may_leave(walk: WalkState, sides: OpenBranch, meeting: int) -> tuple[int, Mask]:
    """A branch out of the loop that lanes may take: noted, and the others go on inside.

    What those that leave execute before they meet the others belongs to the way out; lanes
    that leave alone may execute it while the others go on.
    """
    opened = walk.trail.loops[-1]
    block, jumps = sides.block, walk.graph.jumps(sides.block)
    leaves_when_taken = sides.taken[0] not in opened.loop.body
    way, on = (
        (sides.taken, sides.fallthrough) if leaves_when_taken else (sides.fallthrough, sides.taken)
    )
    undecided = (walk.graph.last(block), sides.causes)
    behind: Path = ()
    if way[0] != meeting:
        before = walk.snapshot()
        walk.standing = walk.standing.exact_if(bool(sides.agreement))
        walk.standing = walk.standing.reached(Reach.PERHAPS)
        narrow(walk, sides, taken=leaves_when_taken)
        behind, _ = walk_side(walk, *way, meeting)
        walk.go_back(before)
        if walk.steps.have_barrier(behind):
            raise Undecided(*undecided)
    leaving = Visit(block, taken=jumps and leaves_when_taken)
    last = PathPart(block, (), (), jumps=True) if sides.is_part else leaving
    way_out = (*walk.trail.chosen_prefix(), *walk.trail.nodes, last, *behind)
    if sides.agreement is not Agreement.BLOCK:
        opened.agree = False
        walk.standing = walk.standing.parted_once(block, sides.causes)
    opened.if_race_free |= sides.if_race_free
    opened.sources.add(block)
    departure = walk.trail.departure(block, taken=leaves_when_taken)
    opened.note((way_out, departure), behind, (meeting, way[1]), undecided)
    walk.standing = walk.standing.reached(Reach.PERHAPS)
    if sides.is_part:
        walk.scattered[-1].meetings.add(meeting)
        walk.trail.add(PathPart(block, (), (), jumps=True))
    else:
        _stay(walk, sides, meeting, behind)
    return on


def _stay(walk: WalkState, sides: OpenBranch, meeting: int, behind: Path) -> None:
    """What the warp executes at a branch out of the loop that lanes may have taken.

    Lanes that have taken it execute ``behind`` before they wait at ``meeting``.
    """
    opened = walk.trail.loops[-1]
    block, jumps = sides.block, walk.graph.jumps(sides.block)
    leaves_when_taken = sides.taken[0] not in opened.loop.body
    walk.standing = walk.standing.exact_if(bool(sides.agreement))
    if not walk.is_proving:
        opened.look(narrow(walk, sides, taken=not leaves_when_taken))
    if sides.agreement or not behind:
        # lanes that branch straight to the meeting only wait there
        walk.trail.add(Visit(block, taken=jumps and not leaves_when_taken))
        return
    opened.late[meeting, behind] = None
    first, second = (behind, ()) if leaves_when_taken else ((), behind)
    walk.trail.add(PathFork(block, first, second, straight=False, jumps=jumps))
