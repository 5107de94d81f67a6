"""A lower bound on the block's time: how pessimistic can the upper bound be? (model, section 2)

Sections overlap in real runs, so their lengths do not add up. A section that ends at a barrier
lasts at least until its last warp has issued the barrier alone, and at least one cycle an issue; a
warp that ends in a section needs its whole isolated length from there. Barriers only
delay a warp, so its isolated run over all sections counts too, and so do issues and initiations in
total. Servers behind the units only delay as well: what they take alone is part of latencies.
"""

from __future__ import annotations

from ptxwcet.bounds.analysis import BlockAnalysis, BlockSection
from ptxwcet.bounds.outcome import BlockBound, Outcome, SectionBound, state_claim, why_not_nominal
from ptxwcet.claims import Citation, Guarantee, Refusal

_CITATIONS = (Citation("docs/methods/lower-bound.md", "Theorem (lower bound)"),)


def bound_lower(analysis: BlockAnalysis) -> Outcome:
    """No schedule with the machine's nominal timings ends the block earlier.

    Refused without a single known path for each warp, and where timings are charged above nominal.
    ``sections`` gives for each section the cycles until the next one can begin (for the last one,
    until its warps end). Raises PW404. Cost: one profile a class and section.
    """
    if not analysis.has_private_units:
        return Refusal("a lower bound is given for one private server of each unit a scheduler")
    if not analysis.is_single_path:
        return Refusal("a lower bound is given for warps with a single known path only")
    if not analysis.is_nominal:
        return Refusal(why_not_nominal(analysis))
    begin = 0
    best = max(warp.profile.isolated_cycles for warp in analysis.uncut)
    best = max(best, *(_total_demand(analysis, core) for core in analysis.cores))
    sections = []
    for section in analysis.sections:
        length = _begin_of_next(analysis, section)
        end = max(
            (w.profile.isolated_cycles for w in section.warps if w and w.barrier is None),
            default=0,
        )
        best = max(best, begin + end)
        begin += section.multiplicity * length
        shown = length if section.barrier is not None else end
        sections.append(SectionBound.of(section, shown))
    claim = state_claim(analysis, best, "lower", Guarantee.SAFE_BOUND, _CITATIONS)
    return BlockBound("lower", claim, tuple(sections), "from below, at nominal timings")


def _begin_of_next(analysis: BlockAnalysis, section: BlockSection) -> int:
    """Cycles from the first cycle of a section to the first cycle of the next, at least."""
    issued = max(
        sum(
            count * warp.issues
            for count, warp in zip(core, section.warps, strict=True)
            if warp is not None
        )
        for core in analysis.cores
    )
    alone = max(
        (
            warp.profile.issue_end_cycles - warp.barrier.instruction.bubble_cycles
            for warp in section.warps
            if warp is not None and warp.barrier is not None
        ),
        default=0,
    )
    return max(issued, alone)


def _total_demand(analysis: BlockAnalysis, core: tuple[int, ...]) -> int:
    """The larger of all issues and the largest total initiation on a unit, on one sub-core."""
    issues = 0
    units: dict[str, int] = {}
    for count, program in zip(core, analysis.uncut, strict=True):
        if not count:
            continue
        issues += count * program.issues
        for unit, cycles in program.unit_demand.items():
            units[unit] = units.get(unit, 0) + count * cycles
    return max([issues, *units.values()])
