"""Lanes that leave others behind at a branch: they end, or leave the loop around."""

from __future__ import annotations

from ptxwcet.flow.shapes.pattern import Agreement
from ptxwcet.flow.values.value import Mask
from ptxwcet.flow.walk.guards import assume
from ptxwcet.flow.walk.path import (
    Path,
    PathChoice,
    PathEnd,
    PathFork,
    PathGone,
    PathNode,
    Visit,
    chosen_by_parts,
)
from ptxwcet.flow.walk.reachability import Reach
from ptxwcet.flow.walk.sides import note_way_out, walk_side, walk_way_out
from ptxwcet.flow.walk.state import WalkState
from ptxwcet.flow.walk.unresolved import Branch, Exit, OpenLoop, Way

# --- Lanes that end -------------------------------------------------------------------------------


def working_end(walk: WalkState, *sides: int) -> int | None:
    """Returns the side, outside of loops, whose lanes work and end while others may wait."""
    if walk.recorded.loops or walk.diverged:
        return None
    return walk.graph.way_out(*sides, working=True)


def walk_end(
    walk: WalkState, branch: Branch, final: int | None, *, works: bool, decided: bool
) -> tuple[int, Mask]:
    """Goes on with those lanes that do not go to the end of the kernel, where others do, or may:
    returns where, and which.

    Those that go are no longer waited for at barriers: who waits there waits for their work, too.
    When they do it is open. If all lanes may have gone the program goes on, which takes no less.
    """
    leaving, on = branch.split(-1 if final is None else final)
    jumps = walk.graph.jumps(branch.block)
    leave, stay = (Visit(branch.block, taken=jumps and way.taken) for way in (leaving, on))
    last = _work_before_end(walk, leaving) if works else ending(walk, final)
    if decided:
        _end_early(walk, stay, leave, last)
        walk.state.alive &= ~leaving.mask
        return on.target, on.mask
    walk.reachability = walk.reachability.reached(Reach.PERHAPS)
    walk.endings += 1
    may_leave = PathEnd(leave, last, stay)
    if works:
        ways: tuple[Path, ...] = ((stay,), (leave, *last), (leave, *last, PathGone()))
        walk.recorded.add(PathChoice(ways, early=last))
    elif branch.agreement or final is None or walk.graph.way_out(final, on.target) is None:
        walk.recorded.add(may_leave)
    else:
        _end_early(walk, may_leave, leave, last)
    if not branch.agreement:
        walk.reachability = walk.reachability.gone()
    if not walk.is_proving and not bool((walk.state.alive & ~on.mask).any()):
        assume(walk, branch.condition, holds=on.taken)  # no lane waits that it does not hold for
    return on.target, on.mask


def ending(walk: WalkState, block: int | None) -> tuple[Visit, ...]:
    """Returns a visit of the last block before the end, if it has one."""
    return () if block in (None, walk.cfg.exit) else (Visit(block, taken=False),)


def _end_early(walk: WalkState, stay: PathNode, leave: Visit, last: tuple[Visit, ...]) -> None:
    """Records a branch at which lanes go straight to the end of the kernel and others go on.

    They may wait there for the others, which then execute ``stay``, or execute the end before the
    others come to their next barrier, which does not wait for threads that have exited.
    """
    if (leave, *last) == (stay,):
        walk.recorded.add(stay)
    else:
        walk.recorded.add(PathChoice(((stay,), (leave, *last)), early=last))


def _work_before_end(walk: WalkState, way: Way) -> tuple[Visit, ...]:
    """Returns what lanes execute on a way to the end that has no branch."""
    before = walk.snapshot()
    walk.reachability = walk.reachability.exact_if(False).reached(Reach.PERHAPS)
    path, _ = walk_side(walk, way.target, way.mask, walk.cfg.exit)
    walk.go_back(before)
    visits = tuple(node for node in path if isinstance(node, Visit))
    assert len(visits) == len(path), "there is no branch and no loop on the way"
    return visits


# --- Lanes that leave the loop around -------------------------------------------------------------


def may_leave(walk: WalkState, branch: Branch, meeting: int) -> tuple[int, Mask]:
    """Notes a branch out of the loop that lanes may take; the others go on inside.

    What those that leave execute before they meet the others belongs to the way out; lanes
    that leave alone may execute it while the others go on.
    """
    opened = walk.recorded.loops[-1]
    first, second = branch.ways
    way, on = (second, first) if first.target in opened.loop.body else (first, second)
    behind: Path = ()
    if way.target != meeting:
        before = walk.snapshot()
        walk.reachability = walk.reachability.exact_if(bool(branch.agreement)).reached(
            Reach.PERHAPS
        )
        assume(walk, branch.condition, holds=way.taken)
        behind = walk_way_out(walk, branch, way.target, way.mask, meeting)
        walk.go_back(before)
    note_way_out(walk, branch, (branch.before(way), behind), (meeting, way.mask), taken=way.taken)
    opened.sources.add(branch.block)
    if branch.agreement is not Agreement.BLOCK:
        walk.reachability = walk.reachability.parted_once(branch.block, branch.causes)
    walk.reachability = walk.reachability.reached(Reach.PERHAPS)
    if branch.by_parts:
        walk.diverged[-1].meetings.add(meeting)
        walk.recorded.add(chosen_by_parts(branch.block))
    else:
        _stay(walk, branch, meeting, behind, on)
    return on.target, on.mask


def _stay(walk: WalkState, branch: Branch, meeting: int, behind: Path, on: Way) -> None:
    """Records what the warp executes at a branch out of the loop that lanes may have taken.

    Lanes that have taken it execute ``behind`` before they wait at ``meeting``.
    """
    opened = walk.recorded.loops[-1]
    walk.reachability = walk.reachability.exact_if(bool(branch.agreement))
    if not walk.is_proving:
        opened.note_assumed(assume(walk, branch.condition, holds=on.taken))
    if branch.agreement or not behind:
        # lanes that branch straight to the meeting only wait there
        walk.recorded.add(*on.nodes)
        return
    opened.late[meeting, behind] = None
    first, second = ((), behind) if on.taken else (behind, ())
    jumps = walk.graph.jumps(branch.block)
    walk.recorded.add(PathFork(branch.block, first, second, straight=False, jumps=jumps))


def record_exit(
    walk: WalkState, opened: OpenLoop, block: int, targets: tuple[int, int | None]
) -> int:
    """Records an exit of a loop that runs as often as is claimed, and goes on inside of it."""
    leaves_when_taken = targets[0] not in opened.loop.body
    outside, inside = targets if leaves_when_taken else targets[::-1]
    assert opened.exits is not None
    assert outside is not None
    assert inside is not None
    jumps = walk.graph.jumps(block)
    leave: PathNode = Visit(block, taken=jumps and leaves_when_taken)
    stay: PathNode = Visit(block, taken=jumps and not leaves_when_taken)
    if opened.by_parts:
        leave = stay = chosen_by_parts(block)
    opened.exits.append(Exit((*walk.recorded.nodes, leave), block, leaves_when_taken, outside))
    walk.recorded.nodes.append(stay)
    return inside
