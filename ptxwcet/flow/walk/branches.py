"""Branches: decided for all lanes, divergent, or unresolved, and how such a one is walked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ptxwcet.flow.graph.cfg import BlockId
from ptxwcet.flow.graph.loops import Loop
from ptxwcet.flow.shapes.pattern import Agreement
from ptxwcet.flow.values.value import Condition, Mask
from ptxwcet.flow.walk.alternatives import walk_both_sides
from ptxwcet.flow.walk.exits import ending, may_leave, record_exit, walk_end, working_end
from ptxwcet.flow.walk.guards import assume, condition_of, outcomes
from ptxwcet.flow.walk.path import PathChoice, PathFork, PathNode, PathUnordered, Visit
from ptxwcet.flow.walk.sides import walk_side
from ptxwcet.flow.walk.state import WalkState
from ptxwcet.flow.walk.stops import DivergesForGood, Refused, Undecided, aborted, no_meeting
from ptxwcet.flow.walk.unresolved import Branch, Way
from ptxwcet.ir.kernel import Guard


def walk_branch(
    walk: WalkState, block: int, mask: Mask, taken: int, fallthrough: int | None
) -> tuple[int, Mask]:
    """Goes on behind a block that ends with a branch: where the lanes stand that arrive there."""
    guard = walk.graph.kernel.instructions[walk.graph.last(block)].guard
    bounded = walk.recorded.bounded
    if bounded is not None and any(block == source for source, _ in bounded.loop.exits):
        return record_exit(walk, bounded, block, (taken, fallthrough)), mask
    sure, unsure, causes = outcomes(walk, guard, mask)
    if walk.cfg.aborts and unsure.any() and not walk.is_proving:
        _use_assertion(walk, block, condition_of(walk, guard, mask), mask)
    sure, unsure = _possible(walk, block, sure, unsure, mask)
    going, staying = sure | unsure, mask & ~sure
    if not np.count_nonzero(going):
        assert fallthrough is not None
        walk.recorded.add(_visit(walk, Visit(block, taken=False)))
        return fallthrough, mask
    jumps = walk.graph.jumps(block)
    is_open = bool(np.count_nonzero(unsure))
    is_decided = not is_open and walk.reachability.mask_is_exact
    if (
        fallthrough is None
        or not np.count_nonzero(staying)
        or (taken == fallthrough and is_decided)
    ):
        walk.recorded.add(_visit(walk, Visit(block, taken=jumps)))
        return taken, mask
    if taken == fallthrough:  # only the bubble of a taken branch is open
        walk.note_unresolved(block, causes)
        walk.recorded.add(PathFork(block, (), (), straight=False, jumps=jumps))
        return taken, mask
    if not is_open and not walk.is_proving:  # lanes diverge, if they are here
        walk.graph.work.parting.add(block)
    ways = (
        Way(taken, going, (Visit(block, taken=jumps),)),
        Way(fallthrough, staying, (Visit(block, taken=False),), taken=False),
    )
    branch = Branch(block, ways, causes)
    if is_decided:
        return _decided(walk, branch)
    if is_open:
        branch = _opened(walk, branch, guard, mask)
    return _unresolved(walk, branch)


def _decided(walk: WalkState, branch: Branch) -> tuple[int, Mask]:
    """Goes on behind a branch whose lanes are known to diverge: to the end, or to both sides."""
    block, (first, second) = branch.block, branch.ways
    if block in walk.facts.uniform:
        walk.contradict(_parts(walk, block))
    final = walk.graph.way_out(first.target, second.target)
    if final is not None:
        return walk_end(walk, branch, final, works=False, decided=True)
    working = working_end(walk, first.target, second.target)
    if working is not None:
        return walk_end(walk, branch, working, works=True, decided=True)
    # Lanes that branch straight to the meeting only wait there: the warp falls through.
    straight = first.target == walk.graph.meeting(block)
    walk.recorded.add(Visit(block, taken=walk.graph.jumps(block) and not straight))
    return _diverge(walk, block, first, second)


def _visit(walk: WalkState, visit: Visit) -> PathNode:
    """Returns a visit of a branch that is decided here: a choice of one way if all warps are said
    to make it alike, and elsewhere it may be open.
    """
    if walk.facts.uniform.get(visit.block) == "block" and walk.may_pair:
        return PathChoice(((visit,),), visit.block)
    return visit


def _parts(walk: WalkState, block: int) -> Refused:
    """Returns the refusal of a branch at which lanes part that a fact says go together."""
    return Refused(
        "PW217",
        walk.graph.last(block),
        "a fact says that all lanes of a warp take this branch alike, but some take it and some do "
        "not",
        "correct the fact or the launch facts: both cannot be true",
    )


def _opened(walk: WalkState, branch: Branch, guard: Guard | None, mask: Mask) -> Branch:
    """Returns an unresolved branch with who agrees on it, and what it says of a symbol."""
    walk.note_unresolved(branch.block, branch.causes)
    agreement, if_race_free = agreement_at(walk, branch.block)
    if agreement:
        branch = replace(branch, ways=tuple(replace(way, mask=mask) for way in branch.ways))
    condition = condition_of(walk, guard, mask)
    return replace(branch, agreement=agreement, condition=condition, if_race_free=if_race_free)


def agreement_at(walk: WalkState, block: int) -> tuple[Agreement, bool]:
    """Returns who takes a branch alike, and whether that needs a kernel without data races.

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
    """Returns who takes a branch alike in an iteration of the loops around."""
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
    """Returns the lanes that take a branch, and that may, less the outcomes that facts exclude, and
    those after which the launch is aborted.

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
        mask_is_exact = walk.reachability.mask_is_exact
        if contrary.any() and (mask_is_exact or np.array_equal(contrary, mask)):
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
            assume(walk, condition, holds=not taken)


def _excluded(walk: WalkState, block: int, *, taken: bool) -> Refused:
    """Returns the refusal of a branch at which lanes go a way that a fact excludes."""
    return Refused(
        "PW217",
        walk.graph.last(block),
        f"a fact says that this branch is never {'taken' if taken else 'passed'}, but some lanes "
        "do so",
        "correct the fact or the launch facts: both cannot be true",
    )


def _unresolved(walk: WalkState, branch: Branch) -> tuple[int, Mask]:
    """Goes on behind a branch whose lanes may go either way."""
    block, targets = branch.block, tuple(way.target for way in branch.ways)
    postdominator = walk.graph.meeting(block)
    meeting: int | None = postdominator
    way_out = walk.graph.way_out(*targets)
    ends = postdominator in targets and walk.graph.is_final(postdominator)
    if way_out is not None:
        ends, postdominator = True, BlockId(way_out)
    elif not branch.agreement:
        working = working_end(walk, *targets)
        if working is not None:
            return walk_end(walk, branch, working, works=True, decided=False)
    inside: Loop | None = None
    # what lanes execute behind a loop that they have left early is walked while it is open
    within = bool(walk.recorded.loops) and block in walk.recorded.loops[-1].loop.body
    body = walk.diverged[-1].loop.body if walk.diverged else frozenset()
    by_parts = block in body and within and not ends and postdominator not in body
    if by_parts and not branch.agreement:
        branch = replace(branch, agreement=Agreement.WARP, by_parts=True)
    if within and (branch.causes or branch.by_parts):
        opened = walk.recorded.loops[-1]
        loop = opened.loop
        leaves = (targets[0] in loop.body) != (targets[1] in loop.body)
        if leaves and way_out is None and walk.may_meet(postdominator):
            return may_leave(walk, branch, postdominator)
        if ends:
            opened.undecided = (walk.graph.last(block), branch.causes)
            opened.end = ending(walk, postdominator)
            return walk_end(walk, branch, postdominator, works=False, decided=False)
        if leaves:
            raise Undecided(walk.graph.last(block), branch.causes)
        is_whole = walk.recorded.sides_of_some == opened.depth
        goes_back = meeting in loop.body and walk.graph.goes_back(loop, BlockId(block), meeting)
        if branch.agreement and is_whole and goes_back:
            # a warp that goes back as a whole leaves nobody behind to meet: its iteration is over
            inside, meeting = loop, walk.graph.meeting_inside(loop, block)
        elif meeting not in loop.body and meeting not in targets:
            if not branch.agreement:
                raise _diverges_for_good(walk, branch, postdominator)
            meeting_in_loop = walk.graph.meeting_inside(loop, block)
            if meeting_in_loop is not None:
                inside, meeting = loop, meeting_in_loop
            elif not all(meeting in around.loop.body for around in walk.recorded.loops[:-1]):
                raise Undecided(walk.graph.last(block), branch.causes)
    if ends:
        return walk_end(walk, branch, postdominator, works=False, decided=False)
    return walk_both_sides(walk, branch, meeting, inside)


def _diverges_for_good(walk: WalkState, branch: Branch, meeting: int | None) -> Exception:
    """Returns why lanes cannot be walked on that meet only behind a loop they may leave."""
    around = [opened.loop for opened in walk.recorded.loops]
    left = next((loop for loop in around if meeting is not None and meeting not in loop.body), None)
    if left is None or walk.recorded.sides_of_some != walk.recorded.loops[around.index(left)].depth:
        return Undecided(walk.graph.last(branch.block), branch.causes)
    return DivergesForGood(left, branch.block, branch.causes)


def _diverge(walk: WalkState, block: int, first: Way, second: Way) -> tuple[int, Mask]:
    """Walks both sides of a divergent branch, which is decided, one after the other."""
    index = walk.graph.last(block)
    meeting = walk.graph.meeting(block)
    if meeting is None:
        raise no_meeting(index)
    first_path, first_arrived = walk_side(walk, first.target, first.mask, meeting)
    second_path, second_arrived = walk_side(walk, second.target, second.mask, meeting)
    if first_path and second_path:
        if walk.steps.have_barrier(first_path) or walk.steps.have_barrier(second_path):
            raise Refused(
                "PW222",
                index,
                "the sides of a divergent branch execute one after the other, and one of them "
                "waits at a barrier",
                "move the barrier out of the divergent code",
            )
        walk.recorded.add(PathUnordered(first_path, second_path))
    else:
        walk.recorded.add(*first_path, *second_path)
    return meeting, first_arrived | second_arrived
