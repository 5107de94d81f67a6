"""Branches that are not decided: lanes or warps may go either way, end, or leave a loop."""

from __future__ import annotations

import numpy as np

from ptxwcet.flow.cfg import BlockId
from ptxwcet.flow.lane_shapes import Agreement
from ptxwcet.flow.loops import Loop
from ptxwcet.flow.paths import Path, PathChoice, PathEnd, PathFork, PathGone, PathPart, Visit
from ptxwcet.flow.values import Cause, CauseKind, Mask
from ptxwcet.flow.walk_narrowing import narrow, widen
from ptxwcet.flow.walk_open import OpenBranch, Side, Way
from ptxwcet.flow.walk_sides import both_sides, meet_registers, walk_side, walked
from ptxwcet.flow.walk_state import WalkState
from ptxwcet.flow.walk_stops import Refused, Undecided, no_meeting


def fork(walk: WalkState, sides: OpenBranch) -> tuple[int, Mask]:
    """Both sides of a branch of which each lane may go one way, or of which lanes may be gone.

    Each side starts from the state at the branch. Where they meet, a register is known in a
    lane that may have come either way only if both sides agree on it.
    """
    block = sides.block
    join = walk.graph.postdominators[block]
    if join is None:
        raise no_meeting(walk.graph.last(block))
    before = walk.snapshot()
    walk.is_exact = False
    try:
        one, two = both_sides(walk, sides, join, (True, False))
    except (Refused, Undecided) as refused:
        if not _is_barriers(walk, refused, block):
            raise
        # a barrier is fine on the side that goes on if the lanes of the other one have exited
        walk.restore(before)
        walk.is_exact = False
        two, one = both_sides(walk, sides, join, (False, True))
    state = walk.state
    causes = sides.causes or frozenset({Cause(CauseKind.LOOP, walk.cfg.name(BlockId(block)))})
    meet_registers(walk, one, two, causes)
    elsewhere = before.alive & ~(one.mask | two.mask)
    state.alive = elsewhere | one.mask & one.alive | two.mask & two.alive
    arrive = all(not bool((side.mask & ~side.arrived).any()) for side in (one, two))
    walk.is_exact = before.is_exact and arrive
    walk.has_gone = one.has_gone or two.has_gone
    straight = sides.taken[0] == join
    walk.out.append(PathFork(block, one.path, two.path, straight, walk.graph.jumps(block)))
    return join, one.arrived | two.arrived


def choose(
    walk: WalkState, sides: OpenBranch, meeting: int, inside: Loop | None
) -> tuple[int, Mask]:
    """Both sides of a branch that all lanes of a warp take alike: one of them is executed."""
    block = sides.block
    before = walk.snapshot()
    apart = walk.apart
    if sides.agreement is not Agreement.BLOCK:
        walk.apart = [*apart, (block, sides.causes)]
    found: list[Side] = []
    try:
        for (target, mask), taken in ((sides.taken, True), (sides.fallthrough, False)):
            walk.go_back(before)
            narrowed = narrow(walk, sides, taken=taken)
            way = Way(sides, taken=taken and walk.graph.jumps(block))
            path, arrived = walk_side(walk, target, mask, meeting, way=way, inside=inside)
            widen(walk, narrowed)
            if not (mask & walk.state.alive).any():
                path = (*path, PathGone())
            found.append(walked(walk, path, mask, arrived))
    except (Refused, Undecided) as refused:
        if sides.agreement is Agreement.BLOCK or not _is_barriers(walk, refused, block):
            raise
        walk.restore(before)  # fine if the warps of the other side have ended
        walk.apart = apart
        return fork(walk, sides)
    finally:
        walk.apart = apart
    _join(walk, sides, found)
    jumps = walk.graph.jumps(block)
    one, two = found
    if sides.is_part:
        walk.meetings.add(walk.graph.postdominators[block])
        walk.out.append(PathPart(block, one.path, two.path, jumps))
        return meeting, one.arrived | two.arrived
    alternatives = (Visit(block, taken=jumps), *one.path), (Visit(block, False), *two.path)
    site = block if sides.agreement is Agreement.BLOCK else None
    walk.out.append(PathChoice(alternatives, site, sides.if_race_free))
    return meeting, one.arrived | two.arrived


def _is_barriers(walk: WalkState, refused: Refused | Undecided, block: int) -> bool:
    """Whether a barrier that some warps or lanes may not reach was refused for this branch."""
    if isinstance(refused, Undecided):
        return refused.instruction == walk.graph.last(block)
    return refused.code == "PW222"


