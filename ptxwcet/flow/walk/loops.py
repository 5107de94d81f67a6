"""One entry of a loop, and where its lanes go on that leave it in several ways."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import numpy as np

from ptxwcet.flow.graph.loops import Loop
from ptxwcet.flow.launch import BoundOrigin
from ptxwcet.flow.values.value import Mask, Unknown, Value
from ptxwcet.flow.walk.analysed import analysed_loop
from ptxwcet.flow.walk.bounded import Arrived, Places, bounded_loop, go_on, several_places
from ptxwcet.flow.walk.guards import restore
from ptxwcet.flow.walk.iterations import Claim, Entry, is_rotated, most_lanes
from ptxwcet.flow.walk.path import PathChoice, PathLoop, PathParts, visited_blocks
from ptxwcet.flow.walk.reachability import Reach
from ptxwcet.flow.walk.sides import join_registers, walk_side
from ptxwcet.flow.walk.state import Diverged, Snapshot, WalkState
from ptxwcet.flow.walk.stops import DivergesForGood, Refused, Undecided
from ptxwcet.flow.walk.unresolved import OpenLoop

_MANY = 1 << 16
"""Iterations that a loop hardly has whose limit is not known: asking for a variant is worth it."""
_ENUMERATED = 8
"""Iterations executed one by one, with an exit open, that a variant may bound by fewer.

Ranges of numbers that are halved shrink more slowly than the numbers do.
"""


def walk_loop(walk: WalkState, loop: Loop, mask: Mask, stop: int | None) -> tuple[int, Mask]:
    """Walks one entry of a loop, from its header to wherever its lanes go next."""
    before, endings = walk.snapshot(), walk.endings
    places: Places | None = None
    try:
        block, arrived, places = _enter(walk, loop, mask, stop)
    except DivergesForGood as reason:
        if reason.loop is not loop:
            raise
        walk.restore(before)
        walk.reachability = walk.reachability.parted(reason.block, reason.causes)
        block, arrived = _diverge_for_good(walk, loop, mask, reason.block)
    behind = before.reachability.exact_if(np.array_equal(before.alive, walk.state.alive))
    if walk.endings != endings:
        behind = behind.reached(Reach.PERHAPS)
    walk.reachability = behind.gone_as(walk.reachability)
    return (block, arrived) if places is None else go_on(walk, places, arrived)


def _diverge_for_good(walk: WalkState, loop: Loop, mask: Mask, branch: int) -> tuple[int, Mask]:
    """Walks a loop in which lanes of a warp diverge for good: each part goes on alone."""
    walk.reachability = walk.reachability.exact_if(False).reached(Reach.PERHAPS)
    walk.endings += 1
    diverged = Diverged(loop, {walk.graph.meeting(branch)})
    walk.diverged.append(diverged)
    try:
        with walk.recorded.sub_path():
            block, arrived, several = _enter(walk, loop, mask, None)
            if several is not None:
                raise several_places(walk, loop)
            places = [place for place in diverged.meetings if place is not None]
            final = min(places, key=walk.graph.distance_to_exit)
            if arrived.any() and block != final:
                path, arrived = walk_side(walk, block, arrived, final)
                walk.recorded.add(*path)
            executed = tuple(walk.recorded.nodes)
    finally:
        walk.diverged.pop()
    parts = PathParts(most_lanes(mask), (executed,), least=1)
    written = loop.body | frozenset(visited_blocks(executed))
    walk.recorded.add(parts)
    walk.havoc(loop, written)  # what one part has written another one need not have
    return final, walk.arrive(final, mask & walk.state.alive)


def _enter(walk: WalkState, loop: Loop, mask: Mask, stop: int | None) -> Arrived:
    """Walks a loop and what follows it up to where lanes meet that leave it in several ways."""
    claim = _stated_claim(walk, loop)
    before = walk.snapshot()
    if not walk.graph.work.told_apart:
        claim = _smaller(claim, _variant_claim(walk, loop, mask))
        if claim is not None:
            with suppress(Undecided, Refused):
                return _entered(walk, Entry(loop, mask, stop), claim, counted=False)
            walk.restore(before)
    elif loop.id in walk.graph.work.uncounted:
        claim = _smaller(claim, _variant_claim(walk, loop, mask))
    try:
        arrived = _entered(walk, Entry(loop, mask, stop), claim)
        if walk.is_proving or not _is_worth_a_variant(walk, loop, claim, before.nodes):
            return arrived
        variant = _variant_before(walk, before, Entry(loop, mask, stop))
        most = _most_bodies(walk) if claim is None else claim.most
        if variant is None or most is None or variant.most >= most:
            return arrived
        walk.graph.work.uncounted.add(loop.id)
        walk.restore(before)
        claim = variant
    except (Undecided, Refused) as refused:
        if claim is not None or walk.is_proving or not _is_settled_by_bound(walk, refused, loop):
            raise  # of a proof, where less is known: iterations executed one by one come first
        walk.restore(before)
        claim = _variant_claim(walk, loop, mask)
        if claim is None:
            raise
        walk.graph.work.uncounted.add(loop.id)
    return _entered(walk, Entry(loop, mask, stop), claim)


def _stated_claim(walk: WalkState, loop: Loop) -> Claim | None:
    """Returns what the user states of a loop: rounds before a stop go back no more often than it
    does as a whole.
    """
    stated, rotated = walk.facts.loop_bounds.get(loop.id), is_rotated(loop)
    whole = walk.graph.forest.loops[loop.id]
    if stated is None or loop is whole:
        return None if stated is None else Claim(stated)
    return Claim(max(stated - is_rotated(whole), 0) + rotated)


def _smaller(first: Claim | None, second: Claim | None) -> Claim | None:
    """Returns the claim that says more; the user's of two equal ones."""
    if first is None or second is None:
        return first or second
    return second if second.most < first.most else first


