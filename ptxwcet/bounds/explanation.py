"""Attributes the cycles of the safe bound to instructions; the parts add up to the bound.

``SAFE = sum over sections of multiplicity * (L_w + interference of the others)`` for the warp w
that determines the section, on the worst path where the block may take several. L_w is attributed
along w's isolated run (:mod:`ptxwcet.timing.attribution`); an instruction j of another warp pays
its charge in the bound: ``c_w(j)`` per execution on w's sub-core, its initiation on a shared unit
elsewhere.

For a launch, a form of the theorem adds up the work of many blocks and the slack of the blocks of
one slot; which blocks these are cannot be attributed to instructions. So work and tail are divided
in proportion to the initiations of each instruction in all blocks of the grid, waiting at the
memory in proportion to its sectors, and latency in proportion to the wait of the slowest warp of a
block for it. The cycles of polls are work of the waits. Gaps of the launcher and the overhead of a
launch belong to no instruction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ptxwcet.bounds.analysis import BlockAnalysis, BlockSection, SubCore, WarpSection
from ptxwcet.bounds.launch_bound import LaunchBound
from ptxwcet.bounds.safe import bound_safe, worst_warp, worst_way
from ptxwcet.support.records import dataclass
from ptxwcet.timing.attribution import spread
from ptxwcet.timing.demand import initiations_by_instruction, served_by_instruction
from ptxwcet.warp.program import PartialBarrier
from ptxwcet.warp.structure import entered


class PaidCycles(NamedTuple):
    """The cycles of a bound that one instruction pays, or several.

    ``issue``, ``result`` and ``unit``: the determining warp issues it, waits for its result, waits
    while it is in the queue of its unit. ``interference``: other warps execute it meanwhile.
    """

    issue: int = 0
    result: int = 0
    unit: int = 0
    interference: int = 0

    @property
    def total(self) -> int:
        """The sum of the four parts."""
        return self.issue + self.result + self.unit + self.interference

    def plus(self, other: PaidCycles, times: int = 1) -> PaidCycles:
        """Returns the sum of these cycles and ``times`` times the other ones."""
        return PaidCycles(*[a + times * b for a, b in zip(self, other, strict=True)])


@dataclass(frozen=True, slots=True)
class SectionExplanation:
    """One execution of a section that the block executes ``multiplicity`` times.

    ``is_waiting``: it is not a section, but the cycles of waiting at the servers after the units.
    ``warp_class`` is the class of the determining warp, None without one. ``paid`` by origin adds
    up to ``cycles``; ``executions`` by origin are those of the determining warp.
    """

    multiplicity: int
    cycles: int
    barrier_origin: int | None
    warp_class: int | None
    paid: Mapping[int, PaidCycles]
    executions: Mapping[int, int]
    is_waiting: bool = False


@dataclass(frozen=True, slots=True)
class BoundExplanation:
    """The parts of the safe bound of a block, ``cycles``."""

    cycles: int
    sections: tuple[SectionExplanation, ...]

    @property
    def paid(self) -> dict[int, PaidCycles]:
        """The cycles that each instruction pays over all sections; they add up to ``cycles``."""
        total: dict[int, PaidCycles] = {}
        for section in self.sections:
            for origin, paid in section.paid.items():
                before = total.get(origin, PaidCycles())
                total[origin] = before.plus(paid, section.multiplicity)
        return total

    def executions(self) -> dict[int, Counter[int]]:
        """Returns, for each class of warps, its executions in the sections that it determines."""
        total: dict[int, Counter[int]] = {}
        for section in self.sections:
            if section.warp_class is None:
                continue
            mine = total.setdefault(section.warp_class, Counter())
            for origin, times in section.executions.items():
                mine[origin] += section.multiplicity * times
        return total


def explain_safe(analysis: BlockAnalysis) -> BoundExplanation:
    """Divides the bound of :func:`~ptxwcet.bounds.safe.bound_safe` into parts.

    Raises PW404 if the waits of a loop do not settle. Cost: one attribution per section and class
    that determines it, independent of trip counts.
    """
    bound = bound_safe(analysis)
    waiting = _waiting(analysis, bound.memory_cycles)
    own = bound.cycles - bound.memory_cycles
    if own != sum(s.multiplicity * s.cycles for s in bound.sections):
        alone = analysis.uncut[0]  # one warp: its isolated length is the smaller bound
        whole = _explain(BlockSection(1, (alone,)), analysis.sub_cores[0], 0)
        return BoundExplanation(bound.cycles, (whole, *waiting))
    explained: dict[tuple[int, ...], SectionExplanation] = {}
    sections = []
    for section, cycles in worst_way(analysis, analysis.steps):
        key = (section.multiplicity, *(id(warp) for warp in section.warps))
        if section.joined is not None or analysis.polling:
            sections.append(_explain_joined(analysis, section, cycles))
            continue
        if key not in explained:
            worst = worst_warp(analysis, section)
            explained[key] = (
                SectionExplanation(section.multiplicity, 0, None, None, {}, {})
                if worst is None
                else _explain(section, *worst)
            )
        sections.append(explained[key])
    return BoundExplanation(bound.cycles, (*sections, *waiting))


def _waiting(analysis: BlockAnalysis, cycles: int) -> tuple[SectionExplanation, ...]:
    """Returns the waiting at the servers after the units, divided by the instructions' demand."""
    if not cycles:
        return ()
    each = analysis.machine.cycles_per_1024_sectors
    served = served_by_instruction(
        analysis.workload, lambda i: 1024 * i.path_cycles + each * i.sectors
    )
    paid = {origin: PaidCycles(unit=share) for origin, share in spread(cycles, served).items()}
    return (SectionExplanation(1, cycles, None, None, paid, {}, is_waiting=True),)


