"""Kernels whose lanes part where a table of operations took them for alike: bounds hold or are
refused. Each file says in its source or in a word here which sentence was wrong.
"""

from __future__ import annotations

import pytest
from answers import only_answer, only_refusal
from places import CRASHES, UNSOUND

from ptxwcet.commands.bound.study import bound_file
from ptxwcet.opened.request import Request

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("file", "kernel", "launch", "executed_cycles"),
    [
        # a lane number is no constant, though its part that all lanes share is zero
        ("lane_shift", "k", "lane_shift.toml", 1972),
        # u16x2 and bf16 are no integers of one word
        ("packed_add", "k", "packed_add.toml", 3676),
        # the carry flag is read though no operand names it
        ("addc_asm", "k", "addc_asm.toml", 4152),
    ],
)
def test_bounds_cover_the_execution(
    file: str, kernel: str, launch: str, executed_cycles: int
) -> None:
    path = UNSOUND / f"{file}.ptx"
    request = Request(str(path), kernels=(kernel,), launch_file=str(UNSOUND / launch))
    analysis = only_answer(request)
    assert analysis.worst.bound.cycles >= executed_cycles


def test_a_barrier_on_one_side_of_a_carry_is_refused() -> None:
    path = UNSOUND / "addc_asm.ptx"
    parameters = ("lo=4294967280", "hi=0")
    request = Request(str(path), kernels=("barrier",), block="32", parameters=parameters)
    refused = only_refusal(request)
    assert {one.code for one in refused.diagnostics} == {"PW222"}


@pytest.mark.parametrize("name", ["carry_loop.ptx", "int128_crash.ptx"])
def test_loops_around_a_carry_are_answered(name: str) -> None:
    answer = bound_file(Request(str(CRASHES / name), block="32"))
    codes = {one.code for kernel in answer.refused for one in kernel.diagnostics}
    assert answer.answered or answer.refused
    assert not any(code.startswith("PW9") for code in codes), codes