def _join(walk: WalkState, sides: OpenBranch, found: list[Side]) -> None:
    """The state after one of two sides, all lanes of a warp having taken the same."""
    one, two = found
    state = walk.state
    arriving = [side for side in found if side.arrived.any()]
    if len(arriving) == 1:
        (only,) = arriving
        state.registers, state.alive = only.registers, only.alive
        walk.is_exact, walk.has_gone = only.is_exact, only.has_gone
        return
    meet_registers(walk, one, two, sides.causes)
    state.alive = one.alive | two.alive
    same = np.array_equal(one.alive, two.alive) and np.array_equal(one.arrived, two.arrived)
    walk.is_exact = one.is_exact and two.is_exact and same
    walk.has_gone = one.has_gone or two.has_gone


def may_end(walk: WalkState, sides: OpenBranch, meeting: int | None) -> tuple[int, Mask]:
    """Lanes may go straight to the end of the kernel; the others go on.

    Those that go do nothing more but end, so the warp goes on as if they had ended here.
    """
    block, jumps = sides.block, walk.graph.jumps(sides.block)
    ends_when_taken = sides.taken[0] == meeting
    on, mask = sides.fallthrough if ends_when_taken else sides.taken
    leave = Visit(block, taken=jumps and ends_when_taken)
    last = ending(walk, meeting)
    walk.out.append(PathEnd(leave, last, Visit(block, taken=jumps and not ends_when_taken)))
    if not sides.agreement:
        walk.has_gone = True
        if meeting != walk.cfg.exit and (block, sides.causes) not in walk.apart:
            # they wait there for the others: a barrier is not for them
            walk.apart = [*walk.apart, (block, sides.causes)]
    if not walk.proofs and not bool((walk.state.alive & ~mask).any()):
        narrow(walk, sides, taken=not ends_when_taken)  # no lane waits that it does not hold for
    return on, mask


def ending(walk: WalkState, block: int | None) -> tuple[Visit, ...]:
    """A visit of the last block before the end, if it has one."""
    return () if block in (None, walk.cfg.exit) else (Visit(block, taken=False),)


def may_leave(walk: WalkState, sides: OpenBranch, meeting: int) -> tuple[int, Mask]:
    """A branch out of the loop that lanes may take: noted, and the others go on inside.

    What those that leave execute before they meet the others belongs to the way out; lanes
    that leave alone may execute it while the others go on.
    """
    opened = walk.open_loops[-1]
    block, jumps = sides.block, walk.graph.jumps(sides.block)
    leaves_when_taken = sides.taken[0] not in opened.loop.body
    way, on = (
        (sides.taken, sides.fallthrough) if leaves_when_taken else (sides.fallthrough, sides.taken)
    )
    undecided = (walk.graph.last(block), sides.causes)
    behind: Path = ()
    if way[0] != meeting:
        before = walk.snapshot()
        walk.is_exact &= bool(sides.agreement)
        narrow(walk, sides, taken=leaves_when_taken)
        behind, _ = walk_side(walk, *way, meeting)
        walk.go_back(before)
        if walk.steps.have_barrier(behind):
            raise Undecided(*undecided)
    leaving = Visit(block, taken=jumps and leaves_when_taken)
    last = PathPart(block, (), (), jumps=True) if sides.is_part else leaving
    way_out = (*walk.chosen_prefix(), *walk.out, last, *behind)
    if sides.agreement is not Agreement.BLOCK:
        opened.agree = False
        if (block, sides.causes) not in walk.apart:
            walk.apart = [*walk.apart, (block, sides.causes)]
    opened.if_race_free |= sides.if_race_free
    opened.sources.add(block)
    opened.note(way_out, behind, (meeting, way[1]), undecided)
    if sides.is_part:
        walk.meetings.add(meeting)
        walk.out.append(PathPart(block, (), (), jumps=True))
    else:
        _stay(walk, sides, meeting, behind)
    return on


def _stay(walk: WalkState, sides: OpenBranch, meeting: int, behind: Path) -> None:
    """What the warp executes at a branch out of the loop that lanes may have taken.

    Those that have execute ``behind`` before they wait at ``meeting``.
    """
    opened = walk.open_loops[-1]
    block, jumps = sides.block, walk.graph.jumps(sides.block)
    leaves_when_taken = sides.taken[0] not in opened.loop.body
    walk.is_exact &= bool(sides.agreement)
    if not walk.proofs:
        opened.look(narrow(walk, sides, taken=not leaves_when_taken))
    if sides.agreement or not behind:
        # lanes that branch straight to the meeting only wait there
        walk.out.append(Visit(block, taken=jumps and not leaves_when_taken))
        return
    opened.late[meeting, behind] = None
    first, second = (behind, ()) if leaves_when_taken else ((), behind)
    walk.out.append(PathFork(block, first, second, straight=False, jumps=jumps))
