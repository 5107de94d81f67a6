"""Types and modifiers told apart, and what rules that know only operands are kept from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from parsing import parse_kernel

from ptxwcet.flow.shapes.domain import LaneDomain
from ptxwcet.flow.shapes.pattern import Agreement, Pattern, agreement_on, alike, one_pattern
from ptxwcet.flow.shapes.results import RegisterValues
from ptxwcet.flow.values.operands import instruction_type
from ptxwcet.flow.values.transfer import compile_transfer
from ptxwcet.flow.values.value import Unknown
from ptxwcet.ir.kernel import Instruction, Kernel
from ptxwcet.ir.operation import NumberKind, NumberType, number_type, operation_of

pytestmark = pytest.mark.fast

HEAD = (
    ".version 9.0\n.target sm_100a\n.address_size 64\n.const .align 8 .b32 table[2];\n"
    ".visible .entry k()\n{\n"
    ".reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %d<9>;\n"
)


def parsed(statement: str) -> tuple[Instruction, Kernel]:
    kernel = parse_kernel(f"{HEAD}{statement}\nret;\n}}\n")
    return kernel.instructions[0], kernel


@pytest.mark.parametrize(
    ("word", "kind", "bits", "count", "is_integer"),
    [
        ("u32", NumberKind.UNSIGNED, 32, 1, True),
        ("s8", NumberKind.SIGNED, 8, 1, True),
        ("b64", NumberKind.BITS, 64, 1, True),
        ("u16x2", NumberKind.UNSIGNED, 16, 2, False),
        ("bf16", NumberKind.FLOAT, 16, 1, False),
        ("bf16x2", NumberKind.FLOAT, 16, 2, False),
        ("tf32", NumberKind.FLOAT, 32, 1, False),
        ("pred", NumberKind.PREDICATE, 1, 1, False),
    ],
)
def test_types(word: str, kind: NumberKind, bits: int, count: int, is_integer: bool) -> None:
    found = number_type(word)
    assert found == NumberType(kind, bits, count)
    assert found.is_integer is is_integer


def test_what_is_no_known_type_is_a_word() -> None:
    instruction, _ = parsed("cvt.rn.satfinite.e4m3x2.f32 %h0, %r1, %r2;")
    operation = operation_of(instruction.form)
    assert operation.words == ("rn", "satfinite", "e4m3x2")
    assert operation.types == (NumberType(NumberKind.FLOAT, 32),)


@pytest.mark.parametrize(
    ("statement", "bits"),
    [
        ("add.u32 %r0, %r1, %r2;", 32),
        ("and.pred %p0, %p1, %p2;", 1),
        ("cvt.u64.u32 %d0, %r1;", 32),
        ("cvt.rn.f32.s32 %r0, %r1;", None),
        ("add.bf16 %h0, %h1, %h2;", None),
        ("min.s16x2 %r0, %r1, %r2;", None),
    ],
)
def test_type_of_an_instruction_on_integers(statement: str, bits: int | None) -> None:
    found = instruction_type(parsed(statement)[0])
    assert (None if found is None else found.bits) == bits


def test_what_no_operand_names_counts_too() -> None:
    """A rule that would look at operands alone is not asked where more is read."""
    instruction, kernel = parsed("add.u32 %r0, %r1, %r2;")
    hidden = instruction._replace(form=replace(instruction.form, implicit_reads=("%r5",)))
    values = RegisterValues(kernel, {}, LaneDomain(32, one_pattern))
    values |= {"%r1": alike(Agreement.BLOCK), "%r2": (Pattern(np.arange(32)),), "%r5": None}
    (lanes,) = values.results(instruction)
    assert lanes is not None, "a sum of what is known, lane by lane"
    assert values.results(hidden) == (None,)
    values["%r2"] = alike(Agreement.BLOCK)
    assert agreement_on(*values.results(instruction)) is Agreement.BLOCK
    assert values.results(hidden) == (None,)
    (value,) = compile_transfer(hidden, 0, kernel.registers)(None)  # type: ignore[arg-type]
    assert isinstance(value, Unknown), "it does not even look at the state"


@pytest.mark.parametrize(
    "statement",
    [
        "setp.eq.s32 %p1|%p1, %r1, 3;",
        "ld.const.v2.u32 {%r1, %r1}, [table];",
        "mov.b64 {%r1, %r1}, %d1;",
    ],
)
def test_one_register_for_two_results_is_unknown(statement: str) -> None:
    """ptxas takes it; nothing says which result the register receives."""
    instruction, kernel = parsed(statement)
    assert len(instruction.writes) == 1
    (value,) = compile_transfer(instruction, 0, kernel.registers)(None)  # type: ignore[arg-type]
    assert isinstance(value, Unknown)
