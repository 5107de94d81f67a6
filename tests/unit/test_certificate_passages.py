"""What the checker of certificates sees: inner loops, ways to a loop, loads, switches, carries."""

from __future__ import annotations

import pytest
from parsing import parse_kernel

from ptxwcet.flow.certificates.certificate import Bound, Certificate, Part, Reading, Step, Sum
from ptxwcet.flow.certificates.checker import EntryFacts, Verdict, check
from ptxwcet.flow.certificates.passage import NotFollowed, iteration_of, way_from
from ptxwcet.flow.effort import Effort
from ptxwcet.flow.flow_graph import FlowGraph
from ptxwcet.flow.graph.cfg import BlockId
from ptxwcet.flow.graph.control_flow import ControlFlow
from ptxwcet.flow.graph.loops import Loop
from ptxwcet.flow.launch import Launch
from ptxwcet.flow.paths.extraction import flow_graph

pytestmark = pytest.mark.fast

HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 data)
{
.reg .b16 %h<9>; .reg .b32 %r<12>; .reg .f32 %f<3>; .reg .b64 %d<9>; .reg .pred %p<9>;
ld.param.u64 %d1, [data]; ld.global.u32 %r1, [%d1];
"""
BACK = "setp.gt.s32 %p1, %r1, 0; @%p1 bra L;\nret;\n}\n"
TO_FIFTEEN = Bound(Sum((Part("%r1"),)), 0, 15)


def graph_of(body: str) -> tuple[FlowGraph, Loop]:
    """The graph of a kernel, and its outermost loop."""
    graph = flow_graph(
        ControlFlow.of(parse_kernel(HEAD + body + BACK)), Launch((32, 1, 1), (1, 1, 1))
    )
    return graph, graph.forest.loops[0]


def falling(by: int, *invariant: Bound, high: int = 15) -> Certificate:
    measure = Sum((Part("%r1"),))
    steps = (Step(1, -by, 1),)
    return Certificate((TO_FIFTEEN, *invariant), measure, high, 1, steps, (high - 1) // by)


def verdict(body: str, one: Certificate, *facts: Bound, way: bool = False) -> Verdict:
    graph, loop = graph_of(body)
    before = way_from(graph, BlockId(0), loop) if way else None
    entry = EntryFacts(facts, before)
    return check(one, iteration_of(graph, loop), entry, Effort(1_000_000))


INNER = """L: mov.u32 %r2, 0; add.s32 %r1, %r1, -1;
M: add.s32 %r2, %r2, 1; {} setp.lt.s32 %p2, %r2, 9; @%p2 bra M;
"""


def test_what_an_inner_loop_does_not_write_stays() -> None:
    assert verdict(INNER.format(""), falling(1), TO_FIFTEEN) is Verdict.CONFIRMED


@pytest.mark.parametrize(
    "row", ["add.s32 %r1, %r1, 1;", "@%p3 mov.u32 %r1, 9;", "neg.s32 %r1, %r1;"]
)
def test_what_an_inner_loop_writes_may_be_anything(row: str) -> None:
    assert verdict(INNER.format(row), falling(1), TO_FIFTEEN) is Verdict.WRONG


@pytest.mark.parametrize(
    ("at_break", "expected"), [("", Verdict.WRONG), ("add.s32 %r1, %r1, -1;", Verdict.CONFIRMED)]
)
def test_an_inner_loop_may_be_left_in_its_middle(at_break: str, expected: Verdict) -> None:
    """Both exits count: the one of the header, and the one of a block that comes later."""
    body = f"""L: mov.u32 %r2, 0;
M: setp.ge.s32 %p2, %r2, 9; @%p2 bra D;
add.s32 %r2, %r2, 1; ld.global.u32 %r3, [%d1]; setp.ne.s32 %p3, %r3, 0; @!%p3 bra M;
{at_break} bra.uni E;
D: add.s32 %r1, %r1, -1;
E:
"""
    assert verdict(body, falling(1), TO_FIFTEEN) is expected


@pytest.mark.parametrize(
    ("row", "expected"), [("", Verdict.CONFIRMED), ("add.s32 %r1, %r1, 1;", Verdict.WRONG)]
)
def test_a_nest_of_inner_loops_is_passed_as_a_whole(row: str, expected: Verdict) -> None:
    body = f"""L: mov.u32 %r2, 0; add.s32 %r1, %r1, -1;
N: mov.u32 %r3, 0; add.s32 %r2, %r2, 1;
M: add.s32 %r3, %r3, 1; {row} setp.lt.s32 %p2, %r3, 9; @%p2 bra M;
setp.lt.s32 %p3, %r2, 9; @%p3 bra N;
"""
    assert verdict(body, falling(1), TO_FIFTEEN) is expected


def test_the_way_to_a_loop_says_what_is_there() -> None:
    body = "and.b32 %r1, %r1, 15; L: add.s32 %r1, %r1, -1;\n"
    assert verdict(body, falling(1)) is Verdict.WRONG
    assert verdict(body, falling(1), way=True) is Verdict.CONFIRMED
    assert verdict(body, falling(1, high=14), way=True) is Verdict.WRONG


def test_facts_are_of_what_is_there_at_the_entry() -> None:
    """15 at most behind the way, not before it."""
    body = "add.s32 %r1, %r1, 1; setp.gt.s32 %p2, %r1, 90; @%p2 bra L; L: add.s32 %r1, %r1, -1;\n"
    assert verdict(body, falling(1), TO_FIFTEEN, way=True) is Verdict.CONFIRMED
    more = Bound(Sum((Part("%r1"),)), 0, 16)
    assert verdict(body, falling(1), more, way=True) is Verdict.WRONG


def test_a_block_that_some_entries_do_not_come_from_is_no_way() -> None:
    body = "setp.gt.s32 %p2, %r1, 9; @%p2 bra L; and.b32 %r1, %r1, 7; L: add.s32 %r1, %r1, -1;\n"
    graph, loop = graph_of(body)
    with pytest.raises(NotFollowed):
        way_from(graph, BlockId(1), loop)


@pytest.mark.parametrize(
    ("kind", "by", "expected"),
    [
        ("u8", 0, Verdict.WRONG),
        ("u8", 1, Verdict.CONFIRMED),
        ("s8", 129, Verdict.CONFIRMED),
        ("s8", 128, Verdict.WRONG),
        ("u16", 1, Verdict.CONFIRMED),
        ("u32", 1, Verdict.WRONG),
    ],
)
def test_a_narrow_load_is_in_its_type(kind: str, by: int, expected: Verdict) -> None:
    """The counter is lowered by what is loaded, and by a number."""
    body = f"L: ld.global.{kind} %r2, [%d1]; sub.s32 %r1, %r1, %r2; sub.s32 %r1, %r1, {by};\n"
    assert verdict(body, falling(1), TO_FIFTEEN) is expected


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("mov.u32 %r2, %tid.x; and.b32 %r2, %r2, 3; sub.s32 %r1, %r1, %r2;", Verdict.WRONG),
        ("mov.u32 %r2, %clock; mov.u32 %r3, %clock; sub.s32 %r4, %r2, %r3;"
         "setp.eq.s32 %p2, %r4, 0; @%p2 sub.s32 %r1, %r1, 1;", Verdict.WRONG),
        ("mov.u32 %r2, %tid.x; mov.u32 %r3, %tid.x; sub.s32 %r4, %r2, %r3;"
         "setp.eq.s32 %p2, %r4, 0; @%p2 sub.s32 %r1, %r1, 1;", Verdict.CONFIRMED),
    ],
)  # fmt: skip
def test_special_registers_that_change_are_read_anew(row: str, expected: Verdict) -> None:
    assert verdict(f"L: {row}\n", falling(1), TO_FIFTEEN) is expected


@pytest.mark.parametrize(
    "row",
    [
        "cvt.rzi.s32.f32 %r1, %f1;",
        "atom.global.add.u32 %r1, [%d1], 1;",
        "shfl.sync.idx.b32 %r1, %r1, 0, 31, -1;",
        "div.s32 %r1, %r1, 0;",
    ],
)
def test_what_is_not_known_may_be_anything(row: str) -> None:
    assert verdict(f"L: {row}\n", falling(1), TO_FIFTEEN) is Verdict.WRONG


def test_a_carry_is_seen() -> None:
    """Lowered by the carry of a sum, which there is only with a certain number."""
    body = "L: add.cc.u32 %r2, %r1, {}; subc.u32 %r1, %r1, 1;\n"
    assert verdict(body.format(0), falling(1), TO_FIFTEEN) is Verdict.CONFIRMED
    assert verdict("L: subc.u32 %r1, %r1, 0;\n", falling(1), TO_FIFTEEN) is Verdict.WRONG


def test_ways_of_a_switch_are_all_followed() -> None:
    body = """L: ld.global.u32 %r2, [%d1]; and.b32 %r2, %r2, 1;
T: .branchtargets A, B;
brx.idx %r2, T;
A: sub.s32 %r1, %r1, 1; bra C;
B: sub.s32 %r1, %r1, {}; bra C;
C:
"""
    assert verdict(body.format(2), falling(1), TO_FIFTEEN) is Verdict.CONFIRMED
    assert verdict(body.format(0), falling(1), TO_FIFTEEN) is Verdict.WRONG


@pytest.mark.parametrize("low", [0, -8])
def test_all_of_a_range_is_looked_at(low: int) -> None:
    """From 8 on it stays."""
    body = "L: setp.lt.s32 %p2, %r1, 8; @%p2 sub.s32 %r1, %r1, 1;\n"
    whole = Bound(Sum((Part("%r1"),)), low, 15)
    one = Certificate((whole,), whole.sum, 15, 1, (Step(1, -1, 1),), 14)
    assert verdict(body, one, TO_FIFTEEN) is Verdict.WRONG


def test_bits_that_nothing_determines_differ_from_place_to_place() -> None:
    body = """L: div.s32 %r2, %r1, 0; div.s32 %r3, %r1, 0; setp.eq.s32 %p2, %r2, %r3;
@%p2 sub.s32 %r1, %r1, 1;
"""
    assert verdict(body, falling(1), TO_FIFTEEN) is Verdict.WRONG


NEST = """ld.global.u32 %r4, [%d1]; and.b32 %r4, %r4, 15; and.b32 %r1, %r1, 15; mov.u32 %r5, 0;
A: add.s32 %r5, %r5, 4; {}
M: add.s32 %r1, %r1, -1; setp.gt.s32 %p2, %r1, 0; @%p2 bra M;
{} ld.global.u32 %r3, [%d1]; setp.gt.s32 %p3, %r3, 0; @%p3 bra A;
L: mov.u32 %r1, 0;
"""


@pytest.mark.parametrize(
    ("before", "behind", "expected"),
    [
        ("", "", Verdict.WRONG),  # it is what the iteration before has left
        ("", "ld.global.u32 %r1, [%d1];", Verdict.WRONG),
        ("ld.global.u32 %r1, [%d1];", "", Verdict.WRONG),
        ("mov.u32 %r1, %r4;", "", Verdict.CONFIRMED),
        ("mov.u32 %r1, %r4;", "add.s32 %r4, %r4, 1;", Verdict.WRONG),
        ("mov.u32 %r1, %r4;", "@%p2 mov.u32 %r4, 16;", Verdict.WRONG),
        ("mov.u32 %r1, %r4; ld.global.u32 %r4, [%d1];", "", Verdict.WRONG),
        (
            "and.b32 %r1, %r5, 3; setp.ne.s32 %p4, %r1, 0; @%p4 mov.u32 %r1, 99;",
            "",
            Verdict.CONFIRMED,
        ),
        ("and.b32 %r1, %r5, 7; setp.ne.s32 %p4, %r1, 0; @%p4 mov.u32 %r1, 99;", "", Verdict.WRONG),
    ],
)
def test_a_way_into_a_loop_that_is_entered_again_and_again(
    before: str, behind: str, expected: Verdict
) -> None:
    """From before the loop around: what that writes is anything, or so many steps further on."""
    graph, _ = graph_of(NEST.format(before, behind))
    inner = next(one for one in graph.forest.loops if one.depth == 2)
    entry = EntryFacts((), way_from(graph, BlockId(0), inner))
    assert check(falling(1), iteration_of(graph, inner), entry, Effort(1_000_000)) is expected


def test_a_way_through_a_cycle_that_is_no_loop_is_not_followed() -> None:
    """The cycle around has two entries: what it writes would not be seen."""
    body = """and.b32 %r1, %r1, 15; setp.gt.s32 %p2, %r1, 3; @%p2 bra B;
A: ld.global.u32 %r1, [%d1];
B: mov.u32 %r2, 0;
M: add.s32 %r1, %r1, -1; setp.gt.s32 %p2, %r1, 0; @%p2 bra M;
ld.global.u32 %r3, [%d1]; setp.gt.s32 %p3, %r3, 0; @%p3 bra A;
setp.gt.s32 %p3, %r3, -9; @%p3 bra B;
L: mov.u32 %r1, 0;
"""
    graph, _ = graph_of(body)
    inner = next(one for one in graph.forest.loops if graph.cfg.name(one.header) == "M")
    with pytest.raises(NotFollowed):
        way_from(graph, BlockId(0), inner)


@pytest.mark.parametrize(
    ("step", "readings", "expected"),
    [
        (1, (Reading.WRAPPING, Reading.WRAPPING), Verdict.CONFIRMED),
        (1, (Reading.SIGNED, Reading.SIGNED), Verdict.WRONG),  # 2^31 lies between
        (1, (Reading.UNSIGNED, Reading.UNSIGNED), Verdict.WRONG),
        (1, (Reading.WRAPPING, Reading.SIGNED), Verdict.NOT_SETTLED),
        (2, (Reading.WRAPPING, Reading.WRAPPING), Verdict.WRONG),
    ],
)
def test_distances_that_wrap_around(
    step: int, readings: tuple[Reading, Reading], expected: Verdict
) -> None:
    """From some number on to 5 more."""
    body = f"""add.s32 %r2, %r1, 5;
L: add.s32 %r1, %r1, {step}; setp.ne.s32 %p1, %r1, %r2; @%p1 bra L;
"""
    apart = Sum((Part("%r2", 1, readings[0]), Part("%r1", -1, readings[1])))
    one = Certificate((Bound(apart, 1, 5),), apart, 5, 1, (Step(1, -1, 1),), 4)
    kernel = body + "mov.u32 %r1, 0;\n"
    assert verdict(kernel, one, way=True) is expected


def test_distances_of_registers_of_two_widths_have_no_width() -> None:
    apart = Sum((Part("%d1", 1, Reading.WRAPPING), Part("%r1", -1, Reading.WRAPPING)))
    one = Certificate((Bound(apart, 1, 5),), apart, 5, 1, (Step(1, -1, 1),), 4)
    assert verdict("L: add.s32 %r1, %r1, 1;\n", one) is Verdict.NOT_SETTLED


def test_registers_that_are_none_are_not_settled() -> None:
    body = "L: add.s32 %r1, %r1, -1;\n"
    for name in ("%r99", "nothing"):
        bound = Bound(Sum((Part(name, 1, Reading.SIGNED),)), 0, 1)
        assert verdict(body, falling(1, bound), TO_FIFTEEN) is Verdict.NOT_SETTLED


THROUGH = """L: mov.u32 %r2, 3; mov.u32 %r3, %r1;
M: {} setp.ne.s32 %p2, %r2, 0; @%p2 bra M;
mov.u32 %r1, %r3;
"""


@pytest.mark.parametrize(
    ("rows", "by"),
    [
        ("add.s32 %r3, %r3, -1; add.s32 %r2, %r2, -1;", 3),
        ("add.s32 %r3, %r3, -2; sub.s32 %r2, %r2, 1;", 6),
    ],
)
def test_what_each_iteration_of_an_inner_loop_adds_hangs_together(rows: str, by: int) -> None:
    """As often as one register was added to, others were."""
    body = THROUGH.format(rows)
    assert verdict(body, falling(by), TO_FIFTEEN) is Verdict.CONFIRMED
    assert verdict(body, falling(by + 1), TO_FIFTEEN) is Verdict.WRONG


@pytest.mark.parametrize(
    "rows",
    [
        "@%p3 add.s32 %r3, %r3, -1; add.s32 %r2, %r2, -1;",
        "ld.global.u32 %r4, [%d1]; add.s32 %r3, %r3, %r4; add.s32 %r2, %r2, -1;",
        "shl.b32 %r3, %r3, 1; add.s32 %r2, %r2, -1;",
    ],
)
def test_what_inner_iterations_do_not_add_alike_may_be_anything(rows: str) -> None:
    assert verdict(THROUGH.format(rows), falling(1), TO_FIFTEEN) is Verdict.WRONG
