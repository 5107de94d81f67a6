"""The claim of a known schedule: what it says, what it assumes, where it is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ptxwcet.claims import AssumptionState, Guarantee, Refusal
from ptxwcet.machine.loader import load_machine
from ptxwcet.machine.model import TimingMeaning
from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.engine import ScheduledClaim, Simulator, claim_schedule
from ptxwcet.simulator.policies import Policy
from ptxwcet.warp.program import (
    BlockWorkload,
    Choice,
    Node,
    Repeat,
    Scoreboard,
    TimedInstruction,
    Unordered,
    WarpClass,
    WarpProgram,
)

pytestmark = pytest.mark.fast

FMA = TimedInstruction("SP", 1, 7, ("a", "b"), ("a",))
LOAD = TimedInstruction("GMEM", 1, 203, ("p",), ("b",))
MACHINE = load_machine("orin-ecrts2025")


def block(*body: Node, warps: int = 4) -> BlockWorkload:
    return BlockWorkload((WarpClass(WarpProgram(body), tuple(range(warps))),), Scoreboard.RAW_WAW)


def test_exact_for_every_deterministic_policy() -> None:
    workload = block(Repeat(50, (LOAD, Repeat(9, (FMA,)))))
    for policy in Policy:
        found = claim_schedule(workload, MACHINE, policy)
        if policy is Policy.RANDOM:
            assert isinstance(found, Refusal)
            continue
        assert isinstance(found, ScheduledClaim)
        simulator = Simulator(workload, SmConfiguration())
        assert found.claim.cycles == simulator.cycles(policy, skip_repeats=False)
        assert found.claim.guarantee is Guarantee.SAFE_BOUND
        keys = {a.key for a in found.claim.assumptions}
        assert keys == {
            "alone-on-its-sm",
            "bubbles-from-issue",
            "known-policy",
            "exact-latencies",
            "input-independent-path",
        }
        assert any("not safe under jitter" in a.text for a in found.claim.assumptions)


@pytest.mark.parametrize("policy", [Policy.LRR, Policy.GTO])
def test_billions_of_iterations_cost_what_thousands_do(policy: Policy) -> None:
    def steps(count: int) -> int:
        found = claim_schedule(block(Repeat(count, (LOAD, FMA, FMA))), MACHINE, policy)
        assert isinstance(found, ScheduledClaim)
        assert "repeats" in found.note
        return found.run.stepped

    assert steps(10**9) <= steps(10**3) + 100


def test_says_when_nothing_repeats() -> None:
    store = TimedInstruction("DP", 64, 4)
    found = claim_schedule(block(Repeat(100, (store,))), MACHINE, Policy.GTO)
    assert isinstance(found, ScheduledClaim)
    assert "no joint state repeats" in found.note
    refused = claim_schedule(block(Repeat(100, (store,))), MACHINE, Policy.GTO, limit=10)
    assert isinstance(refused, Refusal)
    assert "given up" in refused.reason


@pytest.mark.parametrize(
    "node",
    [Unordered((FMA,), (LOAD,)), Choice(((FMA,), (LOAD,))), Repeat(3, (FMA,), 1)],
)
def test_refused_without_a_single_path(node: Node) -> None:
    found = claim_schedule(block(node), MACHINE, Policy.LRR)
    assert isinstance(found, Refusal)
    assert "single known path" in found.reason


def test_refused_for_timings_that_are_upper_bounds() -> None:
    upper = replace(MACHINE, timing_meaning=TimingMeaning.UPPER)
    assert isinstance(claim_schedule(block(FMA), upper, Policy.LRR), Refusal)
    assert isinstance(claim_schedule(block(FMA), MACHINE, Policy.LRR, is_nominal=False), Refusal)


def test_a_doubtful_machine_weakens_the_claim() -> None:
    doubtful = tuple(
        replace(a, state=AssumptionState.DOUBTFUL) if a.key == "constant-memory-latency" else a
        for a in MACHINE.satisfies
    )
    found = claim_schedule(block(FMA), replace(MACHINE, satisfies=doubtful), Policy.LRR)
    assert isinstance(found, ScheduledClaim)
    assert found.claim.guarantee is Guarantee.ESTIMATE
