"""Long runs come to the last iteration that a bound allows, and see one that allows too few."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from fast_program import FastProgram
from long_runs import LongRuns, long_runs, shortened
from parsing import parse_kernel
from path_attack import attack, machine, most_visits

from ptxwcet.flow.launch import Launch
from ptxwcet.flow.walk.path import Path
from ptxwcet.ir.kernel import Kernel

HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 data, .param .u32 n)
{
.reg .b32 %r<9>; .reg .b64 %d<3>; .reg .f32 %f<3>; .reg .pred %p<3>;
ld.param.u64 %d1, [data];
mov.u32 %r1, 0;
"""
UNTIL_DATA = (
    HEAD
    + """ld.global.u32 %r2, [%d1];
min.u32 %r2, %r2, 5000;
LOOP:
ld.global.u32 %r3, [%d1+8];
setp.eq.u32 %p1, %r3, 7;
@%p1 bra DONE;
add.u32 %r1, %r1, 1;
setp.lt.u32 %p1, %r1, %r2;
@%p1 bra LOOP;
DONE:
ret;
}
"""
)
"""5,000 iterations if a number is large and others are never 7."""
STRAIGHT = HEAD + "ret;\n}\n"
OF_FLOATS = UNTIL_DATA.replace("LOOP:", "cvt.rzi.u32.f32 %r4, %f1;\nand.b32 %r5, %r4, 1;\nLOOP:")
WITH_BARRIER = UNTIL_DATA.replace("LOOP:", "bar.sync 0;\nLOOP:")
WITH_VOTE = UNTIL_DATA.replace("LOOP:", "bar.red.popc.u32 %r4, 0, %p2;\nLOOP:")


def run_long(text: str, threads: int = 1, seed: int = 3) -> LongRuns | None:
    kernel: Kernel = parse_kernel(text)
    launch = Launch((threads, 1, 1), (1, 1, 1))
    found = attack(kernel, launch, machine(), seed=seed, executions=1, steps=20)
    assert found.checker is not None
    return long_runs(kernel, launch, found.checker, seed=seed, most=60_000)


@pytest.mark.parametrize(
    ("text", "threads"), [(UNTIL_DATA, 1), (UNTIL_DATA, 33), (WITH_BARRIER, 33)]
)
def test_all_that_is_allowed_is_executed(text: str, threads: int) -> None:
    found = run_long(text, threads)
    assert found is not None
    assert (found.violation, found.executed, found.allowed) == (None, 5_000, 5_000)
    assert found.is_tight


def test_one_iteration_too_few_is_seen() -> None:
    def shorter(nodes: Path) -> dict[int, int]:
        return most_visits(shortened(nodes))

    with patch("path_attack.most_visits", shorter):
        found = run_long(UNTIL_DATA)
    assert found is not None
    assert found.violation is not None
    assert "5000 times, 4999 at most" in found.violation.text


class Longer(FastProgram):
    """Each block has ten thousand instructions more than it has."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.lengths = [length + 10_000 for length in self.lengths]


def test_a_bound_below_the_instructions_is_seen() -> None:
    with patch("long_runs.FastProgram", Longer):
        found = run_long(UNTIL_DATA)
    assert found is not None
    assert found.violation is not None
    assert found.violation.kind == "time"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (STRAIGHT, None),
        (WITH_VOTE, "exchanges of several warps"),
        (OF_FLOATS, "floating point"),
    ],
)
def test_what_is_not_run(text: str, expected: str | None) -> None:
    found = run_long(text, 33)
    assert (found and found.left_out) == expected