def _is_worth_a_variant(walk: WalkState, loop: Loop, claim: Claim | None, first: int) -> bool:
    """Returns whether the loop that was walked last is bounded by the user's word alone, or hardly
    at all.

    A bound from iterations walked one by one may be poor, since each knows only what the one before
    left. A count that follows from the range of a limit may be that of its type.
    """
    if claim is not None:
        return _is_ended_by_user(walk, loop, first)
    most = None if walk.reachability.is_exact else _most_bodies(walk)
    last = walk.recorded.last
    one_by_one = isinstance(last, PathLoop) and last.one_by_one
    return most is not None and most >= (_ENUMERATED if one_by_one else _MANY)


def _is_ended_by_user(walk: WalkState, loop: Loop, first: int) -> bool:
    """Returns whether the user's word alone ends a loop of what was recorded from ``first`` on."""
    return any(
        isinstance(node, PathLoop) and node.loop == loop.id and node.origin is BoundOrigin.USER
        for node in walk.recorded.nodes[first:]
    )


def _variant_before(walk: WalkState, before: Snapshot, entry: Entry) -> Claim | None:
    """Returns what a variant says of an entry of a loop that has been walked since."""
    registers, alive = walk.state.registers, walk.state.alive
    walk.state.registers, walk.state.alive = dict(before.registers), before.alive.copy()
    claim = _variant_claim(walk, entry.loop, entry.mask)
    walk.state.registers, walk.state.alive = registers, alive
    return claim


def _variant_claim(walk: WalkState, loop: Loop, mask: Mask) -> Claim | None:
    """Returns a bound on the executions of the body that a variant gives."""
    # here and below: loops that are counted need none of what searches and proves variants
    from ptxwcet.flow.walk.variants import variant_of

    variant = variant_of(walk, loop, mask)
    if variant is None:
        return None
    most = variant.back_edges + is_rotated(loop)
    return Claim(most, BoundOrigin.ANALYSIS, variant.reason, variant.proof)


