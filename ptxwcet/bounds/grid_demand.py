"""What a block asks of a grid bound: its slack and its work (docs/methods/grid.md).

The slack of a block is the sum over its sections of the largest slack of a warp there
(:mod:`ptxwcet.timing.slack`), its work the sum of all initiations of all warps, those at the memory
path of the SM among them. On several paths each is the largest by itself, which is safe since the
bound grows with both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ptxwcet.bounds.analysis import BlockAnalysis, BlockSection, BlockStep, WarpSection
from ptxwcet.bounds.grid import BlockKind
from ptxwcet.bounds.memory_servers import memory_demand
from ptxwcet.timing.slack import warp_slack


@dataclass(frozen=True, slots=True)
class _Demand:
    slack: int = 0
    work: int = 0
    busiest: int = 0

    def plus(self, other: _Demand, times: int) -> _Demand:
        return _Demand(
            self.slack + times * other.slack,
            self.work + times * other.work,
            self.busiest + times * other.busiest,
        )


def block_kind(analysis: BlockAnalysis, count: int) -> BlockKind:
    """``count`` blocks that all execute what is analysed. Raises PW404.

    Cost: a profile a class and section, whatever the count and the trip counts.
    """
    alone = analysis.workload.warp_count == 1  # its barriers are ordinary instructions
    demand = _Demands(analysis, slacks=not alone).of(analysis.steps)
    slack = _slack_of(analysis.uncut[0]) if alone else demand.slack
    memory = memory_demand(analysis)
    path = memory.path_cycles
    busiest = demand.busiest + path if analysis.has_private_units else None
    meets = not alone and any(
        not isinstance(step, BlockSection) or step.barrier is not None for step in analysis.steps
    )
    work, served = demand.work + path, (memory.sectors, memory.outside_sectors)
    return BlockKind(count, slack, work, busiest, meets, *served)


class _Demands:
    """Demands of the sections of one analysis; what each class does in one is computed once."""

    def __init__(self, analysis: BlockAnalysis, *, slacks: bool) -> None:
        self._wants_slacks = slacks
        self._classes = [len(one.warps) for one in analysis.workload.classes]
        self._cores = analysis.cores
        self._slacks: dict[int, int] = {}

    def of(self, steps: Sequence[BlockStep]) -> _Demand:
        """The demand summed over steps; of alternatives the largest of each figure counts."""
        total = _Demand()
        for step in steps:
            if isinstance(step, BlockSection):
                total = total.plus(self._of_section(step), step.multiplicity)
                continue
            ways = [self.of(way) for way in step.alternatives]
            largest = _Demand(
                max((way.slack for way in ways), default=0),
                max((way.work for way in ways), default=0),
                max((way.busiest for way in ways), default=0),
            )
            total = total.plus(largest, step.multiplicity)
        return total

    def _of_section(self, section: BlockSection) -> _Demand:
        present = [own for own in section.warps if own is not None]
        slack = 0
        if self._wants_slacks:
            slack = max((self._slack(own) for own in present), default=0)
        if section.barrier is not None and any(own.barrier is None for own in present):
            slack += 1  # an exited warp may count as arrived only when its last cycle is over
        initiations = [0 if own is None else own.interference(own.units) for own in section.warps]

        def on(warps: Sequence[int]) -> int:
            return sum(count * each for count, each in zip(warps, initiations, strict=True))

        return _Demand(slack, on(self._classes), max((on(core) for core in self._cores), default=0))

    def _slack(self, own: WarpSection) -> int:
        if id(own) not in self._slacks:
            self._slacks[id(own)] = _slack_of(own)
        return self._slacks[id(own)]


def _slack_of(own: WarpSection) -> int:
    """The slack of a warp's section, through the bubble of the barrier at its end."""
    through = own.barrier is not None
    return warp_slack(own.body, own.scoreboard, through_bubble=through)
