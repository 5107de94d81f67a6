"""The roofline of a launch: what its busiest resource takes, as if all others were free meanwhile.

An estimate, and no bound: a run may take longer, for latencies, waiting and idle SMs are in no
term, and it may take less where a cache serves what is counted here as traffic. Each term is the
work of all blocks, spread evenly over the SMs, at the initiations that the bound charges; so none
is more than the bound has for the same (tests/unit/test_roofline.py). It serves to compare
launches, and to see what a launch would be limited by at best.

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
    """Cycles that a launch asks of each resource of the GPU.

    ``core_cycles``: initiations on the busiest sub-core of each block, section by section, or on
    all where sub-cores share units. ``path_cycles``: at the memory paths of the SMs.
    ``traffic_cycles``: the memory of the GPU serves all that the bound charges. ``arrays_cycles``:
    it serves each array of the launch once, as a stream; None if their sizes are not known.
    """

    core_cycles: int
    path_cycles: int
    traffic_cycles: int
    arrays_cycles: int | None = None

    @property
    def memory_cycles(self) -> int:
        """What the memory takes at least, if caches keep whatever is used again."""
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
    """The roofline of a launch that is bounded, from the same analyses and counts of blocks.

    Where it is not known how many blocks execute what, all have the largest of every figure.
    Cost: a pass over the sections of each analysis.
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
    """Of a block: cycles on its busiest sub-core, at the path, and sectors."""
    cores = analysis.cores
    if not analysis.has_private_units:
        cores = (tuple(len(one.warps) for one in analysis.workload.classes),)

    def of_section(section: BlockSection) -> tuple[int, ...]:
        each = [0 if own is None else own.initiations for own in section.warps]
        return (max(sum(n * one for n, one in zip(core, each, strict=True)) for core in cores),)

    memory = memory_demand(analysis)
    (busiest,) = most_of_steps(analysis.steps, of_section) or (0,)
    return busiest, memory.path_cycles, memory.sectors


def bytes_of_arrays(
    kernel: Kernel, module: Module, launch: Launch, stated: Mapping[str, int]
) -> int | None:
    """The bytes of all arrays in global memory that a kernel is given, None if not all are known.

    ``stated`` has those of a launch file, by PTX name. Not known are pointers of which nobody says
    what lies behind them, among them those in aggregates. Calls must have been inlined.
    """
    named = {name for one in kernel.instructions for name in one.names}
    sizes = [
        one.size_bytes or None
        for one in module.variables
        if one.space == "global" and one.name in named
    ]
    for one in kernel.parameters:
        size = stated.get(one.name, launch.sizes.get(one.name))
        is_known = one.name in launch.parameters or one.name in launch.ranges
        may_lead = one.is_array or (one.size_bytes == _POINTER_BYTES and one.type[0] != "f")
        if size is not None or (may_lead and not is_known):
            sizes.append(size)
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None
