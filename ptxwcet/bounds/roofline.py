"""Computes the roofline of a launch: the time of its busiest resource, with all others free.

It is an estimate, not a bound: a run may take longer, because latencies, waiting and idle SMs are
in no term, and it may take less where a cache serves accesses that count as traffic here. Each term
is the work of all blocks, spread evenly over the SMs, at the initiations that the bound charges; so
no term exceeds the bound's share for the same resource (tests/unit/test_roofline.py). It serves to
compare launches, and to find the resource that would limit a launch at best.

Example: 100 blocks with 90 cycles on their busiest sub-core and 20 at the path, on 4 SMs, whose
1,600 sectors take the memory 1,500 cycles: 2,250, 500 and 1,500 cycles; the roofline is 2,250.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ptxwcet.bounds.analysis import BlockAnalysis, BlockSection, most_of_steps
from ptxwcet.bounds.grid import MemoryServer
from ptxwcet.bounds.launch_bound import LaunchBound
from ptxwcet.bounds.memory_servers import memory_alone, memory_demand
from ptxwcet.flow.launch import Launch
from ptxwcet.ir.kernel import Kernel, Module
from ptxwcet.machine.model import Machine
from ptxwcet.memory.counting import SECTOR
from ptxwcet.support.records import dataclass

_POINTER_BYTES = 8


@dataclass(frozen=True, slots=True)
class Roofline:
    """The cycles that a launch needs of each resource of the GPU.

    ``core_cycles``: initiations on the busiest sub-core of each block, section by section, or on
    all where sub-cores share units. ``path_cycles``: at the memory paths of the SMs.
    ``traffic_cycles``: the memory of the GPU serves all traffic that the bound charges.
    ``arrays_cycles``: it serves each array of the launch once, as a stream; None if their sizes are
    unknown.
    """

    core_cycles: int
    path_cycles: int
    traffic_cycles: int
    arrays_cycles: int | None = None

    @property
    def memory_cycles(self) -> int:
        """The least time of the memory, if caches keep all data that is used again."""
        if self.arrays_cycles is None:
            return self.traffic_cycles
        return min(self.traffic_cycles, self.arrays_cycles)

    @property
    def cycles(self) -> int:
        """The estimate: the largest term."""
        return max(self.core_cycles, self.path_cycles, self.memory_cycles)


def launch_roofline(
    pieces: Sequence[tuple[BlockAnalysis, int | None]],
    launched: LaunchBound,
    machine: Machine,
    array_bytes: int | None,
) -> Roofline:
    """Returns the roofline of a bounded launch, from the same analyses and counts of blocks.

    If the number of blocks with some paths is unknown, all have the largest of every figure. Cost:
    a pass over the sections of each analysis.
    """
    blocks = launched.blocks
    demands = [_demand(analysis) for analysis, _ in pieces]
    largest = [max(figures) for figures in zip(*demands, strict=True)]
    counts = [count or 0 for _, count in pieces]
    totals = [blocks * figure for figure in largest]
    if sum(counts) == blocks:
        totals = [
            sum(count * figure for count, figure in zip(counts, figures, strict=True))
            for figures in zip(*demands, strict=True)
        ]
    core, path = (
        max(figure, -(-total // launched.sms))  # at least one block is somewhere
        for figure, total in zip(largest[:2], totals[:2], strict=True)
    )
    memory = memory_alone(machine)
    traffic = min(memory.busy(totals[2]), launched.bound.memory_cycles)
    rate = 0 if machine.memory is None else machine.memory.server_cycles_per_1024_sectors.value
    streamed = MemoryServer(machine.cache_cycles_per_1024_sectors + rate)
    arrays = None if array_bytes is None else streamed.busy(-(-array_bytes // SECTOR))
    return Roofline(core, path, traffic, arrays)


def _demand(analysis: BlockAnalysis) -> tuple[int, int, int]:
    """Returns the cycles of a block on its busiest sub-core and at the path, and its sectors."""
    cores = analysis.cores
    if not analysis.has_private_units:
        cores = (tuple(len(c.warps) for c in analysis.workload.classes),)

    def of_section(section: BlockSection) -> tuple[int, ...]:
        each = [0 if own is None else own.initiations for own in section.warps]
        return (max(sum(n * own for n, own in zip(core, each, strict=True)) for core in cores),)

    memory = memory_demand(analysis)
    (busiest,) = most_of_steps(analysis.steps, of_section) or (0,)
    return busiest, memory.path_cycles, memory.sectors


def bytes_of_arrays(
    kernel: Kernel, module: Module, launch: Launch, stated: Mapping[str, int]
) -> int | None:
    """Returns the bytes of a kernel's arrays in global memory, None if some are unknown.

    ``stated`` has those of a launch file, by PTX name. Pointers without a stated array are unknown,
    including those in aggregates. Calls must have been inlined.
    """
    named = {name for i in kernel.instructions for name in i.names}
    sizes = [
        v.size_bytes or None for v in module.variables if v.space == "global" and v.name in named
    ]
    for p in kernel.parameters:
        size = stated.get(p.name, launch.sizes.get(p.name))
        is_known = p.name in launch.parameters or p.name in launch.ranges
        may_lead = p.is_array or (p.size_bytes == _POINTER_BYTES and p.type[0] != "f")
        if size is not None or (may_lead and not is_known):
            sizes.append(size)
    given = [size for size in sizes if size is not None]
    return sum(given) if len(given) == len(sizes) else None
