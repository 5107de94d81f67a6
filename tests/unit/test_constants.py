"""Constants have the values that ptxas folds them to, in every spelling and context.

The values of the table were read from cubins of ptxas 13.0; ``test_ptxas_folding.py`` compares
random ones where there is a ptxas.
"""

from __future__ import annotations

import pytest
from parsing import parse_text

from ptxwcet.ir.kernel import Immediate
from ptxwcet.ir.operands import Address
from ptxwcet.ptx.grammar import parse_rule
from ptxwcet.ptx.literals import LiteralError, evaluate
from ptxwcet.support.diagnostics import PtxwcetError

pytestmark = pytest.mark.fast

HEAD = """.version 8.5
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p)
{
.reg .b64 %r<9>; .reg .b32 %w<9>; .reg .f64 %d<9>; .reg .f32 %f<9>;
"""
MASK = (1 << 64) - 1

FOLDED = [
    ("-(5)", -5), ("-((5))", -5), ("-(5U)", -5), ("-\n5", -5), ("- -5", 5), ("5--3", 8),
    ("-(-5)", 5), ("(5)", 5), ("+-5", -5), ("~-5", 4), ("-~5", 6), ("!-5", 0), ("!0", 1),
    ("(-1 < 1U) ? 3 : 1000", 1000), ("(~0 > 5) ? 1000 : 3", 1000), ("-1 <= 0U", 0),
    ("-1 / 4611686018427387904U", 3), ("-1 % 1000U", 615), ("-1 % 1000", 615), ("-7 % 2", 1),
    ("-7 / 2", -3), ("-7/2U", 9223372036854775804), ("7/-2U", 0), ("-7 % -2", -7), ("7 % -2", 7),
    ("1<<64", 1), ("1<<-1", 1 << 63), ("1<<200", 256), ("-1>>1", -1), ("-1U>>1", (1 << 63) - 1),
    ("~0>>60", 15), ("(-1)>>60", -1), ("(1 << 2U) > -1", 1), ("(1U << 2) > -1", 0),
    ("WARP_SZ*2", 64), ("(.s64) -1 < 1U", 0), ("(.s64)(-1U) < 1", 1), ("(.u64)-1 < 1", 0),
    ("18446744073709551615", -1), ("9223372036854775808 > -1", 0), ("0b101", 5), ("0B11", 3),
    ("-9223372036854775808 < 0", 0), ("9223372036854775807+1 < 0", 1), ("017", 15), ("0X1F", 31),
    ("-1 == 18446744073709551615U", 1), ("2+3*4", 14), ("1|2^3&4", 3), ("1==2<3", 1),
    ("0?1:0?2:3", 3), ("1+2<<3", 24), ("(-9223372036854775808)/(-1)", 0), ("5||0", 1),
    ("9223372036854775807*2", -2), ("4294967296*4294967296", 0), ("1.5 < 2.0", 1), ("~!5", -1),
    ("(-1 + 0) < 0", 1), ("(-1U) < 0", 0), ("(!0U-2) < 0", 1), ("(-8 / 2) < 0", 1),
]  # fmt: skip

WITHOUT_VALUE = [
    "1/0", "1 % 0", "0 && (1/0)", "1 ? 2 : 1/0", "1.5+1", "1 == 1.0", "1 && 2.0", "!1.5", "~1.5",
    "1 ? 1.5 : 2.5", "(.s64)1.5", "1.0/0.0", "1e400", "1e-400", "1e-310", "1.5 & 1.5",
    "(-1 & -1) < 0", "(-1 | 0) < 0", "(-1 ^ 0) < 0", "(-3 % -2) < 0", "(1 ? -1 : 1U) < 0",
]  # fmt: skip
"""ptxas refuses them, or the manual's table says something else than ptxas does."""


def immediates(body: str) -> list[object]:
    module = parse_text(HEAD + body + "\nret; }")
    return [one.operands[-1] for one in module.kernels[0].instructions[:-1]]


@pytest.mark.parametrize(("text", "value"), FOLDED)
def test_folded(text: str, value: int) -> None:
    assert (evaluate(parse_rule(text, "operands").children[0]) - value) & MASK == 0


@pytest.mark.parametrize("text", WITHOUT_VALUE)
def test_no_value(text: str) -> None:
    with pytest.raises(LiteralError):
        evaluate(parse_rule(text, "operands").children[0])


def test_values_of_operands_whatever_stood_before() -> None:
    """A statement's value does not depend on statements of like shapes before or behind it."""
    texts = [text for text, _ in FOLDED if "%" not in text and "." not in text.replace("(.", "")]
    wanted = [value for text, value in FOLDED if text in texts]
    texts += ["5", "-5", "- 5", "-\t5", "-(5)", "(-5)", "-( 5 )", "(5)", "-5U", "-(5U)", "5U"]
    wanted += [5, -5, -5, -5, -5, -5, -5, 5, -5, -5, 5]
    for order in (range(len(texts)), range(len(texts))[::-1]):
        body = "\n".join(f"add.s64 %r1, %r2, {texts[index]};" for index in order)
        for index, operand in zip(order, immediates(body), strict=True):
            assert isinstance(operand, Immediate)
            assert isinstance(operand.value, int)
            assert (operand.value - wanted[index]) & MASK == 0, texts[index]


def test_values_of_floats_and_offsets() -> None:
    body = """mov.f64 %d1, -(1.5); mov.f64 %d1, 1.5; mov.f64 %d1, -1.5; mov.f64 %d1, (1.5);
    mov.f64 %d1, -0d3FF0000000000000; mov.f64 %d1, 1.5 + 1.0; mov.f64 %d1, - -(2.0);"""
    values = [operand.value for operand in immediates(body)]  # type: ignore[attr-defined]
    assert values == [-1.5, 1.5, -1.5, 1.5, -1.0, 2.5, 2.0]
    offsets = ["8", "-8", "-(8)", "(-8)", "-(8U)", "0xFFFFFFFFFFFFFFF8", "3-11", "~7", "-+-8"]
    body = "".join(f"ld.global.u64 %r1, [%r2+{offset}];" for offset in offsets)
    for operand, wanted in zip(immediates(body), [8, *[-8] * 7, 8], strict=True):
        assert isinstance(operand, Address)
        assert operand.offset == wanted


@pytest.mark.parametrize("text", ["mov.f64 %d1, 0f3F800000;", "mov.f32 %f1, -0f3F800000;"])
def test_floats_that_mean_something_else(text: str) -> None:
    """Bits of a single for a double; ptxas does not take the second."""
    with pytest.raises(PtxwcetError):
        immediates(text)
