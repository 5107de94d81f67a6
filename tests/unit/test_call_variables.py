"""``.param`` variables of a body: when their values are known, and when they must not be."""

from __future__ import annotations

import pytest
from parsing import parse_kernel, parse_text
from refusals import refusal_of

from ptxwcet.flow.graph.control_flow import ControlFlow
from ptxwcet.flow.graph.inlining import inline_calls
from ptxwcet.flow.launch import Launch, PlacedFacts
from ptxwcet.flow.paths.call_variables import with_variable_registers
from ptxwcet.flow.paths.extraction import extract_paths
from ptxwcet.flow.walk.path import loop_entries
from ptxwcet.ir.kernel import Kernel

pytestmark = pytest.mark.fast

HEAD = """.version 8.0
.target sm_80
.address_size 64
.func (.param .b32 r) last(.param .b32 a, .param .b64 b)
{
.reg .b32 %r<3>;
ld.param.u32 %r1, [a]; add.s32 %r1, %r1, 1; st.param.b32 [r+0], %r1; ret;
}
.visible .entry k(.param .u64 p, .param .u32 n)
{
.reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<9>;
.param .align 8 .b8 a[16];
.param .align 4 .b8 result[4];
.param .b32 first; .param .b64 second; .param .b32 sum;
ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x; mov.u32 %r3, 0; ld.param.u64 %d1, [p];
setp.lt.u32 %p1, %r2, 7;
"""
LOOP = "L: add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, %r4; @%p2 bra L;"
BARRIERS = "L: bar.sync 0; add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, %r4; @%p2 bra L; membar.cta;"
LAUNCH = Launch((64, 1, 1), (1, 1, 1), {"n": 5})


def kernel_of(body: str) -> Kernel:
    module = parse_text(f"{HEAD}{body}\nret;\n}}\n")
    return with_variable_registers(inline_calls(module.kernels[0], module))


def iterations(body: str, bounds: dict[int, int] | None = None) -> list[int]:
    """Body executions of every loop entered, warp by warp. Raises PtxwcetError."""
    flow = ControlFlow.of(kernel_of(body))
    pieces = extract_paths(flow, LAUNCH, PlacedFacts(bounds or {}))
    return [
        entry.iterations.base
        for piece in pieces
        for warp in piece.warps
        for entry in loop_entries(warp.nodes)
    ]


def code(body: str, bounds: dict[int, int] | None = None) -> str:
    return refusal_of(iterations, body, bounds).code


@pytest.mark.parametrize(
    ("moves", "expected"),
    [
        ("st.param.b32 [a+4], %r1; ld.param.u32 %r4, [a+4];", 5),
        ("st.param.b32 [a], 9; ld.param.u32 %r4, [a];", 9),
        ("st.param.b64 [a], %d1; st.param.b32 [a+8], 4; ld.param.u32 %r4, [a+8];", 4),
        ("st.param.v2.b32 [a+8], {6, %r1}; ld.param.u32 %r4, [a+12];", 5),
        ("st.param.v2.b32 [a+8], {6, %r1}; ld.param.v2.b32 {%r4, _}, [a+8];", 6),
        ("st.param.b8 [a], %r1; ld.param.u8 %h1, [a]; cvt.u32.u16 %r4, %h1;", 5),
        ("st.param.b8 [a], 253; ld.param.s8 %h1, [a]; cvt.s32.s16 %r4, %h1; neg.s32 %r4, %r4;", 3),
        ("@%p1 bra O; st.param.b32 [a], 3; O: st.param.b32 [a], 3; ld.param.u32 %r4, [a];", 3),
    ],
)
def test_what_is_stored_is_loaded(moves: str, expected: int) -> None:
    assert iterations(moves + LOOP) == [expected]


