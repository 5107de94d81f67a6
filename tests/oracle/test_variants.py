"""Loops that end on data, bounded by variants: against what they do at worst."""

from __future__ import annotations

from functools import cache
from random import Random

import numpy as np
import pytest
from parsing import parse_text
from random_variants import bounds_of, campaign
from variant_loops import RandomLoop

from ptxwcet.emulator.launch import EmulatedLaunch
from ptxwcet.flow.launch import BoundOrigin, Launch
from ptxwcet.flow.walk.path import loop_entries
from ptxwcet.machine.loader import load_machine
from ptxwcet.pipeline import analyse_kernel
from ptxwcet.validate.inputs import validate_input

DATA = (
    ("ld.global.u32", "%r8"),
    ("and.b32", "%r8", "%r8", "1"),
    ("setp.eq.s32", "%p2", "%r8", "0"),
)
MIDDLES = {
    "sum": (("add.s32", "%r5", "%r1", "%r2"), ("shr.s32", "%r5", "%r5", "1")),
    "half": (
        ("sub.s32", "%r5", "%r2", "%r1"),
        ("shr.u32", "%r5", "%r5", "1"),
        ("add.s32", "%r5", "%r5", "%r1"),
    ),
    "sign": (
        ("add.s32", "%r5", "%r1", "%r2"),
        ("shr.u32", "%r6", "%r5", "31"),
        ("add.s32", "%r5", "%r5", "%r6"),
        ("shr.s32", "%r5", "%r5", "1"),
    ),
}


def loop(starts: dict[str, int | str], body: tuple, exit_test: tuple) -> RandomLoop:
    rows: list[tuple[str, ...]] = []
    for name, start in starts.items():
        rows.append((start, name) if isinstance(start, str) else ("mov.u32", name, str(start)))
    return RandomLoop(
        (*rows, ("label", "L"), *body, exit_test, ("bra", "%p1", "L"), ("label", "O"))
    )


def search(middle: str, first: int, last: int, down: int, test: str) -> RandomLoop:
    body = (
        *MIDDLES[middle],
        *DATA,
        ("add.s32", "%r6", "%r5", "1"),
        ("add.s32", "%r7", "%r5", str(down)),
        ("selp.b32", "%r1", "%r6", "%r1", "%p2"),
        ("selp.b32", "%r2", "%r2", "%r7", "%p2"),
    )
    return loop({"%r1": first, "%r2": last}, body, (f"setp.{test}.s32", "%p1", "%r1", "%r2"))


def worst_search(first: int, last: int, down: int, test: str) -> int:
    """Iterations of a halving search at worst, by trying all outcomes."""

    @cache
    def most(lo: int, hi: int) -> int:
        middle = (lo + hi) // 2
        ends = (middle + 1, hi), (lo, middle + down)
        on = [most(*end) for end in ends if (end[0] < end[1] if test == "lt" else end[0] <= end[1])]
        return 1 + max(on, default=0)

    return most(first, last)


@pytest.mark.every(4)
@pytest.mark.parametrize("middle", MIDDLES)
@pytest.mark.parametrize(("down", "test"), [(0, "lt"), (-1, "le"), (-1, "lt")])
@pytest.mark.parametrize(("first", "last"), [(0, 1), (0, 7), (3, 60), (0, 1000)])
def test_halving_searches(middle: str, down: int, test: str, first: int, last: int) -> None:
    bounds = bounds_of(search(middle, first, last, down, test))
    worst = worst_search(first, last, down, test)
    assert bounds is not None
    assert worst <= bounds["L"] <= worst + 1


@pytest.mark.parametrize(
    ("middle", "first", "last", "down"),
    [
        ("sum", 0, 2**31 - 1, 0),  # the sum wraps around
        ("sign", 2**30, 2**31 - 1, 0),
        ("sum", 0, 50, 1),  # one step from lo to lo + 1 stays where it is
    ],
)
def test_searches_that_may_not_end_are_asked_for(
    middle: str, first: int, last: int, down: int
) -> None:
    assert bounds_of(search(middle, first, last, down, "lt")) is None


UNKNOWN = {"%r1": "ld.global.u32", "%r2": "ld.global.u32"}
CLEAR = (("add.s32", "%r5", "%r1", "-1"), ("and.b32", "%r1", "%r1", "%r5"))
DOUBLE = (
    ("neg.s32", "%r5", "%r1"),
    ("and.b32", "%r5", "%r5", "%r1"),
    ("add.s32", "%r1", "%r1", "%r5"),
)
EUCLID = (
    ("mov.u32", "%r5", "%r1"),
    ("rem.u32", "%r1", "%r2", "%r1"),
    ("mov.u32", "%r2", "%r5"),
)
NOT_ZERO = ("setp.ne.s32", "%p1", "%r1", "0")


