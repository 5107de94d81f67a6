"""Constants and parameters by bytes: which the analysis knows, and what it does not conclude."""

from __future__ import annotations

from pathlib import Path

import pytest
from answers import only_answer
from parsing import parse_text
from places import FLOW

from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.commands.facts.study import facts_template
from ptxwcet.emulator.layout import constant_bytes
from ptxwcet.flow.launch import Launch
from ptxwcet.flow.values.integers import IntegerType
from ptxwcet.flow.values.lane_state import FixedMemory
from ptxwcet.flow.walk.path import loop_entries
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
LOOP = "L: add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, %r4; @%p2 bra L;"
LAUNCH = '[arguments]\np = 0\nn = 5\n[variables]\nc = { dtype = "int32", values = [3, 4, 5, 6] }\n'


def iterations(body: str, folder: Path) -> list[int] | str:
    """Body executions of every loop entered, or the code of the refusal."""
    ptx, launch = folder / "k.ptx", folder / "k.toml"
    ptx.write_text(f"{HEAD}{body}\nret;\n}}\n")
    launch.write_text(f"grid = 1\nblock = 32\n{LAUNCH}")
    (row,) = bound_file(Request(str(ptx), launch_file=str(launch))).kernels
    if not isinstance(row, KernelAnalysis):
        return row.diagnostics[0].code
    paths = row.worst.paths.warps
    return [entry.iterations.base for warp in paths for entry in loop_entries(warp.nodes)]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("ld.const.u32 %r4, [c+8];", [5]),
        ("ld.const.v2.u32 {%r4, %r5}, [c+4];", [4]),
        ("add.s64 %d3, %d2, 12; ld.const.u32 %r4, [%d3];", [6]),
        ("add.s64 %d3, %d2, 12; ld.const.u32 %r4, [%d3+-8];", [4]),
        ("mov.u64 %d3, c+8; ld.const.u32 %r4, [%d3];", [5]),
        ("ld.const.u32 %r4, [octal];", [15]),
        ("ld.const.u32 %r4, [octal+4];", [31]),
        ("ld.const.b32 %r5, [real]; shr.u32 %r4, %r5, 28;", [4]),
        # offsets of addresses, whatever the address is
        ("add.s64 %d3, %d2, 12; sub.s64 %d4, %d3, %d2; cvt.u32.u64 %r4, %d4;", [12]),
        ("add.s64 %d3, %d2, 4; setp.ne.s64 %p1, %d2, %d3; selp.u32 %r4, 2, 9, %p1;", [2]),
        ("ld.param.u8 %r4, [n];", [5]),
        ("ld.param.u16 %r5, [n+2]; add.u32 %r4, %r5, 8;", [8]),
    ],
)
def test_known(body: str, expected: list[int], tmp_path: Path) -> None:
    assert iterations(body + LOOP, tmp_path) == expected


@pytest.mark.parametrize(
    "body",
    [
        "ld.const.u32 %r4, [rows];",  # a row is not full
        "ld.const.u32 %r4, [elsewhere];",
        "ld.const.u32 %r4, [address];",
        "ld.const.u32 %r4, [wrong];",
        "ld.const.u32 %r4, [%d1];",  # an address that is not known
        "ld.const.u32 %r4, [c+16];",  # outside
        "cvta.const.u64 %d3, %d2; ld.const.u32 %r4, [%d3];",  # no address in constant memory
        "ld.u32 %r4, [%d2];",  # nor here a generic one
        "add.s64 %d3, %d2, %d2; ld.const.u32 %r4, [%d3];",
        "cvt.u32.u64 %r4, %d2;",  # addresses are not known
        "ld.param.u32 %r4, [n+1];",
        "ld.param.u64 %d3, [n]; cvt.u32.u64 %r4, %d3;",  # wider than the parameter
    ],
)
def test_not_known(body: str, tmp_path: Path) -> None:
    assert iterations(body + LOOP, tmp_path) == "PW203"


@pytest.mark.parametrize("operation", ["lt.u64 %p2, %d2, 5000", "gt.s64 %p2, %d2, 0"])
def test_nothing_is_known_of_an_address_itself(operation: str, tmp_path: Path) -> None:
    loop = f"L: add.u32 %r3, %r3, 1; setp.{operation}; @%p2 bra L;"
    assert iterations(loop, tmp_path) == "PW203"


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


def test_the_report_names_what_it_rests_on(tmp_path: Path) -> None:
    body = f"ld.const.u32 %r4, [c]; {LOOP}"
    ptx, launch = tmp_path / "k.ptx", tmp_path / "k.toml"
    ptx.write_text(f"{HEAD}{body}\nret;\n}}\n")
    launch.write_text(f"grid = 1\nblock = 32\n{LAUNCH}")
    row = only_answer(Request(str(ptx), launch_file=str(launch)))
    texts = {one.key: one.text for one in row.worst.bound.claim.assumptions}
    assert texts["launch-memory"].endswith(": c")
