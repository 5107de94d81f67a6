"""Initialisers of variables, against the bytes that ptxas 13.0 puts into a cubin."""

from __future__ import annotations

import pytest
from parsing import parse_text

from ptxwcet.emulator.layout import initial_bytes
from ptxwcet.support.diagnostics import PtxwcetError

pytestmark = pytest.mark.fast

BYTES = [
    (".u8 x[2][2] = {{1, 2}, {3}}", "01020300"), (".u8 x[2][2] = {{1}}", "01000000"),
    (".u8 x[4] = {}", "00000000"), (".u8 x = - 5", "fb"), (".u8 x = 3-4", "ff"),
    (".u8 x = 1U", "01"), (".u8 x = 300", "2c"), (".s8 x = -200", "38"), (".u8 x = -(5)", "fb"),
    (".v2 .u8 x = {1, 2}", "0102"), (".v2 .u8 x[2] = {{1, 2}, {3, 4}}", "01020304"),
    (".u8 x[] = {1, 2, 3}", "010203"), (".u8 x[][2] = {{1, 2}, {3, 4}}", "01020304"),
    (".u8 x[][2] = {{-(1), 2}, {3}}", "ff020300"), (".u8 x[0x2] = {1}", "0100"),
    (".u16 x = 0x12345", "4523"), (".u16 x = 017", "0f00"), (".u16 x = WARP_SZ*2", "4000"),
    (".u16 x[2] = {(-1 < 1U) ? 3 : 4, ~0 > 5}", "04000100"), (".f32 x = -(1.5)", "0000c0bf"),
    (".f32 x = 0d3FF8000000000000", "0000c03f"), (".f32 x = 1e39", "0000807f"),
    (".b32 x = 0f3F800000", "0000803f"), (".b32 x = 1.5", "0000c03f"),
    (".f64 x = -0d3FF0000000000000", "000000000000f0bf"), (".b64 x = 1.5", "000000000000f83f"),
    (".f32 x = 0fFF800001", "010080ff"), (".u8 x[2][2][2] = {{{1, 2}, {3}}}", "0102030000000000"),
]  # fmt: skip

REFUSED = [
    ".u8 x[2][2] = {{1}, {3, 4}}",  # ptxas puts the 3 behind the 1, C does not
    ".u8 x[2][2] = {1, 2, 3}", ".u8 x[2] = {1, 2, 3}", ".u8 x = {1}", ".f64 x = 0f3F800000",
    ".f32 x = 1", ".u32 x = 1.5", ".u64 x = x + 4", ".u64 x = generic(x)", ".u32 x = 1/0",
    ".b16 x = 1.5",
]  # fmt: skip


def bytes_of(declaration: str) -> bytes:
    (variable,) = parse_text(
        f".version 8.5\n.target sm_90\n.address_size 64\n.global {declaration};\n"
    ).variables
    return initial_bytes(variable)


@pytest.mark.parametrize(("declaration", "wanted"), BYTES)
def test_bytes(declaration: str, wanted: str) -> None:
    assert bytes_of(declaration).hex() == wanted


@pytest.mark.parametrize("declaration", REFUSED)
def test_refused(declaration: str) -> None:
    with pytest.raises(PtxwcetError):
        bytes_of(declaration)
