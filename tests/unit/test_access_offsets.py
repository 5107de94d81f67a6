"""Accesses that differ in their offset alone, as those of an unrolled loop: each is counted where
it lies, though those that an alignment lies between are looked at once.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import ptxwcet.pipeline
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.memory.analysis import AnalysedAccess, KernelAccesses, analyse_accesses
from ptxwcet.opened.opening import open_request
from ptxwcet.opened.request import Request
from ptxwcet.timing.launch_costs import kernel_accesses

pytestmark = pytest.mark.fast

SAMPLES = Path(__file__).parents[2] / "samples"
OFFSETS = (0, 4, 16, 28, 128, 132, 252, 256, 260, 1024, 1040, -4, -256, 1 << 20)

KERNEL = """
.version 8.5
.target sm_80
.address_size 64
.visible .entry k(.param .u64 .ptr p)
{{
    .reg .b32 %r<9>;
    .reg .b64 %rd<9>;
    .reg .f32 %f<9>;
    ld.param.u64 %rd1, [p];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, {stride};
    add.s64 %rd3, %rd1, %rd2;
{loads}
    ret;
}}
"""


def _accesses(stride: int, parameters: tuple[str, ...] = ()) -> list[AnalysedAccess]:
    loads = "\n".join(f"    ld.global.f32 %f1, [%rd3+{offset}];" for offset in OFFSETS)
    text = KERNEL.format(stride=stride, loads=loads)
    opened = open_request(Request("k.ptx", block="64", text=text, parameters=parameters))
    (kernel,) = opened.kernels
    found = kernel_accesses(kernel, opened.launch_of(kernel))
    return [each for each in found.accesses if each.access.space.value == "global"]


def _touched(start: int, stride: int, size: int) -> int:
    return len({(start + stride * lane) // size for lane in range(32)})


@pytest.mark.parametrize("stride", [4, 12, 32, 36, 0])
@pytest.mark.parametrize("align", [4, 16, 64, 256])
def test_each_offset_is_counted_where_it_lies(stride: int, align: int) -> None:
    accesses = _accesses(stride, (f"p=align:{align}",))
    for offset, analysed in zip(OFFSETS, accesses, strict=True):
        starts = [base + offset + 32 * stride for base in range(0, 1024, align)]
        sectors = {_touched(start, stride, 32) for start in starts}
        lines = {_touched(start, stride, 128) for start in starts}
        assert analysed.most.sectors == max(sectors), offset
        assert analysed.most.lines == max(lines), offset
        assert analysed.exact == (len(sectors) == 1 and len(lines) == 1), offset


def test_trials_without_the_grid_take_the_accesses_of_the_launch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[KernelAccesses] = []

    def counted(*arguments: object) -> KernelAccesses:
        calls.append(analyse_accesses(*arguments))  # type: ignore[arg-type]
        return calls[-1]

    monkeypatch.setattr(ptxwcet.pipeline, "analyse_accesses", counted)
    launch = SAMPLES / "launches" / "vector_add.toml"
    assert bound_file(Request(str(SAMPLES / "vector_add.ptx"), launch_file=str(launch))).answered
    assert len(calls) == 1


HIGH = """
.version 8.5
.target sm_80
.address_size 64
.visible .entry k(.param .u64 .ptr p, .param .u64 n)
{{
    .reg .b32 %r<9>;
    .reg .b64 %rd<9>;
    ld.param.u64 %rd1, [p];
    ld.param.u64 %rd2, [n];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 8;
    shl.b64 %rd4, %rd2, 8;
    {join} %rd5, %rd3, %rd4;
    mul.hi.u64 %rd6, %rd5, {factor};
    shl.b64 %rd7, %rd6, 6;
    add.s64 %rd8, %rd1, %rd7;
    st.global.u32 [%rd8], %r1;
    ret;
}}
"""


@pytest.mark.parametrize(
    ("join", "factor"), [("add.s64", 1 << 62), ("or.b64", 1 << 62), ("add.s64", 3 << 61)]
)
def test_the_high_half_of_a_product_differs_where_the_low_half_does_not(
    join: str, factor: int
) -> None:
    """8 tid * 2**62 is 0 modulo 2**64, and 2 tid above: 128 bytes from lane to lane."""
    text = HIGH.format(join=join, factor=factor)
    opened = open_request(Request("k.ptx", block="32", text=text))
    (kernel,) = opened.kernels
    found = kernel_accesses(kernel, opened.launch_of(kernel))
    (store,) = (each for each in found.accesses if each.access.space.value == "global")
    touched = {(8 * lane * factor >> 64 << 6) // 32 for lane in range(32)}
    assert store.most.sectors >= len(touched) == 32
