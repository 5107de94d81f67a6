"""Kernels that were bounded below what they execute, each for a belief of the walk that was wrong.

``late_end``: what the lanes that end a loop execute before they meet those that have left it early
was taken for done by all. ``longest_lanes``: lanes have limits of their own, of which that of the
longest depends on the block's index; what the last of them do alone was taken for all that is
longest. ``parted_exit``: behind a loop that lanes leave by parting, an unknown
register was bounded by what the loop adds to it, though it was loaded on the way out.
``packed_index``: the block's index was looked for among operands, and not inside of vectors.
"""

from __future__ import annotations

import pytest
from containment_runs import contained
from effort import counted
from parsing import parse_file, parse_kernel
from path_attack import attack, machine
from places import UNSOUND

from ptxwcet.flow.facts.totals import count_visits
from ptxwcet.flow.launch import Launch
from ptxwcet.flow.walk.path import loop_entries
from ptxwcet.pipeline import analyse_kernel

LAUNCH = Launch((32, 1, 1))

# An indexed branch on what is known of each lane, on data of the lane, on data of the warp.
INDEXED = """
.version 7.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 out)
{
.reg .b32 %r<5>; .reg .b64 %rd<5>;
ld.param.u64 %rd1, [a];
ld.param.u64 %rd2, [out];
mov.u32 %r4, %tid.x;
mul.wide.u32 %rd3, %r4, 4;
add.s64 %rd3, %rd1, %rd3;
INDEX
and.b32 %r2, %r1, 1;
table: .branchtargets even, odd;
brx.idx %r2, table;
even:
add.s32 %r3, %r1, -1;
bra done;
odd:
add.s32 %r3, %r1, 1;
bra done;
done:
st.global.u32 [%rd2], %r3;
ret;
}
"""

FOUND = """
.version 8.3
.target sm_90
.address_size 64
.visible .entry k(.param .u64 data)
{
.reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<4>;
ld.param.u64 %rd1, [data];
mov.u32 %r3, %tid.x;
mad.wide.u32 %rd3, %r3, 64, %rd1;
BODY
st.global.u32 [%rd3], %r3;
bra L1;
L0:
st.global.u32 [%rd3+4], %r3;
st.global.u32 [%rd3+8], %r1;
L1:
ret;
}
"""

BOUNDED = ["late_end"]
REFUSED = ["parted_exit", "longest_lanes"]


@pytest.mark.parametrize("name", [*BOUNDED, *REFUSED])
def test_no_execution_exceeds_what_is_said_of_it(name: str) -> None:
    path = UNSOUND / f"{name}.ptx"
    (kernel,) = parse_file(path).kernels
    found = attack(kernel, LAUNCH, machine(), seed=1, executions=20, steps=4000)
    assert not found.violations
    assert (found.code is None) == (name in BOUNDED)


def test_a_loop_is_executed_as_often_as_its_longest_lanes_do() -> None:
    text = (UNSOUND / "longest_lanes.ptx").read_text()
    counted, rest = text.split("mov.u32 %r8, 0;\nM:")
    alone = counted + rest[rest.index("E:") :]
    kernel = parse_kernel(alone)
    analysis = analyse_kernel(kernel, Launch((32, 1, 1), (40, 1, 1)), machine())
    ((path,),) = [piece.paths.warps for piece in analysis.pieces]
    assert next(loop_entries(path.nodes)).iterations.base == 39 + 36


@pytest.mark.parametrize(
    "index", ["mov.u32 %r1, %tid.x;", "ld.global.u32 %r1, [%rd3];", "ld.global.u32 %r1, [%rd1];"]
)
def test_indexed_branches_are_executed_as_their_paths_say(index: str) -> None:
    text = INDEXED.replace("INDEX", index)
    kernel = parse_kernel(text)
    found = attack(kernel, LAUNCH, machine(), seed=1, executions=20, steps=200)
    assert found.code is None
    assert not found.violations


def test_a_growing_loop_may_hold_one_that_grows_with_another_counter() -> None:
    path = UNSOUND.parent / "crashes" / "growing_inside.ptx"
    (kernel,) = parse_file(path).kernels
    analysis = analyse_kernel(kernel, LAUNCH, machine())
    executed = sum(i * j for i in range(70) for j in range(70))  # bodies of the innermost loop
    ((warp,),) = [piece.paths.warps for piece in analysis.pieces]
    names = {analysis.cfg.name(block.id): block.id for block in analysis.cfg.blocks}
    visits = frozenset({(names["L3"], True), (names["L3"], False)})
    _, most = count_visits(warp.nodes, visits)
    assert most >= executed
    assert analysis.worst.bound.cycles > 3 * executed


