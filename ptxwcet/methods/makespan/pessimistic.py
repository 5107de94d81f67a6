"""Bounds from the numbers of letters alone: that of [M], section 4, and one that always holds."""

from __future__ import annotations

from ptxwcet.methods.makespan.strings import StringShape


def pessimistic_makespan(shape: StringShape, warps: int, load_store: int, cores: int) -> int:
    """``ceil(W/L) I_L + ceil(W/C) I_C`` ([M], equations 3 to 7).

    A bound where :func:`is_pessimistic_proved` says so. Cost: constant.
    """
    return -(-warps // load_store) * shape.loads + -(-warps // cores) * shape.cores


def is_pessimistic_proved(shape: StringShape, warps: int, load_store: int, cores: int) -> bool:
    """Whether it is proved that no schedule takes longer than :func:`pessimistic_makespan`.

    So it is where every kind of unit serves one warp a slot or all of them. Between it is refuted:
    LL with W = 4, L = 2 takes 5 slots, not 4 (warps 1 and 2, 1 and 3, 2 and 3, then 4 alone).
    """
    return waiting_makespan(shape, warps, load_store, cores) <= pessimistic_makespan(
        shape, warps, load_store, cores
    )


def waiting_makespan(shape: StringShape, warps: int, load_store: int, cores: int) -> int:
    """``I + floor((W - 1) I_L / L) + floor((W - 1) I_C / C)``: no schedule takes longer.

    In each slot the warp that ends last executes, or waits for a kind of unit that serves as many
    other warps as it can; the others have (W - 1) I_L and (W - 1) I_C instructions for them. A kind
    that can serve all warps makes none wait. For L = C = 1 this is equations 3 to 7 again, W I.
    """
    waits = sum(
        (warps - 1) * letters // capacity
        for letters, capacity in ((shape.loads, load_store), (shape.cores, cores))
        if capacity < warps
    )
    return shape.length + waits
