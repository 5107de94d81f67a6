"""The methods of this project: bounds, closed form, dynamic program, and the best of them."""

from __future__ import annotations

from ptxwcet.claims import Guarantee
from ptxwcet.methods.makespan import closed_form, pessimistic
from ptxwcet.methods.makespan.answer import MakespanAnswer, state_makespan
from ptxwcet.methods.makespan.effort import (
    MOST_LETTERS,
    Effort,
    is_small,
    require_schedule,
    rounded,
)
from ptxwcet.methods.makespan.play import play_longest
from ptxwcet.methods.makespan.problem import MakespanProblem
from ptxwcet.methods.makespan.schedule import Schedule
from ptxwcet.methods.makespan.states import (
    MOST_STATES,
    OutOfTime,
    count_states,
    fill_table,
    is_in_reach,
)
from ptxwcet.methods.makespan.strings import unrolled
from ptxwcet.methods.makespan.two_warps import longest_of_two
from ptxwcet.methods.makespan.witness import longest_schedule
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError


def solve_pessimistic(problem: MakespanProblem, effort: Effort) -> MakespanAnswer:
    """Equations 3 to 7 where they are proved, else the bound by waiting. Cost: constant.

    See :mod:`ptxwcet.methods.makespan.pessimistic`.
    """
    terms = (problem.shape, problem.warps, problem.load_store, problem.cores)
    published = pessimistic.pessimistic_makespan(*terms)
    slots, place, note = published, "equations 3 to 7", ""
    if not pessimistic.is_pessimistic_proved(*terms):
        slots, place = pessimistic.waiting_makespan(*terms), ""
        note = (
            f"equations 3 to 7 give {published:,}, which is not proved for units that serve "
            "several warps: by waiting times instead"
        )
    schedule = _played(problem)
    lower = problem.shape.length if schedule is None else schedule.makespan
    return state_makespan(
        slots,
        Guarantee.SAFE_BOUND,
        "pessimistic",
        place,
        lower=lower,
        schedule=schedule,
        note=note,
    )


def solve_closed_form(problem: MakespanProblem, effort: Effort) -> MakespanAnswer:
    """The theorem. Raises PtxwcetError (PW565) where it does not apply. Cost: the schedule's."""
    warps, shape = problem.warps, problem.shape
    if not problem.is_unit or not closed_form.is_exact_for(warps):
        raise PtxwcetError(
            Diagnostic(
                "PW565",
                "the closed form is for one warp a slot on each kind of unit, and not for two "
                "warps in all",
                help="the method exact answers for other machines too",
            )
        )
    slots = closed_form.upper_makespan(shape, warps)
    schedule = None
    if is_small(problem):
        schedule = closed_form.build_schedule(unrolled(problem.tree, MOST_LETTERS), warps)
        require_schedule(problem, schedule, slots)
    return state_makespan(
        slots,
        Guarantee.SAFE_BOUND,
        "closed-form",
        "",
        lower=slots,
        schedule=schedule,
        note=f"I = {shape.length:,}, M = {shape.pairs:,}: I + (W - 1)(I - M)",
    )


def solve_states(problem: MakespanProblem, effort: Effort) -> MakespanAnswer:
    """The dynamic program; bounds from both sides if time runs out. Raises PtxwcetError (PW564)."""
    string = unrolled(problem.tree, MOST_LETTERS)
    if problem.is_unit and problem.warps == 2:
        return _solve_two(problem, string)
    if not is_in_reach(string, problem.warps, problem.load_store, problem.cores):
        states = count_states(len(string), problem.warps)
        raise PtxwcetError(
            Diagnostic(
                "PW564",
                f"{problem.warps:,} warps and {len(string):,} instructions have "
                f"{rounded(states)} states: more than a table holds ({MOST_STATES:,}), or too many "
                "choices a slot",
                help="give fewer warps; the method exact gives bounds beyond",
            )
        )

    def proceed(done: int, whole: int) -> bool:
        effort.report(f"{done:,} of {whole:,} states", done / whole)
        return not effort.is_over

    try:
        table = fill_table(string, problem.warps, problem.load_store, problem.cores, proceed)
    except OutOfTime:
        return bound_both_sides(problem, effort, "states", "the time limit was reached")
    schedule = None
    if is_small(problem):
        schedule = longest_schedule(table)
        require_schedule(problem, schedule, table.makespan)
    return state_makespan(
        table.makespan,
        Guarantee.SAFE_BOUND,
        "states",
        "",
        lower=table.makespan,
        schedule=schedule,
        note=f"longest path over {table.states:,} states",
    )


def _solve_two(problem: MakespanProblem, string: str) -> MakespanAnswer:
    slots, schedule = longest_of_two(string)
    require_schedule(problem, schedule, slots)
    return state_makespan(
        slots,
        Guarantee.SAFE_BOUND,
        "states",
        "",
        lower=slots,
        schedule=schedule,
        note="longest path over the positions of two warps",
    )


def solve_exact(problem: MakespanProblem, effort: Effort) -> MakespanAnswer:
    """The closed form, else the dynamic program, else bounds from both sides."""
    if problem.is_unit and closed_form.is_exact_for(problem.warps):
        return solve_closed_form(problem, effort)
    capacities = (problem.load_store, problem.cores)
    if problem.shape.length > MOST_LETTERS:
        return bound_both_sides(problem, effort, "exact", "a string too long to write out")
    string = unrolled(problem.tree, MOST_LETTERS)
    is_two = problem.is_unit and problem.warps == 2
    if not is_two and not is_in_reach(string, problem.warps, *capacities):
        return bound_both_sides(problem, effort, "exact", "too many states for a table")
    return solve_states(problem, effort)


def bound_both_sides(
    problem: MakespanProblem, effort: Effort, method: str, why: str
) -> MakespanAnswer:
    """What is safe without a search, and the longest schedule of a few."""
    answer = solve_pessimistic(problem, effort)
    if problem.is_unit:
        slots = closed_form.upper_makespan(problem.shape, problem.warps)
        answer = state_makespan(
            slots,
            Guarantee.SAFE_BOUND,
            method,
            "",
            lower=answer.lower,
            schedule=answer.schedule,
            note="by the upper half of the closed form",
        )
    note = "; ".join(text for text in (why, answer.note) if text)
    return answer.under(method, note)


def _played(problem: MakespanProblem) -> Schedule | None:
    if not is_small(problem):
        return None
    string = unrolled(problem.tree, MOST_LETTERS)
    schedule = play_longest(string, problem.warps, problem.load_store, problem.cores)
    require_schedule(problem, schedule, schedule.makespan)
    return schedule