FOUND_AT_RANDOM = {
    "what is always true of an unknown number": (
        "ld.global.u32 %r1, [%rd1]; setp.ge.u32 %p1, %r1, 0; @%p1 bra L0;"
    ),
    "what is always true of an unknown number, negated": (
        "ld.global.u32 %r1, [%rd1]; setp.ge.u32 %p1, %r1, 0; not.pred %p2, %p1; @%p2 bra L0;"
    ),
    "a lane that the warp lacks is read by lanes apart": (
        "ld.global.u8 %r1, [%rd3]; shfl.sync.idx.b32 %r2, %r1, 31, 31, -1; and.b32 %r2, %r2, 1;"
        "setp.eq.u32 %p1, %r2, 0; @%p1 bra L0;"
    ),
    "lanes that are no members of a reduction are apart": (
        "ld.global.u8 %r1, [%rd3]; setp.lt.u32 %p2, %r3, 2; @%p2 ret;"
        "redux.sync.add.s32 %r2, %r1, 3; setp.lt.s32 %p1, %r2, 99; @%p1 bra L0;"
    ),
    "lanes that are no members read a member": (
        "ld.global.u8 %r1, [%rd3]; shfl.sync.idx.b32 %r2, %r1, 0, 31, 1;"
        "setp.lt.u32 %p1, %r2, 9; @%p1 bra L0;"
    ),
    "lanes that are no members are told whether a member is in range": (
        "ld.global.u8 %r1, [%rd3]; shfl.sync.idx.b32 %r2|%p1, %r1, 0, 31, 3; @%p1 bra L0;"
    ),
    "data do not name all lanes that vote": (
        "ld.global.u8 %r1, [%rd3]; setp.gt.u32 %p2, %r1, 9; ld.global.u32 %r4, [%rd1];"
        "vote.sync.any.pred %p1, %p2, %r4; @%p1 bra L0;"
    ),
    "a ballot does not name all lanes that vote": (
        "ld.global.u8 %r1, [%rd3]; setp.gt.u32 %p2, %r1, 9; vote.sync.ballot.b32 %r4, %p2, -1;"
        "vote.sync.any.pred %p1, %p2, %r4; @%p1 bra L0;"
    ),
    "data do not name all lanes that are compared": (
        "ld.global.u8 %r1, [%rd3]; ld.global.u32 %r4, [%rd1];"
        "match.all.sync.b32 %r2|%p1, %r1, %r4; @%p1 bra L0;"
    ),
    "data do not name all lanes of a reduction": (
        "ld.global.u8 %r1, [%rd3]; ld.global.u32 %r4, [%rd1]; redux.sync.add.u32 %r2, %r1, %r4;"
        "setp.lt.u32 %p1, %r2, 9; @%p1 bra L0;"
    ),
    "a lane that has left is read by lanes apart": (
        "ld.global.u8 %r1, [%rd3]; and.b32 %r4, %r1, 3; setp.eq.u32 %p2, %r4, 0; @%p2 ret;"
        "shfl.sync.idx.b32 %r2, %r1, 0, 31, -1; setp.lt.u32 %p1, %r2, 9; @%p1 bra L0;"
    ),
    "a special register of 64 bits, converted": (
        "cvt.u64.u64 %rd2, %globaltimer; shr.u64 %rd2, %rd2, 32;"
        "setp.ne.s64 %p1, %rd2, 0; @%p1 bra L0;"
    ),
}


@pytest.mark.parametrize("body", FOUND_AT_RANDOM.values(), ids=FOUND_AT_RANDOM)
@pytest.mark.parametrize("threads", [5, 32])
def test_what_random_kernels_found(body: str, threads: int) -> None:
    text = FOUND.replace("BODY", body)
    kernel = parse_kernel(text, "found.ptx")
    launch = Launch((threads, 1, 1))
    found = attack(kernel, launch, machine(), seed=1, executions=20, steps=200)
    assert found.code is None
    assert not found.violations
    assert not contained(kernel, launch, seed=1, executions=3, steps=200).wrong


@pytest.mark.parametrize("amount", [5, 20, 31])
def test_a_range_is_not_split_into_as_many_parts_as_there_are_remainders(amount: int) -> None:
    body = (
        f"ld.param.u32 %r1, [n]; cvt.u64.u32 %rd2, %r1; shr.u64 %rd2, %rd2, {amount};"
        "setp.ne.s64 %p1, %rd2, 1; @%p1 bra L0;"
    )
    text = FOUND.replace("BODY", body).replace("data)", "data, .param .u32 n)")
    kernel = parse_kernel(text, "found.ptx")
    launch = Launch((2, 1, 1), ranges={"n": (0, (1 << 32) - 1)})
    found, calls = counted(
        lambda: attack(kernel, launch, machine(), seed=1, executions=20, steps=200)
    )
    assert calls < 3_000_000  # one part for each remainder takes memory for ever
    assert found.code is None
    assert not found.violations


@pytest.mark.parametrize("grid", [(8, 1, 1), (2, 3, 1), None])
def test_a_block_index_inside_of_a_vector_is_that_of_every_block(
    grid: tuple[int, int, int] | None,
) -> None:
    text = (UNSOUND / "packed_index.ptx").read_text()
    kernel = parse_kernel(text, "packed_index.ptx")
    analysis = analyse_kernel(kernel, Launch((32, 1, 1), grid=grid), machine())
    visits = frozenset({(2, True), (2, False)})
    most = [count_visits(one.paths.warps[0].nodes, visits)[1] for one in analysis.pieces]
    assert max(most) == (30 if grid is None or grid[0] > 3 else 0)
