"""What path extraction refuses: the code, what it names, and the option that settles it."""

from __future__ import annotations

import pytest
from parsing import parse_kernel, parse_text
from refusals import refusal_of, refusals_of

from ptxwcet.flow.graph.control_flow import ControlFlow
from ptxwcet.flow.graph.inlining import inline_calls
from ptxwcet.flow.launch import NO_PLACED_FACTS, BoundOrigin, Launch, PlacedFacts
from ptxwcet.flow.paths.extraction import extract_paths
from ptxwcet.flow.paths.questions import find_questions
from ptxwcet.flow.walk.path import (
    BlockPaths,
    PathChoice,
    PathFork,
    PathLoop,
    PathRepeat,
    Visit,
    loop_entries,
)
from ptxwcet.support.diagnostics import Diagnostic

pytestmark = pytest.mark.fast

HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n)
{
.reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<9>; .reg .f32 %f<9>;
ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x; mov.u32 %r3, 0; ld.param.u64 %d1, [p];
mul.wide.u32 %d2, %r2, 4; ld.param.u64 %d3, [p]; add.s64 %d1, %d1, %d2;
"""


def paths(
    body: str, bound: int | None = None, launch: Launch | None = None
) -> tuple[BlockPaths, ...]:
    kernel = parse_kernel(f"{HEAD}{body}\nret;\n}}\n")
    flow = ControlFlow.of(kernel)
    facts = PlacedFacts({} if bound is None else {flow.forest.loops[0].id: bound})
    launch = launch or Launch((32, 1, 1), (4, 1, 1), {})
    return extract_paths(flow, launch, facts)


def refusal(body: str, bound: int | None = None, launch: Launch | None = None) -> Diagnostic:
    return refusal_of(paths, body, bound, launch)


def remedy(diagnostic: Diagnostic) -> str:
    assert diagnostic.help is not None
    return diagnostic.help


WITH_N = Launch((32, 1, 1), (4, 1, 1), {"n": 5})
DATA_BRANCH = (
    "ld.global.u32 %r4, [%d1]; setp.eq.s32 %p1, %r4, 0; @%p1 bra L; membar.cta; L: membar.gl;"
)
FLOAT_BRANCH = "ld.global.f32 %f1, [%d1]; setp.lt.f32 %p1, %f1, 0f00000000; @%p1 bra L; ret; L:"
COUNTED = "L: add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, %r1; @%p1 bra L;"
WHILE = "L: setp.ge.u32 %p1, %r3, %r1; @%p1 bra M; add.u32 %r3, %r3, 1; bra L; M:"
DATA_ROTATED = "L: ld.global.u32 %r4, [%d1]; setp.ne.s32 %p1, %r4, 0; @%p1 bra L;"
DATA_WHILE = (
    "L: ld.global.u32 %r4, [%d1]; setp.eq.s32 %p1, %r4, 0; @%p1 bra M;"
    "add.u32 %r3, %r3, 1; bra L; M:"
)


def choice(body: str, bound: int | None = None) -> PathChoice:
    """The only branch of the only path that all lanes take alike."""
    (piece,) = paths(body, bound)
    (warp,) = piece.warps
    (found,) = [node for node in warp.nodes if isinstance(node, PathChoice)]
    return found


def fork(body: str, bound: int | None = None) -> PathFork:
    """The only open branch of the only path."""
    (piece,) = paths(body, bound)
    (warp,) = piece.warps
    (found,) = [node for node in warp.nodes if isinstance(node, PathFork)]
    return found


def test_branch_on_data() -> None:
    found = fork(DATA_BRANCH)
    assert found.first == ()
    assert [type(node) for node in found.second] == [Visit]
    assert found.straight


def test_return_on_floating_point_data() -> None:
    found = fork(FLOAT_BRANCH)
    assert [len(side) for side in (found.first, found.second)] == [1, 1]
    assert not found.straight


def test_barrier_behind_a_branch_on_data() -> None:
    diagnostic = refusal(DATA_BRANCH.replace("membar.cta", "bar.sync 0"))
    assert diagnostic.code == "PW222"
    assert "bra in line" in diagnostic.message
    # lanes that have exited are not waited for, but those of a side may do more behind the other
    guarded = "ld.global.f32 %f1, [%d1]; setp.lt.f32 %p1, %f1, 0f00000000; @%p1 ret; bar.sync 0;"
    assert paths(guarded)
    assert paths(FLOAT_BRANCH + "bar.sync 0;")
    works = FLOAT_BRANCH.replace("ret;", "membar.gl; ret;") + "bar.sync 0;"
    assert paths(works)
    loops = FLOAT_BRANCH.replace(
        "ret;", "K: add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 5; @%p2 bra K; ret;"
    )
    assert refusal(loops + "bar.sync 0;").code == "PW222"
    to_the_end = DATA_BRANCH.replace("membar.cta", "bar.sync 0").replace("membar.gl;", "")
    assert paths(to_the_end)
    assert paths(to_the_end.replace("[%d1]", "[%d3]"))  # whole warps end, and count as arrived


@pytest.mark.parametrize("loop", [COUNTED, WHILE])
def test_loop_on_an_unknown_parameter(loop: str) -> None:
    diagnostic = refusal(loop)
    assert diagnostic.code == "PW203"
    assert any("parameter n" in note for note in diagnostic.notes)
    assert "--param n=VALUE" in remedy(diagnostic)
    assert "--loop-bound 'L=ITERATIONS'" in remedy(diagnostic)


def test_branch_on_an_unknown_parameter() -> None:
    found = choice("setp.eq.u32 %p1, %r1, 3; @%p1 bra L; membar.cta; L: membar.gl;")
    assert [len(side) for side in found.alternatives] == [1, 2]
    assert found.site == 0


def test_grid_size_without_a_grid() -> None:
    loop = "mov.u32 %r1, %nctaid.x;" + COUNTED
    diagnostic = refusal(loop, launch=Launch((32, 1, 1), None, {}))
    assert diagnostic.code == "PW203"
    assert any("%nctaid.x" in note for note in diagnostic.notes)
    assert "--grid SIZE" in remedy(diagnostic)
    assert paths(loop)
    both = "mov.u32 %r4, %nctaid.x; add.u32 %r1, %r1, %r4;" + COUNTED
    said = remedy(refusal(both, launch=Launch((32, 1, 1), None, {})))
    assert said.startswith("give --grid SIZE and --param n=VALUE")


@pytest.mark.parametrize(
    "body",
    [
        "setp.lt.u32 %p1, %r2, 5; @%p1 bra L; bar.sync 0; L: membar.cta;",
        "setp.lt.u32 %p1, %r2, 5; @%p1 bar.sync 0;",
        "setp.lt.u32 %p1, %r2, 5; @%p1 bra L; bar.sync 0; bra M; L: bar.sync 0; M:",
        "L: add.u32 %r3, %r3, 1; bar.sync 0; setp.lt.u32 %p1, %r3, %r2; @%p1 bra L; membar.cta;",
    ],
)
def test_barrier_in_divergent_code(body: str) -> None:
    diagnostic = refusal(body)
    assert diagnostic.code == "PW222"
    assert "divergent" in remedy(diagnostic)


def test_barrier_after_some_lanes_have_exited_is_fine() -> None:
    assert paths("setp.ge.u32 %p1, %r2, 5; @%p1 ret; bar.sync 0;")


def test_barrier_of_a_part_of_the_block() -> None:
    two_warps = Launch((64, 1, 1), (1, 1, 1), {})
    for barrier in ("bar.sync 0, 32;", "bar.arrive 0, 64;", "bar.sync 0, 64;"):
        assert paths(barrier, launch=two_warps)
    assert refusal("bar.sync %r2, 64;", launch=two_warps).code == "PW223"
    assert refusal("bar.sync 1, %r2;", launch=two_warps).code == "PW223"
    parted = "setp.lt.u32 %p1, %r2, 5; @%p1 bra L; bar.arrive 1, 64; L: membar.cta;"
    assert refusal(parted, launch=two_warps).code == "PW222"


def test_loop_that_never_ends() -> None:
    assert refusal("L: setp.ne.u32 %p1, %r3, 7; @%p1 bra L;").code == "PW205"


def test_counter_that_steps_over_its_limit_for_ever() -> None:
    loop = "L: add.u32 %r3, %r3, 2; setp.ne.u32 %p1, %r3, 1000001; @%p1 bra L;"
    assert refusal(loop).code in ("PW204", "PW205", "PW206")


def test_counter_that_steps_over_its_limit_and_meets_it_after_wrapping_round() -> None:
    loop = "L: add.u32 %r3, %r3, 3; setp.ne.u32 %p1, %r3, 1000001; @%p1 bra L;"
    (entry,) = loop_entries(paths(loop)[0].warps[0].nodes)
    assert entry.iterations.base == 1000001 * pow(3, -1, 1 << 32) % (1 << 32)


# --- bounds given by the user ---------------------------------------------------------------------


def bounded(body: str, bound: int, launch: Launch | None = None) -> tuple[PathLoop, list[int]]:
    """The loop of a path and the most repetitions of each repeat in it."""
    (piece,) = paths(body, bound, launch)
    (entry,) = loop_entries(piece.warps[0].nodes)
    return entry, [node.count.base for node in entry.body if isinstance(node, PathRepeat)]


def test_bound_on_a_loop_that_tests_at_its_end() -> None:
    entry, repeats = bounded(DATA_ROTATED, 7)
    assert (entry.origin, entry.iterations.base) == (BoundOrigin.USER, 7)
    assert repeats == [6]  # the last body is the one that leaves


def test_bound_on_a_loop_that_tests_first() -> None:
    entry, repeats = bounded(DATA_WHILE, 7)
    assert (entry.origin, entry.iterations.base) == (BoundOrigin.USER, 7)
    assert repeats == [7]


def test_bound_of_zero() -> None:
    assert refusal(DATA_ROTATED, 0).code == "PW217"
    _, repeats = bounded(DATA_WHILE, 0)
    assert repeats == []


@pytest.mark.parametrize("loop", [COUNTED, WHILE])
def test_bound_below_what_the_loop_does(loop: str) -> None:
    diagnostic = refusal(loop, 4, WITH_N)
    assert diagnostic.code == "PW217"
    assert "says 4" in diagnostic.message
    assert "runs 5" in diagnostic.message


@pytest.mark.parametrize("loop", [COUNTED, WHILE])
def test_bound_above_what_the_loop_does_changes_nothing(loop: str) -> None:
    entry, _ = bounded(loop, 9, WITH_N)
    assert (entry.origin, entry.iterations.base) == (BoundOrigin.ANALYSIS, 5)


def test_values_computed_by_a_bounded_loop_are_unknown_after_it() -> None:
    loop = "L: add.u32 %r3, %r3, 1; ld.global.u32 %r4, [%d1]; setp.ne.s32 %p1, %r4, 0; @%p1 bra L;"
    after = "setp.lt.u32 %p2, %r3, 3; @%p2 bra N; membar.cta; N: membar.gl;"
    assert fork(loop + after, 5).straight


def test_exits_to_different_places() -> None:
    loop = (
        "L: ld.global.u32 %r4, [%d1]; setp.eq.s32 %p1, %r4, 0; @%p1 bra M;"
        "setp.ne.s32 %p2, %r4, 9; @%p2 bra L; membar.cta; M:"
    )
    (piece,) = paths(loop, 5)
    (entry,) = loop_entries(piece.warps[0].nodes)
    assert (entry.iterations.base, entry.origin) == (5, BoundOrigin.USER)


PARTING = (
    "L: ld.global.u32 %r4, [%d1]; A: setp.eq.s32 %p1, %r4, 0; @%p1 bra M;"
    "ld.global.u32 %r5, [%d1+4]; B: setp.ne.s32 %p2, %r5, 9; @%p2 bra L; bar.sync 0; M:"
)


def test_lanes_that_leave_for_different_places_and_the_remedy() -> None:
    """One place has a barrier on the way to the other: the lanes there would wait alone."""
    diagnostic = refusal(PARTING, 5)
    assert diagnostic.code == "PW218"
    assert "lanes of a warp may leave it for several of them" in diagnostic.message
    assert 'uniform = "warp" ("block" if barriers are behind it)' in remedy(diagnostic)
    flow = ControlFlow.of(parse_kernel(f"{HEAD}{PARTING}\nret;\n}}\n"))
    (loop,) = flow.forest.loops
    alike = {source: "block" for source, _ in loop.exits}
    facts = PlacedFacts({loop.id: 5}, uniform=alike)
    (piece,) = extract_paths(flow, Launch((64, 1, 1), (4, 1, 1), {}), facts)
    (entry,) = loop_entries(piece.warps[0].nodes)
    assert (entry.iterations.base, entry.origin) == (5, BoundOrigin.USER)


def test_facts_ask_who_leaves_together() -> None:
    flow = ControlFlow.of(parse_kernel(f"{HEAD}{PARTING}\nret;\n}}\n"))
    questions = find_questions(flow, Launch((64, 1, 1), (4, 1, 1), {}), NO_PLACED_FACTS)
    (loop,) = flow.forest.loops
    assert {(one.block, one.scope) for one in questions.agreements} == {
        (source, "block") for source, _ in loop.exits
    }
    assert len(questions.loops) == 1


# --- calls ----------------------------------------------------------------------------------------


def test_calls() -> None:
    text = (
        ".version 8.0\n.target sm_80\n.address_size 64\n.func f() { ret; }\n"
        ".visible .entry k() { call f; ret; }\n"
    )
    kernel = parse_kernel(text)
    flow = ControlFlow.of(kernel)
    diagnostic = refusal_of(extract_paths, flow, Launch((32, 1, 1)), PlacedFacts())
    assert diagnostic.code == "PW220"
    assert "call of f" in diagnostic.message


def test_functions_that_call_each_other_name_the_circle() -> None:
    text = (
        ".version 8.0\n.target sm_80\n.address_size 64\n.func g(.reg .u32 a);\n"
        ".func f(.reg .u32 a) { call g, (a); ret; }\n.func g(.reg .u32 a) { call f, (a); ret; }\n"
        ".visible .entry k(.param .u32 n) { .reg .b32 %r<3>; ld.param.u32 %r1, [n]; call f, (%r1);"
        " ret; }\n"
    )
    module = parse_text(text)
    kernel = inline_calls(module.kernels[0], module)
    flow = ControlFlow.of(kernel)
    (found,) = refusals_of(extract_paths, flow, Launch((32, 1, 1)), NO_PLACED_FACTS)
    assert found.code == "PW220"
    assert "f -> g -> f" in found.message


def test_nests_that_are_too_deep_are_refused() -> None:
    """Loops in each other, each with a branch on data around the next: no traceback."""
    depth = 97
    heads = "".join(
        f"mov.u32 %r{10 + n}, 0; L{n}: ld.global.u32 %r4, [%d1]; setp.eq.u32 %p1, %r4, {n};"
        f"@%p1 bra E{n};"
        for n in range(depth)
    )
    tails = "".join(
        f"E{n}: add.u32 %r{10 + n}, %r{10 + n}, 1; setp.lt.u32 %p2, %r{10 + n}, 2; @%p2 bra L{n};"
        for n in reversed(range(depth))
    )
    declared = ".reg .b32 %r<120>; {"
    assert refusal(f"{{ {declared} {heads} {tails} }} }}").code == "PW206"
