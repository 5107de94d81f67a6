"""Loops that are left for several places, some perhaps outside of the loop around.

Lanes that leave such a loop for different places do not meet right behind it. So all lanes of a
warp, or of a part of one (:class:`~ptxwcet.flow.walk.path.PathScatter`), must leave it together: at
one exit, in one iteration. Then exactly one of the ways out is executed, and what follows is that
of its place. Places outside of the loop around are ways out of that loop; the others are the
alternatives of a choice up to where they meet in it.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from ptxwcet.flow.graph.loops import Loop
from ptxwcet.flow.shapes.pattern import Agreement
from ptxwcet.flow.values.value import Cause, Mask
from ptxwcet.flow.walk.branches import agreement_at
from ptxwcet.flow.walk.iterations import most_lanes
from ptxwcet.flow.walk.open_branch import OpenLoop, Side
from ptxwcet.flow.walk.path import Path, PathChoice, PathGone, PathNode
from ptxwcet.flow.walk.sides import join_sides, walk_side, walked
from ptxwcet.flow.walk.standing import Reach
from ptxwcet.flow.walk.state import Exit, ExitRecorder, WalkState
from ptxwcet.flow.walk.stops import FallsApart, Refused, Undecided
from ptxwcet.support.records import dataclass


@dataclass(frozen=True, slots=True)
class Places:
    """The exits of a loop that lead to several places, and where all of these meet.

    ``agreement`` says who leaves it together, in passes that are paired; ``parts``: each part of a
    warp that falls apart. ``as_block``: all warps of the block leave it together, though passes of
    those that are walked apart are not paired.
    """

    loop: Loop
    exits: tuple[Exit, ...]
    meeting: int
    agreement: Agreement
    if_race_free: bool
    parts: bool
    as_block: bool

    @property
    def site(self) -> int | None:
        """The block that stands for what decides the exit, if all warps of the block agree."""
        return self.loop.header if self.agreement is Agreement.BLOCK else None


Arrived = tuple[int, Mask, Places | None]
"""Where a loop has ended, with which lanes; or, if its exits lead to several places, which."""


def several_places(walk: WalkState, loop: Loop, *, parting: bool = False) -> Refused:
    """Refuses a loop of which a bound does not say where lanes are behind it.

    ``parting``: because lanes of a warp may leave it for several places.
    """
    if parting:
        what = "different places, and lanes of a warp may leave it for several of them"
        say = (
            ", or, if all lanes of a warp take the branches that leave it alike, say so: "
            '[[branch]] facts with uniform = "warp" ("block" if barriers are behind it)'
        )
    else:
        what, say = "different places", ""
    return Refused(
        "PW218",
        walk.cfg.blocks[loop.header].start,
        f"the exits of this loop lead to {what}: a bound on its iterations does not settle what "
        "follows",
        f"give the parameters that decide the exits, restructure the loop{say}",
    )


def parts_at_exits(walk: WalkState, loop: Loop) -> bool:
    """Whether parts of a warp that falls apart leave the loop on their own ways: they meet behind
    the loop around in which it does.
    """
    if not walk.scattered:
        return False
    body = walk.scattered[-1].loop.body
    sources = {source for source, _ in loop.exits}
    if loop.header not in body or any(walk.graph.meeting(source) in body for source in sources):
        return False
    return _agreement(walk, loop)[0] is Agreement.NONE


def _agreement(walk: WalkState, loop: Loop) -> tuple[Agreement, bool]:
    """Who leaves a loop at the same exit and in the same iteration, and if that needs no races."""
    agreement, if_race_free = Agreement.BLOCK, False
    for source in sorted({source for source, _ in loop.exits}):
        agreed, races = agreement_at(walk, source)
        agreement, if_race_free = min(agreement, agreed), if_race_free or races
    return agreement, if_race_free


def places_of(walk: WalkState, recorder: ExitRecorder, mask: Mask, *, parts: bool) -> Places:
    """The places for which lanes ``mask`` leave a loop.

    Raises Refused (PW218) if they may leave for several of them and meet in the loop around;
    FallsApart if they do behind it.
    """
    loop = recorder.loop
    meetings = {walk.graph.meeting(one.block) for one in recorder.exits}
    meeting = meetings.pop()
    if meetings or meeting is None or meeting in loop.body:
        raise several_places(walk, loop)
    agreement, if_race_free = _agreement(walk, loop)
    agreement = min(agreement, recorder.agreement)
    if most_lanes(mask) == 1 and agreement is Agreement.NONE:
        agreement = Agreement.WARP  # one lane does not part
    as_block = agreement is Agreement.BLOCK
    if as_block and walk.may_pair:
        agreement = Agreement.WARP  # its passes need not be those of warps that are walked apart
    if agreement is Agreement.NONE and not parts:
        raise _parted(walk, loop, recorder.exits[0].block, meeting)
    if parts:
        agreement = Agreement.WARP
        walk.scattered[-1].meetings.add(meeting)
    walk.graph.work.open_branches.update(one.block for one in recorder.exits)
    races = if_race_free or recorder.if_race_free
    exits = tuple(dict.fromkeys(recorder.exits))
    return Places(loop, exits, meeting, agreement, races, parts, as_block)


def _parted(walk: WalkState, loop: Loop, block: int, meeting: int) -> Exception:
    """Why lanes that leave a loop for several places cannot be followed: they meet only behind a
    loop around it, which the parts go through alone.
    """
    for opened in walk.trail.loops[:-1]:
        if meeting not in opened.loop.body and loop.header in opened.loop.body:
            if walk.trail.sides_of_some == opened.depth:
                return FallsApart(opened.loop, block, walk.cause_of(loop))
            break
    return several_places(walk, loop, parting=True)


def one_of(ways: tuple[Path, ...], site: int | None = None, races: bool = False) -> Path:
    """The only way, or a choice of several."""
    return ways[0] if len(ways) == 1 else (PathChoice(ways, site, races),)


def go_on(walk: WalkState, places: Places, mask: Mask) -> tuple[int, Mask]:
    """Goes on behind a loop at the places that its exits lead to: where lanes stand then.

    Raises Refused (PW218) or Undecided if they do not meet again as far as that goes.
    """
    loop = places.loop
    opened = walk.trail.loops[-1] if walk.trail.loops else None
    if opened is None or loop.header not in opened.loop.body:
        around = [one.loop.body for one in walk.trail.loops if loop.header in one.loop.body]
        ends = {places.meeting, *(one.target for one in places.exits)}
        if not all(ends <= body for body in around):
            raise several_places(walk, loop)
        return _choose(walk, places, places.exits, (places.meeting, mask), None)
    body = opened.loop.body
    inside = tuple(one for one in places.exits if one.target in body)
    for one in places.exits:
        if one.target not in body:
            _leave(walk, opened, places, one, mask)
    if not inside:
        return places.exits[0].target, np.zeros_like(mask)
    meeting = walk.graph.meeting_inside(opened.loop, inside[0].block)
    if meeting is None or meeting in loop.body:
        raise several_places(walk, loop)
    return _choose(walk, places, inside, (meeting, mask), opened.loop)


def _leave(walk: WalkState, opened: OpenLoop, places: Places, one: Exit, mask: Mask) -> None:
    """Notes that a way out of a loop leaves the one around it, too; the others go on there."""
    causes = walk.cause_of(places.loop)
    recorder = walk.trail.exits
    if recorder is not None:
        assert recorder.loop is opened.loop
        recorder.exits.append(_behind(walk, one))
        recorder.agreement = min(recorder.agreement, places.agreement)
        recorder.if_race_free |= places.if_race_free
    else:
        _note(walk, opened, places, one, mask)
    if not places.as_block:
        walk.standing = walk.standing.parted_once(one.block, causes)
    walk.standing = walk.standing.reached(Reach.PERHAPS)


def _behind(walk: WalkState, one: Exit) -> Exit:
    """A way out behind what was executed before it in the iteration of the loop around."""
    return Exit((*walk.trail.nodes, *one.path), one.block, one.taken, one.target)


def _note(walk: WalkState, opened: OpenLoop, places: Places, one: Exit, mask: Mask) -> None:
    """Notes a way out of the loop around, and what is executed on it before all meet."""
    undecided = (walk.graph.last(one.block), walk.cause_of(places.loop))
    meeting = places.meeting
    if not walk.may_meet(meeting):
        raise Undecided(*undecided)
    walk.note_open(one.block, undecided[1])
    behind: Path = ()
    if one.target != meeting:
        before = walk.snapshot()
        walk.standing = walk.standing.reached(Reach.PERHAPS)
        behind, _ = walk_side(walk, one.target, mask, meeting)
        walk.go_back(before)
        if walk.steps.have_barrier(behind):
            raise Undecided(*undecided)
    opened.agree &= places.agreement is Agreement.BLOCK
    opened.if_race_free |= places.if_race_free
    opened.sources.add(one.block)
    way_out = (*walk.trail.chosen_prefix(), *_behind(walk, one).path, *behind)
    departure = walk.trail.departure(one.block, taken=one.taken)
    opened.note((way_out, departure), behind, (meeting, mask), undecided)
    if places.parts:
        walk.scattered[-1].meetings.add(meeting)


def _choose(
    walk: WalkState,
    places: Places,
    exits: tuple[Exit, ...],
    end: tuple[int, Mask],
    around: Loop | None,
) -> tuple[int, Mask]:
    """One of several ways out, and what follows it up to where all of them meet."""
    meeting, mask = end
    ways: dict[int, dict[Path, None]] = {}
    for one in exits:
        ways.setdefault(one.target, {})[one.path] = None
    site, races = places.site, places.if_race_free
    if len(ways) == 1:
        ((target, paths),) = ways.items()
        walk.trail.add(*one_of(tuple(paths), site, races))
        return target, mask
    causes = walk.cause_of(places.loop)
    before = walk.snapshot()
    found: list[Path] = []
    sides: list[Side] = []
    for target, paths in ways.items():
        walk.go_back(before)
        walk.standing = walk.standing.reached(Reach.PERHAPS)
        if places.agreement is not Agreement.BLOCK:
            walk.standing = walk.standing.parted(exits[0].block, causes)
        walk.trail.add(*one_of(tuple(paths), site, races))
        side = _side(walk, places, (target, mask), meeting, around)
        sides.append(side)
        found.append((*walk.trail.nodes[before.nodes :], *side.path, *_gone(side)))
    walk.go_back(before)
    _join(walk, sides, causes)
    walk.trail.add(*one_of(tuple(found), site, races))
    return meeting, reduce(np.logical_or, [side.arrived for side in sides])


def _gone(side: Side) -> tuple[PathNode, ...]:
    return (PathGone(),) if side.may_have_ended else ()


def _side(
    walk: WalkState, places: Places, start: tuple[int, Mask], meeting: int, around: Loop | None
) -> Side:
    """What follows one of the ways out. Raises Refused (PW218) if it does not come to the meeting
    before the loop around begins anew.
    """
    target, mask = start
    reached, arrived = start
    with walk.trail.side(None, (-1, target), chosen=True):
        walk.check_depth(target)
        if target != meeting:
            if around is not None and target == around.header:
                raise several_places(walk, places.loop)
            reached, arrived = walk.region(target, mask, meeting, around)
        path = tuple(walk.trail.nodes)
    if reached != meeting and arrived.any():
        raise several_places(walk, places.loop)
    return walked(walk, path, mask, arrived)


def _join(walk: WalkState, sides: list[Side], causes: frozenset[Cause]) -> None:
    """What is known behind the ways out: each was taken by all lanes, or by none."""
    before = walk.standing
    join_sides(walk, sides, causes)
    complete = all(not bool((side.mask & ~side.arrived).any()) for side in sides)
    exact = before.exact_if(complete and all(side.standing.is_exact for side in sides))
    walk.standing = exact.gone_as(*(side.standing for side in sides)).reached(Reach.PERHAPS)
    walk.endings += any(side.may_have_ended for side in sides)
