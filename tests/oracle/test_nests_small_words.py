"""Inner loops that are entered again and again, on words of four bits: against every state.

What limits them is computed before the loop around, as compilers hoist it from unrolled loops, and
may be changed on the way: clamped or not, of another sign, loaded anew, stored by an iteration of
the loop around. And loops that end where two numbers are equal, which go round for ever where their
distance is no multiple of the step. Each bound is compared with the most that any entry does.
"""

from __future__ import annotations

from random import Random

import pytest
from random_variants import bounds_of_kernel
from small_words import Program, Row, TooManyStates, most_passes_of_entries, narrow_types
from test_certificates_small_words import graph_of

from ptxwcet.flow.certificates.certificate import Bound, Certificate, Part, Step, Sum
from ptxwcet.flow.certificates.checker import EntryFacts, Verdict, check
from ptxwcet.flow.certificates.passage import iteration_of, way_from
from ptxwcet.flow.effort import Effort
from ptxwcet.flow.graph.cfg import BlockId

ENTERS: Row = ("mov.u32", "%r11", "1")
HEADER: tuple[Row, ...] = (
    ("label", "L"),
    ("mov.u32", "%r10", "%r11"),  # whether it is entered, which nothing but the test here asks
    ("mov.u32", "%r11", "0"),
)


def bound_of(program: Program) -> int | None:
    with narrow_types():
        found = bounds_of_kernel(program.kernel())
    return None if found is None else found["L"]


def compare(program: Program, most: int | None) -> None:
    """The bound is as said, and no entry exceeds it."""
    found = bound_of(program)
    assert found == most, program.ptx()
    if found is None:
        return
    assert most_passes_of_entries(program, "L", found, "%r11") is not None, program.ptx()


def unrolled(
    count: tuple[Row, ...],
    guard: tuple[Row, ...],
    *,
    outer: tuple[Row, ...] = (),
    latch: tuple[Row, ...] = (),
    inner_guard: str = "setp.lt.u32",
    step: str = "-2",
    test: str = "setp.ne.s32",
) -> Program:
    """``for (a) for (t = 0; t < n; ++t)`` with the inner loop unrolled twice: n - (n & 1) numbers,
    if there are two or more.
    """
    rows: list[Row] = [
        *count,
        *guard,
        ("add.s32", "%r4", "%r1", "-1"),
        ("and.b32", "%r2", "%r1", "1"),
    ]
    rows += [("sub.s32", "%r3", "%r1", "%r2"), ("mov.u32", "%r7", "0"), ("label", "A"), *outer]
    rows += [
        (inner_guard, "%p2", "%r4", "1"),
        ("bra", "%p2", "C"),
        ("mov.u32", "%r5", "%r3"),
        ENTERS,
    ]
    rows += [
        *HEADER,
        ("add.s32", "%r5", "%r5", step),
        (test, "%p3", "%r5", "0"),
        ("bra", "%p3", "L"),
    ]
    rows += [("label", "C"), *latch, ("add.s32", "%r7", "%r7", "1"), ("ld.global.u8", "%r8")]
    rows += [("and.b32", "%r8", "%r8", "3"), ("setp.lt.u32", "%p4", "%r7", "%r8")]
    return Program((*rows, ("bra", "%p4", "A"), ("label", "OUT")))


LOADED: Row = ("ld.global.u32", "%r1")
CLAMPED: tuple[Row, ...] = (LOADED, ("min.s32", "%r1", "%r1", "5"))
POSITIVE: tuple[Row, ...] = (("setp.lt.s32", "%p1", "%r1", "1"), ("bra", "%p1", "OUT"))
NOT_0: tuple[Row, ...] = (("setp.eq.s32", "%p1", "%r1", "0"), ("bra", "%p1", "OUT"))


