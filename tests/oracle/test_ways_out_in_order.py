"""Ways out of a loop that a stated bound ends: which of them belong together in different warps.

Wrong was: two ways that leave at the same block, the n-th of one class of warps and the n-th of
another one, are taken in the same pass. Ways that are equal in several passes are one; so where the
third pass of one warp is like its first, and that of the other like its second, the way on which
both leave in the third pass is the first of the one and the second of the other. Each way waits
twice, and takes long before its first barrier or behind it.
"""

from __future__ import annotations

import pytest
from isa_interpreter import execute
from path_attack import Checker, inputs, machine
from test_barrier_order import KERNEL, LONG, TWO

from ptxwcet.flow.facts.stated import NO_FACTS, FactSource, LoopFact, Place, StatedFacts
from ptxwcet.pipeline import analyse_kernel
from ptxwcet.ptx.parser import parse_module
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.source import SourceFile

TEXT = (
    KERNEL.split("setp.lt.u32")[0].replace("%r<9>", "%r<12>").replace("%p<5>", "%p<9>")
    + "mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f3F800000; shr.u32 %r7, %r3, 5;"
    + "mov.b64 %rd2, %rd1; mov.u32 %r4, 0;"
    + "H: setp.eq.u32 %p6, %r4, 99; @%p6 bra X; WHEN"
    + "@!%p5 bra O; add.f32 %f1, %f1, %f2; O: @!%p7 bra A;"
    + LONG.format(0, 0)
    + "A: bar.sync 0; @!%p8 bra B;"
    + LONG.format(1, 1)
    + "B: bar.sync 0; ld.global.nc.u32 %r6, [%rd2]; setp.lt.u32 %p1, %r6, 0x60000000; @%p1 bra X;"
    + "add.s64 %rd2, %rd2, 4; add.u32 %r4, %r4, 1; bra H; X: st.global.f32 [%rd3], %f1; ret; }"
)
OTHERWISE = "min.u32 %r8, %r4, 1; and.b32 %r8, %r8, %r7; setp.ne.u32 %p5, %r8, 0;"
PASSES = {
    # %p7: long before the first barrier, %p8: behind it, in passes 0, 1, 2 of warp 0 | of warp 1
    "other paths": (  # before, not, before | not, behind, behind
        OTHERWISE + "and.b32 %r9, %r4, 1; or.b32 %r9, %r9, %r7; setp.eq.u32 %p7, %r9, 0;"
        "setp.ne.u32 %p8, %r8, 0;"
    ),
    "equal paths": (  # before, behind, before | before, behind, behind
        "setp.lt.u32 %p7, %r4, 2; selp.u32 %r9, %r4, %r7, %p7; setp.eq.u32 %p5, %r9, 1;"
        "setp.eq.u32 %p7, %r9, 0; setp.eq.u32 %p8, %r9, 1;"
    ),
}
ALIKE = {
    "other paths, in one order": (  # before, not, before | behind, not, behind
        "and.b32 %r8, %r4, 1; setp.ne.u32 %p5, %r8, 0; or.b32 %r9, %r8, %r7;"
        "setp.eq.u32 %p7, %r9, 0; xor.b32 %r9, %r7, 1; or.b32 %r9, %r8, %r9;"
        "setp.eq.u32 %p8, %r9, 0;"
    ),
    "one path": (
        "setp.lt.u32 %p7, %r4, 2; selp.u32 %r9, %r4, 0, %p7; setp.eq.u32 %p5, %r9, 1;"
        "setp.eq.u32 %p7, %r9, 0; setp.eq.u32 %p8, %r9, 1;"
    ),
}
EXIT = "ld.global.nc.u32 %r6, [%rd2]; setp.lt.u32 %p1, %r6, 0x60000000; @%p1 bra X;"
CLEARED = "add.u32 %r11, %r10, -1; and.b32 %r10, %r10, %r11; setp.eq.u32 %p1, %r10, 0; @%p1 bra X;"
BITS = (
    "mov.u32 %r4, 0; setp.eq.u32 %p6, %r4, 1; ld.global.nc.u32 %r10, [%rd1]; and.b32 %r10, %r10, 7;"
)
COUNTED = "setp.lt.u32 %p2, %r4, 3; @%p2 bra H; X"
BOUND = StatedFacts(loops=(LoopFact(Place("H"), FactSource("a test"), bound=2),))


@pytest.mark.parametrize("when", PASSES.values(), ids=PASSES)
def test_ways_that_are_not_taken_together(when: str) -> None:
    with pytest.raises(PtxwcetError) as caught:
        analyse_and_hold(TEXT.replace("WHEN", when))
    assert caught.value.diagnostics[0].code == "PW502"


@pytest.mark.parametrize("when", PASSES.values(), ids=PASSES)
def test_ways_out_of_a_loop_that_a_certificate_bounds(when: str) -> None:
    """Three bits that are cleared one by one: nothing is stated."""
    text = TEXT.replace("WHEN", when).replace("mov.u32 %r4, 0;", BITS)
    text = text.replace("setp.eq.u32 %p6, %r4, 99; @%p6 bra X;", "@%p6 bra Q; Q:")
    with pytest.raises(PtxwcetError) as caught:
        analyse_and_hold(text.replace(EXIT, CLEARED), NO_FACTS)
    assert caught.value.diagnostics[0].code == "PW502"


@pytest.mark.thorough
@pytest.mark.parametrize("when", ALIKE.values(), ids=ALIKE)
def test_ways_that_are_taken_together(when: str) -> None:
    analyse_and_hold(TEXT.replace("WHEN", when))


@pytest.mark.parametrize("when", PASSES.values(), ids=PASSES)
def test_ways_of_passes_that_are_counted(when: str) -> None:
    """Each pass is also among the iterations, or the last one, whole: that takes no less than
    leaving in it. What is executed behind a way out is not there, so it is refused all the same.
    """
    with pytest.raises(PtxwcetError) as caught:
        analyse_and_hold(TEXT.replace("WHEN", when).replace("bra H; X", COUNTED), NO_FACTS)
    assert caught.value.diagnostics[0].code == "PW502"


def analyse_and_hold(text: str, facts: StatedFacts = BOUND) -> None:
    """Bounds a kernel, and holds executions to it in which what is said of the loop is true."""
    (kernel,) = parse_module(SourceFile("k.ptx", text)).kernels
    analysis = analyse_kernel(kernel, TWO, machine(), facts)
    checker = Checker(analysis)
    (header,) = [one.start for one in analysis.cfg.blocks[:-1] if analysis.cfg.name(one.id) == "H"]
    passes = set()
    for given in inputs(TWO, 1, 24, 2000):
        run = execute(kernel, given)
        visits = max(sum(start == header for start, _ in warp.trace) for warp in run.warps)
        if run.is_whole and visits <= 3:  # two pairs of barriers, and the pass that is not whole
            passes.add(visits)
            assert checker.check(run, given) is None
            assert checker.check_time(run, given) is None
    assert passes == {1, 2, 3}