def _entered(
    walk: WalkState, entry: Entry, claim: Claim | None, *, counted: bool = True
) -> Arrived:
    """Walks a loop with what is said of its iterations, which need not be ``counted``."""
    loop, mask = entry.loop, entry.mask
    before = walk.snapshot()
    places: Places | None = None
    with walk.recorded.entry(loop):
        try:
            if claim is not None and not counted:
                block, arrived, _ = bounded_loop(walk, loop, mask, claim, one_place=True)
            else:
                block, arrived = analysed_loop(walk, entry, claim)
        except (Undecided, Refused) as refused:
            if claim is None or not counted or not _is_settled_by_bound(walk, refused, loop):
                raise
            walk.restore(before)
            walk.reachability = walk.reachability.exact_if(False)
            walk.recorded.enter_again()
            block, arrived, places = bounded_loop(walk, loop, mask, claim)
        opened = walk.recorded.loops[-1]
    for assumed in reversed(opened.assumed):
        restore(walk, assumed)
    most = _most_bodies(walk)
    late = _most_late(walk, opened, mask)
    outside = _outside(walk, loop)
    if opened.left:
        walk.havoc(loop, loop.body | outside)
    if most is not None and loop is walk.graph.forest.loops[loop.id]:
        _bound_results(walk, loop, mask, before.registers, most, outside)
    if opened.left:
        block, arrived = _after_leaving(walk, opened, block, arrived, late)
    return block, arrived, places


def _bound_results(
    walk: WalkState,
    loop: Loop,
    mask: Mask,
    before: Mapping[str, Value],
    most: int,
    outside: frozenset[int],
) -> None:
    """Bounds the registers that are unknown behind a loop and decide something, if there are some:
    see :func:`~ptxwcet.flow.walk.variants.bound_results`.
    """
    wanted = walk.graph.control_registers.intersection(walk.graph.writes(loop.body))
    if any(isinstance(walk.state.registers.get(name), Unknown) for name in wanted):
        from ptxwcet.flow.walk.variants import bound_results

        bound_results(walk, loop, mask, before, most, outside)


def _most_bodies(walk: WalkState) -> int | None:
    """Returns the iterations of the loop that was walked last; None if not one number."""
    last = walk.recorded.last
    if not isinstance(last, PathLoop) or last.iterations.slopes:
        return None
    return last.iterations.base


def _outside(walk: WalkState, loop: Loop) -> frozenset[int]:
    """Returns blocks outside of the loop that was walked last, but on the way to where its walk
    ended.

    Lanes that part at a way out meet behind what each of them executes before.
    """
    return frozenset(visited_blocks(tuple(walk.recorded.nodes[-1:]))) - loop.body


def _most_late(walk: WalkState, opened: OpenLoop, mask: Mask) -> int:
    """Returns how often lanes may leave the loop that was walked last while others stay in it.

    Each time at least one lane leaves, on another way or in another iteration, and one stays.
    """
    most = most_lanes(mask) - 1
    last = walk.recorded.last
    if isinstance(last, PathLoop) and not last.iterations.slopes:
        most = min(most, (last.iterations.base + 1) * len(opened.sources))
    return most


def _after_leaving(
    walk: WalkState, opened: OpenLoop, block: int, arrived: Mask, most_late: int
) -> tuple[int, Mask]:
    """Goes on where lanes that may have left meet those that ended the loop.

    With several such places each is behind the one before: all post-dominate the loop. What lanes
    execute before they meet the others comes late at most ``most_late`` times. Lanes that left have
    not written what the others have written, nor the other way round.
    """
    order = sorted(opened.left, key=walk.graph.distance_to_exit, reverse=True)
    for meeting in order:
        if arrived.any() and block != meeting:
            chosen, mask, early = opened.agree, arrived, dict(walk.state.registers)
            path, arrived = walk_side(walk, block, mask, meeting, chosen=chosen)
            site = opened.loop.header if chosen else None
            walk.recorded.add(PathChoice((path, ()), site, opened.if_race_free))
            last, walk.state.registers = walk.state.registers, early
            walk.havoc(opened.loop, opened.behind[meeting])
            left = opened.left[meeting], walk.state.registers
            join_registers(walk, [(mask, last), left], walk.cause_of(opened.loop))
        else:
            walk.havoc(opened.loop, opened.behind[meeting])
        late = tuple(behind for place, behind in opened.late if place == meeting)
        if late and most_late:
            walk.recorded.add(PathParts(most_late, late))
        block, arrived = meeting, arrived | opened.left[meeting] & walk.state.alive
    return block, walk.arrive(block, arrived)


def _is_settled_by_bound(walk: WalkState, refused: Undecided | Refused, loop: Loop) -> bool:
    """Returns whether a loop was refused because its iterations are not known."""
    if isinstance(refused, Refused):
        return refused.code in ("PW204", "PW205")
    block = walk.graph.block_of(refused.instruction)
    return block in {source for source, _ in loop.exits}
