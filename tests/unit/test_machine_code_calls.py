"""Calls of machine code of which it is not proved that they return."""

from __future__ import annotations

import pytest

from ptxwcet.ir.kernel import UnreadKernel
from ptxwcet.sass.lowering import read_program
from ptxwcet.sass.translation import translated_program
from ptxwcet.support.source import SourceFile

pytestmark = pytest.mark.fast

HEAD = """.target sm_86
.disassembler 13.5.37
.section k
.registers 32
.shared 0
.local 0
.parameters 0x160
"""
CODE = {
    ".kernel k": "MOV R20, 0x20; CALL.REL.NOINC `(f); EXIT",
    ".function f": "MOV R22, 0x50; CALL.REL.NOINC `(g); MOV R4, R20; MOV R5, 0x0; "
    "RET.REL.NODEC R4 `(k)",
    ".function g": "MOV {written}, 0x7; MOV R6, R22; MOV R7, 0x0; RET.REL.NODEC R6 `(f)",
}


def read(written: str) -> object:
    """The kernel, whose innermost function writes a register."""
    text, address = HEAD, 0
    for head, code in CODE.items():
        text += f"{head}\n"
        for line in code.format(written=written).split("; "):
            text += f"/*{address:04x}*/ {line} ; /* 000fc400078e00ff000000ff00037202 */\n"
            address += 16
    (kernel,) = translated_program(read_program(SourceFile("k.cubin", text))).kernels
    return kernel


def test_functions_in_functions_are_copied() -> None:
    assert not isinstance(read("R9"), UnreadKernel)


@pytest.mark.parametrize("register", ["R20", "R22"])
def test_no_function_writes_what_a_caller_returns_by(register: str) -> None:
    kernel = read(register)
    assert isinstance(kernel, UnreadKernel)
    assert f"writes {register}" in kernel.failure.message
