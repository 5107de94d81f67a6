"""Branches: decided for all lanes, divergent, or open; and which way an open one is walked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ptxwcet.flow.graph.cfg import BlockId
from ptxwcet.flow.graph.loops import Loop
from ptxwcet.flow.shapes.pattern import Agreement
from ptxwcet.flow.values.value import Condition, Mask
from ptxwcet.flow.walk.guards import outcomes
from ptxwcet.flow.walk.open_branch import OpenBranch
from ptxwcet.flow.walk.open_branches import (
    choose,
    end_early,
    ending,
    fork,
    may_end,
    may_leave,
    may_work_and_end,
    way_to_the_end,
    work_before_end,
)
from ptxwcet.flow.walk.path import PathChoice, PathFork, PathNode, PathUnordered, Visit
from ptxwcet.flow.walk.sides import condition_of, narrow, walk_side
from ptxwcet.flow.walk.state import WalkState
from ptxwcet.flow.walk.stops import FallsApart, Refused, Undecided, aborted, no_meeting
from ptxwcet.ir.kernel import Guard


def walk_branch(
    walk: WalkState, block: int, mask: Mask, taken: int, fallthrough: int | None
) -> tuple[int, Mask]:
    """Goes on behind a block that ends with a branch: where the lanes stand that arrive there."""
    guard = walk.graph.kernel.instructions[walk.graph.last(block)].guard
    recorder = walk.trail.exits
    if recorder is not None and block in recorder.blocks:
        return recorder.leave_or_stay(block, taken, fallthrough, walk.trail.nodes), mask
    sure, unsure, causes = outcomes(walk, guard, mask)
    if walk.cfg.aborts and unsure.any() and not walk.is_proving:
        _use_assertion(walk, block, condition_of(walk, guard, mask), mask)
    sure, unsure = _possible(walk, block, sure, unsure, mask)
    going, staying = sure | unsure, mask & ~sure
    if not np.count_nonzero(going):
        assert fallthrough is not None
        walk.trail.add(_visit(walk, Visit(block, taken=False)))
        return fallthrough, mask
    jumps = walk.graph.jumps(block)
    is_open = bool(np.count_nonzero(unsure))
    is_decided = not is_open and walk.standing.are_here
    if (
        fallthrough is None
        or not np.count_nonzero(staying)
        or (taken == fallthrough and is_decided)
    ):
        walk.trail.add(_visit(walk, Visit(block, taken=jumps)))
        return taken, mask
    if taken == fallthrough:  # only the bubble of a taken branch is open
        walk.note_open(block, causes)
        walk.trail.add(PathFork(block, (), (), straight=False, jumps=jumps))
        return taken, mask
    if not is_open and not walk.is_proving:  # lanes part, if they are here
        walk.graph.work.parting.add(block)
    if is_decided:
        if block in walk.facts.uniform:
            walk.contradict(_parts(walk, block))
        # Lanes that branch straight to the join only wait there: the warp falls through.
        straight = taken == walk.graph.meeting(block)
        way_out = walk.graph.way_out(taken, fallthrough)
        if way_out is not None:
            ends = way_out == taken
            stay, leave = Visit(block, taken=jumps and not ends), Visit(block, taken=jumps and ends)
            end_early(walk, stay, leave, ending(walk, way_out))
            walk.state.alive &= ~(going if ends else staying)
            return (fallthrough, staying) if ends else (taken, going)
        working = way_to_the_end(walk, taken, fallthrough)
        if working is not None:
            way, on = (taken, going), (fallthrough, staying)
            if working != taken:
                way, on = on, way
            last = work_before_end(walk, way)
            stay, leave = (Visit(block, taken=jumps and one == taken) for one in (on[0], working))
            end_early(walk, stay, leave, last)
            walk.state.alive &= ~way[1]
            return on
        walk.trail.add(Visit(block, taken=jumps and not straight))
        return _diverge(walk, block, (taken, going), (fallthrough, staying))
    sides = OpenBranch(block, (taken, going), (fallthrough, staying), causes)
    if is_open:
        sides = _opened(walk, sides, guard, mask)
    return _open_branch(walk, sides)


def _visit(walk: WalkState, visit: Visit) -> PathNode:
    """A visit of a branch that is decided here: a choice of one way if all warps are said to make
    it alike, and elsewhere it may be open.
    """
    if walk.facts.uniform.get(visit.block) == "block" and walk.may_pair:
        return PathChoice(((visit,),), visit.block)
    return visit


def _parts(walk: WalkState, block: int) -> Refused:
    """The refusal of a branch at which lanes part that a fact says go together."""
    return Refused(
        "PW217",
        walk.graph.last(block),
        "a fact says that all lanes of a warp take this branch alike, but some take it and some do "
        "not",
        "correct the fact or the launch facts: both cannot be true",
    )


def _opened(walk: WalkState, sides: OpenBranch, guard: Guard | None, mask: Mask) -> OpenBranch:
    """A branch that is open for ``mask``, with who agrees on it and what it says of a symbol."""
    walk.note_open(sides.block, sides.causes)
    agreement, if_race_free = agreement_at(walk, sides.block)
    if agreement:
        taken, fallthrough = sides.taken[0], sides.fallthrough[0]
        sides = replace(sides, taken=(taken, mask), fallthrough=(fallthrough, mask))
    condition = condition_of(walk, guard, mask)
    return replace(sides, agreement=agreement, condition=condition, if_race_free=if_race_free)


def agreement_at(walk: WalkState, block: int) -> tuple[Agreement, bool]:
    """Who takes a branch alike, and whether that needs a kernel without data races.

    Warps that are walked apart may come to it in different iterations for the n-th time.
    """
    agreement, if_race_free = _agreement(walk, block)
    if agreement is not Agreement.BLOCK or not walk.may_pair:
        return agreement, if_race_free
    for branch in walk.graph.agreements.parting(block):
        agreed, only_if_race_free = _agreement(walk, branch)
        if agreed is not Agreement.BLOCK:
            return Agreement.WARP, False
        if_race_free |= only_if_race_free
    return agreement, if_race_free


def _agreement(walk: WalkState, block: int) -> tuple[Agreement, bool]:
    """Who takes a branch alike in an iteration of the loops around, on which assumption."""
    stated = walk.facts.uniform.get(block)
    if stated == "block":
        return Agreement.BLOCK, False
    agreement = walk.graph.agreements[block]
    if stated == "warp":
        agreement = max(agreement, Agreement.WARP)
    if agreement is Agreement.WARP and walk.state.launch.warps == 1:
        agreement = Agreement.BLOCK  # the warp is the block
    if agreement is Agreement.BLOCK or not walk.cfg.barriers:
        return agreement, False
    without_races = walk.graph.agreements.without_races(block)
    return max(agreement, without_races), without_races > agreement


def _possible(
    walk: WalkState, block: int, sure: Mask, unsure: Mask, mask: Mask
) -> tuple[Mask, Mask]:
    """The lanes that take a branch, and that may, less the outcomes that facts exclude, and those
    after which the launch is aborted.

    Lanes whose outcome is known to be an excluded one are not here in any run. If the mask is that
    of the run, or has no other lanes, no run comes here. Otherwise they go where they are known to
    go: to send them elsewhere would add what no run does. Where the launch would be aborted
    there is no graph to go on in.
    """
    aborts = walk.cfg.aborts
    never = aborts | walk.facts.never
    for taken in (True, False):
        if (block, taken) not in never:
            continue
        contrary = sure if taken else mask & ~(sure | unsure)
        are_here = walk.standing.are_here
        if contrary.any() and (are_here or np.array_equal(contrary, mask)):
            is_abort = (block, taken) in aborts
            index = walk.graph.last(block)
            walk.contradict(aborted(index) if is_abort else _excluded(walk, block, taken=taken))
        sure = sure if taken else sure | unsure
        unsure = np.zeros_like(mask)
        if (block, taken) in aborts:
            sure = unsure if taken else mask
    return sure, unsure


def _use_assertion(walk: WalkState, block: int, condition: Condition | None, mask: Mask) -> None:
    """Makes use of what holds behind an assertion, if no lane waits that it need not hold for."""
    for taken in (True, False):
        if (block, taken) in walk.cfg.aborts and not bool((walk.state.alive & ~mask).any()):
            way = (block, mask)
            narrow(
                walk, OpenBranch(block, way, way, frozenset(), condition=condition), taken=not taken
            )


def _excluded(walk: WalkState, block: int, *, taken: bool) -> Refused:
    """The refusal of a branch at which lanes go a way that a fact excludes."""
    return Refused(
        "PW217",
        walk.graph.last(block),
        f"a fact says that this branch is never {'taken' if taken else 'passed'}, but some lanes "
        "do so",
        "correct the fact or the launch facts: both cannot be true",
    )


def _open_branch(walk: WalkState, sides: OpenBranch) -> tuple[int, Mask]:
    """Goes on behind a branch whose lanes may go either way."""
    block, (taken, _), (fallthrough, _) = sides.block, sides.taken, sides.fallthrough
    postdominator = walk.graph.meeting(block)
    meeting: int | None = postdominator
    way_out = walk.graph.way_out(taken, fallthrough)
    ends = postdominator in (taken, fallthrough) and walk.graph.is_final(postdominator)
    if way_out is not None:
        ends, postdominator = True, BlockId(way_out)
    if way_out is None and not sides.agreement:
        working = way_to_the_end(walk, taken, fallthrough)
        if working is not None:
            return may_work_and_end(walk, sides, working)
    inside: Loop | None = None
    # what lanes execute behind a loop that they have left early is walked while it is open
    within = bool(walk.trail.loops) and block in walk.trail.loops[-1].loop.body
    body = walk.scattered[-1].loop.body if walk.scattered else frozenset()
    parts = block in body and within and not ends and postdominator not in body
    if parts and not sides.agreement:
        sides = replace(sides, agreement=Agreement.WARP, is_part=True)
    if within and (sides.causes or sides.is_part):
        loop = walk.trail.loops[-1].loop
        leaves = (taken in loop.body) != (fallthrough in loop.body)
        if leaves and way_out is None and walk.may_meet(postdominator):
            return may_leave(walk, sides, postdominator)
        if ends:
            walk.trail.loops[-1].undecided = (walk.graph.last(block), sides.causes)
            walk.trail.loops[-1].end = ending(walk, postdominator)
            return may_end(walk, sides, postdominator)
        if leaves:
            raise Undecided(walk.graph.last(block), sides.causes)
        is_whole = walk.trail.sides_of_some == walk.trail.loops[-1].depth
        goes_back = meeting in loop.body and walk.graph.goes_back(loop, BlockId(block), meeting)
        if sides.agreement and is_whole and goes_back:
            # a warp that goes back as a whole leaves nobody behind to meet: its iteration is over
            inside, meeting = loop, walk.graph.meeting_inside(loop, block)
        elif meeting not in loop.body and meeting not in (taken, fallthrough):
            if not sides.agreement:
                raise _falls_apart(walk, sides, postdominator)
            meeting_in_loop = walk.graph.meeting_inside(loop, block)
            if meeting_in_loop is not None:
                inside, meeting = loop, meeting_in_loop
            elif not all(meeting in opened.loop.body for opened in walk.trail.loops[:-1]):
                raise Undecided(walk.graph.last(block), sides.causes)
    if ends:
        return may_end(walk, sides, postdominator)
    if meeting is None:
        raise no_meeting(walk.graph.last(block))
    if sides.agreement:
        return choose(walk, sides, meeting, inside)
    return fork(walk, sides)


def _falls_apart(walk: WalkState, sides: OpenBranch, meeting: int | None) -> Exception:
    """Why lanes that part here cannot be walked on: they meet only behind a loop they may leave."""
    around = [opened.loop for opened in walk.trail.loops]
    left = next((loop for loop in around if meeting is not None and meeting not in loop.body), None)
    if left is None or walk.trail.sides_of_some != walk.trail.loops[around.index(left)].depth:
        return Undecided(walk.graph.last(sides.block), sides.causes)
    return FallsApart(left, sides.block, sides.causes)


def _diverge(
    walk: WalkState, block: int, first: tuple[int, Mask], second: tuple[int, Mask]
) -> tuple[int, Mask]:
    """Both sides of a branch that lanes of one warp decide differently, one after the other."""
    index = walk.graph.last(block)
    join = walk.graph.meeting(block)
    if join is None:
        raise no_meeting(index)
    first_path, first_arrived = walk_side(walk, *first, join)
    second_path, second_arrived = walk_side(walk, *second, join)
    if first_path and second_path:
        if walk.steps.have_barrier(first_path) or walk.steps.have_barrier(second_path):
            raise Refused(
                "PW222",
                index,
                "the sides of a divergent branch execute one after the other, and one of them "
                "waits at a barrier",
                "move the barrier out of the divergent code",
            )
        walk.trail.add(PathUnordered(first_path, second_path))
    else:
        walk.trail.add(*first_path, *second_path)
    return join, first_arrived | second_arrived
