"""What warps agree on is what they find after as many barriers, at whichever instructions.

Wrong was: all warps that come to an instruction come to the same barrier, and find the same in
memory that nobody writes between two barriers. The kernels here go two ways that take long at
different barriers; warps that do not agree on the way take longer than all of them on one.
"""

from __future__ import annotations

import pytest
from isa_interpreter import execute
from parsing import parse_kernel
from path_attack import Checker, inputs, machine
from refusals import refusal_of
from test_uniformity import BLOCK, WARP, agreement

from ptxwcet.flow.facts.stated import NO_FACTS, BranchFact, FactSource, Place, StatedFacts
from ptxwcet.flow.launch import Launch
from ptxwcet.ir.kernel import Kernel
from ptxwcet.pipeline import analyse_kernel

KERNEL = """
.version 8.3
.target sm_90
.address_size 64
.visible .entry k(.param .u64 data)
{
.reg .f32 %f<3>; .reg .pred %p<5>; .reg .b32 %r<9>; .reg .b64 %rd<4>;
ld.param.u64 %rd1, [data];
mov.u32 %r3, %tid.x;
mad.wide.u32 %rd3, %r3, 64, %rd1;
ld.global.u8 %r1, [%rd3+4];
setp.lt.u32 %p0, %r3, 32;
setp.gt.u32 %p2, %r1, 99;
mov.f32 %f1, 0f3F800000;
mov.f32 %f2, 0f3F800000;
BODY
@!%p1 bra LATE;
mov.u32 %r5, 0;
EARLY: DIVIDE add.u32 %r5, %r5, 1; setp.lt.u32 %p3, %r5, 30; @%p3 bra EARLY;
bar.sync 0;
bra DONE;
LATE: bar.sync 0;
mov.u32 %r5, 0;
AGAIN: DIVIDE add.u32 %r5, %r5, 1; setp.lt.u32 %p3, %r5, 30; @%p3 bra AGAIN;
bar.sync 0;
DONE: st.global.f32 [%rd3], %f1;
ret;
}
""".replace("DIVIDE", 8 * "div.rn.f32 %f1, %f1, %f2; ")

TWO = Launch((64, 1, 1))
REDUCED = "bar.red.or.pred %p1, 0, %p2;"
READ = "ld.global.u32 %r6, [%rd1]; setp.lt.u32 %p1, %r6, 9;"
WRITTEN = "setp.eq.u32 %p2, %r3, 0; @!%p2 bra X; st.global.u32 [%rd1], %r1; X:"

APART = {
    "one warp waits before, the other behind": (
        f"@!%p0 bra A; {REDUCED} A: setp.gt.u32 %p2, %r1, 240; {REDUCED}"
        "@%p0 bra B; bar.red.or.pred %p2, 0, %p2; B:"
    ),
    "warps find what is there before and after it is written": (
        f"@!%p0 bra A; bar.sync 0; {WRITTEN} bar.sync 0; A: {READ}"
        "@%p0 bra B; bar.sync 0; bar.sync 0; B:"
    ),
    "a barrier is guarded": f"@%p0 bar.sync 0; {REDUCED} @!%p0 bar.sync 0;",
    "warps meet with different numbers, before some end": (
        "ld.global.nc.u32 %r6, [%rd1]; ld.global.nc.u32 %r7, [%rd1+16]; and.b32 %r7, %r7, 1;"
        "@%p0 bra A; mov.b32 %r6, %r7; ld.global.nc.u32 %r7, [%rd1+8]; and.b32 %r7, %r7, 1;"
        "setp.eq.u32 %p4, %r7, 0; @%p4 ret; A: and.b32 %r6, %r6, 1; setp.eq.u32 %p1, %r6, 0;"
    ),
    "warps leave a loop in different iterations by one of its ends": (
        "mov.u32 %r4, 0; shr.u32 %r7, %r3, 5; N: ld.global.nc.u32 %r6, [%rd1];"
        "and.b32 %r6, %r6, 7; setp.eq.u32 %p2, %r4, %r7; @%p2 bra A;"
        "add.u32 %r4, %r4, 1; setp.ge.u32 %p3, %r6, 6; @!%p3 bra N; ret;"
        "A: add.u32 %r6, %r6, %r4; and.b32 %r6, %r6, 1; setp.eq.u32 %p1, %r6, 0;"
    ),
}
TOGETHER = {
    "in line": f"bar.sync 0; {REDUCED}",
    "behind a loop with barriers": (
        "mov.u32 %r4, 0; N: bar.sync 0; add.u32 %r4, %r4, 1; setp.lt.u32 %p3, %r4, 4; @%p3 bra N;"
        + READ
    ),
    "without the warps that have ended": (
        f"vote.sync.any.pred %p3, %p2, -1; @%p3 ret; setp.gt.u32 %p2, %r1, 9; bar.sync 0; {REDUCED}"
    ),
    "where warps part without barriers": (
        f"@%p0 bra A; setp.gt.u32 %p2, %r1, 7; A: bar.sync 0; {REDUCED}"
    ),
    "read before all barriers": READ,
}