@pytest.mark.parametrize(
    ("given", "most"),
    [
        ({}, 2),
        ({"step": "-4"}, None),  # 2 is no multiple of 4
        ({"step": "-1"}, 5),
        ({"step": "2"}, None),
        ({"test": "setp.gt.s32"}, 3),
        ({"guard": ()}, None),  # of a negative count the signed guard knows nothing
        ({"guard": NOT_0}, None),
        ({"count": (LOADED,)}, 3),  # from its type: 7 - 1
        ({"count": (LOADED, ("min.u32", "%r1", "%r1", "5"))}, 2),
        ({"count": (LOADED, ("min.u32", "%r1", "%r1", "9"))}, 3),
        ({"outer": (LOADED,)}, 2),  # what the count was is what counts
        ({"outer": (("add.s32", "%r3", "%r3", "-1"),)}, None),
        ({"outer": (("add.s32", "%r3", "%r3", "2"),)}, None),
        ({"outer": (("ld.global.u32", "%r4"),)}, None),  # 0 may go in
        ({"latch": (("ld.global.u32", "%r3"),)}, None),
        ({"latch": (("and.b32", "%r3", "%r3", "3"),)}, None),
        ({"inner_guard": "setp.lt.s32"}, 2),
        ({"inner_guard": "setp.eq.s32"}, None),
    ],
)
def test_a_count_clamped_before_the_loop_around(given: dict[str, object], most: int | None) -> None:
    arguments: dict[str, object] = {"count": CLAMPED, "guard": POSITIVE, **given}
    compare(unrolled(**arguments), most)  # type: ignore[arg-type]


def draw(rng: Random) -> Program:
    """A nest of two loops whose parts are often at odds."""
    clamp = rng.choice(("min.s32", "min.u32", "max.s32", "and.b32"))
    limit = str(rng.choice((1, 3, 4, 5, 7, 8, -1)))
    count = (LOADED, (clamp, "%r1", "%r1", limit))
    order = rng.choice(("lt", "le", "eq", "gt"))
    test: Row = (f"setp.{order}.{rng.choice('su')}32", "%p1", "%r1", str(rng.choice((0, 1, 2, -1))))
    guard: tuple[Row, ...] = (test, ("bra", rng.choice(("%p1", "!%p1")), "OUT"))
    name = rng.choice(("%r1", "%r2", "%r3", "%r4", "%r5"))
    changes: list[tuple[Row, ...]] = [(), (), (("ld.global.u32", name),)]
    changes += [(("add.s32", name, name, rng.choice(("1", "2", "-2", "4"))),)]
    changes += [(("min.s32", name, name, "3"),), (("and.b32", name, "%r1", "6"),)]
    return unrolled(
        count,
        rng.choice((guard, POSITIVE, NOT_0, ())),
        outer=rng.choice(changes),
        latch=rng.choice(changes),
        inner_guard=rng.choice(("setp.lt.u32", "setp.lt.s32", "setp.eq.u32", "setp.gt.s32")),
        step=rng.choice(("-2", "-2", "-2", "-1", "-3", "2", "1")),
        test=rng.choice(("setp.ne.s32", "setp.ne.s32", "setp.gt.s32", "setp.gt.u32")),
    )


@pytest.mark.parametrize("seed", range(1))
def test_no_entry_of_a_random_nest_exceeds_its_bound(seed: int) -> None:
    rng, bounded = Random(seed), 0
    for _ in range(12):
        program = draw(rng)
        bound = bound_of(program)
        if bound is None:
            continue
        bounded += 1
        try:
            passes = most_passes_of_entries(program, "L", bound, "%r11")
        except TooManyStates:
            continue
        assert passes is not None, f"{bound} passes of L:\n{program.ptx()}"
    assert bounded > 1