def _explain_joined(
    analysis: BlockAnalysis, section: BlockSection, cycles: int
) -> SectionExplanation:
    """Explains a section with partial barriers or polls, in proportion to all charges.

    The slack is not attributed to individual instructions here.
    """
    charged: Counter[int] = Counter()
    for warp_class, own in zip(analysis.workload.classes, section.warps, strict=True):
        if own is not None:
            for origin, each in own.interference_by_origin(own.units).items():
                charged[origin] += len(warp_class.warps) * each
    paid = {n: PaidCycles(interference=each) for n, each in spread(cycles, charged).items()}
    return SectionExplanation(section.multiplicity, cycles, section.barrier_origin, None, paid, {})


def _explain(section: BlockSection, core: SubCore, index: int) -> SectionExplanation:
    own = section.warps[index]
    assert own is not None
    attribution = own.attribution
    interference = _interference(section, core, index, own)
    paid = {
        origin: PaidCycles(*attribution.parts.get(origin, (0, 0, 0)), interference[origin])
        for origin in attribution.parts.keys() | interference.keys()
    }
    return SectionExplanation(
        section.multiplicity,
        attribution.cycles + interference.total(),
        section.barrier_origin,
        index,
        paid,
        attribution.executions,
    )


def _interference(
    section: BlockSection, core: SubCore, index: int, own: WarpSection
) -> Counter[int]:
    """Returns the sum of ``bounds.safe`` over the other warps, by origin."""
    paid: Counter[int] = Counter()
    for other_index, (count, other) in enumerate(zip(core.warps, section.warps, strict=True)):
        times = count - (other_index == index) * section.unhindered(index)
        if times and other is not None:
            for origin, cycles in other.interference_by_origin(own.units).items():
                paid[origin] += times * cycles
    for units, counts in core.others:
        for count, other in zip(counts, section.warps, strict=True):
            if count and other is not None:
                for origin, cycles in other.demand_by_origin(units & own.units).items():
                    paid[origin] += count * cycles
    return paid


class LaunchCycles(NamedTuple):
    """The cycles of a launch's bound that one instruction pays, or several."""

    work: int = 0
    latency: int = 0
    tail: int = 0
    memory: int = 0

    @property
    def total(self) -> int:
        """The cycles of all parts together."""
        return self.work + self.latency + self.tail + self.memory

    def plus(self, other: LaunchCycles) -> LaunchCycles:
        """Returns the sum of these cycles and others, part by part."""
        return LaunchCycles(*[a + b for a, b in zip(self, other, strict=True)])


def explain_launch(
    launched: LaunchBound, pieces: Sequence[tuple[BlockAnalysis, int | None]]
) -> dict[int, LaunchCycles]:
    """Returns the cycles that each instruction pays, by its index; without gaps and overhead.

    Where no instruction takes time nothing is charged to any.

    Raises PtxwcetError (PW404) if the waits of a loop do not settle. Cost: one attribution a
    section and class.
    """
    initiated: Counter[int] = Counter()
    waited: Counter[int] = Counter()
    served: Counter[int] = Counter()
    polls: Counter[int] = Counter()
    for analysis, count in pieces:
        times = launched.blocks if count is None else count
        for origin, cycles in initiations_by_instruction(analysis.workload).items():
            initiated[origin] += times * cycles
        for warp_class in analysis.workload.classes:
            for node in entered(warp_class.program.body):
                if isinstance(node, PartialBarrier) and node.waits and node.mbarrier is not None:
                    asked = len(warp_class.warps) * node.mbarrier.poll_cycles
                    polls[node.instruction.origin] += times * asked
        sectors = served_by_instruction(analysis.workload, lambda i: i.sectors)
        for origin, asked in sectors.items():
            served[origin] += times * asked
        for origin, paid in explain_safe(analysis).paid.items():
            waited[origin] += times * (paid.result + paid.unit)
    bound = launched.bound
    work, tail = _shared(bound.work_cycles, initiated), _shared(bound.tail_cycles, initiated)
    latency = _shared(bound.slack_cycles, waited if any(waited.values()) else initiated)
    asking = _shared(bound.polling_cycles, polls)
    work = {n: work.get(n, 0) + asking.get(n, 0) for n in work.keys() | asking.keys()}
    parts = work, latency, tail, _shared(bound.memory_cycles, served)
    return {
        origin: LaunchCycles(*(part.get(origin, 0) for part in parts))
        for origin in frozenset[int]().union(*parts)
    }


def _shared(cycles: int, weights: Mapping[int, int]) -> Mapping[int, int]:
    return spread(cycles, weights) if any(weights.values()) else {}
