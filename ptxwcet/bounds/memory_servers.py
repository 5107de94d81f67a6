"""What the servers behind the units add to a bound: the memory path of an SM, the GPU's memory.

Whatever waits there waits while the server is busy, so that all waiting together is no longer than
the servers are busy in all (docs/methods/memory-servers.md). The cycles of the path count for each
SM, the sectors of all SMs together.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from ptxwcet.bounds.analysis import BlockAnalysis, BlockSection, most_of_steps
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


class MemoryDemand(NamedTuple):
    """Cycles at the path of the SM, and sectors of the GPU's memory, of all warps of a block.

    ``outside_sectors`` are in no array that is set aside in a cache.
    """

    path_cycles: int = 0
    sectors: int = 0
    outside_sectors: int = 0


def memory_demand(analysis: BlockAnalysis) -> MemoryDemand:
    """The most that a block asks of the servers; on several ways the largest of each.

    Cost: a pass over the trees of each class and section.
    """
    classes = [len(one.warps) for one in analysis.workload.classes]

    def of_section(section: BlockSection) -> tuple[int, ...]:
        present = [(n, own) for n, own in zip(classes, section.warps, strict=True) if own]
        return (
            sum(n * own.path_cycles for n, own in present),
            sum(n * own.sectors for n, own in present),
            sum(n * own.outside_sectors for n, own in present),
        )

    return MemoryDemand(*most_of_steps(analysis.steps, of_section))


def memory_alone(machine: Machine) -> MemoryServer:
    """The memory of the GPU of a machine, which nobody else uses."""
    return MemoryServer(machine.cycles_per_1024_sectors)
