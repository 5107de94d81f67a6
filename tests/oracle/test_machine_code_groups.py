"""What a warp of machine code issues, and how long it takes, however its groups of lanes go on."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from group_listings import ENDING, LISTINGS, TIMED
from places import DATA
from simt_controls import claimed
from simt_groups import (
    ANY,
    KEEPING,
    Case,
    Charged,
    Order,
    every_order,
    exceeded,
)

import ptxwcet
from ptxwcet.flow.facts.stated import FactSource, LoopFact, Place, StatedFacts
from ptxwcet.flow.graph.control_flow import ControlFlow
from ptxwcet.ir.kernel import Kernel
from ptxwcet.ir.op_classes import OpClass

COMPILED = ("a4_86", "n3_80", "meet_86")

REFUSED = (
    *("left", "set behind", "set behind by many", "guarded", "set before gathering"),
    *("copy lost", "tiles", "tiles of a vote before", "lanes that are active", "set by some"),
    *("other lanes than those", "from a table", "set behind it", "of some"),
    *("waited for by some", "tiles of two kinds"),
)
"""Lanes that come to a BSYNC together part there: not registered together, or not at all; or to a
WARPSYNC of masks that may differ."""
BOUNDED = tuple(name for name in LISTINGS if name not in REFUSED)

REFUTED_BY = {
    "lanes go on together at the immediate post-dominator": "loop without",
    "BREAK leaves no barrier": "left",
    "who has left by BREAK comes no way behind a branch": "left",
    "BSYNC drops nothing that was set behind it": "set behind",
    "a BSYNC joins though its barrier is set between": "set between",
    "a WARPSYNC joins though another lies between": "gathered between",
    "a WARPSYNC drops nothing that was set before it": "set before gathering",
    "a guarded BSSY registers all lanes": "guarded",
}


def stated(kernel: Kernel) -> StatedFacts:
    """No loop by hand makes more rounds."""
    flow = ControlFlow.of(kernel)
    labels = [flow.label(number) for number in range(len(flow.forest.loops))]
    source = FactSource("test")
    return StatedFacts(loops=tuple(LoopFact(Place(label), source, 8) for label in labels))


Runs = list[tuple[bool, list[tuple[int, bool]]]]


@cache
def by_hand(name: str) -> tuple[Case, Runs]:
    """A listing by hand, and runs with whether each group goes on until it waits or ends."""
    case, runs = Case(LISTINGS[name], "k", 8, ()), Runs()
    data = np.zeros(256, np.uint32)
    for keeps in (True, False):

        def run(order: Order, keeps: bool = keeps) -> None:
            runs.append((keeps, case.run(data, order)))

        every_order(run, 60, keeps=keeps)
    return case, runs


def counts_exceed(charged: Charged, runs: Runs) -> bool:
    return any(exceeded(charged, issues, random.Random(1)) for _, issues in runs)


@pytest.mark.parametrize("name", BOUNDED)
def test_no_order_issues_more_than_is_charged(name: str) -> None:
    case, runs = by_hand(name)
    assert runs
    assert not counts_exceed(case.charged(stated), runs)


@pytest.mark.parametrize("name", BOUNDED)
def test_no_run_takes_longer_than_safe(name: str) -> None:
    case, runs = by_hand(name)
    assert max(case.time(issues) for keeps, issues in runs if keeps) <= case.charged(stated).bound


PLAIN = dict.fromkeys(OpClass, ("A", 1, 1))


def longest_of(case: Case) -> int:
    """The longest run in which each group goes on until it waits or ends."""
    times, data = list[int](), np.zeros(256, np.uint32)
    every_order(lambda order: times.append(case.time(case.run(data, order))), 200, keeps=True)
    return max(*times, *(case.time(case.run(data, order)) for order in KEEPING))


@pytest.mark.parametrize("name", TIMED)
def test_groups_in_any_order_wait_for_what_others_have_issued(name: str) -> None:
    case = Case(TIMED[name], "k", 8, (), given=PLAIN | {OpClass.FP32_SFU: ("B", 1, 100)})
    assert longest_of(case) <= case.charged(stated).bound


@pytest.mark.parametrize("name", ENDING)
def test_groups_that_end_let_others_wait_for_the_unit_of_the_end(name: str) -> None:
    rows = {OpClass.FP32_SFU: ("B", 60, 1), OpClass.RETURN: ("B", 1, 1)}
    case = Case(ENDING[name], "k", 8, (), given=PLAIN | rows)
    assert 200 < longest_of(case) <= case.charged(stated).bound


@pytest.mark.parametrize("name", REFUSED)
def test_lanes_that_may_part_where_they_wait_are_refused(name: str) -> None:
    with pytest.raises(ptxwcet.PtxwcetError, match="may part there"):
        Case(LISTINGS[name], "k", 8, ()).charged(stated)


@pytest.mark.parametrize("statement", REFUTED_BY)
def test_each_rule_is_needed(statement: str) -> None:
    case, runs = by_hand(REFUTED_BY[statement])
    with claimed(statement):
        charged = case.charged(stated)
    assert counts_exceed(charged, runs)
    if REFUTED_BY[statement] in BOUNDED:
        end = {runs[0][1][-1][0]: 1}
        assert charged.most(end) < case.charged(stated).most(end)


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_code_stays_within_its_bounds(name: str) -> None:
    text = (Path(DATA) / "sass" / f"groups_{name}.sass").read_text(encoding="utf-8")
    case = Case(text, name.partition("_")[0], 8, (3, 2))
    draw, runs, rng = random.Random(1), Runs(), np.random.default_rng(1)
    for order in (*KEEPING, *ANY, *KEEPING):
        data = rng.integers(0, 1 << 32, 256, dtype=np.uint32)
        runs.append((order in KEEPING, case.run(data, order)))
    charged = case.charged()
    assert not any(exceeded(charged, issues, draw) for _, issues in runs)
    assert max(case.time(issues) for keeps, issues in runs if keeps) <= charged.bound
    with claimed("lanes go on together at the immediate post-dominator"):
        assert counts_exceed(case.charged(), runs)
