"""One more true fact raises neither the bound of a block nor that of its launch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from answers import only_answer, only_refusal
from places import DATA

from ptxwcet.bounds.launch_bound import LaunchBound
from ptxwcet.commands.bound.build import build_report
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.commands.bound.text import render_text
from ptxwcet.opened.request import Request

pytestmark = pytest.mark.fast

FAULTS = DATA / "faults"
MONO = Request(str(FAULTS / "mono.ptx"), block="16x3", grid="3x2x2", machine="orin-ecrts2025")
NESTED = Request(
    str(FAULTS / "true_fact_launch.ptx"),
    block="32",
    grid="1",
    parameters=("n=1..100",),
    loop_bounds=("3=10",),
)


def bounds(request: Request) -> tuple[int, int]:
    """Of a block, and of the launch."""
    row = only_answer(request)
    assert isinstance(row.launch_bound, LaunchBound)
    return row.worst.bound.cycles, row.launch_bound.claim.cycles


def said(request: Request) -> list[str]:
    """What the report says of values that facts exclude."""
    text = render_text(build_report(bound_file(request))).text
    return [line for line in text.splitlines() if "PW253" in line]


def test_a_value_of_a_parameter_raises_neither_bound() -> None:
    assert bounds(replace(MONO, parameters=("n=5",))) == bounds(MONO) == (150, 874)


def test_a_range_of_a_parameter_raises_neither_bound() -> None:
    more = replace(NESTED, parameters=("n=1..100", "m=1..100"))
    assert bounds(more) == bounds(NESTED) == (44_154, 44_154)


@pytest.mark.parametrize("n", ["n=5", "n=1..100"])
def test_a_bound_of_a_loop_cuts_a_range_and_says_so(n: str) -> None:
    """Values of m above 10 make more iterations than the user says."""
    both = bounds(replace(NESTED, parameters=(n, "m=1..10")))
    assert bounds(replace(NESTED, parameters=(n, "m=1..100"))) == both
    (line,) = set(said(replace(NESTED, parameters=(n, "m=1..100"))))
    assert "m in 11..100 (--loop-bound 3=10 says 10 iterations, but the loop runs 11)" in line
    assert not said(replace(NESTED, parameters=(n, "m=1..10")))


def test_a_bound_that_excludes_all_of_a_range_is_refused() -> None:
    row = only_refusal(replace(NESTED, parameters=("n=5", "m=11..100")))
    assert row.diagnostics[0].code == "PW217"


TILES = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u32 n)
{
.reg .b32 %r<5>; .reg .pred %p; .reg .f32 %f<2>;
ld.param.u32 %r1, [n];
add.u32 %r1, %r1, 63;
shr.u32 %r2, %r1, 6;
mov.u32 %r3, 0;
L: div.rn.f32 %f1, %f1, %f1;
add.u32 %r3, %r3, 1;
setp.lt.u32 %p, %r3, %r2;
@%p bra L;
ret;
}
"""


@pytest.mark.parametrize(("most", "excludes"), [(15, True), (16, False)])
def test_an_end_of_a_range_that_a_bound_excludes_is_named(
    most: int, excludes: bool, tmp_path: Path
) -> None:
    """Of 1,000 boxes in tiles of 64: the count is no affine function of the parameter."""
    file = tmp_path / "k.ptx"
    file.write_text(TILES)
    request = Request(str(file), block="64", parameters=("n=1..1000",), loop_bounds=(f"L={most}",))
    lines = said(request)
    assert bool(lines) == excludes
    assert all("n=1000 and perhaps others (--loop-bound L=15 says 15" in line for line in lines)


TRIANGLE = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 a)
{
.reg .b32 %r<9>; .reg .pred %p<5>; .reg .f32 %f<2>; .reg .b64 %d<3>;
ld.param.u64 %d1, [a];
mov.u32 %r1, 1;
O: mov.u32 %r2, 0;
I: div.rn.f32 %f1, %f1, %f1;
add.u32 %r2, %r2, 1;
setp.lt.u32 %p1, %r2, %r1;
@%p1 bra I;
BODY
add.u32 %r1, %r1, 1;
setp.le.u32 %p2, %r1, 100;
@%p2 bra O;
ret;
}
"""
LEAVES = """ld.global.u32 %r3, [%d1];
setp.eq.u32 %p3, %r3, 7;
@%p3 ret;
"""


def triangle(tmp_path: Path, body: str, *bounds: str) -> Request:
    file = tmp_path / "k.ptx"
    file.write_text(TRIANGLE.replace("BODY\n", body))
    return Request(str(file), block="32", loop_bounds=bounds, machine="orin-ecrts2025")


def test_a_bound_below_some_entries_of_a_nest_is_no_fact(tmp_path: Path) -> None:
    """The inner loop runs 1, 2, ... 100 times, in every run."""
    assert only_answer(triangle(tmp_path, "", "I=100"))
    assert only_refusal(triangle(tmp_path, "", "I=99")).diagnostics[0].code == "PW217"


@pytest.mark.parametrize("most", [10, 60, 99])
def test_a_bound_of_a_nest_that_data_leave_is_not_ignored(tmp_path: Path, most: int) -> None:
    """It is true of runs that return early."""
    whole = only_answer(triangle(tmp_path, LEAVES)).worst.bound.cycles
    cut = only_answer(triangle(tmp_path, LEAVES, f"I={most}")).worst.bound.cycles
    shorter = triangle(tmp_path, LEAVES, f"O={most}")
    assert only_answer(shorter).worst.bound.cycles <= cut <= whole
    assert cut < whole or most > 50
