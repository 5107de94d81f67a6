"""Loops with several latches: what lanes execute is what the analysis knows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from isa_interpreter import execute
from latch_attack import given_inputs, one_kernel
from latch_kernels import latch_kernel
from parsing import parse_file, parse_kernel
from path_attack import Checker, explorations, machine
from places import UNSOUND

from ptxwcet.flow.facts.stated import FactSource, LoopFact, Place, StatedFacts
from ptxwcet.flow.launch import Launch
from ptxwcet.flow.walk.path import loop_entries
from ptxwcet.pipeline import analyse_kernel


@pytest.mark.parametrize(
    ("name", "threads", "bound"),
    [("rounds_before_latch", 2, None), ("latch_on_a_side", 4, 3)],
)
def test_executions_are_those_that_are_known(name: str, threads: int, bound: int | None) -> None:
    """Rounds of some lanes in a pass were not counted; lanes passed those that wait for them."""
    (kernel,) = parse_file(UNSOUND / f"{name}.ptx").kernels
    facts = StatedFacts(
        loops=() if bound is None else (LoopFact(Place("O"), FactSource("a test"), bound),)
    )
    with explorations() as explored:
        analysis = analyse_kernel(kernel, Launch((threads, 1, 1), (1, 1, 1)), machine(), facts)
    checker, whole = Checker(analysis, explored), 0
    for given in given_inputs(1, threads, 12, 0, 500):
        given = replace(given, parameters={})
        run = execute(kernel, given)
        if run.is_whole:
            whole += 1
            assert checker.check(run, given) is None
            assert checker.check_time(run, given) is None
    assert whole > 3


def test_body_executions_are_counted_in_each_pass() -> None:
    """Of 20 passes each is executed five times by some lanes: 24 were reported."""
    (kernel,) = parse_file(UNSOUND / "rounds_before_latch.ptx").kernels
    analysis = analyse_kernel(kernel, Launch((2, 1, 1)), machine())
    ((warp,),) = ((piece.paths.warps) for piece in analysis.pieces)
    assert next(iter(loop_entries(warp.nodes))).iterations.base == 100


def test_lanes_go_back_to_an_inner_loop_that_nothing_repeats() -> None:
    """An ``IndexError``: no way leads back before the others meet them."""
    made = latch_kernel(74)
    row = one_kernel(parse_kernel(made.text), made.block, 74, executions=1, steps=5)
    assert not row.violations


@pytest.mark.parametrize("seed", [3, 9, 14, pytest.param(1051, marks=pytest.mark.thorough)])
def test_random_kernels(seed: int) -> None:
    made = latch_kernel(seed)
    row = one_kernel(parse_kernel(made.text), made.block, seed, executions=6, steps=60)
    assert [violation for _, violation, _ in row.violations] == []
