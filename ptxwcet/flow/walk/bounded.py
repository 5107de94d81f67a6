"""Loops that run as often as the user or a variant claims, and where their lanes go on.

One iteration is walked from any state that the header may have, and all exits are recorded in it.
Lanes that leave such a loop for different places do not meet right behind it. So all lanes of a
warp, or of a part of one (:class:`~ptxwcet.flow.walk.path.PathParts`), must leave it together: at
one exit, in one iteration. Then exactly one of the ways out is executed, and what follows is that
of its place. Places outside of the loop around are ways out of that loop; the others are the
alternatives of a choice up to where they meet in it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ptxwcet.flow.graph.loops import Loop
from ptxwcet.flow.shapes.pattern import Agreement
from ptxwcet.flow.values import ranges
from ptxwcet.flow.values.intervals import Interval
from ptxwcet.flow.values.value import Cause, Known, Mask, combine, scale_by, wrap
from ptxwcet.flow.walk.alternatives import walk_alternatives
from ptxwcet.flow.walk.branches import agreement_at
from ptxwcet.flow.walk.iterations import Claim, is_rotated, most_lanes
from ptxwcet.flow.walk.path import AffineCount, Path, PathChoice, PathLoop, PathRepeat, Together
from ptxwcet.flow.walk.reachability import Reach
from ptxwcet.flow.walk.sides import note_way_out, walk_way_out
from ptxwcet.flow.walk.state import WalkState
from ptxwcet.flow.walk.stops import DivergesForGood, Refused, Undecided
from ptxwcet.flow.walk.unresolved import Branch, Exit, OpenLoop, Way
from ptxwcet.support.records import dataclass

_LONGEST = 64
"""Bits of the widest registers."""


@dataclass(frozen=True, slots=True)
class Places:
    """The exits of a loop that lead to several places, and where all of these meet.

    ``agreement`` says who leaves it together, in passes that are paired; ``parts``: each part of a
    warp that diverges for good. ``as_block``: all warps of the block leave it together, though
    passes of those that are walked apart are not paired.
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

    def branch_at(self, block: int, causes: frozenset[Cause]) -> Branch:
        """Returns the exits as one branch of warps, or of parts of them, at one of their blocks."""
        races, header = self.if_race_free, self.loop.header
        return Branch(block, (), causes, self.agreement, if_race_free=races, site=header)


Arrived = tuple[int, Mask, Places | None]
"""Where a loop has ended, with which lanes; or, if its exits lead to several places, which."""


def bounded_loop(
    walk: WalkState, loop: Loop, mask: Mask, claim: Claim, *, one_place: bool = False
) -> Arrived:
    """Walks a loop whose exits are not decided, run as often as is claimed.

    Raises Refused: PW218 if its exits lead to different places, and lanes may leave for several or
    ``one_place`` is asked for, PW222 if barriers are in it and nothing says that all warps of the
    block leave it together.
    """
    rotated, bound = is_rotated(loop), claim.most
    if rotated and bound == 0:
        walk.contradict(runs_once(walk, loop), loop=loop.id)
        bound = 1  # no run enters the loop
    walk.reachability = walk.reachability.reached(Reach.PERHAPS)
    _begin_any(walk, loop, mask, bound - rotated)
    opened = walk.recorded.loops[-1]
    opened.exits, opened.by_parts = [], parts_at_exits(walk, loop)
    with walk.recorded.sub_path():
        block, arrived = walk.region(loop.header, mask, None, loop)
        full = tuple(walk.recorded.nodes)
    walk.havoc(loop)
    exits = tuple(dict.fromkeys(opened.exits))
    noted = bool(opened.left)  # ways out of sides, which are not among the exits
    is_whole = block == loop.header and np.array_equal(arrived, mask)
    if not is_whole or not exits or noted:
        raise several_places(walk, loop)
    targets = {way_out.target for way_out in exits}
    meetings = {walk.graph.meeting(way_out.block) for way_out in exits}
    places = None
    if len(targets) > 1 or meetings != targets:
        if one_place:
            raise several_places(walk, loop)
        places = places_of(walk, opened, exits, mask)
    together = _together(walk, opened, full)
    count = AffineCount(bound - 1 if rotated else bound)
    body: Path = (PathRepeat(count, AffineCount(0), full, together),)
    if places is None:
        ways = tuple(dict.fromkeys(way_out.path for way_out in exits))
        if together is None:
            body += one_of(ways)
        else:
            body += one_of(ways, together.site, together.if_race_free)
    most = bodies_of_whole(walk, loop, bound)
    walk.recorded.add(PathLoop(loop.id, body, most, claim.origin, claim.reason, claim.proof))
    return exits[0].target, mask, places


