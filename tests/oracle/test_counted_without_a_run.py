"""Accesses that the analysis counts and the emulator does not execute: no run confirms the counts.

``docs/guide/run.md`` lists them. An opcode, a form of a matrix move or a type that joins them, or
that is executed now, fails here.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from parsing import parse_text

from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.launch import EmulatedLaunch, EmulatorOptions
from ptxwcet.emulator.matrix_forms import form_of
from ptxwcet.emulator.registers import Unsupported
from ptxwcet.emulator.semantics import SEMANTICS
from ptxwcet.flow.launch import Launch
from ptxwcet.ir.instruction_set import OPCODES
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.ir.opcodes import BySpace
from ptxwcet.machine.loader import load_machine, machine_names
from ptxwcet.memory.instructions import accesses_of
from ptxwcet.pipeline import analyse_kernel
from ptxwcet.support.diagnostics import PtxwcetError

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "run.md"
OPCODES_COUNTED = {"tex", "tld4", "txq", "suld", "sust", "sured", "suq"}
HEAD = """.version 9.0
.target sm_100a
.address_size 64
.global .texref t; .global .surfref f;
.visible .entry k(.param .u64 p)
{
.shared .align 128 .b8 s[8192];
.reg .b32 %r<9>, %a; .reg .b64 %d<9>; .reg .b128 %q<3>; .reg .f32 %f<9>;
"""
FORMS = {
    "ld.global.b128": "%q0, [%d1]",
    "st.shared.b128": "[%a], %q0",
    "atom.global.exch.b128": "%q0, [%d1], %q1",
    "wmma.load.a.sync.aligned.row.m8n8k32.shared.s4": "{%r0}, [%a], %r8",
    "wmma.load.b.sync.aligned.col.m8n8k128.global.b1": "{%r0}, [%d1], %r8",
    "wmma.load.c.sync.aligned.row.m8n8k32.s32": "{%r0, %r1}, [%d1], %r8",
    "wmma.store.d.sync.aligned.row.m8n8k128.s32": "[%d1], {%r0, %r1}, %r8",
    "ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b6x16_p32": "{%r0}, [%a]",
    "ldmatrix.sync.aligned.m8n16.x4.shared.b8x16.b4x16_p64": "{%r0, %r1, %r2, %r3}, [%a]",
    "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8x16.b6x16_p32": "{%r0, %r1}, [%a]",
    "ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8x16.b4x16_p64": "{%r0, %r1, %r2, %r3}, [%a]",
    "stmatrix.sync.aligned.m16n8.x1.trans.shared.b8": "[%a], {%r0}",
    "tex.1d.v4.f32.s32": "{%f0, %f1, %f2, %f3}, [t, {%r1}]",
    "suld.b.1d.b32.trap": "{%r0}, [f, {%r1}]",
    "sust.b.1d.b32.trap": "[f, {%r1}], {%r0}",
}


def test_opcodes_that_are_counted_and_not_executed() -> None:
    counted = {
        row.name
        for row in OPCODES.values()
        if isinstance(row.rule, BySpace)
        or row.rule in (OpClass.TEXTURE, OpClass.SURFACE, OpClass.MATRIX_MOVE, OpClass.PREFETCH)
    }
    assert counted - set(SEMANTICS) == OPCODES_COUNTED


@pytest.mark.parametrize("mnemonic", FORMS)
def test_forms_that_are_counted_and_not_executed(mnemonic: str) -> None:
    module = parse_text(f"{HEAD}{mnemonic} {FORMS[mnemonic]};\nret;\n}}\n")
    kernel = module.kernels[0]
    assert accesses_of(kernel.instructions[0])
    launch = EmulatedLaunch((32, 1, 1), (1, 1, 1), (0,))
    with pytest.raises(PtxwcetError) as refused:
        execute(kernel, module, launch, options=EmulatorOptions(max_instructions=1))
    assert refused.value.diagnostics[0].code in ("PW410", "PW411")


@pytest.mark.parametrize(
    ("move", "shape", "kind", "executed"),
    [
        ("ldmatrix", "m8n8", "b16", True),
        ("ldmatrix", "m16n16", "b8", True),
        ("ldmatrix", "m16n16", "b8x16.b6x16_p32", False),
        ("ldmatrix", "m16n16", "b8x16.b4x16_p64", False),
        ("ldmatrix", "m8n16", "b8x16.b6x16_p32", False),
        ("ldmatrix", "m8n16", "b8x16.b4x16_p64", False),
        ("stmatrix", "m8n8", "b16", True),
        ("stmatrix", "m16n8", "b8", False),
    ],
)
def test_shapes_of_matrix_moves(move: str, shape: str, kind: str, executed: bool) -> None:
    """Every shape and type of the ISA: counted all, executed some."""
    trans = "" if shape == "m8n16" else ".trans"
    vector = "{%r0, %r1}" if shape == "m16n16" else "{%r0}"
    operands = f"{vector}, [%a]" if move == "ldmatrix" else f"[%a], {vector}"
    text = f"{HEAD}{move}.sync.aligned.{shape}.x1{trans}.shared.{kind} {operands};\nret;\n}}\n"
    (instruction, _) = parse_text(text).kernels[0].instructions
    assert accesses_of(instruction)
    try:
        form_of(instruction)
    except Unsupported:
        assert not executed
    else:
        assert executed


def test_the_page_lists_them() -> None:
    page = PAGE.read_text(encoding="utf-8").partition("## Counted without a run")[2]
    named = set(re.findall(r"`([^`]+)`", page.partition("\n## ")[0]))
    assert named >= OPCODES_COUNTED
    assert named >= {".b128", ".s4", ".b1", "b6x16_p32", "b4x16_p64", "m16n8"}


def test_multimem_has_no_time_without_a_row() -> None:
    """A multimem address stands for memory of several devices (PTX ISA, multimem)."""
    for statement in (
        "multimem.st.relaxed.sys.global.f32 [%d1], %f1;",
        "multimem.red.relaxed.sys.global.add.f32 [%d1], %f1;",
        "multimem.ld_reduce.relaxed.sys.global.add.f32 %f0, [%d1];",
    ):
        kernel = parse_text(f"{HEAD}{statement}\nret;\n}}\n").kernels[0]
        assert accesses_of(kernel.instructions[0]) == ()
        for name in machine_names():
            on = replace(load_machine(name, None), compute_capability=None)
            with pytest.raises(PtxwcetError, match="several devices"):
                analyse_kernel(kernel, Launch((32, 1, 1)), on)
