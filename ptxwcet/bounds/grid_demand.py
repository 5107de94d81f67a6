"""Computes a block's demand in a grid bound: slack and work (docs/methods/grid.md).

The slack of a block is the sum over its sections of the largest slack of a warp there
(:mod:`ptxwcet.timing.slack`), its work the sum of all initiations of all warps, including those at
the memory path of the SM. On several paths each is the largest by itself, which is safe since the
bound grows with both. A section may have to wait for the carry-in of other sections: for registers
that it waits for and that they write, the longest latency; for bubbles of barriers.
"""

from __future__ import annotations

from fractions import Fraction

from ptxwcet.bounds.analysis import (
    BlockAnalysis,
    BlockSection,
    BlockStep,
    every_section,
    most_of_steps,
)
from ptxwcet.bounds.grid import BlockKind, Stretch, chosen_stretch, sums_of
from ptxwcet.bounds.memory_servers import memory_demand


def block_kind(analysis: BlockAnalysis, count: int) -> BlockKind:
    """Returns ``count`` blocks that all execute the analysed block. Raises PW404.

    Cost: a profile per class and section, whatever the count and the trip counts.
    """
    carried = iter(_carried(analysis))  # of each section, in order
    # Its barriers are ordinary instructions.
    alone = analysis.workload.warp_count == 1 and analysis.polling is None
    schedulers = analysis.machine.schedulers_per_sm
    cores = [
        [sum(warp % schedulers == core for warp in s.warps) for s in analysis.workload.classes]
        for core in range(schedulers)
    ]

    serial: dict[int, int] = {}  # of each section: its serialised phases

    def stretch(step: BlockStep) -> Stretch:
        if not isinstance(step, BlockSection):
            ways = [tuple(map(stretch, way)) for way in step.alternatives]
            return chosen_stretch(step.multiplicity, ways)
        present = [own for own in step.warps if own is not None]
        slack = 0 if alone else max((own.slack_cycles for own in present), default=0)
        late = int(step.barrier is not None and any(own.barrier is None for own in present))
        # late: an exited warp may count as arrived only when its last cycle is over
        joined = step.joined
        if joined is not None and not alone:
            slack = joined.slack_cycles
        initiations = [0 if own is None else own.interference(own.units) for own in step.warps]
        on = [
            sum(count * each for count, each in zip(core, initiations, strict=True))
            for core in cores
        ]
        busiest, *others = sorted(on, reverse=True)
        # Polls are work as well, on an unknown sub-core.
        work = sum(on) if joined is None or joined.polling is None else joined.work_cycles
        rest = tuple((cycles, 1) for cycles in others)
        in_groups = slack + busiest if joined is None else joined.serial_cycles
        if in_groups is not None:
            serial[id(step)] = in_groups + late
        return Stretch(step.multiplicity, slack + late, work, busiest, rest, next(carried))

    stretches = tuple(map(stretch, analysis.steps))
    if alone:
        _, work, _, _, _ = sums_of(stretches)
        stretches = (Stretch(1, analysis.uncut[0].slack_cycles, work, work),)
    memory = memory_demand(analysis)
    is_private = analysis.has_private_units and not analysis.joins
    path = memory.path_cycles
    stretches += (Stretch(1, 0, path, path, sections=0),) * (path > 0)
    slack, work, busiest, _, _ = sums_of(stretches)
    in_groups = None
    sections = list(every_section(analysis.steps))
    if not alone and any(section.joined is not None for section in sections):
        is_private = False  # With these, sections of the busiest sub-core prove nothing.
        if len(serial) == len({id(section) for section in sections}):
            in_groups = path + most_of_steps(analysis.steps, lambda s: (serial[id(s)],))[0]
    return BlockKind(
        count,
        slack,
        work,
        busiest if is_private else None,
        stretches if is_private else (),
        memory.sectors,
        memory.outside_sectors,
        in_groups,
        analysis.polling or Fraction(0),
    )


def _carried(analysis: BlockAnalysis) -> list[int]:
    """Returns, for each section, the longest wait of its warps for carry-in of others.

    Cost: linear in the sections' registers.
    """
    rows = [section.warps for section in every_section(analysis.steps)]
    bubbles = [
        own.barrier.instruction.bubble_cycles for row in rows for own in row if own and own.barrier
    ]
    out = [max(bubbles, default=0)] * len(rows)
    for warps in zip(*rows, strict=True) if len(rows) > 1 else ():
        left: dict[str, list[tuple[int, int]]] = {}  # the two sections with the longest latencies
        for place, own in enumerate(warps):
            for register, cycles in () if own is None else own.left_cycles.items():
                both = [*left.get(register, ()), (cycles, place)]
                left[register] = sorted(both, reverse=True)[:2]
        for place, own in enumerate(warps):
            for register in () if own is None else own.waited_registers:
                for cycles, other in left.get(register, ()):
                    if other != place:
                        out[place] = max(out[place], cycles)
    return out
