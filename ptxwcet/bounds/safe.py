"""SAFE: computes the bound that is reported (model, section 2; docs/methods/safe.md).

``WUB_S(w) = L_w + sum over other warps, over their instructions j, of c_w(j)`` with ``c_w(j)`` the
initiation of j on a unit that w uses, else 1; a section's bound is the maximum over its warps, the
block's the sum over its sections, on the worst path if the block may take several, plus the
possible wait of warps after their units (:mod:`ptxwcet.bounds.memory_servers`). Sub-cores are
bounded individually; on units that they share, and on units with several servers, the initiations
of all others count. Where warpgroups execute products, all warps of the block are one sub-core, on
which the warps of a warpgroup do not delay each other (docs/methods/warpgroups.md).

Example ([J] Example 1): two warps of L = 14 and initiations 2 + 3 + 3 + 2 give 14 + 10 = 24; the
worst schedule takes 18.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from ptxwcet.bounds.analysis import BlockAnalysis, BlockSection, BlockStep, SubCore
from ptxwcet.bounds.memory_servers import MEMORY_ALONE, memory_alone, memory_demand
from ptxwcet.bounds.outcome import BlockBound, SectionBound, state_claim
from ptxwcet.claims import Citation, Guarantee

_CITATIONS = (
    Citation("docs/methods/safe.md", "Theorem (SAFE)"),
    Citation("Jeanmougin, Carle, Rochange, ECRTS 2025", "sections 3.2 and 4.2"),
)

_JOINS = Citation("docs/methods/barriers.md", "J1 and J2")


def bound_safe(analysis: BlockAnalysis) -> BlockBound:
    """Computes an upper bound for every work-conserving schedule and all timings up to the model's.

    A block of one warp also ends within its isolated length L, barriers being ordinary instructions
    for it: the smaller value counts. Waiting at servers after the units is added to either. Raises
    PW404 if a profile does not settle. Cost: one profile per class and section, and a pass over the
    trees for each pair of classes.
    """
    bound = bound_before_memory(analysis)
    serving = memory_alone(analysis.machine).busy(memory_demand(analysis).sectors)
    claim = replace(bound.claim, cycles=bound.cycles + serving)
    return replace(bound, claim=claim, memory_cycles=bound.memory_cycles + serving)


def bound_before_memory(analysis: BlockAnalysis) -> BlockBound:
    """Returns :func:`bound_safe` without the cycles of the GPU's memory, which are rounded."""
    worst = worst_way(analysis, analysis.steps)
    sections = tuple(SectionBound.of(section, cycles) for section, cycles in worst)
    cycles = sum(section.multiplicity * section.cycles for section in sections)
    note = ""
    polling = analysis.polling
    # otherwise it waits for its own copies
    if analysis.workload.warp_count == 1 and polling is None:
        isolated = analysis.uncut[0].length_cycles
        if isolated < cycles:
            cycles = isolated
            note = "one warp waits for no other: its isolated length bounds it"
    demand = memory_demand(analysis)
    waiting = demand.path_cycles
    if polling:  # Warps poll while others wait there, too.
        serving = memory_alone(analysis.machine).busy(demand.sectors)
        waiting = beside_polls(waiting + serving, polling) - serving
    if memory_alone(analysis.machine).cycles_per_1024_sectors and demand.sectors:
        analysis = replace(analysis, assumptions=(*analysis.assumptions, MEMORY_ALONE))
    joined = any(section.joined is not None for section, _ in worst)
    citations = (*_CITATIONS, _JOINS) if joined else _CITATIONS
    claim = state_claim(analysis, cycles + waiting, "safe", Guarantee.SAFE_BOUND, citations)
    return BlockBound("safe", claim, sections, note, waiting)


def beside_polls(cycles: int, share: Fraction) -> int:
    """Returns the time for this many cycles if polls take a share of all."""
    left = 1 - share
    return -(-cycles * left.denominator // left.numerator)


def worst_way(
    analysis: BlockAnalysis, steps: Sequence[BlockStep]
) -> list[tuple[BlockSection, int]]:
    """Returns the sections of the path with the largest sum of bounds, and the bound of each.

    Paths separate where all warps of the block choose together. Cost: one bound for each section.
    """
    out: list[tuple[BlockSection, int]] = []
    for step in steps:
        if isinstance(step, BlockSection):
            out.append((step, section_upper_bound(analysis, step)))
            continue
        ways = [worst_way(analysis, side) for side in step.alternatives]
        worst = max(ways, key=lambda way: sum(s.multiplicity * cycles for s, cycles in way))
        out += [
            (replace(part, multiplicity=step.multiplicity * part.multiplicity), cycles)
            for part, cycles in worst
        ]
    return out


def section_upper_bound(analysis: BlockAnalysis, section: BlockSection) -> int:
    """Returns the largest ``WUB_S`` of a section's warps; with partial barriers, its proved bound.

    Where warps of the block poll mbarriers they may do so before the bounds of the sections before
    have passed: each section has its part of that.
    """
    if section.joined is not None:
        cycles = section.joined.cycles
    else:
        cycles = max((cycles for _, _, cycles in _delayed(analysis, section)), default=0)
    return beside_polls(cycles, analysis.polling) if analysis.polling else cycles


def worst_warp(analysis: BlockAnalysis, section: BlockSection) -> tuple[SubCore, int] | None:
    """Returns a sub-core and the class of a warp there whose ``WUB_S`` is the section's bound.

    It is the first of several; None for a section without warps.
    """
    worst = max(_delayed(analysis, section), key=lambda warp: warp[2], default=None)
    return None if worst is None else worst[:2]


def _delayed(analysis: BlockAnalysis, section: BlockSection) -> Iterator[tuple[SubCore, int, int]]:
    """Yields every kind of warp in a section: its sub-core, its class, its ``WUB_S``."""
    for core in analysis.competing(section):
        # of all warps, for a warp that uses these units
        interference: dict[frozenset[str], int] = {}
        for index, (count, own) in enumerate(zip(core.warps, section.warps, strict=True)):
            if not count or own is None:
                continue
            units = own.units
            if units not in interference:
                interference[units] = _interference(section, core, units)
            alone = own.length_cycles - section.unhindered(index) * own.interference(units)
            yield core, index, alone + interference[units]


def _interference(section: BlockSection, core: SubCore, units: frozenset[str]) -> int:
    """Returns the delay of all warps to a warp of a sub-core that uses ``units``, itself included.

    Warps of other sub-cores delay it on shared units only: by their initiations there.
    """
    total = 0
    for count, other in zip(core.warps, section.warps, strict=True):
        if count and other is not None:
            total += count * other.interference(units)
    for shared, counts in core.others:
        for count, other in zip(counts, section.warps, strict=True):
            if count and other is not None:
                total += count * other.demand_on(shared & units)
    return total
