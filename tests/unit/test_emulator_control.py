"""Control flow of executed kernels: calls, tables, divergence, barriers of all kinds, paths."""

import numpy as np
import pytest
from executions import execute_first
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusals_of
from thoroughness import drawn

from ptxwcet.emulator.executed_paths import BlockRecorder, PathBook
from ptxwcet.emulator.launch import EmulatedLaunch, PathRun, PathStep

pytestmark = pytest.mark.fast

HEADER = ".version 9.0\n.target sm_90\n.address_size 64\n"


def run(body, threads, *arguments, functions="", grid=1, limit=10**6):
    """Executes a kernel with parameter ``out``; ``%t`` is the thread, ``%o`` its place in it."""
    text = f"""{HEADER}{functions}
.entry k(.param .u64 out) {{
  .reg .b32 %t, %r<20>; .reg .b64 %o, %rd<9>; .reg .pred %p, %q;
  .shared .align 4 .b32 counter;
  mov.u32 %t, %tid.x;
  ld.param.u64 %o, [out];
  mad.wide.u32 %o, %t, 4, %o;
{body}
}}
"""
    launch = EmulatedLaunch((threads, 1, 1), (grid, 1, 1), arguments or (np.zeros(threads, "i4"),))
    return execute_first(text, launch, record_paths=True, max_instructions=limit)


def result(*given, **more):
    done = run(*given, **more)
    assert not done.findings, done.findings
    return done.buffers[0].tolist()


STORE = "st.global.u32 [%o], %r1; ret;"
FUNCTIONS = """
.func (.reg .b32 sum) add_to(.reg .b32 a, .reg .b32 b) {
  .reg .pred %p;
  setp.gt.s32 %p, a, 2;
  @%p bra BIG;
  add.s32 sum, a, b;
  ret;
BIG: mov.b32 sum, 100;
  ret;
}
.func (.param .b32 back) triple(.param .align 4 .b8 given[8]) {
  .reg .b32 %r<5>;
  .local .align 4 .b32 kept[2];
  ld.param.b32 %r1, [given]; ld.param.b32 %r2, [given+4];
  st.local.b32 [kept+4], %r1; ld.local.b32 %r3, [kept+4];
  mad.lo.s32 %r4, %r3, 3, %r2;
  st.param.b32 [back], %r4;
  ret;
}
.func (.param .b32 back) outer(.param .b32 x) {
  .reg .b32 %r<5>;
  .param .align 4 .b8 inner[8]; .param .b32 got;
  ld.param.b32 %r1, [x];
  st.param.b32 [inner], %r1; st.param.b32 [inner+4], 1000;
  call (got), triple, (inner);
  ld.param.b32 %r2, [got];
  call (%r3), add_to, (%r1, %r2);
  st.param.b32 [back], %r3;
  ret;
}
.func (.param .b32 back) again(.param .b32 x) {
  .param .b32 y; .param .b32 z; .reg .b32 %r1;
  ld.param.b32 %r1, [x]; st.param.b32 [y], %r1; call (z), again, (y); ret;
}
.extern .func __assertfail(.param .b64 a);
.extern .func elsewhere;
"""


def test_calls_by_registers_return_from_divergent_code():
    body = "call (%r1), add_to, (%t, 7);" + STORE
    assert result(body, 6, functions=FUNCTIONS) == [7, 8, 9, 100, 100, 100]


def test_guarded_and_nested_calls_by_parameter_memory():
    body = (
        """
  .param .b32 a; .param .b32 b;
  st.param.b32 [a], %t; st.param.b32 [b], -1;
  setp.ne.u32 %p, %t, 1;
  @%p call (b), outer, (a);
  ld.param.b32 %r1, [b];"""
        + STORE
    )
    expected = [t + 3 * t + 1000 if t <= 2 else 100 for t in range(40)]
    expected[1] = -1
    assert result(body, 40, functions=FUNCTIONS) == expected


def test_calls_that_cannot_be_replaced_are_refused_together():
    body = """
  .param .b32 a; .param .b32 b;
  call (b), again, (a);
  call elsewhere;
  ret;"""
    refusals = refusals_of(run, body, 32, functions=FUNCTIONS)
    assert [d.code for d in refusals] == ["PW410", "PW410"]
    assert "recursive" in refusals[0].message


def test_assertion_and_trap():
    failing = """
  .param .b64 a;
  setp.eq.u32 %p, %t, 37;
  @%p call __assertfail, (a);
  ret;"""
    done = run(failing, 64, functions=FUNCTIONS)
    assert [(f.code, f.thread) for f in done.findings] == [("PW439", 37)]
    assert not done.is_complete
    done = run("setp.eq.u32 %p, %t, 3;\n@%p trap;\nret;", 32)
    assert [(f.code, f.thread, f.span.line) for f in done.findings] == [("PW439", 3, 12)]


TABLE = """
  and.b32 %r2, %t, 7;
T: .branchtargets A, B, C, A;
  {guard}brx.idx %r2, T;
  mov.u32 %r1, 5; bra DONE;
A: mov.u32 %r1, 10; bra DONE;
B: mov.u32 %r1, 20;
C: add.u32 %r1, %r1, 1;
DONE: st.global.u32 [%o], %r1; ret;"""


