"""Describes the simulated SM: the number of schedulers, and of servers of each unit.

A unit with a multiple of the schedulers' number of servers is private: each sub-core has its share
of the servers, with one FIFO queue. With fewer servers than schedulers that divide their number,
neighbouring sub-cores share a server and its queue. Otherwise one queue feeds all servers. In a
queue, instructions issued in the same cycle are ordered by their sub-core's number.

After the units there are two more servers, each with one queue in the order of arrival: the memory
path of the SM and the memory of the GPU (docs/methods/memory-servers.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ptxwcet.machine.model import Machine
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.warp.program import PartialBarrier, Step, TimedInstruction, instruction_of


@dataclass(frozen=True, slots=True)
class Queue:
    """A FIFO queue of a unit: its number among all queues, and the number of its servers."""

    index: int
    servers: int


PARTS = 1024
"""The parts of a cycle for which the memory is occupied, so that its rate is exact."""


@dataclass(frozen=True, slots=True)
class Way:
    """Cycles of the memory path, parts of cycles of the memory, and the latency after both."""

    path_cycles: int
    memory_parts: int
    latency: int


@dataclass(frozen=True)
class SmConfiguration:
    """Schedulers (sub-cores) of the SM and servers of each unit (unlisted: one per scheduler).

    ``memory_cycles``: cycles in which the memory of the GPU, with the cache in front of it, serves
    1024 sectors; 0 if no access ever waits for it.
    """

    schedulers: int = 1
    servers: Mapping[str, int] = field(default_factory=dict)
    memory_cycles: int = 0

    def __post_init__(self) -> None:
        if self.schedulers < 1 or any(count < 1 for count in self.servers.values()):
            raise ValueError("an SM has at least one scheduler and one server of each unit")

    @staticmethod
    def of(machine: Machine) -> SmConfiguration:
        """Returns the configuration that a machine file describes."""
        servers = {unit.name: unit.count for unit in machine.units}
        each = machine.cycles_per_1024_sectors
        return SmConfiguration(machine.schedulers_per_sm, servers, each)

    def way_of(self, instruction: TimedInstruction) -> Way:
        """Returns the servers and the latency after the initiation of an instruction.

        Raises ValueError if its latency is shorter than the time of the servers.
        """
        work = self.memory_cycles * instruction.sectors
        latency = instruction.latency_cycles - instruction.path_cycles - -(-work // PARTS)
        if latency < 0:
            raise ValueError("a latency includes what servers behind the unit take")
        return Way(instruction.path_cycles, work, latency)

    def queues(self, units: tuple[str, ...]) -> dict[tuple[int, str], Queue]:
        """Returns for each (sub-core, unit) the queue that its instructions enter."""
        queues: dict[tuple[int, str], Queue] = {}
        first = 0
        for unit in units:
            count = self.servers.get(unit, self.schedulers)
            if count % self.schedulers == 0:
                groups, servers = self.schedulers, count // self.schedulers
            elif self.schedulers % count == 0:
                groups, servers = count, 1
            else:
                groups, servers = 1, count
            for core in range(self.schedulers):
                group = core * groups // self.schedulers
                queues[core, unit] = Queue(first + group, servers)
            first += groups
        return queues


def require_alone(instruction: TimedInstruction) -> None:
    """Raises PtxwcetError (PW548) for an instruction that waits for its warpgroup."""
    if instruction.joins:
        raise PtxwcetError(
            Diagnostic(
                "PW548",
                "products of warpgroups (wgmma) are simulated for one block alone: not for grids, "
                "nor in the exhaustive search",
                help="simulate a block (ptxwcet simulate)",
            )
        )


def require_simple(step: Step) -> None:
    """Raises PtxwcetError for a step that the exhaustive search does not model.

    It continues to a server after its unit or is at an mbarrier (PW547), or waits for its warpgroup
    (PW548).
    """
    instruction = instruction_of(step)
    require_alone(instruction)
    if isinstance(step, PartialBarrier) and step.mbarrier is not None:
        raise PtxwcetError(
            Diagnostic(
                "PW547",
                f"{step.shown}: mbarriers are not in the exhaustive search",
                help="run it under policies (ptxwcet simulate)",
            )
        )
    if instruction.path_cycles or instruction.sectors:
        raise PtxwcetError(
            Diagnostic(
                "PW547",
                "servers behind the units (the memory path of an SM, the memory of the GPU) are "
                "not in the exhaustive search",
                help="run it under policies (ptxwcet simulate), or search on a machine without "
                "them, for example orin-ecrts2025-memory",
            )
        )
