"""What the servers behind the units add to a bound: the memory path of an SM, the GPU's memory.

Whatever waits there waits while the server is busy, so that all waiting together is no longer than
the servers are busy in all (docs/methods/memory-servers.md). The cycles of the path count for each
SM, the sectors of all SMs together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ptxwcet.bounds.analysis import BlockAnalysis, BlockSection, BlockStep
from ptxwcet.bounds.grid import MemoryServer
from ptxwcet.claims import Assumption, AssumptionState
from ptxwcet.machine.model import Machine

MEMORY_ALONE = Assumption(
    "alone-on-the-memory",
    "the block has the memory of the GPU to itself: no other SM, no copy and no other processor "
    "uses it meanwhile",
    AssumptionState.ASSUMED,
    "a condition on how the machine is used",
)
"""What the bound of one block rests on where a memory is shared."""
LAUNCH_ALONE = replace(
    MEMORY_ALONE,
    text="the launch has the memory of the GPU to itself: no copy and no other processor uses it "
    "meanwhile",
    source="no --co-runner",
)
"""What the bound of a launch rests on there, if nothing is said of others."""


@dataclass(frozen=True, slots=True)
class MemoryDemand:
    """Cycles at the path of the SM, and sectors of the GPU's memory, of all warps of a block.

    ``outside_sectors`` are in no array that is set aside in a cache.
    """

    path_cycles: int = 0
    sectors: int = 0
    outside_sectors: int = 0

    def plus(self, other: MemoryDemand, times: int = 1) -> MemoryDemand:
        """This demand plus ``times`` times the other one."""
        return MemoryDemand(
            self.path_cycles + times * other.path_cycles,
            self.sectors + times * other.sectors,
            self.outside_sectors + times * other.outside_sectors,
        )


def memory_demand(analysis: BlockAnalysis) -> MemoryDemand:
    """The most that a block asks of the servers; on several ways the largest of each.

    Cost: a pass over the trees of each class and section.
    """
    classes = [len(one.warps) for one in analysis.workload.classes]
    return _of_steps(analysis.steps, classes)


def _of_steps(steps: Sequence[BlockStep], classes: Sequence[int]) -> MemoryDemand:
    total = MemoryDemand()
    for step in steps:
        if isinstance(step, BlockSection):
            for count, own in zip(classes, step.warps, strict=True):
                if own is not None:
                    demand = MemoryDemand(own.path_cycles, own.sectors, own.outside_sectors)
                    total = total.plus(demand, count * step.multiplicity)
            continue
        ways = [_of_steps(way, classes) for way in step.alternatives]
        most = MemoryDemand(
            max((way.path_cycles for way in ways), default=0),
            max((way.sectors for way in ways), default=0),
            max((way.outside_sectors for way in ways), default=0),
        )
        total = total.plus(most, step.multiplicity)
    return total


def memory_alone(machine: Machine) -> MemoryServer:
    """The memory of the GPU of a machine, which nobody else uses."""
    return MemoryServer(machine.cycles_per_1024_sectors)