def test_branch_table():
    body = "mov.u32 %r1, 0; setp.lt.u32 %p, %t, 4;" + TABLE.format(guard="@%p ")
    assert result(body, 6) == [10, 21, 1, 10, 5, 5]
    done = run("mov.u32 %r1, 0;" + TABLE.format(guard=""), 6)
    assert [(f.code, f.thread) for f in done.findings] == [("PW440", 4)]


def test_lanes_leave_a_loop_one_by_one():
    body = """
  mov.u32 %r1, 0; mov.u32 %r2, 0;
L: add.u32 %r2, %r2, %r1; add.u32 %r1, %r1, 1;
  setp.lt.u32 %p, %r1, %t;
  @%p bra L;
  activemask.b32 %r3;
  st.global.u32 [%o], %r2; ret;"""
    assert result(body, 45) == [t * (t - 1) // 2 for t in range(45)]
    steps = run(body, 32).paths[0].body
    assert [hex(s.mask) for s in steps if isinstance(s, PathStep)][-1] == "0xffffffff"


@pytest.mark.parametrize(("kind", "expected"), [("popc.u32", 21), ("and.pred", 0), ("or.pred", 1)])
def test_reducing_barriers(kind, expected):
    target = "%r1" if kind == "popc.u32" else "%q"
    body = (
        f"""
  rem.u32 %r2, %t, 3; setp.eq.u32 %p, %r2, 0;
  bar.red.{kind} {target}, 0, %p;
  {"" if target == "%r1" else "selp.u32 %r1, 1, 0, %q;"}"""
        + STORE
    )
    assert result(body, 63) == [expected] * 63


def test_guarded_barrier_of_some_warps():
    body = (
        """
  shr.u32 %r2, %t, 5;
  setp.lt.u32 %p, %r2, 2;
  setp.eq.u32 %q, %t, 0;
  mov.u32 %r1, 0;
  @%q st.shared.u32 [counter], 7;
  @%p bar.sync 1, 64;
  @%p ld.shared.u32 %r1, [counter];"""
        + STORE
    )
    assert result(body, 96) == [7] * 64 + [0] * 32


def test_deadlock_names_who_waits_where():
    body = """
  shr.u32 %r2, %t, 5;
  setp.eq.u32 %p, %r2, 1;
  @%p bra B;
  bar.sync 0;
  bra D;
B: bar.sync 1;
D: ret;"""
    done = run(body, 96)
    (finding,) = done.findings
    assert (finding.code, finding.span.line) == ("PW433", 15)
    assert "warps 0, 2 at line 15; warps 1 at line 17; 0 warps have ended" in finding.message


def test_barrier_by_a_part_of_a_warp():
    done = run("setp.lt.u32 %p, %t, 5; @!%p bra D; bar.sync 0; D: mov.u32 %r1, 0; ret;", 32)
    assert [(f.code, f.fatal) for f in done.findings] == [("PW436", False)]


def test_a_barrier_does_not_wait_for_threads_that_only_end():
    assert not run("setp.lt.u32 %p, %t, 5; @!%p bra D; bar.sync 0; D: ret;", 32).findings


def test_clock_grows():
    body = """
  mov.u32 %r2, %clock; bra L;
L: mov.u32 %r4, %clock; sub.s32 %r1, %r4, %r2;"""
    assert min(result(body + STORE, 32)) > 0


def expanded(nodes):
    for node in nodes:
        if isinstance(node, PathRun):
            for _ in range(node.repeats):
                yield from expanded(node.body)
        else:
            yield node


@given(
    st.recursive(
        st.integers(0, 3).map(lambda n: [n]),
        lambda inner: st.tuples(st.lists(inner, max_size=3), st.integers(1, 5)).map(
            lambda row: [x for part in row[0] for x in part] * row[1]
        ),
        max_leaves=12,
    )
)
@settings(max_examples=drawn(200), deadline=None)
def test_recorded_paths_are_the_sequence(sequence):
    book = PathBook()
    recorder = BlockRecorder(book, 2)
    for number in sequence:
        recorder.add(number, [(0, 1, 0)])
        recorder.add(number, [(1, 1, number % 2)])
    first, second = recorder.paths()
    assert [step.block for step in expanded(first)] == sequence
    assert [(s.block, s.taken) for s in expanded(second)] == [(n, n % 2) for n in sequence]


def count(nodes):
    return sum(1 + (count(n.body) if isinstance(n, PathRun) else 0) for n in nodes)


def test_nested_loops_stay_small():
    recorder = BlockRecorder(PathBook(), 1)
    for _ in range(300):
        recorder.add(0, [(0, 1, 0)])
        for _ in range(50):
            recorder.add(1, [(0, 1, 0)])
            recorder.add(2, [(0, 1, 1)])
        recorder.add(2, [(0, 1, 0)])
    (path,) = recorder.paths()
    assert count(path) < 20
    assert len(list(expanded(path))) == 300 * 102
