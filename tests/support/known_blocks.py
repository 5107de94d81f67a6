"""Paths of warps whose worst schedules are known: of a paper, and by hand."""

from __future__ import annotations

from warp_nodes import timed as i

from ptxwcet.warp.program import TimedInstruction

Path = tuple[TimedInstruction, ...]

GOLDEN: Path = (i("A", 2, 6, "r0"), i("B", 3, 4), i("B", 3, 4), i("C", 2, 4, "r3", "r0"))
THREE: Path = (i("B", 3, 0, "r1"), i("A", 1, 0, "r2"), i("A", 2, 0, "r3", "r2"))
SAME: Path = (*THREE, i("B", 2, 0, "r4", "r1"))
ONE_INIT: Path = (
    i("C", 4, 0, "r2"),
    i("A", 2, 0, "r0"),
    i("A", 2, 0),
    i("C", 4, 0, "", "r0"),
    i("B", 3, 0, "", "r2"),
    i("A", 2, 0),
    i("B", 3, 0),
)
DIFFERING: tuple[Path, ...] = (
    (i("C", 3, 0), i("A", 1, 0, "x"), i("B", 2, 0, "", "x")),
    (i("C", 2, 0, "y"), i("A", 2, 0), i("B", 1, 0, "", "y")),
)
LATENCIES: tuple[Path, ...] = (
    (i("P", 1, 9, "q"), i("M", 1, 10, "X"), i("A", 4, 0, "u", "q"), i("B", 4, 0, "v", "X")),
    (
        i("Z", 1, 8, "z"),
        *[i("C", 1, 0)] * 8,
        i("A", 4, 0, "a", "z"),
        i("B", 4, 0, "b", "a"),
        i("T", 1, 20, "t", "b"),
    ),
)
