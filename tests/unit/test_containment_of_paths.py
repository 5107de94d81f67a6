"""The check of executed paths, where it allows more than one path: what it accepts and refuses.

Lanes execute a side late, behind a choice that only some of them take, or end in a loop while
others wait behind it. Each has a twin without the reason to accept, which stays refused.
"""

from __future__ import annotations

import pytest

from ptxwcet.flow.launch import BoundOrigin
from ptxwcet.flow.walk.path import (
    AffineCount,
    Path,
    PathChoice,
    PathEnd,
    PathFork,
    PathGone,
    PathLoop,
    PathNode,
    PathParts,
    PathRepeat,
    PathUnordered,
    Visit,
)
from ptxwcet.validate.containment import Departure, find_departure

pytestmark = pytest.mark.fast


def steps(text: str) -> tuple[Visit, ...]:
    """``1 2t``: block 1 and then block 2, whose branch is taken."""
    return tuple(Visit(int(word.rstrip("t")), word.endswith("t")) for word in text.split())


def times(count: int, *body: PathNode) -> PathRepeat:
    return PathRepeat(AffineCount(count), AffineCount(count), body)


def loop(*body: PathNode) -> PathLoop:
    return PathLoop(0, body, AffineCount(2), BoundOrigin.USER, "")


def is_allowed(path: Path, executed: str) -> bool:
    return find_departure(path, steps(executed)) is None


# --- sides that come late -------------------------------------------------------------------------

SIDE, OTHER = steps("2"), steps("3")
FORK = PathFork(1, SIDE, OTHER, straight=False, jumps=True)
LATE = (FORK, *steps("4"), PathParts(1, (SIDE,)), *steps("5"))


@pytest.mark.parametrize(
    "executed", ["1t 2 4 5", "1 3 4 5", "1t 2 3 4 5", "1t 3 2 4 5", "1t 3 4 2 5"]
)
def test_a_side_may_come_late(executed: str) -> None:
    assert is_allowed(LATE, executed)


@pytest.mark.parametrize(
    "executed",
    [
        "1 3 4 3 5",  # the side that is not late
        "1t 2 4 3 5",
        "1t 3 4 2 2 5",  # more often than once
        "1t 3 4 5 2",  # behind its place
        "1t 4 2 5",  # none at the branch
        "1t 3 4 2",  # not to the end
    ],
)
def test_no_other_side_comes_late_and_none_elsewhere(executed: str) -> None:
    assert not is_allowed(LATE, executed)


@pytest.mark.parametrize("late", [(), (PathParts(1, (steps("9"),)),), (PathParts(1, (OTHER,)),)])
def test_a_side_that_is_not_late_is_executed_at_its_branch(late: Path) -> None:
    path = (FORK, *steps("4"), *late, *steps("5"))
    assert is_allowed(path, "1t 3 2 4 5")
    assert not is_allowed(path, "1t 3 4 5")
    assert not is_allowed(path, "1t 3 4 2 5")


LATER = (*steps("4"), PathParts(1, (SIDE,)))


@pytest.mark.parametrize(
    ("path", "executed"),
    [
        ((times(2, FORK, *LATER),), "1t 3 4 2 1t 3 4 2"),
        ((loop(times(1, FORK, *LATER)),), "1t 3 4 2"),
        ((times(1, PathRepeat(AffineCount(1), AffineCount(1), (FORK, *LATER))),), "1t 3 4 2"),
        ((PathChoice(((FORK, *LATER), steps("6"))),), "1t 3 4 2"),
        ((PathUnordered((FORK, *LATER), steps("6")),), "6 1t 3 4 2"),
        ((PathUnordered(steps("6"), (FORK, *LATER)),), "6 1t 3 4 2"),
        ((PathFork(6, (FORK, *LATER), steps("7"), straight=False, jumps=True),), "6t 1t 3 4 2"),
        ((PathFork(6, steps("7"), (FORK, *LATER), straight=False, jumps=True),), "6 1t 3 4 2"),
        ((PathParts(1, ((FORK, *LATER),), 1),), "1t 3 4 2"),
        ((PathParts(1, ((FORK, *LATER),)),), "1t 3 4 2"),
    ],
)
def test_late_sides_are_found_at_any_depth(path: Path, executed: str) -> None:
    assert is_allowed(path, executed)
    assert not is_allowed(path, executed.removesuffix("4 2") + "2t 4")


# --- choices of which only some lanes take an alternative -----------------------------------------

ENDS = PathEnd(*steps("1t"), steps("8"), *steps("1"))


@pytest.mark.parametrize("executed", ["1t 8 3", "1 2 3", "3", "1t 8"])
def test_lanes_that_took_a_choice_alone_may_end_before_the_others_go_on(executed: str) -> None:
    assert is_allowed((PathChoice(((ENDS, *steps("2")), ())), *steps("3")), executed)


@pytest.mark.parametrize("executed", ["1t 8 2 3", "1 3", "2 3", "1t 8 3 3", "1 2"])
def test_such_a_choice_is_still_followed_to_its_end(executed: str) -> None:
    assert not is_allowed((PathChoice(((ENDS, *steps("2")), ())), *steps("3")), executed)


def test_where_all_lanes_take_a_choice_their_end_is_the_warps() -> None:
    path = (PathChoice(((ENDS, *steps("2")), steps("4"))), *steps("3"))
    for executed in ("1 2 3", "4 3", "1t 8"):
        assert is_allowed(path, executed)
    for executed in ("1t 8 3", "1t 8 4 3", "3"):
        assert not is_allowed(path, executed)
    gone = (PathChoice(((*steps("1"), PathGone()), steps("4"))), *steps("3"))
    assert is_allowed(gone, "1")
    assert not is_allowed(gone, "1 3")


# --- lanes that end in a loop that others have left -----------------------------------------------

ROUNDS = times(2, ENDS, *steps("2"))


@pytest.mark.parametrize("executed", ["1 2 1 2 3", "1t 8 3", "1 2 1t 8 3", "1t 8", "1 2 1t 8"])
def test_lanes_may_end_in_a_loop_while_others_wait_behind_it(executed: str) -> None:
    assert is_allowed((loop(ROUNDS), *steps("3")), executed)


@pytest.mark.parametrize(
    "executed",
    [
        "1 2 3",  # too few rounds
        "1 2 1 2 1t 8 3",  # too many
        "1t 8 2 1 2 3",  # on in a round after the end
        "1t 8 1 2 3",
        "1 2 1t 8 3 3",
    ],
)
def test_such_a_loop_is_still_followed(executed: str) -> None:
    assert not is_allowed((loop(ROUNDS), *steps("3")), executed)


def test_outside_of_a_loop_the_end_is_the_warps() -> None:
    for path in ((ROUNDS, *steps("3")), (ENDS, *steps("2 3"))):
        assert is_allowed(path, "1t 8")
        assert not is_allowed(path, "1t 8 3")
        assert not is_allowed(path, "1t 8 2 3")


def test_who_ends_in_a_loop_has_ended_for_all_that_is_around_it() -> None:
    path = (PathUnordered((loop(ROUNDS), *steps("3")), steps("4")), *steps("5"))
    assert is_allowed(path, "1t 8 4 5")
    assert is_allowed(path, "4 1t 8 5")
    assert not is_allowed(path, "1t 8 5")


def test_the_departure_says_how_far_it_came() -> None:
    assert find_departure(LATE, steps("1t 3 4 9 5")) == Departure(3, *steps("9"))
    assert find_departure(LATE, steps("1t 3 4 2")) == Departure(4, None)
