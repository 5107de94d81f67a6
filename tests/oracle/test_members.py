"""What lanes get from one another, where the ISA leaves open what the missing ones give.

Each kernel reduces bytes and asks whether the result is above what bytes can give. Members that are
elsewhere may give anything, lanes that are no members may find anything: then it may be.
"""

from __future__ import annotations

import pytest
from containment_runs import contained
from isa_lanes import Around, match, redux, shuffle, vote
from isa_types import U32, Type
from parsing import parse_kernel
from path_attack import attack, machine
from test_adversary import FOUND

from ptxwcet.flow.launch import Launch

LOAD = "ld.global.u8 %r1, [%rd3]; setp.gt.u32 %p2, %r1, 9; setp.lt.u32 %p1, %r3, 3;"
MOST = "redux.sync.max.u32 %r2, %r1, -1;"
ABOVE = "setp.gt.u32 %p1, %r2, 255; @%p1 bra L0;"

OPEN = {
    "on one side of a branch": f"@%p2 bra L1; {MOST} {ABOVE}",
    "on both sides": f"@%p2 bra X; {MOST} bra Y; X: mov.u32 %r1, 1000; {MOST} Y: {ABOVE}",
    "in a loop that lanes leave one by one": (
        f"mov.u32 %r4, 0; N: {MOST} add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, %r1; @%p2 bra N;"
        + ABOVE
    ),
    "guarded": f"mov.u32 %r2, %r1; @%p1 {MOST} {ABOVE}",
    "guarded, and used by those lanes": f"@%p1 {MOST} @!%p1 bra L1; {ABOVE}",
    "by lanes that are no members": f"redux.sync.max.u32 %r2, %r1, 1; {ABOVE}",
    "by fewer lanes in the last warp": (
        "add.u32 %r1, %r1, 100; redux.sync.add.u32 %r2, %r1, -1;"
        "setp.lt.u32 %p1, %r2, 3200; @%p1 bra L0;"
    ),
    "with a mask that is data": (
        f"ld.global.u32 %r4, [%rd1]; redux.sync.max.u32 %r2, %r1, %r4; {ABOVE}"
    ),
}
WHOLE = {
    "by all lanes": MOST + ABOVE,
    "with all lanes that there are": f"mov.u32 %r4, 31; redux.sync.max.u32 %r2, %r1, %r4; {ABOVE}",
    "behind a branch of the warp": (
        f"vote.sync.any.pred %p2, %p2, -1; @%p2 bra L1; {MOST} mov.u32 %r4, 0; {ABOVE}"
    ),
}


@pytest.mark.parametrize("body", [*OPEN.values(), *WHOLE.values()], ids=[*OPEN, *WHOLE])
@pytest.mark.parametrize("threads", [5, 32, 40])
def test_reductions_are_bounded_where_all_members_are_known_to_be_there(
    body: str, threads: int
) -> None:
    kernel = parse_kernel(FOUND.replace("BODY", LOAD + body))
    launch = Launch((threads, 1, 1))
    found = attack(kernel, launch, machine(), seed=1, executions=20, steps=200)
    assert found.code is None
    assert not found.violations
    assert not contained(kernel, launch, seed=1, executions=3, steps=200).wrong


class Given:
    """Numbers that are given where something is undefined; what is defined takes none."""

    def __init__(self, *numbers: int) -> None:
        self.left = list(numbers)

    def __call__(self, bits: int) -> int:
        return self.left.pop(0)


FOUR = {0: [5, 15], 1: [7, 15], 2: [5, 15], 3: [6, 15]}
BIT = Type("p", 1)


def around(*numbers: int, lanes: int = 15) -> Around:
    return Around(lanes, Given(*numbers))


@pytest.mark.parametrize("lanes", [0, 15])
def test_what_all_members_execute_is_defined(lanes: int) -> None:
    there = around(lanes=lanes)
    assert redux(("redux", "sync", "add"), FOUR, U32, there) == dict.fromkeys(range(4), 23)
    assert vote(("vote", "sync", "all"), FOUR, BIT, there) == dict.fromkeys(range(4), 1)
    assert vote(("vote", "sync", "ballot"), FOUR, BIT, there) == dict.fromkeys(range(4), 15)
    assert match(("match", "any", "sync"), FOUR, U32, there) == {
        0: (5, 1), 1: (2, 1), 2: (5, 1), 3: (8, 1)
    }  # fmt: skip
    read = {lane: [value, 1, 31, 15] for lane, (value, _) in FOUR.items()}
    assert shuffle(("shfl", "sync", "idx"), read, U32, there) == dict.fromkeys(range(4), (7, 1))


def test_lanes_that_have_ended_give_nothing_and_those_elsewhere_anything() -> None:
    rows = {lane: [value, 0b110111] for lane, (value, _) in FOUR.items() if lane < 3}
    for lanes, given, total in ((0b000111, (), 17), (0b010111, (100,), 117)):
        found = redux(("redux", "sync", "add"), rows, U32, around(*given, lanes=lanes))
        assert found == dict.fromkeys(range(3), total)
    found = vote(("vote", "sync", "ballot"), rows, BIT, around(1, 0, lanes=0b110111))
    assert found == dict.fromkeys(range(3), 0b010111)
    assert vote(("vote", "ballot"), {0: [1], 2: [0]}, BIT, around()) == {0: 1, 2: 1}


def test_lanes_that_are_no_members_find_anything_each() -> None:
    rows = {0: [5, 1], 1: [7, 1], 2: [5, 1]}
    assert redux(("redux", "sync", "add"), rows, U32, around(8, 9)) == {0: 5, 1: 8, 2: 9}
    assert vote(("vote", "sync", "any"), rows, BIT, around(0, 1)) == {0: 1, 1: 0, 2: 1}
    read = {lane: [value, 0, 31, 1] for lane, (value, _) in rows.items()}
    found = shuffle(("shfl", "sync", "idx"), read, U32, around(8, 0, 9, 1))
    assert found == {0: (5, 1), 1: (8, 0), 2: (9, 1)}


def test_a_lane_that_takes_no_part_is_read_as_anything_by_each() -> None:
    read = {lane: [lane, 3, 31, 15] for lane in (0, 1)}
    found = shuffle(("shfl", "sync", "idx"), read, U32, around(8, 9))
    assert found == {0: (8, 1), 1: (9, 1)}
    down = {lane: [lane, 1, 2, 7] for lane in range(3)}  # the last one is out of range
    found = shuffle(("shfl", "sync", "down"), down, U32, around())
    assert found == {0: (1, 1), 1: (2, 1), 2: (2, 0)}


def test_lanes_with_different_masks_do_not_exchange() -> None:
    rows = {0: [1, 3], 1: [2, 3], 2: [4, 12], 3: [8, 12]}
    found = redux(("redux", "sync", "or"), rows, U32, around())
    assert found == {0: 3, 1: 3, 2: 12, 3: 12}
