"""What a call leaves in its results: nothing where it is not executed, and not its arguments."""

from __future__ import annotations

import pytest
from parsing import parse_kernel, parse_text
from refusals import refusals_of

from ptxwcet.flow.graph.inlining import inline_calls
from ptxwcet.flow.launch import Launch
from ptxwcet.flow.paths.call_variables import with_variable_registers
from ptxwcet.flow.walk.path import loop_entries
from ptxwcet.machine.loader import DEFAULT_MACHINE, load_machine
from ptxwcet.pipeline import analyse_kernel

pytestmark = pytest.mark.fast

TEXT = """.version 8.3
.target sm_80
.address_size 64
.func (.reg .u32 %out) three_more (.reg .u32 %in)
{{
add.u32 %out, %in, 3;
ret;
}}
.func (.param .u32 o) sum (.param .u32 i, .param .u32 j)
{{
.reg .u32 %r<4>;
mov.u32 %r1, 5;
st.param.u32 [o], %r1;
ld.param.u32 %r2, [i];
ld.param.u32 %r3, [j];
add.u32 %r2, %r2, %r3;
st.param.u32 [o], %r2;
ret;
}}
.visible .entry k(.param .u64 a)
{{
.reg .b64 %d<4>;
.reg .b32 %r<9>;
.reg .pred %p<4>;
.param .b32 x;
.param .b32 y;
ld.param.u64 %d1, [a];
mov.u32 %r1, 0;
mov.u32 %r2, 7;
{body}
mov.u32 %r3, 0;
M:
add.u32 %r3, %r3, 1;
setp.lt.u32 %p2, %r3, %r2;
@%p2 bra M;
st.global.u32 [%d1], %r3;
ret;
}}
"""


def last_loop(body: str) -> int:
    """Iterations of the loop that goes on until it has counted to what the body leaves in r2."""
    module = parse_text(TEXT.format(body=body))
    whole = inline_calls(next(one for one in module.kernels if one.name == "k"), module)
    found = analyse_kernel(whole, Launch((32, 1, 1)), load_machine(DEFAULT_MACHINE, None))
    (warp,) = found.worst.paths.warps
    return max(entry.iterations.base for entry in loop_entries(warp.nodes))


@pytest.mark.parametrize(("guard", "expected"), [("@%p1", 3 + 50 + 50), ("@!%p1", 1 + 3 + 50)])
def test_a_call_that_is_not_executed_leaves_its_result_register(guard: str, expected: int) -> None:
    body = (
        f"L: setp.eq.u32 %p1, %r1, 0;\n{guard} call (%r2), three_more, (%r1);\n"
        "add.u32 %r2, %r2, 50;\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p2, %r1, 2;\n@%p2 bra L;"
    )
    assert last_loop(body) == expected


def test_lanes_that_do_not_call_keep_the_register() -> None:
    """Those of lower numbers call, and the others count further."""
    body = (
        "mov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 16;\nmov.u32 %r2, 60;\n"
        "@%p1 call (%r2), three_more, (%r1);"
    )
    assert last_loop(body) == 60


CALL = "st.param.b32 [x], 7;\nst.param.b32 [y], 30;\ncall.uni ({to}), sum, ({of});\n"


def test_one_variable_for_two_arguments() -> None:
    body = CALL.format(to="y", of="x, x") + "ld.param.b32 %r2, [y];"
    assert last_loop(body) == 14


@pytest.mark.parametrize("arguments", ["x, y", "y, x", "x, x"])
def test_a_variable_that_is_argument_and_result(arguments: str) -> None:
    """The function reads its argument after it has written its result."""
    body = CALL.format(to="x", of=arguments) + "ld.param.b32 %r2, [x];"
    assert [one.code for one in refusals_of(last_loop, body)] == ["PW220"]


SHARED = """.version 8.3
.target sm_80
.address_size 64
.func one ()
{
.shared .b32 a[4];
.reg .u32 %r;
mov.u32 %r, 1;
st.shared.u32 [a], %r;
ret;
}
.func two ()
{
.shared .b32 a[8];
.reg .u32 %r;
ld.shared.u32 %r, [a+4];
ret;
}
.visible .entry k()
{
.local .b32 a[2];
.reg .u32 %r;
call one, ();
call two, ();
call one, ();
ld.local.u32 %r, [a];
ret;
}
"""


def test_shared_variables_of_one_name_in_several_functions_are_several() -> None:
    """One for all calls of a function, and none is the kernel's own."""
    module = parse_text(SHARED)
    (kernel,) = module.kernels
    found = {
        (one.space, one.name, one.size_bytes) for one in inline_calls(kernel, module).variables
    }
    assert found == {("local", "a", 8), ("shared", "one:a", 16), ("shared", "two:a", 32)}


def test_a_kernel_without_variables_is_itself() -> None:
    text = ".version 8.0\n.target sm_80\n.entry k(.param .u32 n)\n{ ret; }\n"
    kernel = parse_kernel(text)
    assert with_variable_registers(kernel) is kernel
