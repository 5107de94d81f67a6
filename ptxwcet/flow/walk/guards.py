"""Guards: in which lanes an instruction is executed, surely or perhaps, and why that is open."""

from __future__ import annotations

import numpy as np

from ptxwcet.flow.launch import WARP_SIZE
from ptxwcet.flow.values.ranges import symbols_of, with_few_symbols
from ptxwcet.flow.values.value import Cause, CauseKind, Known, Mask, Number, Unknown, Value
from ptxwcet.flow.walk.state import WalkState
from ptxwcet.flow.walk.steps import Step
from ptxwcet.flow.walk.stops import SplitWarps, Undecided
from ptxwcet.ir.kernel import Guard

_SYMBOLS_IN_A_STEP = 4
"""Of a value that an instruction writes: so many take as long as another instruction."""
_LANES_IN_A_STEP = 4
"""Of an operation on floating-point numbers, which is exact in fractions."""


def evaluate(walk: WalkState, step: Step, mask: Mask) -> None:
    """Executes an instruction in the lanes ``mask`` that its guard admits."""
    state = walk.state
    lanes: Mask = mask
    skipped: Unknown | None = None  # what lanes hold that may or may not execute it
    if step.guard is not None:
        guard = state.register(step.guard.register)
        if isinstance(guard, Unknown):
            skipped = Unknown(guard.causes)  # the guard's condition is not one of what it guards
        else:
            lanes = _lanes_where(guard.base, step.guard.negated, mask)
            if not lanes.any():
                return
            state.active = lanes
    assert step.transfer is not None
    if step.is_slow and any(_differs(state.register(name)) for name in step.instruction.reads):
        walk.spend(int(lanes.sum()) // _LANES_IN_A_STEP, step.index)
    values = step.transfer(state)
    if step.elects and (walk.standing.apart or not walk.standing.are_here):
        name = f"{step.instruction.mnemonic} of some lanes of a warp"
        values = (Unknown(frozenset({Cause(CauseKind.OPERATION, name, step.index)})),) * len(values)
    for name, value in zip(step.writes, values, strict=True):
        if name in walk.graph.control_registers:
            if isinstance(value, Known):
                walk.spend(symbols_of(value) // _SYMBOLS_IN_A_STEP, step.index)
            few = with_few_symbols(value, walk.graph.width(name)) if skipped is None else skipped
            state.write(name, few, lanes)
    state.active = mask


def _differs(value: Value) -> bool:
    """Whether lanes hold numbers of their own."""
    return isinstance(value, Known) and not isinstance(value.base, int)


def guard_lanes(walk: WalkState, index: int, guard: Guard | None, mask: Mask) -> Mask:
    """The lanes in which a control instruction is executed; the same in all warps of the group.

    Raises Undecided if the guard is not known, SplitWarps if warps differ.
    """
    if guard is None:
        return mask
    walk.state.active = mask
    value = walk.state.register(guard.register)
    if isinstance(value, Unknown):
        raise Undecided(index, value.causes)
    lanes = _lanes_where(value.base, guard.negated, mask)
    require_agreement(walk, lanes)
    return lanes


def outcomes(
    walk: WalkState, guard: Guard | None, mask: Mask
) -> tuple[Mask, Mask, frozenset[Cause]]:
    """The lanes in which the guard holds, those in which it may hold, and why it is open.

    Raises SplitWarps if warps differ.
    """
    nowhere = np.zeros_like(mask)
    if guard is None:
        return mask, nowhere, frozenset()
    value = walk.state.registers.get(guard.register)
    if value is None:
        return nowhere, mask, frozenset({Cause(CauseKind.UNDEFINED, guard.register)})
    if isinstance(value, Unknown):
        return nowhere, mask, value.causes
    unsure: Mask = nowhere if value.valid is None else mask & ~value.valid
    sure = _lanes_where(value.base, guard.negated, mask & ~unsure)
    require_agreement(walk, sure)
    require_agreement(walk, unsure)
    return sure, unsure, value.otherwise


def _lanes_where(outcome: Number, negated: bool, mask: Mask) -> Mask:
    """The lanes of a mask in which a guard with this outcome holds."""
    if isinstance(outcome, int):
        return mask if bool(outcome) != negated else np.zeros_like(mask)
    chosen: Mask = (outcome != 0) != negated
    return mask & chosen


def require_agreement(walk: WalkState, lanes: Mask) -> None:
    """Raises SplitWarps unless all warps of the group have the same lanes in a mask."""
    rows = lanes.reshape(-1, WARP_SIZE)
    if bool((rows == rows[0]).all()):
        return
    groups: dict[bytes, list[int]] = {}
    for warp, row in zip(walk.state.warps, rows, strict=True):
        groups.setdefault(row.tobytes(), []).append(warp)
    raise SplitWarps(tuple(tuple(group) for group in groups.values()))
