"""Applies a machine's ledger of assumptions to a claim."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ptxwcet.claims import Assumption, AssumptionState, Citation, Guarantee, TimingClaim
from ptxwcet.machine.assumptions import (
    ALONE,
    COUNTED,
    DEALT,
    MACHINE_CODE_IS_EXECUTED,
    NEVER_IDLE,
    NO_BANK_CONFLICTS,
    PTX_IS_EXECUTED,
    STACK,
    STORES_HOLD,
)
from ptxwcet.machine.model import Machine

EXECUTION = (
    "single-issue",
    "constant-initiation",
    "constant-memory-latency",
    NO_BANK_CONFLICTS,
    "no-write-port-hazard",
    "units-independent",
    "units-in-order",
    "perfect-instruction-supply",
    STACK,
    PTX_IS_EXECUTED,
    "common-start",
    DEALT,
    "prompt-barriers",
    COUNTED,
    NEVER_IDLE,
    ALONE,
)
"""The keys that every result computed from the timings of a machine file needs."""


_OF_PTX = (PTX_IS_EXECUTED, STACK)
"""The keys that only PTX needs: machine code is executed itself, and states reconvergence."""


def made_true(machine: Machine, *, is_code: bool) -> list[Assumption]:
    """Returns assumptions that are true by definition; for machine code except PTX's."""
    return [
        a
        for a in machine.satisfies
        if a.state is AssumptionState.BY_DEFINITION and not (is_code and a.key in _OF_PTX)
    ]


_WHERE: Mapping[str, Callable[[Machine], bool]] = {
    NO_BANK_CONFLICTS: lambda machine: machine.memory is None,
    DEALT: lambda machine: machine.schedulers_per_sm > 1,
    COUNTED: lambda machine: machine.memory is not None,
    NEVER_IDLE: lambda machine: machine.has_path or machine.cycles_per_1024_sectors > 0,
    STORES_HOLD: lambda machine: machine.has_path,
}
"""The machines for which a key is needed, if not for all."""


def claim_on(
    machine: Machine,
    keys: Iterable[str],
    stated: TimingClaim,
) -> TimingClaim:
    """Returns the claim with the ledger's entries for ``keys`` before its own assumptions.

    Entries that are true by definition of the machine are omitted, and so are entries that do not
    apply to it. A doubtful entry weakens the claim to an estimate. A claim of machine code needs no
    assumption of PTX.
    """
    if any(assumption.key == MACHINE_CODE_IS_EXECUTED for assumption in stated.assumptions):
        keys = [key for key in keys if key not in _OF_PTX]
    ledger = [machine.assumption(k) for k in keys if k not in _WHERE or _WHERE[k](machine)]
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
