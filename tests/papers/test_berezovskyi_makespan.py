"""Worked examples of Berezovskyi, Bletsas and Andersson (ECRTS 2012), and where they fail."""

from __future__ import annotations

from fractions import Fraction

import pytest
from makespan_states import count_reachable

from ptxwcet.claims import Guarantee
from ptxwcet.methods.makespan.closed_form import (
    is_pessimistic_proved,
    pessimistic_makespan,
    waiting_makespan,
)
from ptxwcet.methods.makespan.methods import METHODS, extrapolate
from ptxwcet.methods.makespan.problem import Effort, MakespanProblem, build_problem
from ptxwcet.methods.makespan.schedule import Schedule, Slot, check_schedule
from ptxwcet.methods.makespan.states import fill_table
from ptxwcet.methods.makespan.strings import shape_of
from ptxwcet.methods.makespan.study import MakespanOptions, makespan_of_string

pytestmark = pytest.mark.fast

HALF = Fraction(1, 2)


def solve(method: str, string: str, warps: int):
    return METHODS[method](MakespanProblem((string,), warps), Effort())


def test_figure_1_half_a_load_store_unit_doubles_its_letters() -> None:
    problem = build_problem(("LC",), 4, HALF, Fraction(1))
    assert (problem.tree, problem.load_store, problem.cores) == (("LLC",), 1, 1)
    assert build_problem(("LC",), 4, Fraction(1), Fraction(1, 3)).tree == ("LCCC",)


def test_figure_2_a_schedule_of_four_warps_of_llc() -> None:
    """Its first five slots serve one warp: the warps need two load/store instructions each."""
    slots = [Slot((w,), ()) for w in (0, 1, 2, 3, 0)]
    slots += [Slot((1,), (0,)), Slot((2,), (1,)), Slot((3,), (2,)), Slot((), (3,))]
    assert check_schedule(Schedule(tuple(slots)), "LLC", 4, 1, 1) == 9
    assert solve("exact", "LLC", 4).slots == 9  # 2 W + 1: none is longer


def test_pessimistic_equations() -> None:
    assert pessimistic_makespan(shape_of(("LLC",)), 4, 1, 1) == 12
    assert pessimistic_makespan(shape_of(("LLCLL",)), 600, 1, 1) == 3000  # dashed line of Fig. 6
    assert pessimistic_makespan(shape_of(("LLCLC",)), 7, 2, 3) == 4 * 3 + 3 * 2


def test_pessimistic_equations_are_exceeded_by_units_that_serve_two() -> None:
    """LL, W = 4, L = 2: warps 1 and 2, 1 and 3, 2 and 3, then 4 alone, twice."""
    served = ((0, 1), (0, 2), (1, 2), (3,), (3,))
    schedule = Schedule(tuple(Slot(one, ()) for one in served))
    assert check_schedule(schedule, "LL", 4, 2, 1) == 5
    shape = shape_of(("LL",))
    assert pessimistic_makespan(shape, 4, 2, 1) == 4
    assert not is_pessimistic_proved(shape, 4, 2, 1)
    assert waiting_makespan(shape, 4, 2, 1) == 5
    answer = METHODS["pessimistic"](MakespanProblem(("LL",), 4, 2, 1), Effort())
    assert (answer.slots, answer.claim.guarantee) == (5, Guarantee.SAFE_BOUND)


@pytest.mark.parametrize(
    ("string", "two", "four"), [("LCL", 4, 9), ("LCLCL", 6, 14)], ids=["LCL", "LCLCL"]
)
def test_extrapolation_is_exceeded(string: str, two: int, four: int) -> None:
    assert solve("states", string, 2).slots == two
    assert solve("states", string, 4).slots == solve("closed-form", string, 4).slots == four
    published = METHODS["extrapolate"](MakespanProblem((string,), 4), Effort(most_extrapolated=2))
    assert published.slots == 2 * two < four
    assert published.claim.guarantee is Guarantee.ESTIMATE
    without = METHODS["extrapolate-safe"](
        MakespanProblem((string,), 4), Effort(most_extrapolated=3)
    )
    assert without.slots >= four
    assert without.claim.guarantee is Guarantee.SAFE_BOUND


def test_extrapolation_from_more_warps_is_exceeded_by_units_that_serve_two() -> None:
    """LCLCL with L = C = 2: T(8) = 15 > 2 T(4) = 12, so leaving out y = 2 is not enough there."""
    assert [fill_table("LCLCL", w, 2, 2).makespan for w in (4, 8)] == [6, 15]


def test_twenty_warps_of_figure_5s_string() -> None:
    assert count_reachable("LLCLL", 20) == 19_459
    assert fill_table("LLCLL", 20, 1, 1).makespan == 81


def test_figures_6_and_7_exactly() -> None:
    six = makespan_of_string("LLCLL", 600, MakespanOptions())
    seven = makespan_of_string("LCLCL", 420, MakespanOptions(load_store=HALF))
    assert (six.slots, six.is_exact) == (2401, True)
    assert (seven.slots, seven.is_exact) == (2522, True)
    assert seven.sections[0].problem.tree == ("LLCLLCLL",)
    for found in (six, seven):
        schedule = found.sections[0].answer.schedule
        assert schedule is not None
        assert schedule.makespan == found.slots


def test_figure_6_converges_from_above_except_for_two_warps() -> None:
    rows = extrapolate(600, range(1, 9), lambda y: fill_table("LLCLL", y, 1, 1).makespan)
    values = [row.extrapolated for row in rows]
    assert values == [3000, 2700, 2600, 2550, 2520, 2500, 2494, 2475]
    assert min(values) >= 2401


@pytest.mark.parametrize(
    ("string", "slope", "rest"), [("LLCLL", 4, 1), ("LCLCL", 3, 2), ("LLC", 2, 1)]
)
def test_closed_forms_named_with_the_conjecture(string: str, slope: int, rest: int) -> None:
    for warps in (3, 4, 7):
        assert fill_table(string, warps, 1, 1).makespan == slope * warps + rest
