"""Solves makespans: the methods of this project, then the paper's, and the table of all.

Each answers a problem within a time limit, with its own claim:

=================  =============================================================================
pessimistic        from the numbers of letters (equations 3 to 7); where these are not proved, a
                   bound that is
closed-form        L = C = 1, W = 1 or W >= 3: exact, for strings and warps of any number
states             longest path over states up to symmetry: exact, within the memory
exact              closed-form where it applies, else states, else bounds from both sides
ilp                the integer program of the paper (Fig. 3): exact, for a handful of warps
extrapolate        from x warps to W (equations 40, 41): an estimate, as published
extrapolate-safe   the same without y = 2, for L = C = 1: a proved bound
=================  =============================================================================
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from threading import Thread

from ptxwcet.claims import Guarantee
from ptxwcet.methods.makespan import closed_form
from ptxwcet.methods.makespan.closed_form import waiting_makespan
from ptxwcet.methods.makespan.ilp_model import MakespanProgram, build_program
from ptxwcet.methods.makespan.problem import (
    MOST_LETTERS,
    MOST_VARIABLES,
    SUBADDITIVE,
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
from ptxwcet.support.ilp import Solution, SolverStatus
from ptxwcet.support.records import dataclass

# --- The methods of this project ------------------------------------------------------------------


Preference = Callable[[int, int], tuple[int, int]]
"""A key of a warp's position and number: the warp with the least key is served first."""

PREFERENCES: tuple[Preference, ...] = (
    lambda _position, warp: (warp, 0),  # the last warp starves
    lambda position, warp: (position, warp),  # the last ones first: all stay together
    lambda position, warp: (-position, warp),  # those ahead first
    lambda position, warp: (position, -warp),
    lambda position, warp: (warp % 2, position),
)
"""The preferences that are tried."""


def play(string: str, warps: int, load_store: int, cores: int, prefer: Preference) -> Schedule:
    """Returns the work-conserving schedule of one preference. Cost: slots times warps."""
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
    """Returns the longest of the schedules of :data:`PREFERENCES`."""
    runs = (play(string, warps, load_store, cores, prefer) for prefer in PREFERENCES)
    return max(runs, key=lambda schedule: schedule.makespan)


def solve_pessimistic(problem: MakespanProblem, effort: Effort) -> MakespanAnswer:
    """Answers by equations 3 to 7 where they are proved, else by waiting. Cost: constant.

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
    """Answers by the theorem. Raises PtxwcetError (PW565) elsewhere. Cost: the schedule's."""
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
    """Answers by the dynamic program, or two bounds in time. Raises PtxwcetError (PW564)."""
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
    """Answers by the closed form, else the dynamic program, else bounds from both sides."""
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
    """Answers by the safe bound without a search, and the longest schedule of a few."""
    answer = solve_pessimistic(problem, effort)
    if problem.is_unit:
        slots = closed_form.upper_makespan(problem.shape, problem.warps)
        note, kept = "by the upper half of the closed form", (answer.lower, answer.schedule)
        answer = state_makespan(slots, method, lower=kept[0], schedule=kept[1], note=note)
    note = "; ".join(text for text in (why, answer.note) if text)
    return answer.under(method, note)


@dataclass(frozen=True, slots=True)
class ExtrapolationRow:
    """The makespan T(y) for y warps and its result for W: ``ceil(W / y) T(y)`` (equation 41)."""

    warps: int
    makespan: int
    extrapolated: int


