"""Broken bounds are caught, and what they get wrong is shrunk to a small witness."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ptxwcet.bounds.analysis import BlockAnalysis
from ptxwcet.bounds.gub import bound_gub
from ptxwcet.bounds.lower import bound_lower
from ptxwcet.bounds.outcome import BlockBound, Outcome
from ptxwcet.bounds.safe import bound_safe
from ptxwcet.simulator.engine import Simulator
from ptxwcet.simulator.exhaustive import search_worst
from ptxwcet.validate.attack import MOST_STATES, attack
from ptxwcet.validate.cases import Case, deal, standard_plan
from ptxwcet.validate.checks import Bounds, Check, Violation, check_case
from ptxwcet.validate.selftest import CORPUS, KnownCase, run_selftest
from ptxwcet.validate.witness import describe, find_witness, shrink
from ptxwcet.warp.program import Barrier, Repeat, Scoreboard, TimedInstruction

pytestmark = pytest.mark.fast

PLAN = standard_plan(0, most_states=MOST_STATES)


def shifted(
    function: Callable[[BlockAnalysis], Outcome], cycles: int
) -> Callable[[BlockAnalysis], Outcome]:
    """The bound with an error of so many cycles."""

    def broken(analysis: BlockAnalysis) -> Outcome:
        outcome = function(analysis)
        assert isinstance(outcome, BlockBound)
        return replace(outcome, claim=replace(outcome.claim, cycles=outcome.cycles + cycles))

    return broken


LESS = Bounds(safe=shifted(bound_safe, -1))
EXECUTION = Bounds(safe=bound_gub)  # E for the sum of initiations
MORE = Bounds(lower=shifted(bound_lower, 1))


def caught(bounds: Bounds) -> dict[str, tuple[Violation, ...]]:
    """The known cases that contradict these bounds."""
    found = {known.case.name: check_case(known.case, PLAN, bounds) for known in CORPUS}
    return {name: one.violations for name, one in found.items() if one.violations}


def test_right_bounds_pass() -> None:
    assert caught(Bounds()) == {}


@pytest.mark.parametrize("known", CORPUS, ids=lambda known: known.case.name)
def test_known_values(known: KnownCase) -> None:
    findings = check_case(known.case, PLAN)
    assert (findings.worst, findings.safe, findings.gub, findings.lower) == (
        known.worst,
        known.safe,
        known.gub,
        known.lower,
    )


def test_a_missing_cycle_is_caught() -> None:
    exact = {known.case.name for known in CORPUS if known.safe == known.worst}
    assert len(exact) >= 10
    assert exact <= set(caught(LESS))


def test_execution_time_for_initiations_is_caught() -> None:
    names = [name for name in caught(EXECUTION) if name.startswith("GUB fails")]
    assert len(names) == 4
    identical = caught(EXECUTION)["GUB fails: identical warps"]
    assert Violation(Check.SAFE_WORST, 10, 11) in identical


def test_a_lower_bound_of_one_more_is_caught() -> None:
    assert "sections overlap" in caught(MORE)
    assert "write after write" in caught(MORE)


def test_random_cases_catch_a_missing_cycle() -> None:
    _, violating = attack(1, range(48), LESS)
    assert violating
    _, right = attack(1, range(48))
    assert not right


@pytest.mark.parametrize("bounds", [LESS, EXECUTION, MORE], ids=["less", "execution", "more"])
def test_selftest_fails_with_a_witness(bounds: Bounds) -> None:
    summary = run_selftest(1, cases=0, bounds=bounds)
    assert not summary.passed
    assert summary.witnesses
    assert any(problems for _, problems in summary.known)


def test_gub_witness_is_small_and_real() -> None:
    """From eleven cycles against ten to a block of nine against eight, shown by its schedule."""
    case = next(k.case for k in CORPUS if k.case.name == "GUB fails: identical warps")
    plan = replace(PLAN, schedules=0)
    violation = next(
        v for v in check_case(case, plan, EXECUTION).violations if v.check is Check.SAFE_WORST
    )
    witness = find_witness(case, violation, plan, EXECUTION)
    assert witness.case.instructions <= case.instructions
    worst = search_worst(witness.case.workload, witness.case.configuration).cycles
    gub = bound_gub(witness.case.analyse())
    assert isinstance(gub, BlockBound)
    assert (witness.violation.expected, witness.violation.found) == (gub.cycles, worst)
    assert gub.cycles < worst <= 9
    assert len(witness.issues) == witness.case.instructions
    rendered = witness.diagnostic().render()
    assert rendered.startswith("error[PW535]: a bound is contradicted: SAFE >= exhaustive")
    assert "warps in issue order: " in rendered
    assert "B(3,0)->r1" in rendered


def test_witness_of_a_policy_shows_dispatches() -> None:
    case = next(k.case for k in CORPUS if k.case.name == "a chain among short warps")
    plan = replace(PLAN, most_states=0, schedules=0)
    violation = check_case(case, plan, LESS).violations[0]
    witness = find_witness(case, violation, plan, LESS)
    assert witness.run is not None
    assert witness.run.cycles == witness.violation.found == witness.violation.expected + 1
    assert witness.case.instructions == 1
    assert any("issues to B, dispatch 0, end 1" in line for line in witness.lines())


def test_witness_of_shortened_timings_shows_their_schedule() -> None:
    plan = replace(standard_plan(48, most_states=MOST_STATES), runs=())
    case = Case("queue", deal([(TimedInstruction("A", 6, 8),)] * 3, Scoreboard.RAW))
    bounds = Bounds(safe=shifted(bound_safe, -15))
    violation = next(
        v for v in check_case(case, plan, bounds).violations if v.check is Check.SAFE_SHORTENED
    )
    witness = find_witness(case, violation, plan, bounds)
    found = search_worst(witness.case.workload, witness.case.configuration)
    assert found.cycles == witness.violation.found > witness.violation.expected
    assert witness.issues == found.schedule


def slow(name: str) -> TimedInstruction:
    return TimedInstruction("M", 3, 300, ("q",), (name,), conditional=True, bubble_cycles=2)


def test_shrinking_a_large_case() -> None:
    """Anything that takes more than 250 cycles: one load is left, as short as can be."""
    barrier = Barrier(TimedInstruction("A", 2, 5))
    body = (slow("x"), Repeat(50, (slow("y"), barrier, Repeat(7, (slow("x"),)))), slow("z"))
    case = Case("large", deal([body] * 8, Scoreboard.RAW_WAW), schedulers=2)

    def persists(candidate: Case) -> bool:
        simulator = Simulator(candidate.workload, candidate.configuration)
        return simulator.cycles(PLAN.runs[0].policy) > 250

    small = shrink(case, persists)
    assert small.schedulers == 1
    assert describe(small.workload.classes[0].program.body) == "M(1,250)"
    assert small.workload.warp_count == 1


def test_shrinking_keeps_what_does_not_persist() -> None:
    case = CORPUS[0].case
    assert shrink(case, lambda _: False).workload == case.workload
