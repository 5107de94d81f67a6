"""Makespans: every method against every other, and against a search without symmetry."""

from __future__ import annotations

import json
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from makespan_search import longest_by_search
from makespan_states import count_reachable
from places import ROOT

from ptxwcet.methods.makespan.closed_form import (
    build_schedule,
    is_pessimistic_proved,
    pessimistic_makespan,
    segment_bounds,
    upper_makespan,
    waiting_makespan,
)
from ptxwcet.methods.makespan.ilp_model import Constraints, build_program
from ptxwcet.methods.makespan.methods import play_longest
from ptxwcet.methods.makespan.schedule import check_schedule
from ptxwcet.methods.makespan.states import (
    _choices,
    _most_choices,
    fill_table,
    longest_of_two,
    longest_schedule,
    rank_table,
)
from ptxwcet.methods.makespan.strings import shape_of
from ptxwcet.support.ilp import SolverStatus

EXPERIMENTS = ROOT / "docs" / "experiments"


def strings(most: int, first: str = "LC") -> list[str]:
    return [
        begin + "".join(rest)
        for length in range(1, most + 1)
        for begin in first
        for rest in product("LC", repeat=length - 1)
    ]


def test_table_against_search_without_symmetry() -> None:
    for string in strings(4):
        for warps, load_store, cores in product((1, 2, 3), (1, 2), (1, 2, 3)):
            table = fill_table(string, warps, load_store, cores)
            assert table.makespan == longest_by_search(string, warps, load_store, cores)


def test_table_against_search_in_the_range_of_the_integer_programs() -> None:
    for string in strings(6, first="L"):
        for warps in (2, 3, 4):
            wanted = longest_by_search(string, warps, 1, 1)
            assert fill_table(string, warps, 1, 1).makespan == wanted


@pytest.mark.parametrize(
    ("string", "warps", "load_store", "cores"),
    [("LCL", 5, 2, 1), ("LLCC", 4, 2, 2), ("LCCLL", 4, 1, 3), ("LCLCLC", 4, 1, 1)],
)
def test_table_against_search_for_more_warps(
    string: str, warps: int, load_store: int, cores: int
) -> None:
    table = fill_table(string, warps, load_store, cores)
    assert table.makespan == longest_by_search(string, warps, load_store, cores)


def test_schedules_and_bounds_enclose_the_table() -> None:
    for string in strings(4):
        shape = shape_of((string,))
        for warps, load_store, cores in product((1, 2, 4, 5), (1, 2, 3), (1, 2)):
            machine = (warps, load_store, cores)
            table = fill_table(string, *machine)
            longest = table.makespan
            assert check_schedule(longest_schedule(table), string, *machine) == longest
            played = play_longest(string, *machine)
            assert check_schedule(played, string, *machine) == played.makespan <= longest
            assert longest <= waiting_makespan(shape, *machine)
            if is_pessimistic_proved(shape, *machine):
                assert longest <= pessimistic_makespan(shape, *machine)


def test_closed_form_against_the_table() -> None:
    for string in strings(7):
        shape = shape_of((string,))
        for warps in (1, 3, 4, 5):
            assert fill_table(string, warps, 1, 1).makespan == upper_makespan(shape, warps)


def test_two_warps_against_the_table() -> None:
    for string in strings(8, first="L"):
        slots, schedule = longest_of_two(string)
        assert slots == fill_table(string, 2, 1, 1).makespan
        assert check_schedule(schedule, string, 2, 1, 1) == slots


def test_room_for_all_choices_of_a_slot() -> None:
    """Two warps at each of three letters: the most ways to pick two of them."""
    most = _most_choices("LLL", 6, 2, 1)
    room = [np.zeros(most + 9, np.int64) for _ in range(2)]
    ranks, kinds = rank_table(3, 6), np.zeros(3, np.int64)
    assert _choices(0, 2, kinds, ranks, 6, np.array([4, 2, 0]), *room) == most == 6