def falling(high: int, by: int) -> Certificate:
    """That the counter falls by a number down to that, from at most some multiple of it."""
    whole = Bound(Sum((Part("%r5"),)), by, high, by)
    return Certificate((whole,), whole.sum, high, by, (Step(1, -by, 1),), high // by - 1)


@pytest.mark.parametrize(
    ("change", "confirmed"),
    [
        ((), {(4, 2), (6, 2)}),
        ((("add.s32", "%r4", "%r4", "0"),), {(4, 2), (6, 2)}),
        ((("and.b32", "%r3", "%r3", "2"),), set()),  # 0 later on
        ((("ld.global.u32", "%r3"),), set()),
        ((("add.s32", "%r3", "%r3", "2"),), set()),
        ((("add.s32", "%r3", "%r3", "-2"), ("mov.u32", "%r4", "%r3")), set()),
        ((("ld.global.u32", "%r1"), ("add.s32", "%r3", "%r3", "1")), set()),
    ],
)
def test_what_is_confirmed_of_a_way_into_a_nest_is_true_of_each_entry(
    change: tuple[Row, ...], confirmed: set[tuple[int, int]]
) -> None:
    """The loop around changes what the inner one begins with, behind it."""
    program = unrolled(CLAMPED, POSITIVE, latch=change)
    with narrow_types():
        graph = graph_of(program)
        inner = graph.forest.loops[-1]
        entry = EntryFacts((), way_from(graph, BlockId(0), inner))
        iteration, effort = iteration_of(graph, inner), Effort(1_000_000)
        found = {
            (high, by)
            for high, by in ((2, 2), (4, 2), (6, 2))
            if check(falling(high, by), iteration, entry, effort) is Verdict.CONFIRMED
        }
    assert found == confirmed
    for high, by in found:
        most = falling(high, by).back_edges + 1
        assert most_passes_of_entries(program, "L", most, "%r11") is not None


def approach(
    size: tuple[Row, ...],
    *,
    step: str = "2",
    test: str = "setp.ne",
    start: str = "add",
    bits: int = 32,
) -> Program:
    """``for (p = base; p != end; p += step)``, from a base that is loaded; ``size`` in the second
    register is what it has before it.
    """
    n = {32: "%r", 64: "%d"}[bits]
    rows = [tuple(word.replace("#", n) for word in row) for row in size]
    rows += [
        (f"ld.global.u{bits}", f"{n}1"),
        (f"{start}.s{bits}", f"{n}3", f"{n}1", f"{n}2"),
        ENTERS,
    ]
    rows += [*HEADER, (f"add.s{bits}", f"{n}1", f"{n}1", step)]
    rows += [(f"{test}.s{bits}", "%p1", f"{n}1", f"{n}3"), ("bra", "%p1", "L"), ("label", "OUT")]
    return Program(tuple(rows))


def fixed(size: str, bits: int = 32) -> tuple[Row, ...]:
    return ((f"mov.u{bits}", "#2", size),)


@pytest.mark.parametrize(
    ("program", "most"),
    [
        (approach(fixed("6")), 3),
        (approach(fixed("5")), None),
        (approach(fixed("0")), None),  # eight passes of four bits, of 32 no number of use
        (approach(fixed("6"), start="sub"), 5),  # -6 is 10
        (approach(fixed("-6"), step="-2"), 3),
        (approach(fixed("6"), step="-2"), 5),
        (approach(fixed("6"), step="4"), None),
        (approach(fixed("6"), step="0"), None),
        (approach(fixed("6"), test="setp.lt"), None),  # which wraps around where the base is large
        (approach(fixed("6"), test="setp.gt"), None),
        (approach(fixed("6", 64), bits=64), 3),
        (approach(fixed("7", 64), bits=64), None),
        (approach((("ld.global.u32", "#2"), ("and.b32", "#2", "#2", "6"))), None),  # 0
        (approach((("ld.global.u32", "#2"), ("or.b32", "#2", "#2", "6"))), None),
        (
            approach(
                (
                    ("ld.global.u32", "#2"),
                    ("and.b32", "#2", "#2", "6"),
                    ("setp.eq.s32", "%p2", "#2", "0"),
                    ("bra", "%p2", "OUT"),
                )
            ),
            3,
        ),
    ],
)
def test_a_distance_that_is_a_multiple_of_the_step(program: Program, most: int | None) -> None:
    compare(program, most)
