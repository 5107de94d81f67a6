"""Where the cycles of a launch's bound go, instruction by instruction; the parts add up to it.

A form of the theorem adds up the work of many blocks, and the slack of those of one slot: of which
blocks, is not known to instructions. So work and tail are shared out in proportion to what each
instruction is initiated in all blocks of the grid, waiting at the memory in proportion to its
sectors, latency in proportion to what the slowest warp
of a block waits for it (:mod:`ptxwcet.bounds.explanation`). Gaps of the launcher and the overhead
of a launch belong to no instruction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ptxwcet.bounds.analysis import BlockAnalysis
from ptxwcet.bounds.explanation import explain_safe
from ptxwcet.bounds.launch_bound import LaunchBound
from ptxwcet.timing.attribution import spread
from ptxwcet.timing.demand import initiations_by_instruction, served_by_instruction
from ptxwcet.warp.program import TimedInstruction


class LaunchCycles(NamedTuple):
    """Cycles of a launch's bound that one instruction pays, or several."""

    work: int = 0
    latency: int = 0
    tail: int = 0
    memory: int = 0

    @property
    def total(self) -> int:
        """The cycles of all parts together."""
        return self.work + self.latency + self.tail + self.memory

    def plus(self, other: LaunchCycles) -> LaunchCycles:
        """These cycles and others, part by part."""
        return LaunchCycles(*[a + b for a, b in zip(self, other, strict=True)])


def explain_launch(
    launched: LaunchBound, pieces: Sequence[tuple[BlockAnalysis, int | None]]
) -> dict[int, LaunchCycles]:
    """What each instruction pays, by its index; adds up to the bound without gaps and overhead.

    Where no instruction takes time nothing is charged to any.

    Raises PtxwcetError (PW404) if the waits of a loop do not settle. Cost: one attribution a
    section and class.
    """
    initiated: Counter[int] = Counter()
    waited: Counter[int] = Counter()
    served: Counter[int] = Counter()
    for analysis, count in pieces:
        times = launched.blocks if count is None else count
        for origin, cycles in initiations_by_instruction(analysis.workload).items():
            initiated[origin] += times * cycles
        for origin, sectors in served_by_instruction(analysis.workload, _sectors).items():
            served[origin] += times * sectors
        for origin, paid in explain_safe(analysis).paid.items():
            waited[origin] += times * (paid.result + paid.unit)
    bound = launched.bound
    work, tail = _shared(bound.work_cycles, initiated), _shared(bound.tail_cycles, initiated)
    latency = _shared(bound.slack_cycles, waited if any(waited.values()) else initiated)
    parts = work, latency, tail, _shared(bound.memory_cycles, served)
    return {
        origin: LaunchCycles(*(part.get(origin, 0) for part in parts))
        for origin in frozenset[int]().union(*parts)
    }


def _sectors(instruction: TimedInstruction) -> int:
    return instruction.sectors


def _shared(cycles: int, weights: Mapping[int, int]) -> Mapping[int, int]:
    return spread(cycles, weights) if any(weights.values()) else {}
