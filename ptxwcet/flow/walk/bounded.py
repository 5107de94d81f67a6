"""Loops whose exits are not decided, run as often as the user or a variant says."""

from __future__ import annotations

import numpy as np

from ptxwcet.flow.graph.loops import Loop
from ptxwcet.flow.shapes.pattern import Agreement
from ptxwcet.flow.values import ranges
from ptxwcet.flow.values.intervals import Interval
from ptxwcet.flow.values.value import Known, Mask, combine, scale_by, wrap
from ptxwcet.flow.walk.branches import agreement_at
from ptxwcet.flow.walk.iterations import Claim, is_rotated
from ptxwcet.flow.walk.path import AffineCount, Path, PathLoop, PathRepeat, Together
from ptxwcet.flow.walk.places import Arrived, one_of, parts_at_exits, places_of, several_places
from ptxwcet.flow.walk.standing import Reach
from ptxwcet.flow.walk.state import ExitRecorder, WalkState
from ptxwcet.flow.walk.stops import Refused

_LONGEST = 64
"""Bits of the widest registers."""


def bounded_loop(
    walk: WalkState, loop: Loop, mask: Mask, claim: Claim, *, one_place: bool = False
) -> Arrived:
    """A loop whose exits are not decided, run as often as is claimed.

    Raises Refused: PW218 if its exits lead to different places, and lanes may leave for several or
    ``one_place`` is asked for, PW222 if barriers are in it and nothing says that all warps of the
    block leave it together.
    """
    rotated, bound = is_rotated(loop), claim.most
    if rotated and bound == 0:
        walk.contradict(runs_once(walk, loop), loop=loop.id)
        bound = 1  # no run enters the loop
    walk.standing = walk.standing.reached(Reach.PERHAPS)
    _begin_any(walk, loop, mask, bound - rotated)
    parts = parts_at_exits(walk, loop)
    recorder = ExitRecorder(loop, walk.graph, parts=parts)
    with walk.trail.piece(recorder):
        block, arrived = walk.region(loop.header, mask, None, loop)
        full = tuple(walk.trail.nodes)
    walk.forget(loop)
    noted = bool(walk.trail.loops[-1].left)  # ways out of sides, which the recorder does not see
    is_whole = block == loop.header and np.array_equal(arrived, mask)
    if not is_whole or not recorder.exits or noted:
        raise several_places(walk, loop)
    targets = {one.target for one in recorder.exits}
    meetings = {walk.graph.meeting(one.block) for one in recorder.exits}
    places = None
    if len(targets) > 1 or meetings != targets:
        if one_place:
            raise several_places(walk, loop)
        places = places_of(walk, recorder, mask, parts=parts)
    together = _together(walk, recorder, full)
    count = AffineCount(bound - 1 if rotated else bound)
    body: Path = (PathRepeat(count, AffineCount(0), full, together),)
    if places is None:
        ways = tuple(dict.fromkeys(one.path for one in recorder.exits))
        if together is None:
            body += one_of(ways)
        else:
            body += one_of(ways, together.site, together.if_race_free)
    most = bodies_of_whole(walk, loop, bound)
    walk.trail.add(PathLoop(loop.id, body, most, claim.origin, claim.reason, claim.proof))
    return recorder.exits[0].target, mask, places


def _begin_any(walk: WalkState, loop: Loop, mask: Mask, most: int) -> None:
    """The registers at the header in any iteration, if lanes have gone back ``most`` times or less.

    To some of them each iteration adds a constant: they hang together by how many there were.
    """
    walk.state.active = mask
    # here: one iteration is followed as terms, which loops that are counted have no need of
    from ptxwcet.flow.certificates.passage import steady_steps

    steps = steady_steps(walk.graph, loop)
    before = {name: walk.state.register(name) for name in steps if name in walk.state.registers}
    walk.forget(loop)
    number = ranges.bounded(Interval(0, most), _LONGEST, walk.cause_of(loop))
    for name, value in before.items():
        width = walk.graph.width(name)
        if isinstance(value, Known) and width > 1:
            moved = scale_by(number, wrap(steps[name], width), width)
            walk.state.write(name, combine(value, moved, 1, width), mask)


def _together(walk: WalkState, recorder: ExitRecorder, iteration: Path) -> Together | None:
    """Why all warps of the block leave the loop together; None if they need not, as there is no
    barrier in it.
    """
    loop = recorder.loop
    if not any(walk.graph.block_of(index) in loop.body for index in walk.cfg.barriers):
        return None
    waits = walk.steps.have_barrier(iteration)
    races = recorder.if_race_free
    for source in sorted({source for source, _ in loop.exits}):
        agreement, if_race_free = agreement_at(walk, source)
        agreement = min(agreement, recorder.agreement)
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
