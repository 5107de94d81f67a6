"""Predicates in lanes: one operand may decide where the other is not known."""

from __future__ import annotations

import numpy as np

from ptxwcet.flow.values.value import Cause, Known, Mask, Number, Unknown, Value

_DECISIVE = {"and": 0, "or": 1}
"""The operand that decides the outcome whatever the other is."""


def joined(a: Value, b: Value, name: str, active: Mask) -> Value:
    """``and``, ``or`` or ``xor`` of two predicates, lane by lane as far as they are known."""
    both_known = isinstance(a, Known) and isinstance(b, Known)
    if isinstance(a, Known) and isinstance(b, Known) and a.valid is None and b.valid is None:
        return _combine(a.base, name, [b])
    everywhere = np.ones_like(active)
    causes: frozenset[Cause] = frozenset()
    sure = [np.zeros_like(active), np.zeros_like(active)]
    bases: list[Number] = [0, 0]
    for place, value in enumerate((a, b)):
        if isinstance(value, Known):
            sure[place] = everywhere if value.valid is None else value.valid
            bases[place] = value.base
            causes |= value.otherwise
        else:
            causes |= value.causes
    valid = sure[0] & sure[1] if both_known else np.zeros_like(active)
    result = np.broadcast_to(_as_array(_combine(bases[0], name, [Known(bases[1])])), active.shape)
    if name in _DECISIVE:
        decisive = _DECISIVE[name]
        for sure_lanes, base in zip(sure, bases, strict=True):
            decided = sure_lanes & (np.broadcast_to(np.asarray(base), active.shape) == decisive)
            result = np.where(decided, decisive, result)
            valid = valid | decided
    if not (active & valid).any():
        return Unknown(causes)
    if (active & ~valid).any():
        return Known(result.astype(np.int64), valid=valid, otherwise=causes)
    return Known(result.astype(np.int64))


def _as_array(value: Value) -> np.ndarray:
    assert isinstance(value, Known)
    return np.asarray(value.base)


def _combine(outcome: Number, operator: str | None, others: list[Known]) -> Value:
    if operator is None or not others:
        return Known(outcome)
    other = others[0].base
    if operator == "and":
        return Known(outcome & other)
    return Known(outcome | other if operator == "or" else outcome ^ other)
