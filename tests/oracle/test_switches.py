"""Indexed branches: executions lie within the analysed paths and bounds, whatever the index."""

from __future__ import annotations

import numpy as np
import pytest
from parsing import parse_kernel
from refusals import refusal_of

from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.emulator.launch import EmulatedLaunch
from ptxwcet.flow.launch import Launch
from ptxwcet.machine.loader import load_machine
from ptxwcet.pipeline import analyse_kernel
from ptxwcet.ptx.parser import parse_module
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.validate.inputs import validate_input

MACHINE = load_machine("orin-ecrts2025")
KERNEL = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 data, .param .u32 n)
{
.reg .b32 %r<9>; .reg .b64 %d<4>; .reg .pred %p<4>;
ld.param.u64 %d1, [data];
ld.param.u32 %r1, [n];
mov.u32 %r2, %tid.x;
mul.wide.u32 %d2, %r2, 4;
add.s64 %d2, %d1, %d2;
ld.global.u32 %r6, [%d2];
INDEX
mov.u32 %r4, 0;
mov.u32 %r5, 0;
LOOP:
$table: .branchtargets $a, $b, $c, $a;
brx.idx %r3, $table;
$a: add.u32 %r4, %r4, 1; bra OUT;
$b: add.u32 %r4, %r4, 2; mul.lo.u32 %r4, %r4, 3; BARRIER bra OUT;
$c: add.u32 %r4, %r4, 5; BARRIER
OUT:
add.u32 %r5, %r5, 1;
setp.lt.u32 %p1, %r5, 3;
@%p1 bra LOOP;
st.global.u32 [%d2], %r4;
ret;
}
"""
INDICES = {
    "loaded": "and.b32 %r3, %r6, 3;",
    "lane": "and.b32 %r3, %r2, 3;",
    "warp": "shr.u32 %r3, %r2, 5;",
    "parameter": "and.b32 %r3, %r1, 3;",
    "outside": "add.u32 %r3, %r2, 4;",
}


def analysed(index: str, barrier: str = "", n: int | None = None) -> KernelAnalysis:
    text = KERNEL.replace("INDEX", INDICES[index]).replace("BARRIER", barrier)
    kernel = parse_kernel(text)
    parameters = {} if n is None else {"n": n}
    return analyse_kernel(kernel, Launch((64, 1, 1), (1, 1, 1), parameters), MACHINE)


@pytest.mark.parametrize("index", ["loaded", "lane", "warp", "parameter"])
@pytest.mark.parametrize("n", [None, 2])
def test_executions_lie_within_the_analysis(index: str, n: int | None) -> None:
    analysis = analysed(index, n=n)
    module = parse_module(analysis.kernel.span.source)
    for seed in range(4):
        words = np.random.default_rng(seed).integers(0, 100, 64).astype("u4")
        value = seed if n is None else n
        launch = EmulatedLaunch((64, 1, 1), (1, 1, 1), (words, value))
        assert not validate_input(analysis, module, launch, seed).diagnostics


def test_a_known_index_has_one_way() -> None:
    cycles = [analysed("parameter", n=n).worst.bound.cycles for n in (0, 1, 2, 3)]
    open_index = analysed("parameter").worst.bound.cycles
    assert cycles[0] == cycles[3] < cycles[1]
    assert cycles[2] < cycles[1] <= open_index
    assert analysed("warp").worst.bound.cycles < analysed("lane").worst.bound.cycles


def test_a_parameter_may_choose_the_barriers_of_the_block() -> None:
    cycles = [analysed("parameter", "bar.sync 0;", n).worst.bound.cycles for n in (0, 1, 2)]
    with pytest.raises(PtxwcetError) as raised:  # an iteration may meet no barrier
        analysed("parameter", "bar.sync 0;")
    assert raised.value.diagnostics[0].code == "PW501"
    assert min(cycles) > 0


@pytest.mark.parametrize(
    ("index", "barrier", "code"),
    [
        ("loaded", "bar.sync 0;", "PW222"),
        ("lane", "bar.sync 0;", "PW222"),
        ("outside", "", "PW221"),
    ],
)
def test_refusals(index: str, barrier: str, code: str) -> None:
    assert refusal_of(analysed, index, barrier).code == code
