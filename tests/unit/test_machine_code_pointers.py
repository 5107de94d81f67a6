"""Which pointers addresses of machine code are made of, and what it moves of a thread's memory."""

from __future__ import annotations

import pytest

from ptxwcet.bounds.wishes import Spills
from ptxwcet.flow.values.arrays import origins_of_pointers
from ptxwcet.ir.kernel import Kernel
from ptxwcet.ir.operands import Address, Register
from ptxwcet.opened.whole_launch import local_memory
from ptxwcet.sass.lowering import read_program
from ptxwcet.sass.translation import translated
from ptxwcet.support.source import SourceFile

pytestmark = pytest.mark.fast

HEAD = """.target sm_86
.disassembler 13.5.37
.section k
.registers 16
.shared 0
.local 0
.parameters 0x160
.parameter 0x0 8
.parameter 0x8 8
.kernel k
"""
FIRST = "MOV R4, c[0x0][0x160]; MOV R5, c[0x0][0x164]; "
ADDED = (
    "LEA R2, P0, R4, c[0x0][0x168], {amount}; "
    "LEA.HI.X R3, R4, c[0x0][0x16c], R5, {amount}, P0; LDG.E R6, [R2.64]"
)


def made_of(code: str) -> Kernel:
    """The kernel with these instructions, in the words that analyses know."""
    words = "000fc400078e00ff000000ff00037202"
    text, address = "", 0
    for line in (*code.split("; "), "EXIT"):
        is_label = line.endswith(":")
        text += f"{line}\n" if is_label else f"/*{address:04x}*/ {line} ; /* {words} */\n"
        address += 0 if is_label else 16
    (kernel,) = read_program(SourceFile("k.cubin", HEAD + text)).kernels
    made: Kernel = translated(kernel)
    return made


def origins(code: str) -> frozenset[str]:
    """What the address of the one load is made of: parameters, and "" for anything."""
    made = made_of(code)
    bases = [
        operand.base.name
        for one in made.instructions
        if one.mnemonic == "LDG.E"
        for operand in one.operands
        if isinstance(operand, Address) and isinstance(operand.base, Register)
    ]
    return origins_of_pointers(made, set(bases))[bases[0]]


def test_a_pointer_with_a_number_added_leads_to_its_array() -> None:
    code = "S2R R4, SR_TID.X; MOV R5, RZ; " + ADDED.format(amount="0x2")
    assert origins(code) == {"k_param_1"}


def test_a_pointer_that_is_shifted_by_nothing_is_still_one() -> None:
    found = origins(FIRST + ADDED.format(amount="0x0"))
    assert "" in found or found == {"k_param_0", "k_param_1"}
    assert found != {"k_param_1"}


@pytest.mark.parametrize(
    ("other", "expected"), [(0, {"k_param_0"}), (8, {"k_param_0", "k_param_1"})]
)
def test_a_pointer_that_becomes_another_one_in_a_loop(other: int, expected: set[str]) -> None:
    """The load is before the instructions that give its pointer for the next iteration."""
    code = (
        f"{FIRST}.L:; IADD3 R2, P0, R4, 0x4, RZ; IADD3.X R3, R5, RZ, RZ, P0, !PT; "
        f"LDG.E R6, [R2.64]; MOV R4, c[0x0][{0x160 + other:#x}]; "
        f"MOV R5, c[0x0][{0x164 + other:#x}]; ISETP.LT.AND P1, PT, R6, 0x5, PT; @P1 BRA `(.L)"
    )
    assert origins(code) == expected


def test_local_memory_is_counted_by_instructions_and_their_widths() -> None:
    """Shared and global memory are none of it."""
    code = "STL [R1], R2; STL.128 [R1+0x10], R4; LDL.64 R2, [R1]; LDL.U8 R4, [R1+0x3]; STS [R2], R4"
    assert local_memory(made_of(code)) == Spills(4 + 16, 8 + 1)
    assert local_memory(made_of("LDG.E R6, [R2.64]; STS [R2], R4")) == Spills(0, 0)