@pytest.mark.parametrize(
    ("starts", "body", "test", "most"),
    [
        (UNKNOWN, CLEAR, NOT_ZERO, 32),
        (UNKNOWN, (("shr.u32", "%r1", "%r1", "1"),), NOT_ZERO, 32),
        (UNKNOWN, (("shr.u32", "%r1", "%r1", "3"),), NOT_ZERO, 11),
        (UNKNOWN, (("div.u32", "%r1", "%r1", "10"),), NOT_ZERO, 10),
        (UNKNOWN, EUCLID, NOT_ZERO, 47),
        ({"%r1": 1}, DOUBLE, ("setp.le.s32", "%p1", "%r1", "99"), 7),
        (
            {"%r1": 0, "%r2": 0, "%r3": 20, "%r4": 30},
            (
                *DATA,
                ("add.s32", "%r5", "%r1", "1"),
                ("add.s32", "%r6", "%r2", "1"),
                ("selp.b32", "%r1", "%r5", "%r1", "%p2"),
                ("selp.b32", "%r2", "%r2", "%r6", "%p2"),
                ("setp.lt.s32", "%p3", "%r1", "%r3"),
                ("setp.lt.s32", "%p4", "%r2", "%r4"),
            ),
            ("and.pred", "%p1", "%p3", "%p4"),
            49,
        ),
    ],
)  # fmt: skip
def test_bounds_are_no_larger(starts: dict, body: tuple, test: tuple, most: int) -> None:
    bounds = bounds_of(loop(starts, body, test))
    assert bounds is not None
    assert bounds["L"] == most


@pytest.mark.parametrize(
    ("starts", "body", "test"),
    [
        (UNKNOWN, (("shr.s32", "%r1", "%r1", "1"),), NOT_ZERO),  # -1 stays -1
        (UNKNOWN, (("add.s32", "%r1", "%r1", "-1"),), NOT_ZERO),  # 2**32 times
        (UNKNOWN, DOUBLE, ("setp.lt.s32", "%p1", "%r1", "9")),  # 0 stays 0
        ({"%r1": "ld.global.u8"}, (("add.s32", "%r1", "%r1", "-3"),), NOT_ZERO),  # steps over 0
        (UNKNOWN, (("rem.u32", "%r1", "%r2", "%r1"),), NOT_ZERO),  # the dividend stays
    ],
)  # fmt: skip
def test_loops_without_a_variant_are_asked_for(starts: dict, body: tuple, test: tuple) -> None:
    assert bounds_of(loop(starts, body, test)) is None


@pytest.mark.every(3)
@pytest.mark.parametrize("seed", range(3))
def test_no_random_loop_exceeds_its_bound(seed: int) -> None:
    loops, bounded, found = campaign(20, seed, runs=10)
    assert not found
    assert bounded > loops // 8


EARLY = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 data)
{
.reg .b32 %r<9>; .reg .b64 %d<4>; .reg .pred %p<9>;
ld.param.u64 %d1, [data]; mov.u32 %r1, 0; mov.u32 %r5, 3;
L: ld.global.u32 %r2, [%d1]; setp.eq.s32 %p1, %r2, 7; @%p1 bra FOUND;
add.s32 %r1, %r1, 1; setp.lt.s32 %p2, %r1, 10; @%p2 bra L;
bra DONE;
FOUND: mov.u32 %r5, 40;
DONE: mov.u32 %r6, 0;
M: add.s32 %r6, %r6, 1; st.global.u32 [%d1+4], %r6; setp.lt.s32 %p3, %r6, %r5; @%p3 bra M;
ret;
}
"""


@pytest.mark.parametrize("word", [0, 7])
def test_what_lanes_write_that_leave_early_is_not_forgotten(word: int) -> None:
    module = parse_text(EARLY)
    machine = load_machine("orin-ecrts2025")
    analysis = analyse_kernel(module.kernels[0], Launch((32, 1, 1), (1, 1, 1)), machine)
    launch = EmulatedLaunch((32, 1, 1), (1, 1, 1), (np.full(2, word, "u4"),))
    assert not validate_input(analysis, module, launch, 0).diagnostics


def test_a_variant_is_the_analysis_own_and_says_why() -> None:
    module = parse_text(search("half", 0, 100, 0, "lt").ptx())
    machine = load_machine("orin-ecrts2025")
    analysis = analyse_kernel(module.kernels[0], Launch((32, 1, 1), (1, 1, 1)), machine)
    (entry,) = loop_entries(analysis.pieces[0].paths.warps[0].nodes)
    assert entry.origin is BoundOrigin.ANALYSIS
    assert entry.reason.startswith("-%r1 + %r2 is 100 or less at first")


def test_the_interpreter_computes_what_is_written() -> None:
    counted = loop(
        {"%r1": 5}, (("add.s32", "%r1", "%r1", "-1"),), ("setp.gt.s32", "%p1", "%r1", "0")
    )
    assert counted.run(Random(1), 100)["L"] == 5
