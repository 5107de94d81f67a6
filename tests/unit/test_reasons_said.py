"""Reasons that are given are the reasons: of estimates, of bounds not given, of barriers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from programs import run_program

from ptxwcet.claims import Assumption, AssumptionState, Guarantee, TimingClaim
from ptxwcet.opened.budgets import too_weak

pytestmark = pytest.mark.fast

ROOT = Path(__file__).parents[2]
SAMPLE = str(ROOT / "samples" / "saxpy.ptx")
FACTS = ("--block", "256", "--grid", "4", "--param", "n=1000")
STRIDED = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p)
{
.reg .b32 %r<3>; .reg .b64 %d<4>;
ld.param.u64 %d0, [p]; mov.u32 %r0, %tid.x; mul.wide.u32 %d1, %r0, 128;
add.u64 %d2, %d0, %d1; st.global.u32 [%d2], %r0;
ret;
}
"""


@pytest.mark.parametrize("machine", ["titan-v", "jetson-agx-orin", "orin-ecrts2025-hazard"])
def test_an_estimate_names_what_is_doubtful_and_nothing_else(machine: str) -> None:
    ended = run_program("bound", SAMPLE, *FACTS, "--machine", machine, "--require", "safe-bound")
    assert "error[PW521]" in ended.err
    (note,) = [line for line in ended.err.splitlines() if line.strip().startswith("note: ")]
    keys = note.partition("doubtful on this machine: ")[2].split(", ")
    text = run_program("bound", SAMPLE, *FACTS, "--machine", machine, "--format", "json").out
    rows = json.loads(text)["kernels"][0]["assumptions"]
    assert keys == [row["key"] for row in rows if row["state"] == "doubtful"] != []


def test_an_estimate_of_a_method_names_the_method() -> None:
    alone = Assumption("alone-on-its-sm", "alone", AssumptionState.ASSUMED)
    claim = TimingClaim(7, Guarantee.ESTIMATE, "gub", (alone,))
    problem = too_weak(claim, Guarantee.SAFE_BOUND, "kernel k")
    assert problem is not None
    assert problem.notes == ("what the method gub gives is an estimate",)


@pytest.mark.parametrize(
    ("machine", "reason"),
    [
        ("orin-ecrts2025-memory", "some instructions are charged the most that they may take"),
        (
            "orin-ecrts2025-hazard",
            "the timings of machine orin-ecrts2025-hazard are upper bounds",
        ),
    ],
)
def test_no_lower_bound_for_the_reason_that_is_said(
    machine: str, reason: str, tmp_path: Path
) -> None:
    kernel = tmp_path / "k.ptx"
    kernel.write_text(STRIDED)
    ended = run_program("bound", kernel, "--block", "32", "--machine", machine, "--details")
    assert f"not given: {reason}" in ended.out


def test_a_barrier_of_the_cluster_is_said_to_wait_for_other_blocks() -> None:
    kernel = ROOT / "tests" / "data" / "faults" / "b32_cluster.ptx"
    ended = run_program("bound", kernel, "--block", "64")
    assert (
        "error[PW223]: barrier.cluster.arrive.aligned is of the barrier of the whole" in ended.err
    )
    assert "other blocks" in ended.err
    assert "does not wait for all warps" not in ended.err


COUNTED = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p)
{
.reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<3>;
ld.param.u64 %d0, [p]; ld.global.TYPE %r1, [%d0]; mov.u32 %r2, 0;
L:
setp.ge.u32 %p1, %r2, %r1;
@%p1 bra E;
add.u32 %r2, %r2, STEP;
bra L;
E:
ret;
}
"""


@pytest.mark.parametrize(
    ("kind", "step", "is_said"), [("u16", 1, True), ("u8", 1, False), ("u16", 2, True)]
)
def test_a_loop_that_only_a_type_limits_says_what_would_help(
    kind: str, step: int, is_said: bool, tmp_path: Path
) -> None:
    kernel = tmp_path / "k.ptx"
    kernel.write_text(COUNTED.replace("TYPE", kind).replace("STEP", str(step)))
    out = run_program("bound", kernel, "--block", "32").out
    assert "certificate: " in out or not is_said
    assert ("no more than a type limits: if data say less, --loop-bound L=" in out) == is_said
    helped = run_program("bound", kernel, "--block", "32", "--loop-bound", "L=200").out
    assert "a type limits" not in helped
    assert "200  user" in helped
