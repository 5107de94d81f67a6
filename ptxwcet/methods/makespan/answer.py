"""What a method says: a number of slots with its claim, and a schedule that reaches so many."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ptxwcet.claims import Assumption, AssumptionState, Citation, Guarantee, TimingClaim
from ptxwcet.methods.makespan.schedule import Schedule

PAPER = "Berezovskyi, Bletsas, Andersson, ECRTS 2012"
"""Where the machine and the published methods come from."""

_SOURCE = f"{PAPER}, section 2"
ASSUMPTIONS = (
    Assumption(
        "no-cache-misses",
        "nothing leaves the chip: no instruction waits for memory",
        AssumptionState.ASSUMED,
        _SOURCE,
    ),
    Assumption(
        "unit-slots",
        "every instruction takes one time slot of its unit and holds it alone",
        AssumptionState.ASSUMED,
        _SOURCE,
    ),
    Assumption(
        "identical-warps",
        "all warps start together and execute the same string, in order, an instruction a slot",
        AssumptionState.ASSUMED,
        _SOURCE,
    ),
    Assumption(
        "work-conserving-slots",
        "no warp waits for a kind of unit that could serve one more in that slot",
        AssumptionState.ASSUMED,
        _SOURCE,
    ),
)
"""What every method rests on: they define the machine whose slots are counted."""

SUBADDITIVE = Assumption(
    "subadditive",
    "W warps take no longer than ceil(W / y) batches of y warps: refuted for y = 2",
    AssumptionState.DOUBTFUL,
    f"{PAPER}, section 5.6",
)
"""What the published extrapolation rests on."""


@dataclass(frozen=True, slots=True)
class MakespanAnswer:
    """``claim.cycles`` time slots by a method; ``lower`` is what some schedule takes at least.

    Equal and a safe bound: the worst case exactly. ``schedule`` has ``lower`` slots if it is there.
    ``note`` says how the number came about.
    """

    claim: TimingClaim
    lower: int
    schedule: Schedule | None = None
    note: str = ""

    @property
    def slots(self) -> int:
        """The value: time slots until all warps have ended."""
        return self.claim.cycles

    @property
    def is_exact(self) -> bool:
        """Whether it is the longest makespan, proved from both sides."""
        return self.claim.guarantee is Guarantee.SAFE_BOUND and self.lower == self.slots

    def under(self, method: str, note: str) -> MakespanAnswer:
        """The answer, given by ``method`` for the reason of ``note``."""
        return replace(self, claim=replace(self.claim, method=method), note=note)


def state_makespan(
    slots: int,
    method: str,
    place: str = "",
    guarantee: Guarantee = Guarantee.SAFE_BOUND,
    *,
    lower: int,
    schedule: Schedule | None = None,
    note: str = "",
    extra: tuple[Assumption, ...] = (),
) -> MakespanAnswer:
    """An answer with the assumptions of the machine; ``place`` is where the method is published."""
    citations = (Citation(PAPER, place),) if place else ()
    claim = TimingClaim(slots, guarantee, method, (*ASSUMPTIONS, *extra), citations)
    return MakespanAnswer(claim, lower, schedule, note)