def extrapolate(
    warps: int, sizes: range, makespan_of: Callable[[int], int]
) -> tuple[ExtrapolationRow, ...]:
    """Returns a row for each number of warps in ``sizes``; their least is T(W, x) (equation 40).

    It is not a bound: LCL has T(2) = 4 and T(4) = 9 > 2 * 4. Without y = 2 it is one for L = C = 1
    (docs/methods/makespan.md). Cost: as ``makespan_of``.
    """
    return tuple(
        ExtrapolationRow(y, makespan, -(-warps // y) * makespan)
        for y, makespan in ((y, makespan_of(y)) for y in sizes)
    )


# --- The paper's own methods, and the table of all ------------------------------------------------

_BETWEEN_REPORTS = 0.25  # seconds


def solve_ilp(problem: MakespanProblem, effort: Effort) -> MakespanAnswer:
    """Answers by the integer program, or its bound in time. Raises PtxwcetError (PW564)."""
    string, capacities = problem.string, problem.capacities
    horizon = waiting_makespan(problem.shape, problem.warps, *capacities)
    size = 2 * problem.warps * len(string) * horizon
    if size > MOST_VARIABLES:
        raise PtxwcetError.of(
            "PW564",
            f"an integer program of {rounded(size)} variables is more than this gives to the "
            f"solver: {MOST_VARIABLES:,}",
            help="give fewer warps, or use the method exact",
        )
    program = build_program(string, problem.warps, *capacities, effort.constraints)
    sizes = f"{program.program.variables:,} variables, {program.program.constraints:,} constraints"
    solution = _solve_reporting(program, effort, sizes)
    schedule = None
    if solution.objective is not None:
        schedule = witness(problem, lambda: program.schedule(solution), solution.objective)
    if solution.status is SolverStatus.OPTIMAL:
        assert solution.objective is not None
        slots, note = solution.objective, f"{sizes} ({effort.constraints.value})"
    else:
        beside = bound_both_sides(problem, effort, "ilp", "")
        proved = "nothing" if solution.bound is None else f"at most {solution.bound:,} slots"
        note = f"the time limit was reached: the solver proved {proved}"
        slots = beside.slots if solution.bound is None else min(solution.bound, beside.slots)
        if slots < (solution.bound or slots + 1):
            note += f"; {beside.note or 'equations 3 to 7'}"
        if schedule is None or schedule.makespan < beside.lower:
            schedule = beside.schedule
    lower = problem.shape.length if schedule is None else schedule.makespan
    place = "section 5, Fig. 3"
    return state_makespan(slots, "ilp", place, lower=lower, schedule=schedule, note=note)


def _solve_reporting(program: MakespanProgram, effort: Effort, shown: str) -> Solution:
    """Solves with a clock: the solver reports nothing while it runs. Raises its exceptions."""
    solution: Future[Solution] = Future()

    def run() -> None:
        try:
            solution.set_result(program.solve(effort.left))
        except Exception as error:
            solution.set_exception(error)

    # a daemon: an interrupt ends the program without waiting for the solver
    Thread(target=run, daemon=True).start()
    while True:
        try:
            return solution.result(timeout=_BETWEEN_REPORTS)
        except TimeoutError:
            passed = time.monotonic() - effort.start
            part = 0.0 if effort.seconds is None else min(1.0, passed / effort.seconds)
            effort.report(f"integer program of {shown}: {passed:.0f} s", part)


def solve_extrapolated(problem: MakespanProblem, effort: Effort) -> MakespanAnswer:
    """Answers by equations 40 and 41 as published: an estimate."""
    most = min(effort.most_extrapolated, problem.warps)
    best, count = _least(problem, effort, range(1, most + 1))
    return state_makespan(
        best.extrapolated,
        "extrapolate",
        "section 5.6, equations 40 and 41",
        Guarantee.ESTIMATE,
        lower=bound_both_sides(problem, effort, "", "").lower,
        note=_extrapolation_note(best, count, most),
        extra=(SUBADDITIVE,),
    )


def solve_extrapolated_safely(problem: MakespanProblem, effort: Effort) -> MakespanAnswer:
    """Answers by the least of y = 1 and y >= 3, for L = C = 1. Raises PtxwcetError (PW565)."""
    if not problem.is_unit:
        raise PtxwcetError.of(
            "PW565",
            "the extrapolation is proved for one warp a slot on each kind of unit only",
            help="the method extrapolate gives an estimate for other machines",
        )
    most = min(effort.most_extrapolated, problem.warps)
    first, _ = _least(problem, effort, range(1, 2))
    best, count = (first, 1) if most < 3 else _least(problem, effort, range(3, most + 1))
    best = min(first, best, key=lambda entry: entry.extrapolated)
    return state_makespan(
        best.extrapolated,
        "extrapolate-safe",
        "section 5.6, equations 40 and 41 without y = 2",
        lower=bound_both_sides(problem, effort, "", "").lower,
        note=_extrapolation_note(best, count, most),
    )


def _least(problem: MakespanProblem, effort: Effort, sizes: range) -> tuple[ExtrapolationRow, int]:
    """Returns the row with the least extrapolated value, and the number of rows within the time."""
    string, capacities = problem.string, problem.capacities
    entries: list[ExtrapolationRow] = []
    for size in sizes:
        if (entries and effort.is_over) or not is_in_reach(string, size, *capacities):
            break
        effort.report(f"T({size})", len(entries) / len(sizes))
        entries += extrapolate(
            problem.warps,
            range(size, size + 1),
            lambda y: fill_table(string, y, *capacities).makespan,
        )
    if not entries:
        raise PtxwcetError.of("PW564", "the string is too long for a table of even one size")
    return min(entries, key=lambda entry: entry.extrapolated), len(entries)


def _extrapolation_note(best: ExtrapolationRow, count: int, most: int) -> str:
    text = f"least of {count} values, from T({best.warps}) = {best.makespan:,}"
    return text if count == most or count == most - 2 else f"{text}; not all up to {most} were made"


Method = Callable[[MakespanProblem, Effort], MakespanAnswer]

METHODS: Mapping[str, Method] = {
    "exact": solve_exact,
    "closed-form": solve_closed_form,
    "states": solve_states,
    "ilp": solve_ilp,
    "extrapolate": solve_extrapolated,
    "extrapolate-safe": solve_extrapolated_safely,
    "pessimistic": solve_pessimistic,
}
"""The methods by name; the first is the default."""
