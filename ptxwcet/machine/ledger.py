"""Applying a machine's ledger of assumptions to a claim."""

from __future__ import annotations

from collections.abc import Iterable

from ptxwcet.claims import Assumption, AssumptionState, Citation, Guarantee, TimingClaim
from ptxwcet.machine.assumptions import ALONE, NO_BANK_CONFLICTS
from ptxwcet.machine.model import Machine

EXECUTION = (
    "single-issue",
    "constant-initiation",
    "constant-memory-latency",
    NO_BANK_CONFLICTS,
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

    Entries that are true by definition of the machine are left out, and so is that there are no
    bank conflicts where they are charged. One that the machine file calls doubtful weakens the
    claim to an estimate.
    """
    is_charged = machine.memory is not None
    ledger = [machine.assumption(k) for k in keys if k != NO_BANK_CONFLICTS or not is_charged]
    assumptions: list[Assumption] = [
        assumption
        for assumption in (*ledger, *stated.assumptions)
        if assumption.state is not AssumptionState.BY_DEFINITION
    ]
    guarantee = stated.guarantee
    if any(assumption.state is AssumptionState.DOUBTFUL for assumption in assumptions):
        guarantee = Guarantee.weakest((guarantee, Guarantee.ESTIMATE))
    citations: tuple[Citation, ...] = stated.citations
    return TimingClaim(stated.cycles, guarantee, stated.method, tuple(assumptions), citations)
