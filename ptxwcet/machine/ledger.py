"""Applying a machine's ledger of assumptions to a claim."""

from __future__ import annotations

from collections.abc import Iterable

from ptxwcet.claims import Assumption, AssumptionState, Citation, Guarantee, TimingClaim
from ptxwcet.machine.assumptions import ALONE
from ptxwcet.machine.model import Machine

EXECUTION = (
    "single-issue",
    "constant-initiation",
    "constant-memory-latency",
    "no-bank-conflicts",
    "no-write-port-hazard",
    "units-independent",
    "perfect-instruction-supply",
    "stack-reconvergence",
    "ptx-is-executed",
    ALONE,
)
"""Keys that everything needs that is computed from the timings of a machine file."""


def claim_on(
    machine: Machine,
    keys: Iterable[str],
    stated: TimingClaim,
) -> TimingClaim:
    """The claim with the ledger's entries for ``keys`` before its own assumptions.

    Entries that are true by definition of the machine are left out. One that the machine file calls
    doubtful weakens the claim to an estimate.
    """
    ledger = [machine.assumption(key) for key in keys]
    assumptions: list[Assumption] = [
        one
        for one in (*ledger, *stated.assumptions)
        if one.state is not AssumptionState.BY_DEFINITION
    ]
    guarantee = stated.guarantee
    if any(one.state is AssumptionState.DOUBTFUL for one in assumptions):
        guarantee = Guarantee.weakest((guarantee, Guarantee.ESTIMATE))
    citations: tuple[Citation, ...] = stated.citations
    return TimingClaim(stated.cycles, guarantee, stated.method, tuple(assumptions), citations)