@pytest.mark.parametrize(
    "moves",
    [
        "ld.param.u32 %r4, [a];",  # nothing is stored
        "st.param.b64 [a], 9; ld.param.u32 %r4, [a];",  # another width
        "st.param.b64 [a], 9; ld.param.u32 %r4, [a+4];",  # another place
        "st.param.b32 [a], 9; st.param.b8 [a+3], 0; ld.param.u32 %r4, [a];",  # a part is new
        "st.param.b32 [a], 9; st.param.f32 [a], 0f3F800000; ld.param.u32 %r4, [a];",
        "st.param.b32 [a], 9; st.param.v2.b64 [a], {%d1, %d1}; ld.param.u32 %r4, [a];",
        "@%p1 bra O; st.param.b32 [a], 3; O: ld.param.u32 %r4, [a];",  # not by all lanes
        "st.param.b32 [a], 9; st.param.b32 [result+4], 3; ld.param.u32 %r4, [a];",  # outside
        "st.param.b32 [a], 9; ld.param.u32 %r4, [a+-4];",
    ],
)
def test_what_may_be_something_else_is_not_known(moves: str) -> None:
    assert code(moves + LOOP) == "PW203"


def test_arguments_and_results_of_a_function() -> None:
    call = (
        "st.param.b32 [first+0], %r1; st.param.b64 [second], %d1; "
        "call (sum), last, (first, second); ld.param.b32 %r4, [sum];"
    )
    kernel = kernel_of(call + LOOP)
    assert "first+0:32" in kernel.registers
    assert iterations(call + LOOP) == [6]


def test_each_warp_has_its_own() -> None:
    moves = "shr.u32 %r5, %r2, 5; add.u32 %r5, %r5, 3; st.param.b32 [a], %r5;"
    assert sorted(iterations(f"{moves} ld.param.u32 %r4, [a];{LOOP}")) == [3, 4]


def test_a_loop_may_change_a_variable() -> None:
    """Inside of a loop that runs as often as the data want, the variable counts."""
    data = (
        "st.param.b32 [a], 2; M: ld.param.u32 %r4, [a]; add.u32 %r4, %r4, 1; "
        "st.param.b32 [a], %r4; ld.global.u32 %r5, [%d1]; setp.ne.u32 %p3, %r5, 0; @%p3 bra M; "
        "ld.param.u32 %r4, [a];"
    )
    assert code(data + LOOP, {0: 4}) == "PW203"


def test_a_variable_may_count() -> None:
    counts = (
        "st.param.b32 [a], 0; M: ld.param.u32 %r4, [a]; add.u32 %r4, %r4, 1; "
        "st.param.b32 [a], %r4; setp.lt.u32 %p3, %r4, 1000000; @%p3 bra M;"
    )
    assert iterations(counts) == [1_000_000]


@pytest.mark.parametrize(
    ("address", "refused"), [("%d1", False), ("%d3", True)], ids=["uniform", "varying"]
)
def test_a_uniform_argument_stays_uniform(address: str, refused: bool) -> None:
    """All threads pass the loop of barriers alike, or the barrier is refused."""
    moves = (
        f"mul.wide.u32 %d2, %r2, 4; add.s64 %d3, %d1, %d2; ld.global.nc.u32 %r5, [{address}]; "
        "st.param.b32 [a], %r5; ld.param.u32 %r4, [a];"
    )
    if refused:
        assert code(moves + BARRIERS, {0: 9}) == "PW222"
    else:
        assert iterations(moves + BARRIERS, {0: 9}) == [9]


def test_a_part_of_a_uniform_variable_is_not_uniform_after_another_store() -> None:
    moves = (
        "ld.global.nc.u32 %r5, [%d1]; st.param.b32 [a], %r5; st.param.b8 [a], %r2; "
        "ld.param.u32 %r4, [a];"
    )
    assert code(moves + BARRIERS, {0: 9}) == "PW222"


def test_a_kernel_without_variables_is_itself() -> None:
    text = ".version 8.0\n.target sm_80\n.entry k(.param .u32 n)\n{ ret; }\n"
    kernel = parse_kernel(text)
    assert with_variable_registers(kernel) is kernel
