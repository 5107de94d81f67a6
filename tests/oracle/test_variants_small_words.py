"""Loops on words of four bits, bounded as all others: against every state that a run can be in.

The whole analysis runs on narrow words, with all its rules, and each bound is compared with what
the loop can do at worst over all data: wraps at both ends, the smallest number divided by -1,
updates and tests of different signs and widths.
"""

from __future__ import annotations

from random import Random

import pytest
from random_variants import bounds_of_kernel
from small_programs import draw_program
from small_words import Program, Row, TooManyStates, most_passes, narrow_types


def bound_of(program: Program) -> int | None:
    with narrow_types():
        found = bounds_of_kernel(program.kernel())
    return None if found is None else found.get("L", 0)


def exceeds(program: Program, bound: int) -> bool:
    """Whether a run passes the header more often than a bound on body executions allows.

    An iteration that leaves in its middle is no whole one.
    """
    early = any(row[0] == "bra" and row[1].endswith("p3") for row in program.rows)
    return most_passes(program, "L", bound + early) is None


@pytest.mark.parametrize("seed", range(3))
def test_no_run_exceeds_a_bound(seed: int) -> None:
    rng, bounded = Random(seed), 0
    for _ in range(15):
        program = draw_program(rng)
        bound = bound_of(program)
        if bound is None:
            continue
        bounded += 1
        try:
            assert not exceeds(program, bound), f"{bound} passes of L:\n{program.ptx()}"
        except TooManyStates:
            continue
    assert bounded > 2


LOWEST: tuple[Row, ...] = (("neg.s32", "%r5", "%r1"), ("and.b32", "%r6", "%r1", "%r5"))
CHANGES: dict[str, tuple[Row, ...]] = {
    "fenwick": (*LOWEST, ("add.s32", "%r1", "%r1", "%r6")),
    "cleared": (*LOWEST, ("sub.s32", "%r1", "%r1", "%r6")),
    "up": (("add.s32", "%r1", "%r1", "1"),),
    "down": (("add.s32", "%r1", "%r1", "-1"),),
    "by three": (("add.s32", "%r1", "%r1", "3"),),
    "doubled": (("shl.b32", "%r1", "%r1", "1"),),
    "half signed": (("shr.s32", "%r1", "%r1", "1"),),
    "half": (("shr.u32", "%r1", "%r1", "1"),),
    "third signed": (("div.s32", "%r1", "%r1", "-3"),),
    "opposite": (("div.s32", "%r1", "%r1", "-1"),),
    "euclid signed": (
        ("mov.u32", "%r5", "%r1"),
        ("rem.s32", "%r1", "%r2", "%r1"),
        ("mov.u32", "%r2", "%r5"),
    ),
    "middle": (("add.s32", "%r5", "%r1", "%r2"), ("shr.s32", "%r1", "%r5", "1")),
    "distance": (("sub.s32", "%r5", "%r2", "%r1"), ("max.s32", "%r1", "%r5", "%r1")),
    "root": (
        ("mov.u32", "%r4", "%r1"),
        ("div.u32", "%r5", "%r2", "%r1"),
        ("add.s32", "%r5", "%r5", "%r1"),
        ("shr.u32", "%r1", "%r5", "1"),
    ),
    "stein": (
        ("brev.b32", "%r5", "%r2"),
        ("bfind.shiftamt.u32", "%r5", "%r5"),
        ("shr.u32", "%r6", "%r2", "%r5"),
        ("min.u32", "%r2", "%r1", "%r6"),
        ("max.u32", "%r6", "%r1", "%r6"),
        ("sub.s32", "%r1", "%r6", "%r2"),
    ),
    "narrow": (("add.s32", "%r1", "%r1", "1"), ("cvt.s32.s16", "%r1", "%r1")),
}
ORDERS = ("lt", "le", "gt", "ge", "ne", "eq")
STARTS = ("1", "-1", "data")


@pytest.mark.every(10)
@pytest.mark.parametrize("change", CHANGES)
def test_every_change_with_every_test(change: str) -> None:
    """From each start, against a limit that is data or a constant, signed and unsigned."""
    for order in ORDERS:
        for sign in "su":
            for start in STARTS:
                for limit in ("data", "7"):
                    program = _program(change, start, (f"setp.{order}.{sign}32", limit))
                    bound = bound_of(program)
                    assert bound is None or not exceeds(program, bound), program.ptx()


def _program(change: str, start: str, test: tuple[str, str]) -> Program:
    opcode, limit = test
    rows: list[Row] = [("ld.global.u32", "%r2")]
    first: Row = ("ld.global.u32", "%r1") if start == "data" else ("mov.u32", "%r1", start)
    other = "%r2" if limit == "data" else limit
    rows += [first, ("label", "L"), *CHANGES[change]]
    return Program((*rows, (opcode, "%p1", "%r1", other), ("bra", "%p1", "L"), ("label", "OUT")))


@pytest.mark.parametrize(
    ("opcode", "limit", "most"),
    [("setp.le.s32", "3", 2), ("setp.le.s32", "4", None), ("setp.le.u32", "7", 3)],
)
def test_a_fenwick_tree_with_a_limit(opcode: str, limit: str, most: int | None) -> None:
    """1, 2 and out; with 4 and four bits -8 follows, and 0 for ever."""
    program = _program("fenwick", "1", (opcode, limit))
    assert bound_of(program) == most
    assert most_passes(program, "L", 40) == most
