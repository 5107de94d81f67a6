"""The extrapolation from few warps to many ([M], 5.6), as published and without its gap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExtrapolationRow:
    """T(y) for y warps and what it gives for W: ``ceil(W / y) T(y)`` (equation 41)."""

    warps: int
    makespan: int
    extrapolated: int


def extrapolate(
    warps: int, sizes: range, makespan_of: Callable[[int], int]
) -> tuple[ExtrapolationRow, ...]:
    """A row for each number of warps in ``sizes``; their least is T(W, x) (equation 40).

    It is no bound: LCL has T(2) = 4 and T(4) = 9 > 2 * 4. Without y = 2 it is one for L = C = 1
    (docs/methods/makespan.md). Cost: that of ``makespan_of``.
    """
    return tuple(
        ExtrapolationRow(y, makespan, -(-warps // y) * makespan)
        for y, makespan in ((y, makespan_of(y)) for y in sizes)
    )
