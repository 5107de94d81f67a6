"""Sides of a branch: walking one up to where the sides meet, and what is known there."""

from __future__ import annotations

from collections.abc import Sequence

from ptxwcet.flow.values.integers import IntegerType
from ptxwcet.flow.values.intervals import Interval
from ptxwcet.flow.values.ranges import bounded, interval_of
from ptxwcet.flow.values.value import (
    Cause,
    Known,
    Mask,
    Unknown,
    Value,
    combine,
    join,
    merge,
)
from ptxwcet.flow.walk.path import Path
from ptxwcet.flow.walk.state import WalkState
from ptxwcet.flow.walk.stops import Undecided
from ptxwcet.flow.walk.unresolved import Branch

_LEAST_BITS = 16
_MOST_TERMS = 4
_WIDEST = 1 << 20


def walk_side(
    walk: WalkState, block: int, mask: Mask, stop: int, *, chosen: bool = False
) -> tuple[Path, Mask]:
    """Walks a side of a branch up to ``stop``; ``chosen`` if all lanes of the warp take it.

    Returns its path and the lanes that arrive.
    """
    with walk.recorded.side((), (-1, block), chosen=chosen):
        walk.check_depth(block)
        _, arrived = walk.region(block, mask, stop, None)
        return tuple(walk.recorded.nodes), arrived


def walk_way_out(walk: WalkState, branch: Branch, target: int, mask: Mask, meeting: int) -> Path:
    """Walks what lanes that leave the loop execute before they meet the others at ``meeting``.

    Raises Undecided if they wait at a barrier there.
    """
    if target == meeting:
        return ()
    behind, _ = walk_side(walk, target, mask, meeting)
    if walk.steps.have_barrier(behind):
        raise Undecided(walk.graph.last(branch.block), branch.causes)
    return behind


def note_way_out(
    walk: WalkState,
    branch: Branch,
    ways: tuple[Path, Path],
    place: tuple[int, Mask],
    *,
    taken: bool,
) -> None:
    """Notes that lanes may leave the loop at a branch and then wait at a ``place`` for the others.

    ``ways`` are what they execute in this side or iteration before they leave, and behind the loop.
    """
    opened = walk.recorded.loops[-1]
    before, behind = ways
    opened.agreement = min(opened.agreement, branch.agreement)
    opened.if_race_free |= branch.if_race_free
    way_out = (*walk.recorded.chosen_prefix(), *walk.recorded.nodes, *before, *behind)
    departure = walk.recorded.departure(branch.block, taken=taken)
    undecided = (walk.graph.last(branch.block), branch.causes)
    opened.note((way_out, departure), behind, place, undecided)


def join_registers(
    walk: WalkState, sides: Sequence[tuple[Mask, dict[str, Value]]], causes: frozenset[Cause]
) -> None:
    """Joins the registers behind sides, each with the lanes that may have taken it.

    They are known where a lane's sides agree, else between the two.
    """
    (mask, joined), *others = sides
    for other_mask, registers in others:
        joined = _joined(walk, (joined, registers), (mask, other_mask), causes)
        mask = mask | other_mask
    walk.state.registers = joined


def _joined(
    walk: WalkState,
    sides: tuple[dict[str, Value], dict[str, Value]],
    masks: tuple[Mask, Mask],
    causes: frozenset[Cause],
) -> dict[str, Value]:
    unknown = Unknown(causes)
    left, right = sides
    joined = dict(left)
    before = joined.get
    # most are what they were: of a large kernel, hundreds
    changed = [(name, value) for name, value in right.items() if before(name) is not value]
    changed += [(name, unknown) for name in joined.keys() - right.keys()]
    for name, second in changed:
        first = joined.get(name, unknown)
        value = join(first, second, masks, causes)
        if isinstance(value, Known) and value.valid is not None:
            value = _between(value, first, second, masks, walk.graph.width(name))
        joined[name] = value
    return joined


def _between(
    joined: Known, left: Value, right: Value, masks: tuple[Mask, Mask], width: int
) -> Known:
    """Returns what lanes hold that may have come from either side with numbers that differ.

    It is the left number plus at least 0 or the difference, at most 0 or the difference.
    """
    if joined.valid is None or not isinstance(left, Known) or not isinstance(right, Known):
        return joined
    lanes = masks[0] & masks[1] & ~joined.valid
    for value in (left, right):
        if value.valid is not None:
            lanes &= value.valid
    if width < _LEAST_BITS or len(left.terms) > _MOST_TERMS or not lanes.any():
        return joined
    difference = combine(right, left, -1, width)
    kind = IntegerType(width, signed=True)
    interval = interval_of(difference, kind, lanes)
    span = Interval(min(interval.low, 0), max(interval.high, 0))
    if span.high - span.low > _WIDEST:
        return joined  # says no more than the type
    between = combine(left, bounded(span, width, joined.otherwise), 1, width)
    merged = merge(joined, between, lanes)
    assert isinstance(merged, Known)
    return merged
