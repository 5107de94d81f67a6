"""The claim of a known schedule: when nothing varies, one run is every run.

With one known path a warp, exact timings and a known deterministic policy, the model's machine
takes the same cycles for every input: those of the simulated run. Nothing is left to bound, and
nothing may be relaxed: with any timing shorter than stated the run can become *longer* ([J] Fig. 4;
the test of this page reproduces such an anomaly). docs/methods/scheduled.md.
"""

from __future__ import annotations

from collections.abc import Iterable

from ptxwcet.claims import (
    Assumption,
    AssumptionState,
    Citation,
    Guarantee,
    Refusal,
    TimingClaim,
)
from ptxwcet.machine.ledger import EXECUTION, claim_on
from ptxwcet.machine.model import Machine, TimingMeaning
from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.engine import DEFAULT_LIMIT, Simulator
from ptxwcet.simulator.policies import Policy
from ptxwcet.simulator.run import SimulatedRun
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.warp.program import BlockWorkload

_CITATIONS = (
    Citation("docs/methods/scheduled.md", "Proposition (one run is every run)"),
    Citation("Jeanmougin, Carle, Rochange, ECRTS 2025", "section 3.1, Fig. 4: anomalies"),
)


@dataclass(frozen=True, slots=True)
class ScheduledClaim:
    """The length of every run of the model under the claim's assumptions, and the run itself.

    ``has_bubbles``: the machine has cycles without issue after a taken branch, which the model
    takes from the branch's issue on.
    """

    claim: TimingClaim
    run: SimulatedRun
    has_bubbles: bool

    @property
    def note(self) -> str:
        """What the number is exact for, and how the run was obtained."""
        run = self.run
        bubbles = ", with bubbles from issue" if self.has_bubbles else ""
        exact = f"the model's run under {run.policy.value}{bubbles}: exact if no timing varies"
        if run.repeats:
            return (
                f"{exact}; the joint state of all warps repeats: "
                f"{run.stepped:,} of {run.instructions:,} instructions were stepped"
            )
        return f"{exact}; no joint state repeats: the run was stepped whole"


def claim_schedule(
    workload: BlockWorkload,
    machine: Machine,
    policy: Policy,
    assumptions: Iterable[Assumption] = (),
    *,
    is_nominal: bool = True,
    limit: int = DEFAULT_LIMIT,
) -> ScheduledClaim | Refusal:
    """The length of a block's run under a known policy, the model's only one if all are true.

    ``assumptions`` are those that the workload needs; ``is_nominal`` False says that some of its
    timings are upper bounds. Refused with a reason where the run is not the same for every input.
    Cost: the steps of one run, without what repeats.
    """
    if policy.ties is None:
        return Refusal(f"the policy {policy.value} does not fix the schedule")
    if not all(c.program.is_single_path for c in workload.classes):
        return Refusal("the run is known only for warps with a single known path")
    if not is_nominal or machine.timing_meaning is not TimingMeaning.EXACT:
        return Refusal(
            "some instructions are charged the most: the real run may be a different schedule"
        )
    try:
        simulator = Simulator(workload, SmConfiguration.of(machine))
        if simulator.has_servers_behind_units:
            return Refusal("the order in which servers behind the units serve is not known")
        run = simulator.run(policy, limit=limit)
    except PtxwcetError as error:
        return Refusal(error.diagnostics[0].message)
    bubble = machine.taken_branch_bubble_cycles
    needed = (*_own(policy, bubble), *assumptions)
    stated = TimingClaim(run.cycles, Guarantee.SAFE_BOUND, "scheduled", needed, _CITATIONS)
    return ScheduledClaim(claim_on(machine, EXECUTION, stated), run, bubble > 0)


def _own(policy: Policy, bubble_cycles: int) -> tuple[Assumption, ...]:
    """What the claim needs besides the machine's ledger."""

    def assumed(key: str, text: str) -> Assumption:
        return Assumption(key, text, AssumptionState.ASSUMED, "--policy")

    assumptions = [
        assumed(
            "known-policy",
            f"every warp scheduler follows {policy.value} with this tie rule: {policy.ties}",
        ),
        assumed(
            "exact-latencies",
            "every instruction takes exactly the stated time; not safe under jitter: a timing that "
            "is shorter can make the run longer (scheduling anomaly)",
        ),
        assumed(
            "input-independent-path",
            "path and masks of every warp are the same for all inputs that the given facts allow",
        ),
    ]
    if bubble_cycles:
        cycles = f"{bubble_cycles} cycle" + ("s" if bubble_cycles > 1 else "")
        text = (
            f"a warp's bubble after a taken branch ({cycles}) begins when the branch is issued, "
            "not when the scheduler next looks at the warp: if it begins later, runs can be longer"
        )
        assumptions.append(assumed("bubbles-from-issue", text))
    return tuple(assumptions)
