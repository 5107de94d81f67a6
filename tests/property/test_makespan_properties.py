"""Strings with loops against their letters; schedules against a checker that finds every slip."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from thoroughness import drawn

from ptxwcet.methods.makespan.closed_form import build_schedule, upper_makespan
from ptxwcet.methods.makespan.methods import PREFERENCES, play
from ptxwcet.methods.makespan.schedule import Schedule, ScheduleError, Slot, check_schedule
from ptxwcet.methods.makespan.strings import (
    Loop,
    StringShape,
    join_shapes,
    repeat_letters,
    shape_of,
    unrolled,
)

LETTERS = st.text("LC", min_size=1, max_size=12)
TREES = st.recursive(
    st.text("LC", max_size=5),
    lambda inner: st.builds(Loop, st.integers(0, 4), st.lists(inner, max_size=3).map(tuple)),
    max_leaves=6,
)


def most_pairs(string: str) -> int:
    """M by dynamic programming over prefixes."""
    best = [0, 0]
    for i in range(1, len(string)):
        paired = best[i - 1] + 1 if string[i] != string[i - 1] else 0
        best.append(max(best[i], paired))
    return best[len(string)] if string else 0


@given(st.lists(TREES, max_size=4).map(tuple))
def test_a_shape_is_that_of_the_letters(tree) -> None:
    string = unrolled(tree, 100_000)
    shape = shape_of(tree)
    assert (shape.length, shape.loads) == (len(string), string.count("L"))
    assert shape.pairs == most_pairs(string)
    assert shape == (shape_of((string,)) if string else StringShape())


def test_shapes_of_parts_add_up_to_that_of_the_whole() -> None:
    strings = [""] + ["".join(one) for n in range(1, 6) for one in product("LC", repeat=n)]
    shapes = {string: shape_of((string,)) for string in strings}
    for left, right in product(strings, repeat=2):
        assert join_shapes(shapes[left], shapes[right]) == shape_of((left + right,))


def test_loops_are_not_unrolled() -> None:
    shape = shape_of((Loop(10**30, ("LLC", Loop(10**20, ("LC",)))),))
    assert shape.length == 10**30 * (3 + 2 * 10**20)
    # L, LC LC ... and so on: each iteration adds its pairs, the first L is one too many
    assert shape.pairs == 10**30 * (1 + 10**20)


@given(st.lists(TREES, max_size=3).map(tuple), st.integers(1, 3), st.integers(1, 3))
def test_repeated_letters(tree, loads: int, cores: int) -> None:
    string = unrolled(tree, 100_000)
    wanted = "".join(letter * (loads if letter == "L" else cores) for letter in string)
    assert unrolled(repeat_letters(tree, loads, cores), 1_000_000) == wanted


@settings(deadline=None, max_examples=drawn(60))
@given(st.text("LC", min_size=1, max_size=40), st.integers(3, 25))
def test_closed_form_schedules_of_long_strings(string: str, warps: int) -> None:
    schedule = build_schedule(string, warps)
    found = check_schedule(schedule, string, warps, 1, 1)
    assert found == upper_makespan(shape_of((string,)), warps)


@settings(deadline=None)
@given(
    LETTERS,
    st.integers(1, 6),
    st.integers(1, 3),
    st.integers(1, 3),
    st.sampled_from(PREFERENCES),
    st.data(),
)
def test_a_changed_schedule_is_refused(
    string: str, warps: int, load_store: int, cores: int, prefer, data
) -> None:
    schedule = play(string, warps, load_store, cores, prefer)
    machine = (string, warps, load_store, cores)
    assert check_schedule(schedule, *machine) == schedule.makespan
    number = data.draw(st.integers(0, schedule.makespan - 1))
    slot = schedule.slots[number]
    change = data.draw(st.sampled_from(["leave out", "twice", "idle", "other unit", "end early"]))
    changed = list(schedule.slots)
    match change:
        case "leave out" if slot.load_store:
            changed[number] = Slot(slot.load_store[1:], slot.cores)
        case "leave out":
            changed[number] = Slot((), slot.cores[1:])
        case "twice":
            changed[number] = Slot(slot.load_store + slot.load_store, slot.cores + slot.cores)
        case "idle":
            changed.insert(number, Slot((), ()))
        case "other unit":
            assume(slot.load_store != slot.cores)
            changed[number] = Slot(slot.cores, slot.load_store)
        case "end early":
            changed = changed[:-1]
    with pytest.raises(ScheduleError):
        check_schedule(Schedule(tuple(changed)), *machine)