def test_two_warps_are_the_exceptions() -> None:
    """80 strings of at most 8 letters that begin with L; none of them takes longer."""
    exceptions = 0
    for string in strings(8, first="L"):
        longest, upper = (
            fill_table(string, 2, 1, 1).makespan,
            upper_makespan(shape_of((string,)), 2),
        )
        assert longest <= upper
        exceptions += longest < upper
    assert exceptions == 80


def test_built_schedules_take_as_long_as_the_closed_form() -> None:
    for string in strings(9, first="L"):
        shape = shape_of((string,))
        for warps in (1, 3, 4, 6):
            schedule = build_schedule(string, warps)
            assert check_schedule(schedule, string, warps, 1, 1) == upper_makespan(shape, warps)


def test_the_potential_of_the_proof_falls_by_no_more_than_double_slots() -> None:
    """The upper half of the closed form, step by step: every state, every slot."""
    for string in strings(6, first="L"):
        for warps in (2, 3, 4):
            for state in combinations_with_replacement(range(len(string) + 1), warps):
                before = potential(string, state)
                for after, served in successors(string, state):
                    assert before - potential(string, after) <= served - 1


def potential(string: str, state: tuple[int, ...]) -> int:
    """Pairs left to all warps but the last, and the odd warps of the rarer letter."""
    if min(state) == len(string):
        return 0
    left = {end: end - start for start, end in segment_bounds(string)}
    ends = sorted(left)
    pairs, odd = 0, {"L": 0, "C": 0}
    last, *others = sorted(state)
    odd[string[last]] += 1
    for place in others:
        if place == len(string):
            continue
        end = next(one for one in ends if one > place)
        pairs += (end - place) // 2 + sum(left[one] // 2 for one in ends if one > end)
        odd[string[place]] += (end - place) % 2
    return pairs + min(odd.values())


def successors(string: str, state: tuple[int, ...]):
    queues = [sorted({p for p in state if p < len(string) and string[p] == kind}) for kind in "LC"]
    for pick in product(*(queue or [None] for queue in queues)):
        moved = [place for place in pick if place is not None]
        after = list(state)
        for place in moved:
            after[after.index(place)] += 1
        if moved:
            yield tuple(sorted(after)), len(moved)


def test_program_of_the_paper_against_the_table() -> None:
    """A part of the campaign of benchmarks/makespan_ilp.py, both kinds of constraints."""
    for constraints in Constraints:
        for string in strings(3, first="L"):
            for warps in (1, 2, 3):
                program = build_program(string, warps, 1, 1, constraints)
                found = program.solve()
                assert found.status is SolverStatus.OPTIMAL
                assert found.objective == fill_table(string, warps, 1, 1).makespan
                schedule = program.schedule(found)
                assert check_schedule(schedule, string, warps, 1, 1) == found.objective


def test_committed_results_of_the_integer_programs() -> None:
    """Solved to the end: both agree. Stopped: the table lies between what was found and proved."""
    rows = json.loads((EXPERIMENTS / "makespan-ilp.json").read_text())
    solved = [row for row in rows if row["status"] == "optimal"]
    assert {(row["string"], row["warps"]) for row in solved} >= {
        (string, warps) for string in strings(5, first="L") for warps in (1, 2, 3, 4)
    }
    for row in rows:
        table = fill_table(row["string"], row["warps"], 1, 1).makespan
        assert row["states"] == table
        assert (row["ilp"] or 0) <= table <= row["ilp_bound"]
        if row["status"] == "optimal":
            assert row["ilp"] == row["ilp_bound"]


@pytest.mark.parametrize(("string", "warps", "load_store"), [("LL", 4, 2), ("LCL", 3, 2)])
def test_program_with_units_that_serve_several(string: str, warps: int, load_store: int) -> None:
    found = build_program(string, warps, load_store, 1, Constraints.SHORT).solve()
    assert found.objective == fill_table(string, warps, load_store, 1).makespan


def test_states_that_are_reached() -> None:
    for string, warps in (("LCL", 3), ("LLCC", 3), ("LCLC", 4)):
        seen, todo = set(), [(0,) * warps]
        while todo:
            state = todo.pop()
            if state not in seen:
                seen.add(state)
                todo += [after for after, _ in successors(string, state)]
        assert count_reachable(string, warps) == len(seen)
