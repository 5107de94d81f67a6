"""Loops whose exits are not decided, run as often as the user or a variant says."""

from __future__ import annotations

import numpy as np

from ptxwcet.flow.loops import Loop
from ptxwcet.flow.paths import AffineCount, Path, PathChoice, PathLoop, PathRepeat
from ptxwcet.flow.values import Mask
from ptxwcet.flow.walk_exits import ExitRecorder
from ptxwcet.flow.walk_iterations import Claim, is_rotated
from ptxwcet.flow.walk_state import Reach, WalkState
from ptxwcet.flow.walk_stops import Refused


def bounded_loop(walk: WalkState, loop: Loop, mask: Mask, claim: Claim) -> tuple[int, Mask]:
    """A loop whose exits are not decided, run as often as is claimed.

    Raises Refused (PW218) if its exits lead to different places.
    """
    header = walk.cfg.blocks[loop.header].start
    rotated, bound = is_rotated(loop), claim.most
    if rotated and bound == 0:
        walk.contradict(runs_once(walk, loop))
        bound = 1  # no run enters the loop
    walk.reach = Reach.PERHAPS
    walk.forget(loop)
    recorder = ExitRecorder(loop, walk.graph)
    outer, walk.out, walk.exits = walk.out, [], recorder
    try:
        block, arrived = walk.region(loop.header, mask, None, loop)
        full = tuple(walk.out)
    finally:
        walk.out, walk.exits = outer, None
    walk.forget(loop)
    target = recorder.target
    if block != loop.header or not np.array_equal(arrived, mask) or target is None:
        raise Refused(
            "PW218",
            header,
            "the exits of this loop lead to different places: a bound on its iterations does "
            "not settle what follows",
            "give the parameters that decide the exits, or restructure the loop",
        )
    count = AffineCount(bound - 1 if rotated else bound)
    repeat = PathRepeat(count, AffineCount(0), full)
    ends = tuple(dict.fromkeys(recorder.paths))
    last: Path = ends[0] if len(ends) == 1 else (PathChoice(ends),)
    walk.out.append(
        PathLoop(loop.id, (repeat, *last), AffineCount(bound), claim.origin, claim.reason)
    )
    return target, mask


def runs_once(walk: WalkState, loop: Loop) -> Refused:
    """Refuses a bound of no iterations on a loop that tests at its end."""
    return Refused(
        "PW217",
        walk.cfg.blocks[loop.header].start,
        "--loop-bound says 0 iterations, but this loop tests at its end: once entered, its "
        "body runs at least once",
        "give a bound of at least 1",
    )
