"""Sides of a branch: walking one up to where the sides meet, and what is known there."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from ptxwcet.flow.graph.loops import Loop
from ptxwcet.flow.shapes.pattern import Agreement
from ptxwcet.flow.values.integers import IntegerType
from ptxwcet.flow.values.intervals import Interval
from ptxwcet.flow.values.ranges import bounded, interval_of
from ptxwcet.flow.values.regions import Symbol
from ptxwcet.flow.values.value import (
    Cause,
    Condition,
    Known,
    Mask,
    Unknown,
    Value,
    combine,
    meet,
    merge,
    substitute,
)
from ptxwcet.flow.walk.open_branch import Narrowed, OpenBranch, Side, Way
from ptxwcet.flow.walk.path import Path, Visit
from ptxwcet.flow.walk.standing import Reach
from ptxwcet.flow.walk.state import Snapshot, WalkState
from ptxwcet.flow.walk.stops import Infeasible, Undecided
from ptxwcet.ir.kernel import Guard


def condition_of(walk: WalkState, guard: Guard | None, mask: Mask) -> Condition | None:
    """What a guard says of a symbol where it holds."""
    value = None if guard is None else walk.state.registers.get(guard.register)
    if guard is None or not isinstance(value, Unknown) or value.condition is None:
        return None
    if not value.condition.holds_in(mask):
        return None
    return value.condition.negated() if guard.negated else value.condition


def narrow(walk: WalkState, sides: OpenBranch, *, taken: bool) -> Narrowed | None:
    """Makes use of what is known on one side of a branch, in all registers."""
    condition = sides.condition
    interval = None
    if condition is not None:
        interval = condition.when if taken else condition.otherwise
    if condition is None or interval is None:
        return None
    old, (first, last) = condition.symbol, interval
    new = replace(old, name=f"{old.name}'", count=last - first + 1, slopes={})
    if not new.is_own:
        walk.parameters.append(new)
    _replace(walk, walk.state.registers, old, (first, new))
    return Narrowed(old, new, first)


def widen(walk: WalkState, made: Narrowed | None) -> None:
    """Undoes :func:`narrow` in registers, where sides of a branch meet."""
    if made is not None:
        _replace(walk, walk.state.registers, made.new, (-made.first, made.old))


def after_narrowing(
    walk: WalkState, registers: Mapping[str, Value], made: Collection[Narrowed]
) -> dict[str, Value]:
    """Earlier registers in the lanes of which something has been made use of since."""
    found = dict(registers)
    for one in made:
        _replace(walk, found, one.old, (one.first, one.new))
    return found


def _replace(
    walk: WalkState, registers: dict[str, Value], symbol: Symbol, by: tuple[int, Symbol]
) -> None:
    """Puts a number plus another symbol in the place of a symbol."""
    offset, other = by
    for name, value in registers.items():
        if isinstance(value, Known) and symbol in value.terms:
            width = walk.graph.width(name)
            registers[name] = substitute(value, symbol, offset, {other: 1}, width)


_LEAST_BITS = 16
_MOST_TERMS = 4
_WIDEST = 1 << 20
_REGISTERS_IN_A_STEP = 256
"""Registers that meet in the time of an instruction: some kernels have thousands."""


def walk_side(
    walk: WalkState,
    block: int,
    mask: Mask,
    join: int,
    *,
    chosen: bool = False,
    way: Way | None = None,
    inside: Loop | None = None,
) -> tuple[Path, Mask]:
    """Walks a side of a branch up to ``join``; ``chosen`` if all lanes of the warp take it.

    They also do on a ``way`` behind a branch. ``inside`` is a loop around it; leaving that loop on
    the side is one of its ways out.
    """
    chosen |= way is not None
    visit = None if way is None else way.visit
    edge = (-1 if way is None else way.sides.block, block)
    with walk.trail.side(visit, edge, chosen=chosen):
        walk.check_depth(block)
        reached, arrived = walk.region(block, mask, join, inside)
        if inside is not None and way is not None and reached not in (join, None):
            arrived = _leave_chosen(walk, way.sides, reached, mask, arrived)
        return tuple(walk.trail.nodes), arrived


def _leave_chosen(
    walk: WalkState, sides: OpenBranch, reached: int, mask: Mask, arrived: Mask
) -> Mask:
    """Notes that a side that all lanes have taken leaves the loop; nobody is left in it."""
    if not arrived.any():
        return arrived
    opened = walk.trail.loops[-1]
    undecided = (walk.graph.last(sides.block), sides.causes)
    last = walk.trail.last
    meeting = walk.graph.meeting(last.block) if isinstance(last, Visit) else None
    if not np.array_equal(arrived, mask) or not walk.may_meet(meeting):
        raise Undecided(*undecided)
    behind: Path = ()
    if reached != meeting:
        behind, _ = walk_side(walk, reached, mask, meeting)
        if walk.steps.have_barrier(behind):
            raise Undecided(*undecided)
    opened.agree &= sides.agreement is Agreement.BLOCK
    opened.if_race_free |= sides.if_race_free
    way_out = (*walk.trail.chosen_prefix(), *walk.trail.nodes, *behind)
    departure = walk.trail.departure(sides.block, taken=True)
    opened.note((way_out, departure), behind, (meeting, mask), undecided)
    return np.zeros_like(mask)


def both_sides(
    walk: WalkState, sides: OpenBranch, join: int, order: tuple[bool, bool], reach: Reach
) -> dict[bool, Side]:
    """Walks both sides of a branch up to their meeting, each from the state as it is now.

    ``order`` says which side comes first: True for the one that the branch leads to. A side that
    facts exclude is left out; raises Infeasible if they exclude both.
    """
    state = walk.state
    registers, alive = dict(state.registers), state.alive.copy()
    walk.spend(len(registers) // _REGISTERS_IN_A_STEP, walk.graph.last(sides.block))
    standing = walk.standing.reached(reach)
    walked_sides: dict[bool, Side] = {}
    for taken in order:
        done = list(walked_sides.values())
        block, mask = sides.taken if taken else sides.fallthrough
        _, other_mask = sides.fallthrough if taken else sides.taken
        state.registers = dict(registers)
        state.alive = alive.copy()
        walk.standing = standing
        if done:
            state.alive &= ~(other_mask & ~mask & ~done[0].alive)
        if not done or np.count_nonzero(done[0].arrived):
            walk.standing = standing.parted(sides.block, sides.causes)
        narrowed = narrow(walk, sides, taken=taken)
        try:
            path, arrived = walk_side(walk, block, mask, join)
        except Infeasible:
            if taken is order[1] and not walked_sides:
                raise
            continue
        finally:
            walk.standing = replace(walk.standing, apart=standing.apart)
        widen(walk, narrowed)
        walked_sides[taken] = walked(walk, path, mask, arrived)
    return walked_sides


def walked(walk: WalkState, path: Path, mask: Mask, arrived: Mask) -> Side:
    """The side that was walked last, with the state at its end."""
    state = walk.state
    return Side(path, mask, arrived, state.registers, state.alive, walk.standing)


def reach_behind(walk: WalkState, before: Snapshot, sides: Collection[Side]) -> None:
    """Notes which runs come to the meeting of the sides of an open branch."""
    walk.endings += any(side.may_have_ended for side in sides)
    is_certain = all(side.is_certain for side in sides)
    reach = before.standing.reach if is_certain else Reach.PERHAPS
    walk.standing = walk.standing.reached(reach)


def meet_registers(walk: WalkState, left: Side, right: Side, causes: frozenset[Cause]) -> None:
    """Registers behind two sides: known where a lane's sides agree, else between the two."""
    unknown = Unknown(causes)
    masks = left.mask, right.mask
    met = dict(left.registers)
    had = met.get
    # most are what they were: of a large kernel, hundreds
    changed = [(name, one) for name, one in right.registers.items() if had(name) is not one]
    changed += [(name, unknown) for name in met.keys() - right.registers.keys()]
    for name, second in changed:
        first = met.get(name, unknown)
        value = meet(first, second, masks, causes)
        if isinstance(value, Known) and value.valid is not None:
            value = _between(value, first, second, masks, walk.graph.width(name))
        met[name] = value
    walk.state.registers = met