def _begin_any(walk: WalkState, loop: Loop, mask: Mask, most: int) -> None:
    """Sets the registers at the header in any iteration, if lanes have gone back ``most`` times or
    less.

    To some of them each iteration adds a constant: they hang together by how many there were.
    """
    walk.state.active = mask
    # here: one iteration is followed as terms, which loops that are counted have no need of
    from ptxwcet.flow.certificates.passage import steady_steps

    steps = steady_steps(walk.graph, loop)
    before = {name: walk.state.register(name) for name in steps if name in walk.state.registers}
    walk.havoc(loop)
    number = ranges.bounded(Interval(0, most), _LONGEST, walk.cause_of(loop))
    for name, value in before.items():
        width = walk.graph.width(name)
        if isinstance(value, Known) and width > 1:
            moved = scale_by(number, wrap(steps[name], width), width)
            walk.state.write(name, combine(value, moved, 1, width), mask)


def _together(walk: WalkState, opened: OpenLoop, iteration: Path) -> Together | None:
    """Returns why all warps of the block leave the loop together; None if they need not, as there
    is no barrier in it.
    """
    loop = opened.loop
    if not any(walk.graph.block_of(index) in loop.body for index in walk.cfg.barriers):
        return None
    waits = walk.steps.have_barrier(iteration)
    races = opened.if_race_free
    for source in sorted({source for source, _ in loop.exits}):
        agreement, if_race_free = agreement_at(walk, source)
        agreement = min(agreement, opened.agreement)
        races |= if_race_free
        if agreement is not Agreement.BLOCK and not waits:
            return None
        if agreement is not Agreement.BLOCK:
            branch = walk.graph.kernel.instructions[walk.graph.last(source)]
            raise Refused(
                "PW222",
                walk.graph.last(source),
                "a barrier is in a loop that the warps of the block, or lanes of a "
                f"warp, may leave at different iterations: {branch.mnemonic} in "
                f"{branch.span.shown_place} is not decided",
                "give the parameters that decide it, or, if all threads of the block leave the "
                'loop together, say so: a [[branch]] fact with uniform = "block"',
            )
    return Together(loop.header, if_race_free=races)


def bodies_of_whole(walk: WalkState, loop: Loop, most: int) -> AffineCount:
    """Returns body executions of a part of a loop as those of the whole loop."""
    whole = walk.graph.forest.loops[loop.id]
    return AffineCount(most - is_rotated(loop) + is_rotated(whole))


def runs_once(walk: WalkState, loop: Loop) -> Refused:
    """Refuses a bound of no iterations on a loop that tests at its end."""
    return Refused(
        "PW217",
        walk.cfg.blocks[loop.header].start,
        "--loop-bound says 0 iterations, but this loop tests at its end: once entered, its "
        "body runs at least once",
        "give a bound of at least 1",
    )


# --- Where lanes go on ----------------------------------------------------------------------------


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
    """Returns whether parts of a warp that diverges for good leave the loop on their own ways: they
    meet behind the loop around in which it does.
    """
    if not walk.diverged:
        return False
    body = walk.diverged[-1].loop.body
    sources = {source for source, _ in loop.exits}
    if loop.header not in body or any(walk.graph.meeting(source) in body for source in sources):
        return False
    return _agreement(walk, loop)[0] is Agreement.NONE


def _agreement(walk: WalkState, loop: Loop) -> tuple[Agreement, bool]:
    """Returns who leaves a loop at one exit and in one iteration, and if that needs no races."""
    agreement, if_race_free = Agreement.BLOCK, False
    for source in sorted({source for source, _ in loop.exits}):
        agreed, races = agreement_at(walk, source)
        agreement, if_race_free = min(agreement, agreed), if_race_free or races
    return agreement, if_race_free


def places_of(walk: WalkState, opened: OpenLoop, exits: tuple[Exit, ...], mask: Mask) -> Places:
    """Returns the places for which lanes ``mask`` leave a loop at its exits.

    Raises Refused (PW218) if they may leave for several of them and meet in the loop around;
    DivergesForGood if they do behind it.
    """
    loop, parts = opened.loop, opened.by_parts
    meetings = {walk.graph.meeting(way_out.block) for way_out in exits}
    meeting = meetings.pop()
    if meetings or meeting is None or meeting in loop.body:
        raise several_places(walk, loop)
    agreement, if_race_free = _agreement(walk, loop)
    agreement = min(agreement, opened.agreement)
    if most_lanes(mask) == 1 and agreement is Agreement.NONE:
        agreement = Agreement.WARP  # one lane does not part
    as_block = agreement is Agreement.BLOCK
    if as_block and walk.may_pair:
        agreement = Agreement.WARP  # its passes need not be those of warps that are walked apart
    if agreement is Agreement.NONE and not parts:
        raise _parted(walk, loop, exits[0].block, meeting)
    if parts:
        agreement = Agreement.WARP
        walk.diverged[-1].meetings.add(meeting)
    walk.graph.work.unresolved_branches.update(way_out.block for way_out in exits)
    races = if_race_free or opened.if_race_free
    return Places(loop, exits, meeting, agreement, races, parts, as_block)


