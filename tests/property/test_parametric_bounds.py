"""The bound as a function of a parameter against the bound at each value of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from thoroughness import drawn

from ptxwcet.bounds.analysis import analyse_block
from ptxwcet.bounds.formula import formula_of
from ptxwcet.bounds.parametric import Unsettled, solve
from ptxwcet.bounds.safe import bound_safe
from ptxwcet.machine.loader import load_machine
from ptxwcet.support.affine import variable
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.timing.phases import profile_warp
from ptxwcet.warp.program import (
    Barrier,
    BlockChoice,
    BlockWorkload,
    Choice,
    Node,
    Repeat,
    Scoreboard,
    TimedInstruction,
    Unordered,
    WarpClass,
    WarpProgram,
    is_single_path,
)

MACHINE = load_machine("orin-ecrts2025")
UNITS = ("INT", "SP", "SFU", "LDST")
REGISTERS = ("a", "b", "c", "d")
FEW = 24
Maker = Callable[[int], Node]
"""A node for a value of the parameter, a number or an Affine."""


@st.composite
def instructions(draw: st.DrawFn) -> Maker:
    names = st.lists(st.sampled_from(REGISTERS), max_size=2, unique=True).map(tuple)
    made = TimedInstruction(
        draw(st.sampled_from(UNITS)),
        draw(st.integers(1, 5)),
        draw(st.sampled_from((0, 1, 3, 9, 30))),
        draw(names),
        draw(names),
        draw(st.booleans()),
        draw(st.sampled_from((0, 0, 1))),
    )
    return lambda _: made


def barriers() -> st.SearchStrategy[Maker]:
    barrier = Barrier(TimedInstruction("INT", 1, 4))
    return st.just(lambda _: barrier)


def bodies(inner: st.SearchStrategy[Maker]) -> st.SearchStrategy[tuple[Maker, ...]]:
    return st.lists(inner, min_size=1, max_size=3).map(tuple)


def made(body: Sequence[Maker], s: int) -> tuple[Node, ...]:
    return tuple(make(s) for make in body)


@st.composite
def loops(draw: st.DrawFn, inner: st.SearchStrategy[Maker], *, exact: bool) -> Maker:
    base, slope = draw(st.integers(0, 4)), draw(st.sampled_from((0, 0, 0, 1, 1, 2, 3)))
    less = 0 if exact else draw(st.sampled_from((0, 0, base, base // 2)))
    less_slope = slope if exact else draw(st.integers(0, slope))
    body = draw(bodies(inner))

    def make(s: int) -> Node:
        count = base + slope * s
        return Repeat(count, made(body, s), base - less + less_slope * s)

    return make


@st.composite
def branches(draw: st.DrawFn, inner: st.SearchStrategy[Maker]) -> Maker:
    one, two = draw(bodies(inner)), draw(bodies(inner))
    if draw(st.booleans()):
        return lambda s: Unordered(made(one, s), made(two, s))
    return lambda s: Choice((made(one, s), made(two, s)))


@st.composite
def block_branches(draw: st.DrawFn, inner: st.SearchStrategy[Maker]) -> Maker:
    one, two = draw(bodies(inner)), draw(bodies(inner))
    return lambda s: BlockChoice(1, (made(one, s), made(two, s)))


SINGLE = st.recursive(
    instructions(), lambda inner: st.one_of(loops(inner, exact=True), inner), max_leaves=8
)
OPEN = st.recursive(
    instructions(),
    lambda inner: st.one_of(loops(inner, exact=False), branches(inner), inner),
    max_leaves=8,
)
WITH_BARRIERS = st.recursive(
    st.one_of(instructions(), instructions(), barriers()),
    lambda inner: st.one_of(loops(inner, exact=True), block_branches(inner), inner),
    max_leaves=8,
)
BOARDS = st.sampled_from(Scoreboard)


def check(function: Callable[[int], int], numbers: Sequence[int], count: int) -> None:
    """The pieces and the formula have the function's values, or there is none."""
    try:
        solved = solve(function, count)
        formula = formula_of(solved)
    except Unsettled as unsettled:
        event(f"refused: {unsettled.reason[:40]}")
        return
    assert sum(one.numbers.count for one in solved) == count
    event(f"up to {10 ** len(str(len(solved)))} pieces")
    assert [formula.at(s) for s in numbers] == [function(s) for s in numbers]


@settings(max_examples=drawn(300), deadline=None)
@given(bodies(SINGLE), BOARDS)
def test_length_of_a_single_path(body: tuple[Maker, ...], board: Scoreboard) -> None:
    def length(s: int) -> int:
        return profile_warp(made(body, s), board).isolated_cycles

    check(length, range(FEW), FEW)
    check(length, (*range(FEW), 997, 10**6 - 1), 10**6)


