"""The door to the solver: small programs against enumeration, and its refusals."""

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import drawn

from ptxwcet.support.ilp import IntegerProgram, SolverError, SolverStatus

pytestmark = pytest.mark.fast

SMALL = st.integers(-4, 4)


@settings(max_examples=drawn(60), deadline=None)
@given(
    st.lists(st.tuples(SMALL, SMALL, SMALL, st.integers(-6, 12)), max_size=4),
    st.tuples(SMALL, SMALL, SMALL),
)
def test_the_optimum_is_that_of_enumeration(rows, objective):
    program = IntegerProgram()
    variables = [program.add_variable(upper=3) for _ in range(3)]
    for *coefficients, upper in rows:
        program.add_constraint(dict(zip(variables, coefficients, strict=True)), upper=upper)
    feasible = [
        point
        for point in itertools.product(range(4), repeat=3)
        if all(sum(c * v for c, v in zip(r[:3], point, strict=True)) <= r[3] for r in rows)
    ]
    solution = program.maximise(dict(zip(variables, objective, strict=True)))
    if not feasible:
        assert solution.status is SolverStatus.INFEASIBLE
        assert solution.objective is None
        return
    best = max(sum(c * v for c, v in zip(objective, point, strict=True)) for point in feasible)
    assert solution.status is SolverStatus.OPTIMAL
    assert solution.objective == solution.bound == best


def test_no_limit_is_said_to_be_unbounded():
    program = IntegerProgram()
    x = program.add_variable()
    assert program.maximise({x: 1}).status is SolverStatus.UNBOUNDED


def test_an_answer_that_breaks_a_constraint_is_not_returned():
    program = IntegerProgram()
    x = program.add_variable(upper=5)
    program.add_constraint({x: 2}, upper=6)
    program._check((3,))
    with pytest.raises(SolverError, match="constraint 0 has 8"):
        program._check((4,))
    with pytest.raises(SolverError, match="variable 0 is 6"):
        program._check((6,))


def test_optimal_is_not_nearly_optimal():
    """Values that differ by less than 0.01 %: the best is found, by a table of all weights."""
    generator = random.Random(1)
    weights = [generator.randrange(100, 200) for _ in range(24)]
    values = [10**6 * weight + generator.randrange(-900, 900) for weight in weights]
    most = sum(weights) // 2
    best = {0: 0}
    for weight, value in zip(weights, values, strict=True):
        for known, worth in list(best.items()):
            if known + weight <= most:
                total = known + weight
                best[total] = max(best.get(total, 0), worth + value)
    program = IntegerProgram()
    taken = [program.add_variable(upper=1) for _ in weights]
    program.add_constraint(dict(zip(taken, weights, strict=True)), upper=most)
    solution = program.maximise(dict(zip(taken, values, strict=True)))
    assert solution.status is SolverStatus.OPTIMAL
    assert solution.objective == max(best.values())
