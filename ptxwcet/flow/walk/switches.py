"""Indexed branches (``brx.idx``): each lane goes on where the table leads for its index.

So do calls through a register with a list of what they may call; of these the index is unknown."""

from __future__ import annotations

from functools import reduce

import numpy as np

from ptxwcet.flow.shapes.pattern import Agreement
from ptxwcet.flow.values.operands import read_operand
from ptxwcet.flow.values.value import Cause, CauseKind, Known, Mask
from ptxwcet.flow.walk.branches import agreement_at
from ptxwcet.flow.walk.guards import require_agreement
from ptxwcet.flow.walk.open_branch import Side
from ptxwcet.flow.walk.path import PathChoice, PathLate, Visit
from ptxwcet.flow.walk.sides import join_sides, reach_behind, walk_side, walked
from ptxwcet.flow.walk.standing import Reach
from ptxwcet.flow.walk.state import WalkState
from ptxwcet.flow.walk.stops import Infeasible, Refused, aborted
from ptxwcet.ir.op_classes import OpClass


def walk_switch(walk: WalkState, block: int, mask: Mask) -> tuple[int, Mask]:
    """Goes on behind a block that ends with an indexed branch. Raises Refused (PW221).

    If lanes of one warp take several sides, these are executed in any order; if all lanes go alike,
    one side is. Each is walked from the same state.
    """
    meeting = walk.graph.meeting(block)
    ways = _lanes_by_target(walk, block, mask)
    walk.trail.add(Visit(block, taken=True))
    if len(ways) == 1:
        return next(iter(ways.items()))
    if meeting is None or (walk.trail.loops and meeting not in walk.trail.loops[-1].loop.body):
        raise _refusal(walk, block, "its cases meet again only behind the loop around")
    causes = frozenset({Cause(CauseKind.OPERATION, "brx.idx", walk.graph.last(block))})
    agreement, if_race_free = agreement_at(walk, block)
    is_known = not any(np.array_equal(lanes, mask) for lanes in ways.values())
    if is_known:
        agreement = Agreement.NONE  # it is known which lanes go where
    before = walk.snapshot()
    if agreement is not Agreement.BLOCK:
        walk.standing = walk.standing.parted(block, causes)
    sides = _sides(walk, ways, meeting, agreement, is_known=is_known)
    join_sides(walk, sides, causes)
    complete = all(not bool((side.mask & ~side.arrived).any()) for side in sides)
    exact = before.standing.exact_if(complete)
    walk.standing = exact.gone_as(*(side.standing for side in sides))
    reach_behind(walk, before, sides)
    paths = tuple(side.path for side in sides)
    waits = any(walk.steps.have_barrier(path) for path in paths)
    if agreement is Agreement.BLOCK and len(sides) < len(ways) and waits and walk.may_pair:
        # the n-th alternative of these warps need not be the n-th of others
        raise _refusal(walk, block, "facts exclude one of its cases, and others have barriers")
    if agreement:
        site = block if agreement is Agreement.BLOCK else None
        walk.trail.add(PathChoice(paths, site, if_race_free))
    else:
        walk.trail.add(PathLate(len(paths), paths))
    return meeting, reduce(np.logical_or, [side.arrived for side in sides])


def _sides(
    walk: WalkState, ways: dict[int, Mask], meeting: int, agreement: Agreement, *, is_known: bool
) -> list[Side]:
    """The sides, each walked from the same state, less those that facts exclude.

    ``is_known``: all of them are executed, by the lanes that are known to take them.
    """
    reach = walk.standing.reach
    try:
        return _feasible(walk, ways, meeting, agreement, None if is_known else Reach.ON_SIDE)
    except Infeasible as infeasible:
        walk.contradict(infeasible.reason, reach)
        return _feasible(walk, ways, meeting, agreement, Reach.PERHAPS)


def _feasible(
    walk: WalkState, ways: dict[int, Mask], meeting: int, agreement: Agreement, reach: Reach | None
) -> list[Side]:
    """The sides that facts do not exclude, where the walk's reach is set to ``reach``.

    Raises Infeasible if there is none, or if all are executed (``reach`` None).
    """
    before = walk.snapshot()
    sides: list[Side] = []
    excluded: Infeasible | None = None
    for target, lanes in ways.items():
        walk.go_back(before)
        walk.standing = walk.standing.reached(reach or before.standing.reach)
        walk.standing = walk.standing.exact_if(bool(agreement))
        try:
            path, arrived = walk_side(walk, target, lanes, meeting, chosen=bool(agreement))
        except Infeasible as infeasible:
            excluded = infeasible
            if reach is None:
                break
            continue
        sides.append(walked(walk, path, lanes, arrived))
    if excluded is not None and (reach is None or not sides):
        walk.go_back(before)
        raise excluded
    return sides


def _lanes_by_target(walk: WalkState, block: int, mask: Mask) -> dict[int, Mask]:
    """The lanes that go to each target; all of them to each where the index is not known."""
    index = walk.graph.last(block)
    instruction = walk.graph.kernel.instructions[index]
    if instruction.guard is not None:
        raise _refusal(walk, block, "it has a guard")
    labels = walk.graph.kernel.labels
    targets = [walk.graph.block_of(labels[name]) for name in instruction.targets]
    kept = [target for target in targets if target in walk.cfg.successors[block]]
    walk.state.active = mask
    value = read_operand(walk.state, instruction.operands[0], 32, index)
    is_call = instruction.op_class is OpClass.CALL  # the register holds no place in the table
    if is_call or not isinstance(value, Known) or value.terms or not walk.standing.are_here:
        return dict.fromkeys(kept, mask)
    numbers = np.broadcast_to(np.asarray(value.base), mask.shape) & 0xFFFFFFFF
    if bool((numbers[mask] >= len(targets)).any()):
        raise _refusal(walk, block, "its index is outside of the table")
    aborting = [target not in kept for target in targets]
    if any(aborting[number] for number in numbers[mask].tolist()):
        walk.contradict(aborted(index))
        return dict.fromkeys(kept, mask)
    ways: dict[int, Mask] = {}
    for number in np.unique(numbers[mask]).tolist():
        lanes = mask & (numbers == number)
        ways[targets[number]] = ways.get(targets[number], np.zeros_like(mask)) | lanes
    for lanes in ways.values():
        require_agreement(walk, lanes)
    return ways


def _refusal(walk: WalkState, block: int, reason: str) -> Refused:
    index = walk.graph.last(block)
    if walk.graph.kernel.instructions[index].op_class is OpClass.CALL:
        what, remedy = "a call through a register", "let the compiler inline what is called"
    else:
        what, remedy = "an indexed branch (brx.idx)", "compile the switch statement to comparisons"
    return Refused("PW221", index, f"{what} on the path is not followed: {reason}", remedy)