def _between(met: Known, left: Value, right: Value, masks: tuple[Mask, Mask], width: int) -> Known:
    """What lanes hold that may have come from either side with numbers that differ.

    It is the left number plus at least 0 or the difference, at most 0 or the difference.
    """
    if met.valid is None or not isinstance(left, Known) or not isinstance(right, Known):
        return met
    lanes = masks[0] & masks[1] & ~met.valid
    for value in (left, right):
        if value.valid is not None:
            lanes &= value.valid
    if width < _LEAST_BITS or len(left.terms) > _MOST_TERMS or not lanes.any():
        return met
    difference = combine(right, left, -1, width)
    kind = IntegerType(width, signed=True)
    interval = interval_of(difference, kind, lanes)
    span = Interval(min(interval.low, 0), max(interval.high, 0))
    if span.high - span.low > _WIDEST:
        return met  # says no more than the type
    joined = combine(left, bounded(span, width, met.otherwise), 1, width)
    merged = merge(met, joined, lanes)
    assert isinstance(merged, Known)
    return merged


def join_sides(walk: WalkState, sides: list[Side], causes: frozenset[Cause]) -> None:
    """Registers and lanes behind several sides: a lane is alive that is so behind one of its."""
    joined = sides[0]
    for side in sides[1:]:
        meet_registers(walk, joined, side, causes)
        waiting = joined.alive & ~side.mask & side.alive
        joined = Side(
            (),
            joined.mask | side.mask,
            joined.arrived | side.arrived,
            walk.state.registers,
            waiting | joined.mask & joined.alive | side.mask & side.alive,
            joined.standing,
        )
    walk.state.registers, walk.state.alive = joined.registers, joined.alive
