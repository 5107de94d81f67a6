"""The opcode table against a golden table with one valid statement (or more) for every row."""

from __future__ import annotations

import shutil
import subprocess
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest
from parsing import parse_kernel, parse_text
from places import DATA
from refusals import refusals_of

from ptxwcet.ir.instruction_set import OPCODES, find_opcode
from ptxwcet.ir.kernel import CARRY, Instruction, unknown_instructions
from ptxwcet.ir.op_classes import ControlEffect, OpClass, Space
from ptxwcet.ir.words import is_impossible_type, state_space, type_kind

pytestmark = pytest.mark.fast

PTXAS = shutil.which("ptxas")

FRAME = """.version 9.0
.target sm_{target}
.address_size 64
.global .b32 sym[16];
.const .b32 cn[16];
.func (.reg .b32 rv) f (.reg .b32 a, .reg .b32 b) {{ add.s32 rv, a, b; ret; }}
.visible .entry k(.param .u64 P0, .param .u32 P1)
{{
.reg .pred %p<9>; .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .f32 %f<20>; .reg .f64 %fd<9>;
.reg .b16 %rs<9>; .reg .f16 %h<9>; .reg .b128 %q<4>; .reg .v4 .b32 v; .shared .b32 sh[16];
.param .b32 q;
T: .branchtargets L; proto: .callprototype (.reg .b32 _) _ (.reg .b32 _);
{body}
L:
ret;
}}
"""


@dataclass(frozen=True)
class Row:
    target: str
    statement: str
    op_class: str
    control: str
    space: str
    reads: list[str]
    writes: list[str]


def golden_rows() -> list[Row]:
    path = DATA / "ptx" / "instructions.tsv"
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        target, statement, op_class, control, space, reads, writes = line.split("\t")
        found.append(
            Row(target, statement, op_class, control, space, reads.split(), writes.split())
        )
    return found


ROWS = golden_rows()
NEWER_THAN_PTXAS_13_0 = {"multimem.cp.async.bulk", "multimem.cp.reduce.async.bulk"}


def lower(row: Row) -> Instruction:
    text = FRAME.format(target=row.target, body=row.statement)
    kernel = parse_kernel(text)
    assert unknown_instructions(kernel) == ()
    return kernel.instructions[0]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.statement)
def test_class_effect_space_and_roles(row: Row) -> None:
    instruction = lower(row)
    assert instruction.op_class is OpClass(row.op_class)
    assert instruction.control is ControlEffect(row.control)
    assert instruction.space is Space(row.space)
    assert list(instruction.reads) == row.reads
    assert list(instruction.writes) == row.writes


def test_every_row_has_a_golden_statement() -> None:
    opcodes = [lower(row).opcode for row in ROWS]
    assert {opcode.name for opcode in opcodes if opcode is not None} == set(OPCODES)


def test_operands_are_counted_in_one_place() -> None:
    """By the forms that judge an opcode, or by its row where none do, or not of all its words."""
    for name, row in OPCODES.items():
        judged = all(row.is_judged([word]) for word in ("", "v2", "s2f6x2"))
        assert (row.operands is None) == judged, name


def test_every_op_class_is_used_by_some_row() -> None:
    assert {row.op_class for row in ROWS} == {op_class.value for op_class in OpClass}


@pytest.mark.skipif(PTXAS is None, reason="ptxas is not installed")
def test_ptxas_takes_every_golden_statement(tmp_path: Path) -> None:
    assert PTXAS is not None
    by_target: dict[str, list[str]] = defaultdict(list)
    for row in ROWS:
        opcode, _ = find_opcode(row.statement.split(" ")[0].rstrip(";").split("."))
        if opcode is None or opcode.name not in NEWER_THAN_PTXAS_13_0:
            by_target[row.target].append(row.statement)
    for target, statements in by_target.items():
        path = tmp_path / f"{target}.ptx"
        path.write_text(FRAME.format(target=target, body="\n".join(statements)))
        command = [PTXAS, "-c", "-O0", f"-arch=sm_{target}", str(path), "-o", str(tmp_path / "o")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("mnemonic", "name"),
    [
        ("add.s32", "add"),
        ("cp.async.ca.shared.global", "cp.async"),
        ("cp.async.bulk.tensor.2d", "cp.async.bulk"),
        ("cp.async.bulk.wait_group.read", "cp.async.bulk.wait_group"),
        ("bar.warp.sync", "bar.warp.sync"),
        ("barrier.cta.sync.aligned", "barrier.cta.sync"),
        ("mma.sp.sync", "mma"),
    ],
)
def test_the_longest_matching_row_counts(mnemonic: str, name: str) -> None:
    opcode, words = find_opcode(mnemonic.split("."))
    assert opcode is OPCODES[name]
    assert words == name.count(".") + 1


@pytest.mark.parametrize(
    "statement",
    ["mov.v2.u32.u32 %r1, %r2;", "add.u32.u32 %r1, %r2, %r3;", "setp.lt %p1, %r1, %r2;"],
)
def test_types_are_counted_by_the_forms(statement: str) -> None:
    assert [
        one.code for one in refusals_of(parse_text, FRAME.format(target="80", body=statement))
    ] == ["PW113"]


@pytest.mark.parametrize("mnemonic", ["frob.s32", "ADD.s32", "bar", "cp", "mbarrier.frob"])
def test_no_row_is_no_row(mnemonic: str) -> None:
    assert find_opcode(mnemonic.split(".")) == (None, 1)


def test_modifier_order_is_free() -> None:
    swapped = ("u32", "global")
    assert state_space(swapped) is Space.GLOBAL
    assert OPCODES["ld"].op_class(swapped) is OpClass.LOAD_GLOBAL


@pytest.mark.parametrize(
    ("modifiers", "kind"),
    [
        (("rn", "ftz", "f32"), "single"),
        (("rn", "f16x2"), "half"),
        (("approx", "ftz", "bf16x2"), "half"),
        (("rn", "f64"), "double"),
        (("lo", "s32"), "integer"),
        (("f32", "f16"), "single"),
        ((), "integer"),
    ],
)
def test_the_first_type_modifier_counts(modifiers: tuple[str, ...], kind: str) -> None:
    assert type_kind(modifiers) == kind


def test_widths_that_no_type_has() -> None:
    assert is_impossible_type("s33")
    assert not any(is_impossible_type(word) for word in ("s32", "f4e", "b128", "m8n8", "x2", "u4"))


def test_barriers_that_are_none() -> None:
    warp = OPCODES["bar.warp.sync"]
    assert (warp.control, warp.rule) == (ControlEffect.NONE, OpClass.VOTE)
    assert OPCODES["bar.arrive"].control is ControlEffect.ARRIVE


def test_carry_chains_are_dependences() -> None:
    body = "add.cc.u32 %r1, %r2, %r3; addc.u32 %r4, %r5, %r6;"
    text = FRAME.format(target="75", body=body)
    kernel = parse_kernel(text)
    first, second = kernel.instructions[:2]
    assert CARRY in first.writes
    assert CARRY not in first.reads
    assert CARRY in second.reads
    assert CARRY not in second.writes


def test_an_opcode_without_a_row_is_conservative() -> None:
    text = FRAME.format(target="75", body="@%p1 frob.x %r1, [%rd2], {%r3, %r4};")
    kernel = parse_kernel(text)
    (frob,) = unknown_instructions(kernel)
    assert frob.span.line == 13
    assert (frob.is_known, frob.op_class, frob.control) == (False, None, ControlEffect.NONE)
    assert frob.reads == ("%p1", "%r1", "%rd2", "%r3", "%r4")
    assert frob.writes == ("%r1",)
