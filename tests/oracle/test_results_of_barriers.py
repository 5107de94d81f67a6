"""What ``bar.red`` writes is a value: paths, bounds, interpreter and emulator.

A register that was known before a reduction over the block is not known behind it, in a straight
line, on a side of a branch, around loops and under a guard.
"""

from __future__ import annotations

import numpy as np
import pytest
from isa_interpreter import Input, Machine, counts, execute, program_of
from parsing import parse_text
from path_attack import attack, machine
from refusals import refusal_of

from ptxwcet.emulator.execute import execute as emulate
from ptxwcet.emulator.launch import EmulatedLaunch, EmulatorOptions
from ptxwcet.flow.launch import Launch
from ptxwcet.ir.kernel import Kernel, Module
from ptxwcet.pipeline import analyse_kernel

FRAME = """.version 8.3
.target sm_90
.address_size 64
.visible .entry k(.param .u64 data, .param .u32 n)
{{
.reg .pred %p<8>;
.reg .b32 %r<10>;
.reg .b64 %d<3>;
.reg .b64 %own;
ld.param.u64 %own, [data];
mov.u32 %r1, %tid.x;
mad.wide.u32 %own, %r1, 64, %own;
mov.u32 %r2, 0;
setp.lt.u32 %p1, %r2, 1;
setp.gt.u32 %p2, %r2, 1;
{body}
st.global.u32 [%own], %r2;
ret;
}}
"""
LOOP = """L:
add.u32 %r2, %r2, 1;
{reduction}
setp.lt.and.u32 %p3, %r2, 9, {wanted};
@%p3 bra L;
"""
FAMILIES = ("bar", "bar.cta", "barrier", "barrier.cta")


def module_of(body: str) -> Module:
    return parse_text(FRAME.format(body=body))


def kernel_of(body: str) -> Kernel:
    return module_of(body).kernels[0]


def launch(threads: int = 40) -> Launch:
    return Launch((threads, 1, 1), (1, 1, 1), {"n": 3})


def problems(body: str, threads: int = 40) -> list[str]:
    found = attack(kernel_of(body), launch(threads), machine(), seed=1, executions=6, steps=90)
    return [one.text for one in found.violations]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "body",
    [
        # was true and is false: the loop ends at once, or the branch is not taken
        LOOP.format(reduction="{}.red.and.pred %p1, 0, !%p1;", wanted="%p1"),
        LOOP.format(reduction="{}.red.or.pred %p1, 0, !%p1;", wanted="%p1"),
        # was false and is true: the loop goes on
        LOOP.format(reduction="{}.red.or.pred %p2, 0, !%p2;", wanted="%p2"),
        LOOP.format(reduction="{}.red.or.pred %p2, 0, %p1;", wanted="%p2"),
        # a number of threads: a limit that was 0
        "mov.u32 %r4, 0;\n{}.red.popc.u32 %r4, 0, %p1;\nL:\nadd.u32 %r2, %r2, 1;\n"
        "setp.lt.u32 %p3, %r2, %r4;\n@%p3 bra L;",
        # under a guard that all threads have, and with the number of threads of the block
        LOOP.format(reduction="@%p1 {}.red.and.pred %p2, 0, %p1;", wanted="%p2"),
        LOOP.format(reduction="{}.red.and.pred %p2, 0, 64, %p1;", wanted="%p2"),
        # around a loop: the register is another one in each round
        "L:\nadd.u32 %r2, %r2, 1;\nsetp.lt.u32 %p3, %r2, 5;\n@%p2 bra M;\n"
        "{}.red.or.pred %p2, 0, %p1;\nbra N;\nM:\nadd.u32 %r5, %r5, 1;\nN:\n@%p3 bra L;",
        # the predicate of the branch that ends the loop itself
        "L:\nadd.u32 %r2, %r2, 1;\nsetp.lt.u32 %p3, %r2, 9;\n{}.red.or.pred %p3, 0, %p3;\n"
        "@%p3 bra L;",
    ],
)
def test_no_execution_leaves_the_paths(body: str, family: str) -> None:
    assert not problems(body.replace("{}", family))


def test_the_bound_counts_what_the_reduction_lets_go_on() -> None:
    """The loop runs nine times because all threads want it to; before, none did."""
    body = LOOP.format(reduction="bar.red.or.pred %p2, 0, %p1;", wanted="%p2")
    once = body.replace("bra L", "bra M") + "M:\n"
    nine = analyse_kernel(kernel_of(body), launch(), machine()).worst.bound.cycles
    assert nine >= analyse_kernel(kernel_of(once), launch(), machine()).worst.bound.cycles + 100
    run = execute(kernel_of(body), Input((40, 1, 1), 1))
    assert [max(counts(warp).values()) for warp in run.warps] == [9, 9]


def test_what_a_reduction_does_not_write_is_still_known() -> None:
    """The loop is counted by a register of its own: nine times, and not refused."""
    body = LOOP.format(reduction="bar.red.popc.u32 %r4, 0, %p2;", wanted="%p1")
    assert len(analyse_kernel(kernel_of(body), launch(), machine()).pieces) == 1


def test_only_the_result_decides_it_is_asked_for() -> None:
    body = "L:\nbar.red.or.pred %p1, 0, %p1;\n@%p1 bra L;"
    assert refusal_of(analyse_kernel, kernel_of(body), launch(), machine()).code == "PW203"


@pytest.mark.parametrize("threads", [1, 32, 40, 64])
@pytest.mark.parametrize(
    "reduction", ["and.pred %p4, 0, {}", "or.pred %p4, 0, {}", "popc.u32 %r2, 0, {}"]
)
@pytest.mark.parametrize(
    "given", ["%p1", "!%p1", "%p2", "!%p2", "%p5", "!%p5", "%p6"], ids=lambda text: text
)
def test_interpreter_and_emulator_agree(threads: int, reduction: str, given: str) -> None:
    body = "setp.lt.u32 %p5, %r1, 7;\nsetp.eq.u32 %p6, %r1, 33;\n"
    body += f"bar.red.{reduction.format(given)};\n"
    if "pred" in reduction:
        body += "selp.u32 %r2, 1, 0, %p4;\n"
    module = module_of(body)
    data = np.zeros(16 * threads, "u4")
    arguments = EmulatedLaunch((threads, 1, 1), (1, 1, 1), (data, 0))
    done = emulate(module.kernels[0], module, arguments, options=EmulatorOptions())
    assert not done.findings
    assert done.buffers[0] is not None
    running = Machine(program_of(module.kernels[0]), Input((threads, 1, 1), 1))
    assert not running.run().findings
    place = running.program.numbers["%r2"]
    assert [lane.registers[place] for lane in running.lanes] == done.buffers[0][::16].tolist()


def test_different_reductions_at_one_barrier_are_a_finding() -> None:
    """The ISA: the result is unpredictable."""
    body = "setp.lt.u32 %p5, %r1, 32;\n@!%p5 bra M;\nbar.red.or.pred %p4, 0, %p1;\nbra N;\nM:\n"
    for other in ("bar.sync 0;", "bar.red.and.pred %p4, 0, %p1;"):
        run = execute(kernel_of(f"{body}{other}\nN:\n"), Input((64, 1, 1), 1))
        assert ("barriers of one block differ", 0) in run.findings
