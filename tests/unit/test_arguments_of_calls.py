"""What a function is given: literals with their signs, and registers of every type."""

from __future__ import annotations

import pytest
from parsing import parse_text
from refusals import refusal_of

from ptxwcet.flow.graph.inlining import inline_calls
from ptxwcet.flow.launch import Launch
from ptxwcet.flow.walk.path import loop_entries
from ptxwcet.machine.loader import DEFAULT_MACHINE, load_machine
from ptxwcet.pipeline import analyse_kernel

pytestmark = pytest.mark.fast

TEXT = """.version 8.5
.target sm_90
.address_size 64
.func (.reg .b32 %out) f(.reg .KIND %in) {{ {function} ret; }}
.visible .entry k()
{{
.reg .b32 %r<9>; .reg .pred %p; .reg .b64 %d<3>;
.reg .KIND %x;
mov.u32 %r2, 0;
{body}
L: add.u32 %r2, %r2, 1; setp.lt.u32 %p, %r2, %r1; @%p bra L;
ret;
}}
"""


def iterations(kind: str, function: str, body: str) -> int:
    """Iterations of the loop that counts to what the body leaves in r1."""
    module = parse_text(TEXT.replace("KIND", kind).format(body=body, function=function))
    whole = inline_calls(module.kernels[-1], module)
    found = analyse_kernel(whole, Launch((32, 1, 1)), load_machine(DEFAULT_MACHINE, None))
    (warp,) = found.worst.paths.warps
    return max(entry.iterations.base for entry in loop_entries(warp.nodes))


@pytest.mark.parametrize(
    "literal", ["-9", "- 9", "-(9)", "-9U", "(3 - 12)", "18446744073709551607"]
)
def test_a_literal_has_its_sign(literal: str) -> None:
    assert iterations("s32", "add.s32 %out, %in, 49;", f"call (%r1), f, ({literal});") == 40


@pytest.mark.parametrize(
    ("kind", "function", "before"),
    [
        ("b128", "mov.b128 {%a, %b}, %in; cvt.u32.u64 %out, %a;", "mov.b128 %x, {%d1, %d1};"),
        ("f16x2", "mov.b32 %out, %in;", "mov.b32 %x, 40;"),
        ("f16", "mov.b16 %h, %in; cvt.u32.u16 %out, %h;", "mov.b16 %x, 40;"),
    ],
)
def test_a_register_of_any_type_is_given(kind: str, function: str, before: str) -> None:
    declared = ".reg .b64 %a, %b; .reg .b16 %h;"
    body = f"mov.u64 %d1, 40; {before} call (%r1), f, (%x); mov.u32 %r1, 40;"
    assert iterations(kind, declared + function, body) == 40


@pytest.mark.parametrize(
    ("kind", "literal", "what"),
    [
        ("u32", "1.5", "a float literal is no .u32 value"),
        ("f32", "1", "an integer literal is no .f32 value"),
        ("f64", "0f3F800000", "a float literal is no .f64 value"),
    ],
)
def test_a_literal_of_another_kind_is_refused_at_the_call(
    kind: str, literal: str, what: str
) -> None:
    body = f"call (%r1), f, ({literal});"
    module = parse_text(TEXT.replace("KIND", kind).format(body=body, function=""))
    found = refusal_of(inline_calls, module.kernels[-1], module)
    assert (found.code, found.message) == ("PW108", f"argument {literal}: {what}")
    assert found.span is not None
    assert found.span.text == body
