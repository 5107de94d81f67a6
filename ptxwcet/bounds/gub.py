"""GUB: the general upper bound as published ([J] Definitions 9 and 10). It is not safe.

``WUB_E(w) = L_w + sum over other warps of E`` and ``GUB = max_w WUB_E(w)`` per section. Lemma 7 of
the paper takes the cycles in which other warps initiate to be their isolated execution time, but
initiations that overlap in isolation can be driven apart (docs/refutations/gub.md has four
workloads that exceed it). It is printed beside the safe bound, as an estimate, because it is the
published value.
"""

from __future__ import annotations

from ptxwcet.bounds.analysis import BlockAnalysis, BlockSection
from ptxwcet.bounds.memory_servers import MemoryDemand, memory_demand
from ptxwcet.bounds.outcome import BlockBound, Outcome, SectionBound, state_claim
from ptxwcet.claims import Citation, Guarantee, Refusal

_CITATIONS = (
    Citation("Jeanmougin, Carle, Rochange, ECRTS 2025", "Definitions 9 and 10, section 4.2"),
)


def bound_gub(analysis: BlockAnalysis) -> Outcome:
    """GUB of the block, an estimate; refused where a warp has no single known path.

    Several sub-cores, of which the paper does not speak, are taken one by one. Raises PW404. Cost:
    one profile a class and section.
    """
    if memory_demand(analysis) != MemoryDemand():
        return Refusal("GUB is given for machines without servers behind the units")
    if analysis.joins:
        return Refusal("GUB is given for warps that meet at barriers only")
    if not analysis.has_private_units:
        return Refusal("GUB is given for one private server of each unit a scheduler")
    if not analysis.is_single_path:
        return Refusal("E is not monotone: GUB is defined for warps with a single known path")
    if any(section.joined is not None for section in analysis.sections):
        return Refusal("GUB is defined for barriers at which all warps of the block meet")
    sections = []
    for section in analysis.sections:
        cycles = _section_bound(analysis, section)
        if cycles is None:
            return Refusal("the idle phases of a loop do not settle into a pattern: E is not known")
        sections.append(SectionBound.of(section, cycles))
    total = sum(section.multiplicity * section.cycles for section in sections)
    claim = state_claim(analysis, total, "gub", Guarantee.ESTIMATE, _CITATIONS)
    return BlockBound("gub", claim, tuple(sections), "as published; refuted by counterexamples")


def _section_bound(analysis: BlockAnalysis, section: BlockSection) -> int | None:
    best = 0
    for core in analysis.cores:
        execution = 0
        excess = 0
        for count, warp in zip(core, section.warps, strict=True):
            if not count or warp is None:
                continue
            own = warp.profile.execution_cycles
            if own is None:
                return None
            execution += count * own
            excess = max(excess, warp.length_cycles - own)
        best = max(best, execution + excess)
    return best
