"""Variables of kernels into which calls are inlined; for results see kernels/results_of_calls."""

from __future__ import annotations

import pytest
from parsing import parse_kernel, parse_text

from ptxwcet.flow.graph.inlining import inline_calls
from ptxwcet.flow.paths.call_variables import with_variable_registers

pytestmark = pytest.mark.fast

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
