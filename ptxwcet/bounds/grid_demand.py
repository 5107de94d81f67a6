"""What a block asks of a grid bound: its slack and its work (docs/methods/grid.md).

The slack of a block is the sum over its sections of the largest slack of a warp there
(:mod:`ptxwcet.timing.slack`), its work the sum of all initiations of all warps, those at the memory
path of the SM among them. On several paths each is the largest by itself, which is safe since the
bound grows with both.
"""

from __future__ import annotations

from collections.abc import Sequence

from ptxwcet.bounds.analysis import BlockAnalysis, BlockSection, most_of_steps
from ptxwcet.bounds.grid import BlockKind
from ptxwcet.bounds.memory_servers import memory_demand


def block_kind(analysis: BlockAnalysis, count: int) -> BlockKind:
    """``count`` blocks that all execute what is analysed. Raises PW404.

    Cost: a profile a class and section, whatever the count and the trip counts.
    """
    alone = analysis.workload.warp_count == 1  # its barriers are ordinary instructions
    classes = [len(one.warps) for one in analysis.workload.classes]

    def of_section(section: BlockSection) -> tuple[int, ...]:
        """Slack, work, and the work of the busiest sub-core."""
        present = [own for own in section.warps if own is not None]
        slack = 0 if alone else max((own.slack_cycles for own in present), default=0)
        if section.barrier is not None and any(own.barrier is None for own in present):
            slack += 1  # an exited warp may count as arrived only when its last cycle is over
        initiations = [0 if own is None else own.interference(own.units) for own in section.warps]

        def on(warps: Sequence[int]) -> int:
            return sum(count * each for count, each in zip(warps, initiations, strict=True))

        return slack, on(classes), max((on(core) for core in analysis.cores), default=0)

    slack, work, busiest = most_of_steps(analysis.steps, of_section) or (0, 0, 0)
    if alone:
        slack = analysis.uncut[0].slack_cycles
    memory = memory_demand(analysis)
    path = memory.path_cycles
    meets = not alone and any(
        not isinstance(step, BlockSection) or step.barrier is not None for step in analysis.steps
    )
    return BlockKind(
        count,
        slack,
        work + path,
        busiest + path if analysis.has_private_units else None,
        meets,
        memory.sectors,
        memory.outside_sectors,
    )
