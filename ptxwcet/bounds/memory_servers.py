"""Adds the servers after the units to a bound: the memory path of an SM, the GPU's memory.

A request waits there only while the server is busy, so that all waiting together is no longer than
the busy time of the servers (docs/methods/memory-servers.md). The cycles of the path count for each
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
"""The assumption of the bound of one block where a memory is shared."""
LAUNCH_ALONE = replace(
    MEMORY_ALONE,
    text="the launch has the memory of the GPU to itself: no copy and no other processor uses it "
    "meanwhile",
    source="no --co-runner",
)
"""The assumption of the bound of a launch there, without a stated co-runner."""


class MemoryDemand(NamedTuple):
    """The cycles at the memory path and the sectors of GPU memory of a block's warps.

    ``outside_sectors`` are in no array in persisting L2.
    """

    path_cycles: int = 0
    sectors: int = 0
    outside_sectors: int = 0


def memory_demand(analysis: BlockAnalysis) -> MemoryDemand:
    """Returns the most that a block demands of the servers; over paths the largest of each.

    Cost: a pass over the trees of each class and section.
    """
    classes = [len(c.warps) for c in analysis.workload.classes]

    def of_section(section: BlockSection) -> tuple[int, ...]:
        present = [(n, own) for n, own in zip(classes, section.warps, strict=True) if own]
        return (
            sum(n * own.path_cycles for n, own in present),
            sum(n * own.sectors for n, own in present),
            sum(n * own.outside_sectors for n, own in present),
        )

    return MemoryDemand(*most_of_steps(analysis.steps, of_section))


def memory_alone(machine: Machine) -> MemoryServer:
    """Returns the memory of the GPU of a machine, without other users."""
    return MemoryServer(machine.cycles_per_1024_sectors)
