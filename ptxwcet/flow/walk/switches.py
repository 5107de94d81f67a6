"""Indexed branches (``brx.idx``): each lane goes on where the table leads for its index.

So do calls through a register with a list of what they may call; of these the index is unknown."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ptxwcet.flow.shapes.pattern import Agreement
from ptxwcet.flow.values.operands import read_operand
from ptxwcet.flow.values.value import Cause, CauseKind, Known, Mask
from ptxwcet.flow.walk.alternatives import walk_alternatives
from ptxwcet.flow.walk.branches import agreement_at
from ptxwcet.flow.walk.guards import require_agreement
from ptxwcet.flow.walk.path import PathChoice, Visit
from ptxwcet.flow.walk.state import WalkState
from ptxwcet.flow.walk.stops import Refused, aborted
from ptxwcet.flow.walk.unresolved import Branch, Way
from ptxwcet.ir.op_classes import OpClass


def walk_switch(walk: WalkState, block: int, mask: Mask) -> tuple[int, Mask]:
    """Goes on behind a block that ends with an indexed branch. Raises Refused (PW221).

    If lanes of one warp take several sides, these are executed in any order; if all lanes go alike,
    one side is.
    """
    meeting = walk.graph.meeting(block)
    targets = _lanes_by_target(walk, block, mask)
    walk.recorded.add(Visit(block, taken=True))
    if len(targets) == 1:
        return next(iter(targets.items()))
    if meeting is None or (
        walk.recorded.loops and meeting not in walk.recorded.loops[-1].loop.body
    ):
        raise _refusal(walk, block, "its cases meet again only behind the loop around")
    causes = frozenset({Cause(CauseKind.OPERATION, "brx.idx", walk.graph.last(block))})
    ways = tuple(Way(target, lanes) for target, lanes in targets.items())
    agreement, if_race_free = agreement_at(walk, block)
    branch = Branch(block, ways, causes, agreement, if_race_free=if_race_free)
    if not any(np.array_equal(way.mask, mask) for way in ways):  # it is known which lanes go where
        branch = replace(branch, agreement=Agreement.NONE, reach=walk.reachability.reach)
    reached = walk_alternatives(walk, branch, meeting, None)
    chosen = walk.recorded.last
    if isinstance(chosen, PathChoice) and chosen.site == block and walk.may_pair:
        is_less = len(chosen.alternatives) < len(ways)
        if is_less and walk.steps.have_barrier((chosen,)):
            # the n-th alternative of these warps need not be the n-th of others
            raise _refusal(walk, block, "facts exclude one of its cases, and others have barriers")
    return reached


def _lanes_by_target(walk: WalkState, block: int, mask: Mask) -> dict[int, Mask]:
    """Returns the lanes that go to each target: all of them where the index is not known."""
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
    if (
        is_call
        or not isinstance(value, Known)
        or value.terms
        or not walk.reachability.mask_is_exact
    ):
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