@pytest.mark.every(2)
@pytest.mark.parametrize("body", [*APART.values(), *TOGETHER.values()], ids=[*APART, *TOGETHER])
def test_no_run_takes_longer_than_its_bound(body: str) -> None:
    kernel = parse_kernel(KERNEL.replace("BODY", body))
    if body in APART.values():
        assert refusal_of(analyse_and_hold, kernel).code == "PW222"
    else:
        analyse_and_hold(kernel)


def analyse_and_hold(
    kernel: Kernel, launch: Launch = TWO, executions: int = 12, facts: StatedFacts = NO_FACTS
) -> None:
    """Bounds a kernel, if it is not refused, and holds executions to the bound."""
    analysis = analyse_kernel(kernel, launch, machine(), facts)
    checker = Checker(analysis)
    for given in inputs(launch, 1, executions, 2000):
        run = execute(kernel, given)
        assert run.is_whole
        assert checker.check(run, given) is None
        assert checker.check_time(run, given) is None


FOUR = Launch((128, 1, 1))
LONG = (
    "mov.u32 %r5, 0; H{}: DIVIDE add.u32 %r5, %r5, 1; setp.lt.u32 %p3, %r5, 30; @%p3 bra H{};"
).replace("DIVIDE", 8 * "div.rn.f32 %f1, %f1, %f2; ")
IN_TURNS = (
    KERNEL.split("BODY")[0]
    + """
shr.u32 %r7, %r3, 5;
mov.u32 %r4, 0;
mov.b64 %rd2, %rd1;
NEXT: ld.global.nc.u32 %r6, [%rd2];
and.b32 %r6, %r6, 3;
MISS
setp.eq.u32 %p1, %r6, 0; @%p1 bra S0;
setp.eq.u32 %p1, %r6, 1; @%p1 bra S1;
setp.eq.u32 %p1, %r6, 2; @%p1 bra S2;
"""
    + f"bar.sync 0; bar.sync 0; bar.sync 0; {LONG.format(3, 3)} bra LAST;\n"
    + f"S0: {LONG.format(0, 0)} bar.sync 0; bar.sync 0; bar.sync 0; bra LAST;\n"
    + f"S1: bar.sync 0; {LONG.format(1, 1)} bar.sync 0; bar.sync 0; bra LAST;\n"
    + f"S2: bar.sync 0; bar.sync 0; {LONG.format(2, 2)} bar.sync 0; bra LAST;\n"
    + """
LAST: add.u32 %r4, %r4, 1;
add.s64 %rd2, %rd2, 4;
setp.lt.u32 %p3, %r4, 4;
@%p3 bra NEXT;
bar.sync 0;
st.global.f32 [%rd3], %f1;
ret;
}
"""
)

OWN = "setp.ne.u32 %p3, %r4, {0}; @%p3 bra LAST; bra GO;"
IN_OWN_WAYS = (
    "setp.eq.u32 %p4, %r7, 0; @%p4 bra W0; setp.eq.u32 %p4, %r7, 1; @%p4 bra W1;"
    f"setp.eq.u32 %p4, %r7, 2; @%p4 bra W2; {OWN.format(3)}"
    f"W0: {OWN.format(0)} W1: {OWN.format(1)} W2: {OWN.format(2)} GO:"
)


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("miss", "is_bounded"),
    [
        ("", True),
        ("setp.eq.u32 %p3, %r4, 1; @%p3 bra LAST;", True),
        (
            "setp.ne.u32 %p3, %r4, %r7; @%p3 bra LAST;",
            False,
        ),  # each warp in an iteration of its own
        ("setp.lt.u32 %p3, %r4, %r7; @%p3 bra LAST;", False),
        (IN_OWN_WAYS, False),  # the same, decided alike behind the branch where warps part
    ],
)
def test_warps_that_come_for_the_first_time_in_other_iterations(
    miss: str, is_bounded: bool
) -> None:
    """What warps agree on in an iteration is not what each of them finds at its n-th visit."""
    text = IN_TURNS.replace("MISS", miss)
    kernel = parse_kernel(text)
    if is_bounded:
        analyse_and_hold(kernel, FOUR, 6)
        return
    assert refusal_of(analyse_and_hold, kernel, FOUR, 40).code == "PW222"


