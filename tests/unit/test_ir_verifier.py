"""The verifier: silent on what the parser makes, and each invariant can be broken and is found."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import pytest
from parsing import parse_kernel

from ptxwcet.ir.kernel import Instruction, Kernel, LabelDefinition, ScopeBegin, ScopeEnd
from ptxwcet.ir.op_classes import ControlEffect, OpClass
from ptxwcet.ir.verifier import verify_kernel

pytestmark = pytest.mark.fast

TEXT = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 P0)
{
.reg .pred %p<9>; .reg .b32 %r<20>; .reg .b64 %rd<20>;
T: .branchtargets A, B;
A: ld.global.v2.b32 {%r1, %r2}, [%rd1];
{ .reg .b32 t; @%p1 add.s32 t, %r1, %r2; }
B: @%p2 bra A;
brx.idx %r1, T;
}
"""


@pytest.fixture
def kernel() -> Kernel:
    return parse_kernel(TEXT)


def messages(kernel: Kernel) -> str:
    return "; ".join(diagnostic.message for diagnostic in verify_kernel(kernel))


def changed(kernel: Kernel, index: int, **fields: object) -> Kernel:
    instructions = list(kernel.instructions)
    instructions[index] = instructions[index]._replace(**fields)
    return replace(kernel, instructions=tuple(instructions))


def with_form(kernel: Kernel, index: int, **fields: object) -> Kernel:
    return changed(kernel, index, form=replace(kernel.instructions[index].form, **fields))


def test_the_parsers_kernel_is_clean(kernel: Kernel) -> None:
    assert verify_kernel(kernel) == ()
    assert [instruction.mnemonic for instruction in kernel.instructions] == [
        "ld.global.v2.b32",
        "add.s32",
        "bra",
        "brx.idx",
    ]


def test_extents(kernel: Kernel) -> None:
    assert "out of place" in messages(changed(kernel, 1, start=0))
    assert "out of place" in messages(changed(kernel, 1, end=10**6))
    first, second, *rest = kernel.instructions
    assert "out of place" in messages(replace(kernel, instructions=(second, first, *rest)))


def test_labels(kernel: Kernel) -> None:
    far = MappingProxyType({**kernel.labels, "A": 5})
    assert "outside the kernel" in messages(replace(kernel, labels=far))
    moved = MappingProxyType({**kernel.labels, "A": 1})
    assert "label definitions" in messages(replace(kernel, labels=moved))
    body = (*kernel.body, (4, LabelDefinition("Z", "Z")))
    assert "label definitions" in messages(replace(kernel, body=body))


def test_registers(kernel: Kernel) -> None:
    types = MappingProxyType({k: v for k, v in kernel.registers.items() if k != "t@1"})
    assert "t@1 is not declared" in messages(replace(kernel, registers=types))
    types = MappingProxyType({**kernel.registers, "%p1": "b32"})
    assert "no predicate" in messages(replace(kernel, registers=types))


def test_targets(kernel: Kernel) -> None:
    assert "does not exist" in messages(changed(kernel, 2, targets=("Z",)))
    assert "one target" in messages(changed(kernel, 2, targets=()))
    assert "branch table" in messages(changed(kernel, 3, targets=("A",)))
    assert "no branch" in messages(changed(kernel, 0, targets=("A",)))
    tables = MappingProxyType({"T": ("A", "Z")})
    assert "table T holds a label" in messages(replace(kernel, branch_tables=tables))


def test_roles(kernel: Kernel) -> None:
    assert "differ from the operands" in messages(with_form(kernel, 0, write_slots=(0,)))
    assert "differ from the operands" in messages(with_form(kernel, 1, implicit_reads=("x",)))
    load = kernel.instructions[0]
    swapped = with_form(kernel, 0, read_slots=(), write_slots=(0, 1, 2))
    assert set(swapped.instructions[0].writes) == {*load.reads, *load.writes}
    assert "address register is not read" in messages(swapped)


def test_rows(kernel: Kernel) -> None:
    assert "no op class" in messages(with_form(kernel, 0, op_class=None))
    assert "has effects" in messages(with_form(kernel, 0, opcode=None))
    unknown = with_form(kernel, 1, opcode=None, op_class=None)
    assert verify_kernel(unknown) == ()
    calling = with_form(kernel, 3, control=ControlEffect.CALL, op_class=OpClass.CALL)
    assert "targets of an instruction that is no branch" in messages(calling)


def test_body(kernel: Kernel) -> None:
    assert "out of order" in messages(replace(kernel, body=kernel.body[::-1]))
    unbalanced = tuple(entry for entry in kernel.body if not isinstance(entry[1], ScopeEnd))
    assert "not closed" in messages(replace(kernel, body=unbalanced))
    unopened = tuple(entry for entry in kernel.body if not isinstance(entry[1], ScopeBegin))
    assert "not opened" in messages(replace(kernel, body=unopened))
    renumbered = tuple(
        (index, ScopeBegin(7) if isinstance(item, ScopeBegin) else item)
        for index, item in kernel.body
    )
    assert "scope 7 opens as number 1" in messages(replace(kernel, body=renumbered))


def test_an_instruction_is_small(kernel: Kernel) -> None:
    assert isinstance(kernel.instructions[0], Instruction)
    assert isinstance(kernel.instructions[0], tuple)
