"""Stable sorting of long columns of whole numbers, 16 bits at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ptxwcet.trace.events import IntColumn

_DIGIT_BITS = 16  # NumPy sorts 16-bit numbers by counting
_FEW = 1 << 16


def stable_order(keys: npt.NDArray[Any]) -> IntColumn:
    """The rows by ascending key, rows of equal keys in their order.

    Keys are at least 0. Cost: linear, a pass for each 16 bits of the largest key; for few rows
    that of a comparison sort.
    """
    if len(keys) < _FEW:
        return np.argsort(keys, kind="stable")
    order: IntColumn | None = None
    bits = max(1, int(keys.max()).bit_length())
    for shift in range(0, bits, _DIGIT_BITS):
        digits = ((keys >> shift) & 0xFFFF).astype(np.uint16)
        if order is None:
            order = np.argsort(digits, kind="stable")
        else:
            order = order[np.argsort(digits[order], kind="stable")]
    assert order is not None
    return order


def group_starts(*columns: npt.NDArray[Any]) -> IntColumn:
    """The first rows of groups of equal neighbours. Cost: linear."""
    changes = np.zeros(len(columns[0]), bool)
    changes[:1] = True
    for column in columns:
        changes[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changes)