VOTED = "setp.gt.s32 %p3, %r2, 9; vote.sync.any.pred %p2, %p3, -1;"  # alike in a warp
FOUND = "bar.red.or.pred %p1, 0, %p3;"
LOADED = "ld.global.u32 %r6, [%d1]; setp.gt.s32 %p1, %r6, 3;"


@pytest.mark.parametrize(
    ("body", "is_alike"),
    [
        ("{} @%p2 bra M; bar.sync 0; M: {}", False),
        ("{} @%p2 bra M; membar.cta; M: {}", True),
        ("{} @%p2 bra M; bar.sync 0; ret; M: {}", True),
        ("{} @%p2 ret; bar.sync 0; {}", True),
        ("{} @%p2 bar.sync 0; {}", False),
        ("{} N: bar.sync 0; @%p2 bra N; {}", False),
        # warps that end in the loop come there no more
        ("N: {} bar.sync 0; @%p2 ret; {} setp.lt.s32 %p4, %r1, 0; @%p4 bra N;", True),
        ("N: {} @%p2 bra M; bar.sync 0; M: bar.sync 0; {} setp.lt.s32 %p2, %r1, 0; @%p2 bra N;",
         False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("read", [FOUND, LOADED])
def test_who_comes_after_as_many_barriers(body: str, is_alike: bool, read: str) -> None:
    found = agreement(body.format(VOTED, read), (64, 1, 1), race_free=True)
    assert found is (BLOCK if is_alike else WARP)


COUNTED = (
    KERNEL.split("setp.lt.u32")[0]
    + "mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f3F800000;"
    + "mov.u32 %r4, %ctaid.x; sub.u32 %r6, 40, %r4; add.u32 %r4, %r4, 30;"
    + "LIMITS ld.global.nc.u32 %r2, [%rd1]; setp.eq.u32 %p1, %r2, 12345;"
    + "mov.u32 %r7, 0;"
    + "M: bar.sync 0; @%p1 bra X; add.u32 %r7, %r7, 1; setp.lt.u32 %p2, %r7, %r4; @%p2 bra M;"
    + f"X: {LONG.format(0, 0)} bar.sync 0; mov.u32 %r7, 0;"
    + "N: bar.sync 0; @%p1 bra Y; add.u32 %r7, %r7, 1; setp.lt.u32 %p2, %r7, %r6; @%p2 bra N;"
    + "Y: st.global.f32 [%rd3], %f1; ret; }"
)
OTHER_WAY = (
    "setp.lt.u32 %p0, %r3, 32; @%p0 bra L; mov.u32 %r8, %r4; mov.u32 %r4, %r6; mov.u32 %r6, %r8; L:"
)


@pytest.mark.parametrize(
    ("limits", "is_bounded"), [("", True), (OTHER_WAY, False)], ids=["one limit", "two limits"]
)
@pytest.mark.parametrize("threads", [64, 40])
def test_a_loop_left_alike_has_one_limit_for_the_block(
    limits: str, is_bounded: bool, threads: int
) -> None:
    """It also ends after as many iterations as the index of the block says, to each warp."""
    kernel = parse_kernel(COUNTED.replace("LIMITS", limits))
    launch = Launch((threads, 1, 1), grid=(11, 1, 1))
    if is_bounded:
        analyse_and_hold(kernel, launch, 4)
        return
    assert refusal_of(analyse_and_hold, kernel, launch).code == "PW502"


AT_SOME_VISITS = (
    KERNEL.split("setp.lt.u32")[0].replace("%r<9>", "%r<12>").replace("%p<5>", "%p<9>")
    + "mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f3F800000; shr.u32 %r7, %r3, 5;"
    + "mov.b64 %rd2, %rd1; mov.u32 %r4, 0;"
    + "NEXT: ld.global.nc.u32 %r6, [%rd2]; mov.u32 %r9, 0; WHO"
    + "xor.b32 %r8, %r4, %r8; and.b32 %r8, %r8, 1; setp.eq.u32 %p4, %r8, 1;"
    + "INNER: and.b32 %r10, %r6, 1; shr.u32 %r6, %r6, 1; setp.eq.u32 %p1, %r10, 0;"
    + "@%p1 bra M; @%p4 bra L; bar.sync 0; L: AGAIN"
    + f"M: setp.ne.u32 %p2, %r4, 1; @%p2 bra N; {LONG.format(0, 0)} bar.sync 0;"
    + "N: add.s64 %rd2, %rd2, 4; add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 4; @%p2 bra NEXT;"
    + "setp.lt.u32 %p0, %r3, 32; @%p0 bra E; add.f32 %f1, %f1, %f2;"
    + "E: st.global.f32 [%rd3], %f1; ret; }"
)
INNER_LOOPS = {
    "a branch": "",
    "a loop that is counted": ("add.u32 %r9, %r9, 1; setp.lt.u32 %p5, %r9, 2; @%p5 bra INNER;"),
    "a loop that data end": "setp.ne.u32 %p5, %r6, 0; @%p5 bra INNER;",
}


@pytest.mark.parametrize(
    ("who", "is_bounded"),
    [("mov.u32 %r8, 0;", True), ("mov.u32 %r8, %r7;", False)],
    ids=["in the same iterations", "in iterations of its own"],
)
@pytest.mark.parametrize("again", INNER_LOOPS.values(), ids=INNER_LOOPS)
def test_a_choice_that_has_barriers_at_some_of_its_visits(
    again: str, who: str, is_bounded: bool
) -> None:
    """All warps make it alike in each iteration; what it is for one warp need not have barriers."""
    text = AT_SOME_VISITS.replace("AGAIN", again).replace("WHO", who)
    kernel = parse_kernel(text)
    if is_bounded:
        analyse_and_hold(kernel)
        return
    assert refusal_of(analyse_and_hold, kernel).code == "PW502"


STATED = (
    AT_SOME_VISITS.split("NEXT:")[0]
    + "NEXT: ld.global.u32 %r6, [%rd2]; and.b32 %r6, %r6, 1; setp.ne.u32 %p1, %r6, 0; KNOWN "
    + "S: @!%p1 bra SKIP; bar.sync 0; SKIP: add.s64 %rd2, %rd2, 4; add.u32 %r4, %r4, 1;"
    + f"setp.lt.u32 %p2, %r4, 2; @%p2 bra NEXT; {LONG.format(0, 0)}"
    + "setp.eq.u32 %p4, %r7, 1; OTHERS bar.sync 0; L: bar.sync 0;"
    + "@%p4 bra E; add.f32 %f1, %f1, %f2; E: st.global.f32 [%rd3], %f1; ret; }"
)
KNOWN = (  # warp 0 waits in iteration 0, warp 1 does not in iteration 1, but elsewhere before
    "setp.ne.u32 %p5, %r4, %r7; @%p5 bra O; setp.eq.u32 %p1, %r4, 0; bra S;"
    "O: setp.ne.u32 %p5, %r4, 0; @%p5 bra S; bar.sync 0;"
)
ALIKE = StatedFacts(branches=(BranchFact(Place("S"), FactSource("a test"), uniform="block"),))


def test_a_choice_that_is_decided_at_some_of_its_visits() -> None:
    """What warps are said to decide alike may be known of each of them in another iteration."""
    apart = STATED.replace("KNOWN", KNOWN).replace("OTHERS", "@%p4 bra L;")
    kernel = parse_kernel(apart)
    assert refusal_of(analyse_and_hold, kernel, facts=ALIKE).code == "PW502"
    same = STATED.replace("KNOWN", "bra S;").replace("OTHERS", "")
    kernel = parse_kernel(same)
    analyse_and_hold(kernel, facts=ALIKE)


LOOPS = {
    "each iteration waits": (
        "S: @!%p1 bra SKIP; bar.sync 0; setp.ne.u32 %p1, %r4, %r4; bra S; SKIP:"
    ),
    "one of its ends waits": (
        "mov.u32 %r9, 0; A: add.u32 %r9, %r9, 1; setp.gt.u32 %p7, %r9, 9; @%p7 bra SKIP;"
        "S: @!%p1 bra SKIP; bar.sync 0; setp.lt.u32 %p6, %r9, 1; @%p6 bra A; SKIP:"
    ),
    "lanes wait behind one of its ends": (
        "mov.u32 %r9, 0; S: @!%p1 bra SKIP; add.u32 %r9, %r9, 1;"
        "setp.lt.u32 %p6, %r9, 2; @%p6 bra S; bar.sync 0; SKIP:"
    ),
}


@pytest.mark.every(2)
@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_a_loop_whose_end_is_decided_at_some_of_its_entries(loop: str) -> None:
    """What ends a loop for all warps may be known of each of them at another entry."""
    branch = "S: @!%p1 bra SKIP; bar.sync 0; SKIP:"
    known = KNOWN.replace("bra S", "bra I")
    text = STATED.replace(branch, f"I: {loop}")
    apart = text.replace("KNOWN", known).replace("OTHERS", "@%p4 bra L;")
    kernel = parse_kernel(apart)
    assert refusal_of(analyse_and_hold, kernel, facts=ALIKE).code == "PW502"
    same = text.replace("KNOWN", "bra I;").replace("OTHERS", "")
    kernel = parse_kernel(same)
    analyse_and_hold(kernel, facts=ALIKE)
