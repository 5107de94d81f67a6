"""Constants of a module by bytes; what loads of them give is in kernels/fixed_memory.ptx."""

from __future__ import annotations

import pytest
from parsing import parse_text
from places import FLOW

from ptxwcet.commands.facts.study import facts_template
from ptxwcet.emulator.layout import constant_bytes
from ptxwcet.flow.launch import Launch
from ptxwcet.flow.values.integers import IntegerType
from ptxwcet.flow.values.lane_state import FixedMemory
from ptxwcet.ir.kernel import Space
from ptxwcet.opened.request import Request

pytestmark = pytest.mark.fast

FUNCTIONS = FLOW / "functions.ptx"
WORD = IntegerType(32, signed=False)
HEAD = """.version 8.0
.target sm_80
.address_size 64
.const .align 4 .u32 c[4] = {3, 4};
.const .align 4 .u32 rows[2][2] = {{1}, {2, 3}};
.const .align 4 .u32 octal[2] = {017, 0x1f};
.const .align 4 .f32 real = 0f40400000;
.const .align 8 .u64 address = c;
.const .align 8 .u64 wrong = generic(c);
.extern .const .align 4 .u32 elsewhere;
.visible .entry k(.param .u64 p, .param .u32 n)
{
.reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<9>;
ld.param.u64 %d1, [p]; mov.u32 %r2, %tid.x; mov.u32 %r3, 0; mov.u64 %d2, c;
"""


def test_a_variable_of_the_kernel_hides_the_constant_of_its_name() -> None:
    module = parse_text(f"{HEAD}.local .b32 c; ret;\n}}\n")
    launch = Launch((32, 1, 1), constants={"c": bytes(16), "real": bytes(4)})
    memory = FixedMemory(module.kernels[0], launch)
    assert memory.address("c") is None
    assert memory.word(Space.CONST, "c", 0, WORD) is None
    assert memory.word(Space.CONST, "real", 0, WORD) is not None
    assert memory.word(Space.PARAM, "real", 0, WORD) is None


def test_constants_of_a_module() -> None:
    module = parse_text(f"{HEAD}ret;\n}}\n")
    found = constant_bytes(module, {"real": b"1234"})
    assert found["real"] == b"1234"
    assert found["c"] == bytes([3, 0, 0, 0, 4, 0, 0, 0]) + bytes(8)
    assert found.keys() == {"c", "octal", "real"}


def test_questions_follow_arguments_of_functions() -> None:
    """What decides the loop inside of the function is asked for: the kernel's parameter."""
    template = facts_template(Request(str(FUNCTIONS), ("argument",), block="64", grid="4"))
    assert template.questions == 1
    assert "[parameters" in template.text
    assert "[[loop]]" not in template.text
