"""Effort is counted in steps: kernels that once took long end within a budget, with their code."""

from __future__ import annotations

from pathlib import Path

import pytest
from answers import only_refusal, with_steps
from places import ROOT

from ptxwcet.flow import flow_graph
from ptxwcet.flow.effort import Effort, TooMuchEffort
from ptxwcet.flow.flow_graph import MOST_SEARCH_STEPS
from ptxwcet.opened.request import Request

EFFORT = ROOT / "tests" / "data" / "effort"


# The last steps are counted that were too many: those of a block, or of one look at facts.
MORE = 1_000
SEARCH = MOST_SEARCH_STEPS + MORE


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("kernel", "block", "parameters", "code", "walking", "searching"),
    [
        ("counters.byte_counter", "32", (), "PW203", 300, 1_000),
        ("counters.byte_limit", "32", (), "bound", 3_000, 1_000),
        ("counters.short_beside_data", "32", (), "PW203", 1_000, 20_000),
        ("counters.short_until_data", "32", (), "PW203", 300, 5_000),
        ("hermitian.hermitian", "16x4", (), "PW203", 60_000, SEARCH),
        ("hermitian.hermitian", "16x4", ("n=1000",), "bound", 120_000, 50_000),
        ("hermitian.hermitian_rows", "64", (), "PW203", 20_000, SEARCH),
        (
            "hermitian.hermitian_rows",
            "64",
            ("n=1000", "from=0", "to=1000"),
            "bound",
            40_000,
            200_000,
        ),
    ],
)
def test_steps(
    kernel: str,
    block: str,
    parameters: tuple[str, ...],
    code: str,
    walking: int,
    searching: int,
) -> None:
    file, _, name = kernel.partition(".")
    path = str(EFFORT / f"{file}.ptx")
    found, walked, searched = with_steps(Request(path, (name,), block, parameters=parameters))
    assert found == code
    assert walked <= walking
    assert searched <= searching


@pytest.mark.parametrize("sample", ["naive", "cp_async", "double_buffered"])
def test_a_counter_that_its_limit_lets_wrap_around_never_ends(sample: str) -> None:
    """By hand: in steps of 32 the counter goes from 2**31 - 32 to -2**31, below any limit."""
    sizes = ("M=64", "N=64", "K=2147483647")
    path = str(ROOT / "samples" / f"sgemm_{sample}.ptx")
    found, walked, searched = with_steps(Request(path, block="16x16", parameters=sizes))
    assert found == "PW205"
    assert walked <= 300
    assert searched <= 20_000


def test_a_walk_that_is_given_up_names_its_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_graph, "MOST_WALK_STEPS", 5_000)
    monkeypatch.setattr(flow_graph, "MOST_STEPS_TOGETHER", 5_000)
    sizes = ("n=1000", "from=0", "to=1000")
    path = str(EFFORT / "hermitian.ptx")
    row = only_refusal(Request(path, ("hermitian_rows",), "64", parameters=sizes))
    assert row.diagnostics[0].code == "PW206"
    assert "--loop-bound '$L__BB1_" in str(row.diagnostics[0].help)


def test_a_budget_ends_what_it_was_given_for() -> None:
    effort = Effort(10)
    effort.spend(10)
    with pytest.raises(TooMuchEffort):
        effort.spend(1)
    assert effort.spent == 11


def test_registers_that_meet_count(tmp_path: Path) -> None:
    branches = "".join(
        f"setp.gt.f32 %p1, %f1, {number}.0; @%p1 bra L{number}; add.s32 %r0, %r0, 1; L{number}:\n"
        for number in range(20)
    )
    walked = []
    for registers in (1, 1_000):
        names = [f"%r{1 + number % registers}" for number in range(1_000)]
        moves = "".join(f"mov.u32 {name}, 1;\n" for name in names)
        sums = "".join(f"add.s32 %r0, %r0, {name};\n" for name in names)
        path = tmp_path / f"k{registers}.ptx"
        path.write_text(
            ".version 8.0\n.target sm_86\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n"
            ".reg .pred %p<2>; .reg .b32 %r<1001>; .reg .f32 %f<2>; .reg .b64 %rd<2>;\n"
            "ld.param.u64 %rd1, [p]; mov.u32 %r0, %tid.x; mul.wide.u32 %rd0, %r0, 4;\n"
            "add.s64 %rd1, %rd1, %rd0; ld.global.f32 %f1, [%rd1]; mov.u32 %r0, 0;\n"
            f"{moves}{branches}{sums}setp.lt.s32 %p1, %r0, 0; @%p1 bra E; E: ret;\n}}\n"
        )
        walked.append(with_steps(Request(str(path), block="32"))[1])
    assert walked[1] - walked[0] == 20 * (1_000 // 256)