@settings(max_examples=drawn(300), deadline=None)
@given(bodies(OPEN), BOARDS)
def test_length_over_open_paths(body: tuple[Maker, ...], board: Scoreboard) -> None:
    def length(s: int) -> int:
        return profile_warp(made(body, s), board).isolated_cycles

    check(length, (*range(FEW), 997, 10**6 - 1), 10**6)


def block_bound(
    programs: Sequence[tuple[Maker, ...]], warps: int, board: Scoreboard, s: int
) -> int:
    """SAFE of a block whose warps execute the programs in turn; -1 if it is refused."""
    classes = tuple(
        WarpClass(WarpProgram(made(body, s)), tuple(range(index, warps, len(programs))))
        for index, body in enumerate(programs)
    )
    return bound_safe(analyse_block(BlockWorkload(classes, board), MACHINE)).cycles


@settings(max_examples=drawn(200), deadline=None)
@given(st.lists(bodies(SINGLE), min_size=1, max_size=3), st.integers(3, 9), BOARDS)
def test_bound_of_a_block(programs: list[tuple[Maker, ...]], warps: int, board: Scoreboard) -> None:
    def bound(s: int) -> int:
        return block_bound(programs, warps, board, s)

    check(bound, (*range(FEW), 10**6 - 1), 10**6)


@settings(max_examples=drawn(200), deadline=None)
@given(bodies(WITH_BARRIERS), bodies(SINGLE), st.integers(1, 9), BOARDS)
def test_bound_of_a_block_with_barriers(
    body: tuple[Maker, ...], tail: tuple[Maker, ...], warps: int, board: Scoreboard
) -> None:
    def bound(s: int) -> int:
        try:
            return block_bound((body, (*body, *tail)), warps, board, s)
        except PtxwcetError as error:  # barriers that the method refuses, the same for every s
            return -sum(map(ord, error.diagnostics[0].code))

    check(bound, (*range(FEW), 10**6 - 1), 10**6)


def instruction(unit: str, init: int, latency: int, *registers: str) -> TimedInstruction:
    return TimedInstruction(unit, init, latency, registers[:1], registers[1:])


def test_a_queue_that_grows_takes_over_later() -> None:
    """A free-running unit falls behind by a cycle each time; a fixed delay hides that at first."""
    loop = (instruction("SFU", 5, 0), instruction("INT", 1, 3, "a", "a"))
    after = (instruction("SP", 1, 300, "b", "c"), instruction("SFU", 1, 7, "d", "d"))

    def length(s: int) -> int:
        return profile_warp((Repeat(s, loop), *after), Scoreboard.RAW).isolated_cycles

    solved = solve(length, 10**9)
    assert [formula_of(solved).at(s) for s in range(900)] == [length(s) for s in range(900)]
    slopes = [one.slope // one.numbers.step for one in solved if one.numbers.count > 9]
    assert slopes == [4, 5]


def test_a_loop_of_period_three() -> None:
    """Counts that fall into three remainders of a longer period."""
    loop = (
        instruction("SP", 3, 8, "a", "b"),
        instruction("INT", 1, 1, "b", "c"),
        instruction("SFU", 4, 7, "c", "a"),
        instruction("SP", 2, 9, "d", "d"),
    )
    for factor in (1, 2, 3):

        def length(s: int, factor: int = factor) -> int:
            body = (Repeat(factor * s + 1, loop), instruction("SP", 1, 1, "d"))
            return profile_warp(body, Scoreboard.RAW).isolated_cycles

        formula = formula_of(solve(length, 10**6))
        assert [formula.at(s) for s in range(300)] == [length(s) for s in range(300)]


def test_inner_counts_that_depend_on_it_in_a_constant_loop() -> None:
    inner = Repeat(variable(0, 1, 50), (instruction("SP", 3, 8, "a", "a"),))
    assert inner.exact

    def length(s: int) -> int:
        body = (instruction("INT", 1, 2, "b", "b"), Repeat(s, inner.body))
        return profile_warp((Repeat(1000, body),), Scoreboard.RAW_WAW).isolated_cycles

    formula = formula_of(solve(length, 10**6))
    assert [formula.at(s) for s in range(50)] == [length(s) for s in range(50)]


def test_a_count_for_all_values_is_no_single_path() -> None:
    """E, which is not monotone, is not asked of it."""
    body = (Repeat(variable(0, 1, 50), (instruction("SP", 3, 8, "a", "a"),)),)
    assert not is_single_path(body)
    assert profile_warp((Repeat(variable(9, 1, 50), body[0].body),), Scoreboard.RAW).phases is None


def test_a_triangle_is_refused() -> None:
    loop = (instruction("SP", 3, 8, "a", "a"),)

    def length(s: int) -> int:
        return profile_warp((Repeat(s, (Repeat(s, loop),)),), Scoreboard.RAW).isolated_cycles

    with pytest.raises(Unsettled, match="product"):
        solve(length, 10**6)
