"""Guards: in which lanes an instruction is executed, and what follows from them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from ptxwcet.flow.launch import WARP_SIZE
from ptxwcet.flow.values.ranges import symbols_of, with_few_symbols
from ptxwcet.flow.values.regions import Symbol
from ptxwcet.flow.values.value import (
    Cause,
    CauseKind,
    Condition,
    Known,
    Mask,
    Number,
    Unknown,
    Value,
    substitute,
)
from ptxwcet.flow.walk.state import WalkState
from ptxwcet.flow.walk.steps import Step
from ptxwcet.flow.walk.stops import SplitWarps, Undecided
from ptxwcet.flow.walk.unresolved import Assumed
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
    if step.elects and (walk.reachability.apart or not walk.reachability.mask_is_exact):
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
    """Returns whether lanes hold numbers of their own."""
    return isinstance(value, Known) and not isinstance(value.base, int)


def guard_lanes(walk: WalkState, index: int, guard: Guard | None, mask: Mask) -> Mask:
    """Returns the lanes in which a control instruction is executed, the same in all warps.

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
    """Returns the lanes in which the guard holds, those in which it may hold, and why it is open.

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
    """Returns the lanes of a mask in which a guard with this outcome holds."""
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


def condition_of(walk: WalkState, guard: Guard | None, mask: Mask) -> Condition | None:
    """Returns what a guard says of a symbol where it holds."""
    value = None if guard is None else walk.state.registers.get(guard.register)
    if guard is None or not isinstance(value, Unknown) or value.condition is None:
        return None
    if not value.condition.holds_in(mask):
        return None
    return value.condition.negated() if guard.negated else value.condition


def assume(walk: WalkState, condition: Condition | None, *, holds: bool) -> Assumed | None:
    """Refines all registers by a condition that holds, or does not; returns how to undo it."""
    if condition is None:
        return None
    interval = condition.when if holds else condition.otherwise
    if interval is None:
        return None
    old, (first, last) = condition.symbol, interval
    new = replace(old, name=f"{old.name}'", count=last - first + 1, slopes={})
    if not new.is_own:
        walk.parameters.append(new)
    _replace(walk, walk.state.registers, old, (first, new))
    return Assumed(old, new, first)


def restore(walk: WalkState, assumed: Assumed | None) -> None:
    """Undoes :func:`assume` in registers, where sides of a branch meet."""
    if assumed is not None:
        _replace(walk, walk.state.registers, assumed.new, (-assumed.first, assumed.old))


def after_assuming(
    walk: WalkState, registers: Mapping[str, Value], assumptions: Collection[Assumed]
) -> dict[str, Value]:
    """Returns earlier registers, refined by what has been assumed since."""
    refined = dict(registers)
    for assumed in assumptions:
        _replace(walk, refined, assumed.old, (assumed.first, assumed.new))
    return refined


def _replace(
    walk: WalkState, registers: dict[str, Value], symbol: Symbol, by: tuple[int, Symbol]
) -> None:
    """Puts a number plus another symbol in the place of a symbol."""
    offset, other = by
    for name, value in registers.items():
        if isinstance(value, Known) and symbol in value.terms:
            width = walk.graph.width(name)
            registers[name] = substitute(value, symbol, offset, {other: 1}, width)
