"""What bounds claim: guarantees, assumptions, refusals, and the one-warp rule."""

from __future__ import annotations

import pytest

from ptxwcet.bounds.analysis import BlockAnalysis, analyse_block
from ptxwcet.bounds.methods import METHODS
from ptxwcet.bounds.outcome import NEEDED, BlockBound, Outcome
from ptxwcet.claims import Assumption, AssumptionState, Guarantee, Refusal
from ptxwcet.machine.assumptions import ASSUMPTIONS, OF_LAUNCHES
from ptxwcet.machine.loader import load_machine
from ptxwcet.warp.program import (
    Barrier,
    BlockWorkload,
    Node,
    Repeat,
    TimedInstruction,
    WarpClass,
    WarpProgram,
)

pytestmark = pytest.mark.fast

ADD = TimedInstruction("INT", 2, 6)
BARRIER = Barrier(TimedInstruction("INT", 1, 4, origin=5))


BOTH = {AssumptionState.ASSUMED, AssumptionState.DOUBTFUL}


def analysed(machine: str, *body: Node, warps: int = 8, nominal: bool = True) -> BlockAnalysis:
    described = load_machine(machine)
    block = WarpClass(WarpProgram(body), tuple(range(warps)))
    return analyse_block(
        BlockWorkload((block,), described.scoreboard), described, is_nominal=nominal
    )


def outcomes(analysis: BlockAnalysis) -> dict[str, Outcome]:
    return {method.name: method.evaluate(analysis) for method in METHODS}


def bound(outcome: Outcome) -> BlockBound:
    assert isinstance(outcome, BlockBound)
    return outcome


def test_every_assumption_is_needed_by_the_bounds_of_blocks_or_launches() -> None:
    assert {*NEEDED, *OF_LAUNCHES} == set(ASSUMPTIONS)


@pytest.mark.parametrize(
    ("machine", "guarantee", "states"),
    [
        ("orin-ecrts2025", Guarantee.SAFE_BOUND, {AssumptionState.ASSUMED}),
        ("orin-ecrts2025-hazard", Guarantee.ESTIMATE, BOTH),
        ("rtx3070-gpgpusim", Guarantee.ESTIMATE, BOTH),
        ("ampere-realistic", Guarantee.ESTIMATE, BOTH),
    ],
)
def test_the_ledger_decides_the_guarantee(
    machine: str, guarantee: Guarantee, states: set[AssumptionState]
) -> None:
    found = outcomes(analysed(machine, ADD))
    claim = bound(found["safe"]).claim
    assert claim.guarantee is guarantee
    assert {assumption.state for assumption in claim.assumptions} == states
    assert bound(found["gub"]).claim.guarantee is Guarantee.ESTIMATE


def test_assumptions_of_the_workload_are_claimed_too() -> None:
    analysis = analysed("orin-ecrts2025", ADD)
    extra = Assumption("mine", "something holds", AssumptionState.DOUBTFUL)
    again = analyse_block(analysis.workload, analysis.machine, [extra])
    claim = bound(outcomes(again)["safe"]).claim
    assert [one.key for one in claim.assumptions] == ["alone-on-its-sm", "mine"]
    assert claim.assumptions[1] == extra
    assert claim.guarantee is Guarantee.ESTIMATE


def test_refusals_of_estimates_leave_the_safe_bound() -> None:
    found = outcomes(analysed("orin-ecrts2025", Repeat(9, (ADD,), least=0)))
    assert isinstance(found["gub"], Refusal)
    assert isinstance(found["lower"], Refusal)
    assert bound(found["safe"]).cycles > 0


def test_charged_timings_give_no_lower_bound() -> None:
    assert isinstance(outcomes(analysed("orin-ecrts2025-hazard", ADD))["lower"], Refusal)
    assert isinstance(outcomes(analysed("orin-ecrts2025", ADD, nominal=False))["lower"], Refusal)
    assert isinstance(outcomes(analysed("orin-ecrts2025", ADD))["lower"], BlockBound)


def test_sections_are_reported_with_their_barriers() -> None:
    body = Repeat(10, (ADD, BARRIER))
    found = bound(outcomes(analysed("orin-ecrts2025", body, ADD))["safe"])
    assert [(s.multiplicity, s.barrier_origin) for s in found.sections] == [
        (1, 5),
        (9, 5),
        (1, None),
    ]
    # ADD ends at 8; barrier issued at 1, dispatched at 2, ends at 7; seven others add 2 + 1 each.
    assert found.sections[0].cycles == 8 + 7 * 3
    assert found.cycles == 10 * 29 + (8 + 7 * 2)


def test_one_warp_waits_for_nobody() -> None:
    found = bound(outcomes(analysed("orin-ecrts2025", ADD, BARRIER, ADD, warps=1))["safe"])
    assert found.cycles == 3 + 2 + 6  # the second ADD is dispatched when INT is free again
    assert found.note
    two = bound(outcomes(analysed("orin-ecrts2025", ADD, BARRIER, ADD, warps=2))["safe"])
    assert two.note == ""
    assert two.cycles == (8 + 3) + (8 + 2)


def test_trip_counts_of_any_size() -> None:
    huge = 10**30
    found = outcomes(analysed("orin-ecrts2025", Repeat(huge, (ADD, BARRIER))))
    assert bound(found["safe"]).cycles == 29 * huge
    assert bound(found["lower"]).cycles >= 8 * 3 * huge
