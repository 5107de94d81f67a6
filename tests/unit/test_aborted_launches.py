"""Launches that a trap, a failed assertion or a call that never returns aborts have no bound.

That of the others says so, and may use what the assertions say.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from parsing import parse_file, parse_text
from refusals import refusal_of

from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.flow.graph.inlining import inline_calls
from ptxwcet.flow.launch import Launch
from ptxwcet.flow.walk.path import loop_entries
from ptxwcet.ir.kernel import Module
from ptxwcet.machine.loader import DEFAULT_MACHINE, load_machine
from ptxwcet.pipeline import analyse_kernel

pytestmark = pytest.mark.fast

FAULTS = Path(__file__).parents[1] / "data" / "faults"
HEAD = """.version 8.3
.target sm_90
.address_size 64
.extern .func __assertfail(.param .b32 a);
.extern .func stop(.param .b32 a) .noreturn;
.extern .func back(.param .b32 a);
.func ends(.reg .b32 %a) .noreturn { .reg .pred %q; setp.ne.u32 %q, %a, 0; @%q exit; exit; }
.func traps(.reg .b32 %a) .noreturn { trap; }
.func checks(.reg .b32 %a)
{ .reg .pred %q; setp.lt.u32 %q, %a, 20; @%q ret; trap; }
.visible .func other(.reg .b32 %a);
.alias other, checks;
"""
KERNEL = """.visible .entry k(.param .u64 data, .param .u32 n)
{
.reg .pred %p<5>; .reg .b32 %r<9>; .reg .b64 %rd<4>; .param .b32 a;
ld.param.u64 %rd1, [data]; ld.param.u32 %r7, [n];
mov.u32 %r3, %tid.x;
mad.wide.u32 %rd3, %r3, 4, %rd1;
ld.global.u32 %r1, [%rd3];
setp.ge.u32 %p1, DECIDER, 20;
TEST
mov.u32 %r2, 0;
L: add.u32 %r2, %r2, 1;
setp.lt.u32 %p2, %r2, DECIDER;
@%p2 bra L;
bar.sync 0;
GOOD: ret;
FAIL: ENDING
}
"""
BRANCH = "@%p1 bra FAIL;"
ENDINGS = {
    "trap": "trap;",
    "assertion": "call.uni __assertfail, (a);",
    "falls off": "mov.u32 %r1, 0; call stop, (a);",
    "goes on, it seems": "call.uni __assertfail, (a); bra GOOD;",
    "a function that traps": "call traps, (%r1);",
}
PLACES = {
    "passed": "@!%p1 bra ON; call.uni __assertfail, (a); ON:",
    "twice": "@%p1 bra.uni FAIL; setp.ne.u32 %p3, %r3, 77; @!%p3 bra FAIL;",
}


def whole(test: str = BRANCH, ending: str = "trap;", decider: str = "%r1") -> Module:
    text = KERNEL.replace("TEST", test).replace("ENDING", ending).replace("DECIDER", decider)
    return parse_text(HEAD + text)


def bound(module: Module, threads: int = 64, **values: int | tuple[int, int]) -> KernelAnalysis:
    ranges = {name: value for name, value in values.items() if isinstance(value, tuple)}
    numbers = {name: value for name, value in values.items() if isinstance(value, int)}
    launch = Launch((threads, 1, 1), None, numbers, ranges)
    kernel = inline_calls(module.kernels[-1], module)
    return analyse_kernel(kernel, launch, load_machine(DEFAULT_MACHINE, None))


def iterations(analysis: KernelAnalysis) -> int:
    """How often the loop is executed at most."""
    entries = [
        entry
        for piece in analysis.pieces
        for warp in piece.paths.warps
        for entry in loop_entries(warp.nodes)
    ]
    return max(entry.iterations.base for entry in entries)


def assumptions(analysis: KernelAnalysis) -> set[str]:
    return {one.key for piece in analysis.pieces for one in piece.analysis.assumptions}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=list(ENDINGS))
def test_ways_that_are_aborted_are_left_out_and_said_so(ending: str) -> None:
    of_parameter = whole(BRANCH, ending, "%r7")
    for found in (
        bound(of_parameter, n=19),
        bound(of_parameter, n=(1, 1000)),
        bound(whole(BRANCH, ending)),
    ):
        assert "no-assertion-fails" in assumptions(found)
        assert iterations(found) == 19


@pytest.mark.parametrize("test", PLACES.values(), ids=list(PLACES))
def test_assertions_stand_where_they_like(test: str) -> None:
    assert iterations(bound(whole(test))) == 19


def test_a_trap_with_a_guard_is_an_instruction_that_is_passed() -> None:
    branch = bound(whole(BRANCH, decider="%r7"), n=19)
    guarded = bound(whole("@%p1 trap;", decider="%r7"), n=19)
    assert guarded.worst.bound.cycles == branch.worst.bound.cycles
    assert "no-assertion-fails" in assumptions(guarded)
    stops = bound(whole("@%p1 call stop, (a);", decider="%r7"), n=19)
    assert stops.worst.bound.cycles == branch.worst.bound.cycles


@pytest.mark.parametrize("test", [BRANCH, "@%p1 trap;", "trap;", "@%p1 trap; trap;"])
def test_launches_that_are_always_aborted_have_no_bound(test: str) -> None:
    refusal = refusal_of(bound, whole(test, decider="%r7"), n=20)
    assert (refusal.code, refusal.span.line) == ("PW225", 21)


def test_one_lane_that_fails_aborts_the_launch() -> None:
    assert bound(whole(BRANCH, decider="%r3"), threads=20).worst.bound.cycles > 0
    assert refusal_of(bound, whole(BRANCH, decider="%r3"), threads=21).code == "PW225"


def test_functions_that_end_their_threads_abort_nothing() -> None:
    ends = bound(whole("@%p1 call ends, (%r1);", decider="%r7"), n=20)
    assert "no-assertion-fails" not in assumptions(ends)
    assert refusal_of(bound, whole("call back, (a);")).code == "PW220"


def test_a_call_by_an_alias_is_that_of_the_function() -> None:
    module = parse_file(FAULTS / "b29_alias.ptx")
    direct = parse_text((FAULTS / "b29_alias.ptx").read_text().replace("call g", "call f"))
    assert bound(module).worst.bound.cycles == bound(direct).worst.bound.cycles
    named, called = (
        bound(whole(f"call {name}, (%r7);", decider="%r7"), n=(1, 1000))
        for name in ("other", "checks")
    )
    assert iterations(named) == iterations(called) == 19
    assert named.worst.bound.cycles == called.worst.bound.cycles
    assert "no-assertion-fails" in assumptions(named)


def test_lanes_meet_where_they_meet_without_the_aborts() -> None:
    inner = "setp.lt.u32 %p3, %r3, 9; @%p3 bra M; @%p1 bra FAIL; add.u32 %r4, %r3, 1; M:"
    assert bound(whole(inner, decider="%r7"), n=19).worst.bound.cycles > 0


def test_a_case_of_an_indexed_branch_may_abort() -> None:
    test = "T: .branchtargets A, B, FAIL; brx.idx %r3, T; A: add.u32 %r4, %r3, 1; B:"
    assert bound(whole(test, decider="%r7"), threads=2, n=4).worst.bound.cycles > 0
    refusal = refusal_of(bound, whole(test, decider="%r7"), threads=3, n=4)
    assert refusal.code == "PW225"
    assert bound(whole(test.replace("%r3, T", "%r1, T"), decider="%r7"), n=4)


def test_the_call_of_an_external_function_that_never_returns() -> None:
    module = parse_file(FAULTS / "b28d_noreturn_ext.ptx")
    assert "no-assertion-fails" in assumptions(bound(module))
    assert refusal_of(bound, module, n=63).code == "PW225"
    assert bound(module, n=64).worst.bound.cycles > 0
