"""Path extraction: branches, stated bounds and calls; what it refuses is kernels/extraction.ptx."""

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


DATA_BRANCH = (
    "ld.global.u32 %r4, [%d1]; setp.eq.s32 %p1, %r4, 0; @%p1 bra L; membar.cta; L: membar.gl;"
)
FLOAT_BRANCH = "ld.global.f32 %f1, [%d1]; setp.lt.f32 %p1, %f1, 0f00000000; @%p1 bra L; ret; L:"
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


def test_branch_on_an_unknown_parameter() -> None:
    found = choice("setp.eq.u32 %p1, %r1, 3; @%p1 bra L; membar.cta; L: membar.gl;")
    assert [len(side) for side in found.alternatives] == [1, 2]
    assert found.site == 0


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


def test_values_computed_by_a_bounded_loop_are_unknown_after_it() -> None:
    loop = "L: add.u32 %r3, %r3, 1; ld.global.u32 %r4, [%d1]; setp.ne.s32 %p1, %r4, 0; @%p1 bra L;"
    after = "setp.lt.u32 %p2, %r3, 3; @%p2 bra N; membar.cta; N: membar.gl;"
    assert fork(loop + after, 5).straight


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
