"""The methods of this project: bounds, closed form, dynamic program, and the best of them."""

from __future__ import annotations

from collections.abc import Callable

from ptxwcet.methods.makespan import closed_form
from ptxwcet.methods.makespan.problem import (
    MOST_LETTERS,
    Effort,
    MakespanAnswer,
    MakespanProblem,
    rounded,
    state_makespan,
    witness,
)
from ptxwcet.methods.makespan.schedule import Schedule, Slot
from ptxwcet.methods.makespan.states import (
    MOST_STATES,
    OutOfTime,
    count_states,
    fill_table,
    is_in_reach,
    longest_of_two,
    longest_schedule,
)
from ptxwcet.support.diagnostics import PtxwcetError

Preference = Callable[[int, int], tuple[int, int]]
"""Of a warp's position and number: who has less is served first."""

PREFERENCES: tuple[Preference, ...] = (
    lambda _position, warp: (warp, 0),  # the last warp starves
    lambda position, warp: (position, warp),  # those behind first: all stay together
    lambda position, warp: (-position, warp),  # those ahead first
    lambda position, warp: (position, -warp),
    lambda position, warp: (warp % 2, position),
)
"""The ways that are tried."""


def play(string: str, warps: int, load_store: int, cores: int, prefer: Preference) -> Schedule:
    """The work-conserving schedule of one preference. Cost: slots times warps."""
    position = [0] * warps
    slots: list[Slot] = []
    while True:
        waiting: dict[str, list[tuple[int, int]]] = {"L": [], "C": []}
        for warp, place in enumerate(position):
            if place < len(string):
                waiting[string[place]].append((place, warp))
        served = [
            tuple(sorted(w for _, w in sorted(waiting[kind], key=lambda at: prefer(*at))[:most]))
            for kind, most in (("L", load_store), ("C", cores))
        ]
        if not any(served):
            return Schedule(tuple(slots))
        slots.append(Slot(*served))
        for warp in (*served[0], *served[1]):
            position[warp] += 1


def play_longest(string: str, warps: int, load_store: int, cores: int) -> Schedule:
    """The longest of the schedules of :data:`PREFERENCES`."""
    runs = (play(string, warps, load_store, cores, prefer) for prefer in PREFERENCES)
    return max(runs, key=lambda schedule: schedule.makespan)


def solve_pessimistic(problem: MakespanProblem, effort: Effort) -> MakespanAnswer:
    """Equations 3 to 7 where they are proved, else the bound by waiting. Cost: constant.

    See :mod:`ptxwcet.methods.makespan.closed_form`.
    """
    terms = (problem.shape, problem.warps, *problem.capacities)
    published = closed_form.pessimistic_makespan(*terms)
    slots, place, note = published, "equations 3 to 7", ""
    if not closed_form.is_pessimistic_proved(*terms):
        slots, place = closed_form.waiting_makespan(*terms), ""
        note = (
            f"equations 3 to 7 give {published:,}, which is not proved for units that serve "
            "several warps: by waiting times instead"
        )
    schedule = witness(
        problem, lambda: play_longest(problem.string, problem.warps, *problem.capacities)
    )
    lower = problem.shape.length if schedule is None else schedule.makespan
    return state_makespan(slots, "pessimistic", place, lower=lower, schedule=schedule, note=note)


def solve_closed_form(problem: MakespanProblem, effort: Effort) -> MakespanAnswer:
    """The theorem. Raises PtxwcetError (PW565) where it does not apply. Cost: the schedule's."""
    warps, shape = problem.warps, problem.shape
    if not problem.is_unit or not closed_form.is_exact_for(warps):
        raise PtxwcetError.of(
            "PW565",
            "the closed form is for one warp a slot on each kind of unit, and not for two "
            "warps in all",
            help="the method exact answers for other machines too",
        )
    slots = closed_form.upper_makespan(shape, warps)
    schedule = witness(problem, lambda: closed_form.build_schedule(problem.string, warps), slots)
    note = f"I = {shape.length:,}, M = {shape.pairs:,}: I + (W - 1)(I - M)"
    return state_makespan(slots, "closed-form", lower=slots, schedule=schedule, note=note)


def solve_states(problem: MakespanProblem, effort: Effort) -> MakespanAnswer:
    """The dynamic program; bounds from both sides if time runs out. Raises PtxwcetError (PW564)."""
    string = problem.string
    if problem.is_unit and problem.warps == 2:
        slots, longest = longest_of_two(string)
        schedule = witness(problem, lambda: longest, slots)
        note = "longest path over the positions of two warps"
        return state_makespan(slots, "states", lower=slots, schedule=schedule, note=note)
    if not is_in_reach(string, problem.warps, *problem.capacities):
        states = count_states(len(string), problem.warps)
        raise PtxwcetError.of(
            "PW564",
            f"{problem.warps:,} warps and {len(string):,} instructions have "
            f"{rounded(states)} states: more than a table holds ({MOST_STATES:,}), or too many "
            "choices a slot",
            help="give fewer warps; the method exact gives bounds beyond",
        )

    def proceed(done: int, whole: int) -> bool:
        effort.report(f"{done:,} of {whole:,} states", done / whole)
        return not effort.is_over

    try:
        table = fill_table(string, problem.warps, *problem.capacities, proceed)
    except OutOfTime:
        return bound_both_sides(problem, effort, "states", "the time limit was reached")
    slots = table.makespan
    schedule = witness(problem, lambda: longest_schedule(table), slots)
    note = f"longest path over {table.states:,} states"
    return state_makespan(slots, "states", lower=slots, schedule=schedule, note=note)


def solve_exact(problem: MakespanProblem, effort: Effort) -> MakespanAnswer:
    """The closed form, else the dynamic program, else bounds from both sides."""
    if problem.is_unit and closed_form.is_exact_for(problem.warps):
        return solve_closed_form(problem, effort)
    if problem.shape.length > MOST_LETTERS:
        return bound_both_sides(problem, effort, "exact", "a string too long to write out")
    is_two = problem.is_unit and problem.warps == 2
    if not is_two and not is_in_reach(problem.string, problem.warps, *problem.capacities):
        return bound_both_sides(problem, effort, "exact", "too many states for a table")
    return solve_states(problem, effort)


def bound_both_sides(
    problem: MakespanProblem, effort: Effort, method: str, why: str
) -> MakespanAnswer:
    """What is safe without a search, and the longest schedule of a few."""
    answer = solve_pessimistic(problem, effort)
    if problem.is_unit:
        slots = closed_form.upper_makespan(problem.shape, problem.warps)
        note, known = "by the upper half of the closed form", (answer.lower, answer.schedule)
        answer = state_makespan(slots, method, lower=known[0], schedule=known[1], note=note)
    note = "; ".join(text for text in (why, answer.note) if text)
    return answer.under(method, note)
