"""Numbers of parts of programs: the same for equal parts, and only for these."""

from __future__ import annotations

from copy import deepcopy

from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import drawn

from ptxwcet.support.affine import variable
from ptxwcet.warp.program import (
    OTHERS_BETWEEN,
    Barrier,
    BlockChoice,
    Choice,
    Node,
    Repeat,
    Tally,
    TimedInstruction,
    Unordered,
)
from ptxwcet.warp.segments import conditional
from ptxwcet.warp.structure import Structures, bodies, entered

A, B = (TimedInstruction(unit, 1, 0) for unit in "AB")
LEAVES = (A, B, Barrier(A), Tally("n", 1), Tally("n", 2))


def around(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    bodies = st.lists(inner, max_size=2).map(tuple)
    sides = st.lists(bodies, max_size=2).map(tuple)
    return st.one_of(
        st.builds(Repeat, st.integers(1, 2), bodies, st.integers(0, 1)),
        st.builds(Unordered, bodies, bodies, st.booleans()),
        st.builds(Choice, sides),
        st.builds(BlockChoice, st.integers(0, 1), sides),
    )


NODES = st.recursive(st.sampled_from(LEAVES), around, max_leaves=4)
BODIES = st.lists(NODES, max_size=2).map(tuple)


@settings(max_examples=drawn(300), deadline=None)
@given(st.lists(BODIES, min_size=2, max_size=6))
def test_numbers_are_equal_for_equal_bodies_only(bodies: list[tuple[Node, ...]]) -> None:
    structures = Structures()
    copies = deepcopy(bodies)
    numbers = [structures.body(body) for body in bodies]
    assert [structures.body(body) for body in copies] == numbers
    for one, number in zip(bodies, numbers, strict=True):
        for other, other_number in zip(bodies, numbers, strict=True):
            assert (one == other) == (number == other_number)


def test_the_mark_of_others_tells_programs_apart() -> None:
    structures = Structures()
    assert structures.body((Unordered((), ()),)) != structures.body((OTHERS_BETWEEN,))


def test_counts_that_stand_for_several_numbers_are_not_compared() -> None:
    count = variable(0, 1, 5)
    one, other = Repeat(count, (A,)), Repeat(count, (A,))
    structures = Structures()
    assert structures.body((one,)) == structures.body((one,))
    assert structures.body((one,)) != structures.body((other,))


@settings(max_examples=drawn(150), deadline=None)
@given(BODIES)
def test_nodes_come_in_the_order_of_the_text(body: tuple[Node, ...]) -> None:
    """A node, then what lies in it, then what follows; not what is never executed."""

    def nested(nodes: tuple[Node, ...]) -> list[Node]:
        found: list[Node] = []
        for node in nodes:
            found.append(node)
            if not isinstance(node, Repeat) or node.count:
                found += [one for inner in bodies(node) for one in nested(inner)]
        return found

    whole = (*body, Repeat(0, body, 0), A)
    assert [id(one) for one in entered(whole)] == [id(one) for one in nested(whole)]


@settings(max_examples=drawn(150), deadline=None)
@given(BODIES)
def test_what_is_conditional_already_is_not_made_again(body: tuple[Node, ...]) -> None:
    """Sides in sides are asked for once more at each level; an instruction stays one."""
    once = conditional(body)
    assert conditional(once) is once
    issued = [node for node in entered(once) if isinstance(node, TimedInstruction)]
    assert all(one.conditional for one in issued)
    assert len(issued) == sum(isinstance(node, TimedInstruction) for node in entered(body))
