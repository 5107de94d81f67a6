"""What the bounds of a report say of a budget and of a guarantee: of a row, however old it is.

A row has all that a verdict rests on: cycles, guarantees, assumptions. So bounds that were kept are
judged as those that were just found.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ptxwcet.claims import Assumption, AssumptionState, Guarantee, Refusal, TimingClaim
from ptxwcet.commands.bound.report import AssumptionRow, BoundedKernel, BudgetRow
from ptxwcet.opened.budgets import Checks
from ptxwcet.support.diagnostics import Diagnostic


def with_verdict(row: BoundedKernel, checks: Checks, clock_mhz: int) -> BoundedKernel:
    """The row with what it says of the budget, if there is one, at the clock of its machine."""
    judged = checks.judge(*_claims(row), clock_mhz)
    if judged is None:
        return row
    guarantee = None if judged.claim is None else judged.claim.guarantee.value
    of, verdict = judged.of, judged.verdict.value
    return replace(row, budget=BudgetRow(judged.budget.text, judged.cycles, of, verdict, guarantee))


def failed_of(row: BoundedKernel, checks: Checks, clock_mhz: int) -> list[Diagnostic]:
    """PW520, PW521 and PW522 for a row, without a place: a row does not know its kernel's."""
    return checks.failed(row.readable, None, *_claims(row), clock_mhz)


def _claims(row: BoundedKernel) -> tuple[TimingClaim, TimingClaim | Refusal | None]:
    """The claims of block and launch; a refusal where that has no bound, None without a launch."""
    block = _claim(row.bound_cycles, row.guarantee, row.bounds[0].method, row.assumptions)
    launch = row.launch
    if launch is not None:
        return block, _claim(launch.cycles, launch.guarantee, launch.form, launch.assumptions)
    return block, Refusal(row.launch_not_bounded) if row.launch_not_bounded else None


def _claim(
    cycles: int, guarantee: str, method: str, assumptions: Iterable[AssumptionRow]
) -> TimingClaim:
    stated = (Assumption(a.key, a.text, AssumptionState(a.state), a.source) for a in assumptions)
    return TimingClaim(cycles, Guarantee(guarantee), method, tuple(stated))
