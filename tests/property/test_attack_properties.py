"""The checks of the attack on blocks that Hypothesis draws and shrinks itself."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import drawn

from ptxwcet.simulator.engine import Simulator
from ptxwcet.simulator.exhaustive import search_worst
from ptxwcet.simulator.policies import Jitter, Policy
from ptxwcet.validate.attack import MOST_STATES, attack, quantile
from ptxwcet.validate.cases import DETERMINISTIC, Case, Plan, Run, deal, shortened, unrolled
from ptxwcet.validate.checks import Check, check_case
from ptxwcet.validate.generator import FAMILIES, Family, mixed_case, random_case
from ptxwcet.validate.witness import describe
from ptxwcet.warp.program import Barrier, Node, Repeat, Scoreboard, TimedInstruction, unroll

Body = tuple[Node, ...]
BARRIER = Barrier(TimedInstruction("A", 1, 2))


def instructions() -> st.SearchStrategy[Node]:
    names = st.lists(st.sampled_from("abc"), max_size=1).map(tuple)
    return st.builds(
        TimedInstruction,
        st.sampled_from("ABCDEF"),
        st.integers(1, 8),
        st.integers(0, 40),
        names,
        names,
        st.booleans(),
        st.sampled_from((0, 0, 2)),
    )


def loops(most: int) -> st.SearchStrategy[Node]:
    body = st.lists(instructions(), min_size=1, max_size=3).map(tuple)
    return st.builds(Repeat, st.integers(1, most), body)


@st.composite
def cases(draw: st.DrawFn, most_warps: int, most_length: int, trips: int) -> Case:
    """Warps that execute one of up to three programs and meet the same barriers."""
    nodes = instructions() if trips == 1 else st.one_of(instructions(), loops(trips))
    sections = draw(st.integers(1, 3 if most_warps > 3 else 2))
    programs: list[Body] = []
    for _ in range(draw(st.integers(1, 3))):
        body: Body = ()
        for section in range(sections):
            body = (*body, *draw(st.lists(nodes, max_size=most_length)))
            if section < sections - 1:
                body = (*body, BARRIER)
        programs.append(body)
    dealt = draw(st.lists(st.sampled_from(programs), min_size=1, max_size=most_warps))
    workload = deal(dealt, draw(st.sampled_from(Scoreboard)))
    return Case("drawn", workload, draw(st.sampled_from((1, 1, 2, 4))))


def plan(seed: int, percent: int, *, most_states: int) -> Plan:
    runs = (*map(Run, DETERMINISTIC), Run(Policy.RANDOM, seed))
    jittered = tuple(replace(run, jitter=Jitter(percent, seed)) for run in runs)
    return Plan(runs, jittered, most_states, schedules=30, most_enumerated=200, referenced=runs[:2])


@settings(max_examples=drawn(120), deadline=None)
@given(cases(3, 2, 1), st.integers(0, 1000), st.integers(1, 100))
def test_tiny_blocks(case: Case, seed: int, percent: int) -> None:
    assert check_case(case, plan(seed, percent, most_states=MOST_STATES)).violations == ()


@settings(max_examples=drawn(100), deadline=None)
@given(cases(8, 6, 9), st.integers(0, 1000), st.integers(1, 100))
def test_larger_blocks(case: Case, seed: int, percent: int) -> None:
    assert check_case(case, plan(seed, percent, most_states=0)).violations == ()


@settings(max_examples=drawn(60), deadline=None)
@given(cases(1, 6, 3), st.integers(0, 1000), st.integers(0, 100))
def test_shortened_timings_are_the_simulators(case: Case, seed: int, percent: int) -> None:
    """One warp has one schedule: both programs must take the same times for its instructions."""
    jitter = Jitter(percent, seed)
    faster = shortened(case.workload, jitter)
    alone = search_worst(faster, case.configuration).cycles
    assert Run(Policy.GTO, 0, jitter).cycles(Simulator(case.workload, case.configuration)) == alone


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_family_keeps_its_ranges(family: Family) -> None:
    """Each draw lies in the documented range, and both ends of the ranges occur."""
    warps, cores, units = set(), set(), set()
    for index in range(60):
        case = random_case(family, 3, index)
        assert case == random_case(family, 3, index)
        workload = case.workload
        warps.add(workload.warp_count)
        cores.add(case.schedulers)
        everyone = sorted(w for c in workload.classes for w in c.warps)
        assert everyone == list(range(workload.warp_count))
        for warp_class in workload.classes:
            for node in unroll(warp_class.program.body):
                one = node if isinstance(node, TimedInstruction) else node.instruction
                units.add(one.unit)
                assert family.initiations[0] <= one.initiation_cycles <= family.initiations[1]
                served = one.path_cycles + -(-case.memory_cycles * one.sectors // 1024)
                assert one.latency_cycles - served in family.latencies
        if not family.differing:
            assert len(workload.classes) == 1
    assert (min(warps), max(warps)) == family.warps
    assert (min(cores), max(cores)) == family.schedulers
    assert len(units) == family.units[1]


def test_cases_are_pinned() -> None:
    """The generator is part of the record: case 0 of seed 1 must not change silently."""
    family, case = mixed_case(1, 0)
    assert family.name == "pair-differing"
    assert case == random_case(FAMILIES[0], 1, 0)
    texts = [describe(c.program.body) for c in case.workload.classes]
    assert texts == [
        "A(2,0)->c ; A(2,0) reads d ; A(2,0)->d reads d ; A(1,0)",
        "B(1,0) ; B(2,0) ; B(3,0) ; B(3,0)",
    ]


def test_tallies_add_up() -> None:
    whole, violating = attack(5, range(48))
    first, _ = attack(5, range(20))
    second, _ = attack(5, range(20, 48))
    assert violating == []
    for name, tally in first.items():
        tally.merge(second[name])
        assert tally == whole[name]
    assert sum(tally.cases for tally in whole.values()) == 48
    tiny = whole["tiny"]
    assert tiny.searched == tiny.cases == tiny.checks[Check.SAFE_WORST.value]
    assert (quantile(tiny.safe_permille, 0.0) or 0) >= 1000


def test_unrolled_workload_has_no_loops() -> None:
    case = Case("loop", deal([(Repeat(3, (BARRIER, Repeat(2, ()))),)] * 2, Scoreboard.RAW))
    assert unrolled(case.workload).classes[0].program.body == (BARRIER,) * 3


def test_search_over_its_cap_is_counted() -> None:
    body = tuple(TimedInstruction("AB"[k % 2], 1 + k % 3, k) for k in range(6))
    case = Case("wide", deal([body, body[1:], body[2:]], Scoreboard.RAW))
    findings = check_case(case, Plan((Run(Policy.LRR),), most_states=5))
    assert findings.given_up
    assert findings.worst is None
    assert search_worst(case.workload, case.configuration).cycles >= findings.longest