def _parted(walk: WalkState, loop: Loop, block: int, meeting: int) -> Exception:
    """Returns why lanes that leave a loop for several places cannot be followed: they meet only
    behind a loop around it, which the parts go through alone.
    """
    for opened in walk.recorded.loops[:-1]:
        if meeting not in opened.loop.body and loop.header in opened.loop.body:
            if walk.recorded.sides_of_some == opened.depth:
                return DivergesForGood(opened.loop, block, walk.cause_of(loop))
            break
    return several_places(walk, loop, parting=True)


def one_of(ways: tuple[Path, ...], site: int | None = None, races: bool = False) -> Path:
    """Returns the only way, or a choice of several."""
    return ways[0] if len(ways) == 1 else (PathChoice(ways, site, races),)


def go_on(walk: WalkState, places: Places, mask: Mask) -> tuple[int, Mask]:
    """Goes on behind a loop at the places that its exits lead to: where lanes stand then.

    Raises Refused (PW218) or Undecided if they do not meet again as far as that goes.
    """
    loop = places.loop
    opened = walk.recorded.loops[-1] if walk.recorded.loops else None
    if opened is None or loop.header not in opened.loop.body:
        bodies = [entered.loop.body for entered in walk.recorded.loops]
        ends = {places.meeting, *(way_out.target for way_out in places.exits)}
        if not all(ends <= body for body in bodies if loop.header in body):
            raise several_places(walk, loop)
        return _choose(walk, places, places.exits, (places.meeting, mask), None)
    body = opened.loop.body
    inside = tuple(way_out for way_out in places.exits if way_out.target in body)
    for way_out in places.exits:
        if way_out.target not in body:
            _leave(walk, opened, places, way_out, mask)
    if not inside:
        return places.exits[0].target, np.zeros_like(mask)
    meeting = walk.graph.meeting_inside(opened.loop, inside[0].block)
    if meeting is None or meeting in loop.body:
        raise several_places(walk, loop)
    return _choose(walk, places, inside, (meeting, mask), opened.loop)


def _leave(walk: WalkState, opened: OpenLoop, places: Places, way_out: Exit, mask: Mask) -> None:
    """Notes that a way out of a loop leaves the one around it, too; the others go on there."""
    causes = walk.cause_of(places.loop)
    if opened.exits is not None:
        # behind what the iteration around has executed
        path = (*walk.recorded.nodes, *way_out.path)
        opened.exits.append(replace(way_out, path=path))
        opened.agreement = min(opened.agreement, places.agreement)
        opened.if_race_free |= places.if_race_free
    else:
        _note(walk, opened, places, way_out, mask)
    if not places.as_block:
        walk.reachability = walk.reachability.parted_once(way_out.block, causes)
    walk.reachability = walk.reachability.reached(Reach.PERHAPS)


def _note(walk: WalkState, opened: OpenLoop, places: Places, way_out: Exit, mask: Mask) -> None:
    """Notes a way out of the loop around, and what is executed on it before all meet."""
    branch = places.branch_at(way_out.block, walk.cause_of(places.loop))
    meeting = places.meeting
    if not walk.may_meet(meeting):
        raise Undecided(walk.graph.last(branch.block), branch.causes)
    walk.note_unresolved(branch.block, branch.causes)
    before = walk.snapshot()
    walk.reachability = walk.reachability.reached(Reach.PERHAPS)
    behind = walk_way_out(walk, branch, way_out.target, mask, meeting)
    walk.go_back(before)
    opened.sources.add(branch.block)
    note_way_out(walk, branch, (way_out.path, behind), (meeting, mask), taken=way_out.taken)
    if places.parts:
        walk.diverged[-1].meetings.add(meeting)


def _choose(
    walk: WalkState,
    places: Places,
    exits: tuple[Exit, ...],
    end: tuple[int, Mask],
    around: Loop | None,
) -> tuple[int, Mask]:
    """Walks what follows several ways out, of which one is taken, up to where all of them meet.

    Raises Refused (PW218) if one does not come to the meeting before the loop around begins anew.
    """
    meeting, mask = end
    paths: dict[int, dict[Path, None]] = {}
    for way_out in exits:
        paths.setdefault(way_out.target, {})[way_out.path] = None
    site, races = places.site, places.if_race_free
    ways = tuple(
        Way(target, mask, one_of(tuple(inside), site, races)) for target, inside in paths.items()
    )
    if len(ways) == 1:
        walk.recorded.add(*ways[0].nodes)
        return ways[0].target, mask
    branch = places.branch_at(exits[0].block, walk.cause_of(places.loop))
    stray = several_places(walk, places.loop)
    if around is not None and any(way.target == around.header != meeting for way in ways):
        raise stray
    branch = replace(branch, ways=ways, reach=Reach.PERHAPS, stray=stray)
    return walk_alternatives(walk, branch, meeting, around)
