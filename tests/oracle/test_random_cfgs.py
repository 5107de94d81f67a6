"""Bounds of random control flow against all executions; the long run is ``benchmarks/random_cfgs``.

The oracle itself is checked against hand-counted executions and against the model's trace.
"""

from __future__ import annotations

from math import comb

import pytest
from cfg_kernels import random_kernel
from cfg_oracle import Executions
from cfg_report import SCOPES, Summary, is_exact
from hypothesis import given, settings
from hypothesis import strategies as st
from issue_trace import trace_issue
from parsing import parse_kernel
from random_cfgs import block_cycles, check_seed, machine_variant
from thoroughness import drawn

from ptxwcet.ir.kernel import Kernel
from ptxwcet.timing.cost import InstructionCosts

HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 data)
{
.reg .b32 %k<9>, %kt, %x<9>; .reg .pred %p<9>; .reg .b64 %a<2>;
ld.param.u64 %a0, [data];
mov.u32 %kt, %tid.x;
mul.wide.u32 %a1, %kt, 4;
"""
OPEN = "ld.global.u32 %k1, [%a1+{}];\nsetp.ne.u32 %p1, %k1, 0;\n"


def kernel_of(body: str) -> Kernel:
    text = HEAD + body + "ret;\n}\n"
    return parse_kernel(text)


def executions(body: str, lanes: int) -> int:
    found = Executions(kernel_of(body), machine_variant(0), {})
    return len(found.of_warp(0, lanes, {}, 10_000))


# --- many kernels ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def summary() -> Summary:
    total = Summary()
    for seed in range(10**6, 10**6 + drawn(150)):
        total.add(check_seed(seed))
    return total


def test_no_bound_is_below_the_truth(summary: Summary) -> None:
    assert summary.unsound == summary.crashed == []


def test_bounds_equal_the_truth_where_they_should(summary: Summary) -> None:
    assert summary.inexact == []
    for scope in SCOPES:
        assert summary.groups[f"{scope}: exact, known"].number >= drawn(25)
        assert summary.groups[f"{scope}: exact, alike"].number >= 1


def test_most_kernels_are_compared(summary: Summary) -> None:
    assert summary.groups["block: all"].number >= 0.9 * summary.kernels
    assert summary.executions >= 5 * summary.kernels


def test_most_bounds_are_the_truth(summary: Summary) -> None:
    assert summary.groups["one warp: all"].equal >= 0.75
    assert summary.groups["block: all"].equal >= 0.65


@settings(max_examples=drawn(100), deadline=None)
@given(seed=st.integers(0, 10**9))
def test_any_kernel(seed: int) -> None:
    verdict = check_seed(seed, 300)
    assert verdict.is_sound, verdict
    for scope, bound, truth in zip(SCOPES, verdict.bounds, verdict.truths, strict=True):
        # of a block whose warps may race the truth is not known, and stands as 0
        assert truth in (bound, 0) or not is_exact(verdict.features, scope), verdict


def test_a_warp_that_falls_apart_where_the_branch_is_decided_later() -> None:
    verdict = check_seed(94747)
    assert not verdict.refusal
    assert verdict.is_sound


def test_kernels_are_functions_of_their_seed() -> None:
    assert random_kernel(7) == random_kernel(7) != random_kernel(8)


# --- the oracle -----------------------------------------------------------------------------------

SIDES = "@%p1 bra A;\nadd.s32 %x1, %x1, %x1;\nbra B;\nA:\nxor.b32 %x2, %x2, %x2;\nB:\n"


@pytest.mark.parametrize("lanes", [1, 2, 3])
def test_lanes_that_are_alike_part_in_both_orders(lanes: int) -> None:
    expected = 2 + 2 * (lanes - 1)  # all, none, and each number of lanes between, in two orders
    assert executions(OPEN.format(0) + SIDES, lanes) == expected


def test_lanes_that_differ_part_in_all_subsets() -> None:
    body = "and.b32 %k2, %kt, 3;\n" + OPEN.format(0) + SIDES
    assert executions(body, 3) == 2 + 2 * sum(comb(3, taken) for taken in (1, 2))


def test_a_warp_takes_a_vote_as_a_whole() -> None:
    vote = OPEN.format(0) + "vote.sync.any.pred %p1, %p1, 0xffffffff;\n"
    assert executions(vote + SIDES, 3) == 2


def test_lanes_leave_a_loop_one_after_the_other() -> None:
    body = (
        "mov.u32 %k3, 0;\nL:\n"
        + OPEN.format(4)
        + "@%p1 bra OUT;\nadd.s32 %k3, %k3, 1;\nsetp.lt.s32 %p2, %k3, 3;\n@%p2 bra L;\nOUT:\n"
        "xor.b32 %x1, %x1, %x1;\n"
    )
    assert executions(body, 1) == 4
    assert executions(body, 2) == comb(4 + 1, 2)  # two passes each, from 0 to 3, without order


def test_known_conditions_are_no_choice() -> None:
    body = "and.b32 %k1, %kt, 1;\nsetp.eq.s32 %p1, %k1, 1;\n"
    assert executions(body + SIDES, 2) == 2  # both sides, in either order
    assert executions(body + SIDES, 1) == 1


def test_nobody_waits_at_a_barrier_while_lanes_are_elsewhere() -> None:
    body = OPEN.format(0) + "@!%p1 bra ON;\nadd.s32 %x1, %x1, %x1;\nret;\nON:\nbar.sync 0;\n"
    # all go on, all return, or some return first: the other order would wait for ever
    assert executions(body, 2) == 3


def test_sections_begin_with_a_clean_machine() -> None:
    kernel = kernel_of("ld.global.u32 %x1, [%a1];\nbar.sync 0;\nadd.s32 %x2, %x1, %x1;\n")
    machine = machine_variant(0)
    (run,) = Executions(kernel, machine, {}).of_warp(0, 1, {}, 9)
    first, second = run.sections
    assert first.cycles > 200 > 20 > second.cycles
    assert run.cycles == first.cycles + second.cycles  # the sum waits for the load
    two = [(run,), (run,)]
    assert block_cycles(two) == sum(s.cycles + s.interference(s.units) for s in run.sections)


@pytest.mark.parametrize("variant", range(0, 24, 5))
def test_times_are_those_of_the_model(variant: int) -> None:
    body = (
        "ld.global.u32 %x1, [%a1];\nadd.s32 %x2, %x1, %x1;\nmul.lo.s32 %x2, %x3, %x3;\n"
        "setp.eq.s32 %p1, %x4, 0;\n@%p1 xor.b32 %x2, %x2, %x2;\nadd.s32 %x5, %x2, %x2;\n"
        "ld.global.u32 %x5, [%a1+4];\nrem.s32 %x6, %x2, %x3;\nrem.s32 %x7, %x3, %x3;\n"
    )
    kernel, machine = kernel_of(body), machine_variant(variant)
    costs = InstructionCosts(machine)
    nodes = [n for i, one in enumerate(kernel.instructions) for n in costs.nodes(i, one)]
    (run,) = Executions(kernel, machine, {}).of_warp(0, 1, {}, 9)
    assert run.cycles == max(one.ready for one in trace_issue(nodes, machine.scoreboard))
