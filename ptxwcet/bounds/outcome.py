"""Defines the answers of bound methods: cycles by section with a claim, or a refusal."""

from __future__ import annotations

from collections.abc import Iterable

from ptxwcet.bounds.analysis import BlockAnalysis, BlockSection
from ptxwcet.claims import Citation, Guarantee, Refusal, TimingClaim
from ptxwcet.machine.assumptions import MACHINE_CODE_IS_EXECUTED
from ptxwcet.machine.ledger import EXECUTION, claim_on
from ptxwcet.machine.model import TimingMeaning
from ptxwcet.support.records import dataclass


@dataclass(frozen=True, slots=True)
class SectionBound:
    """The cycles of one execution of a section that the block executes ``multiplicity`` times.

    ``barrier_origin`` is the index of the instruction that ends it, None at the exit.
    """

    multiplicity: int
    cycles: int
    barrier_origin: int | None

    @staticmethod
    def of(section: BlockSection, cycles: int) -> SectionBound:
        """Returns the bound of a section of the analysis."""
        return SectionBound(section.multiplicity, cycles, section.barrier_origin)


@dataclass(frozen=True, slots=True)
class BlockBound:
    """The answer of a method for a block. ``claim.cycles`` is the total.

    ``note`` gives the reason if the total is not the sum over sections. ``memory_cycles``, a part
    of it, are for waiting at the memory path of the SM and the memory of the GPU.
    """

    method: str
    claim: TimingClaim
    sections: tuple[SectionBound, ...]
    note: str = ""
    memory_cycles: int = 0

    @property
    def cycles(self) -> int:
        """The total for the block."""
        return self.claim.cycles


Outcome = BlockBound | Refusal

NEEDED = ("work-conserving", *EXECUTION)
"""The keys of the machine's assumptions that every block bound needs."""


def why_not_nominal(analysis: BlockAnalysis) -> str:
    """Returns the reason why runs may take less than the charge."""
    machine = analysis.machine
    if machine.timing_meaning is not TimingMeaning.EXACT:
        return f"the timings of machine {machine.name} are upper bounds, not nominal ones"
    if any(a.key == MACHINE_CODE_IS_EXECUTED for a in analysis.assumptions):
        return (
            "what waits of machine code is charged the most: scoreboards of reads, fences and "
            "copies, which the hardware may be through with earlier"
        )
    return (
        "some instructions are charged the most that they may take: accesses whose transactions "
        "are counted, rows marked upper, or unknown opcodes"
    )


def state_claim(
    analysis: BlockAnalysis,
    cycles: int,
    method: str,
    guarantee: Guarantee,
    citations: Iterable[Citation],
) -> TimingClaim:
    """Returns a claim of at most ``guarantee``, with the assumptions that may be false.

    An assumption that the machine file calls doubtful weakens the claim to an estimate.
    """
    stated = TimingClaim(cycles, guarantee, method, tuple(analysis.assumptions), tuple(citations))
    return claim_on(analysis.machine, NEEDED, stated)
