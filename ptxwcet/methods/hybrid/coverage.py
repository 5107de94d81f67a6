"""What the traces never showed (there the estimate is optimistic), and where the time goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ptxwcet.flow.graph.cfg import BlockId, ControlFlowGraph
from ptxwcet.flow.graph.loops import LoopId
from ptxwcet.methods.hybrid.ipg import Ipg
from ptxwcet.methods.hybrid.observations import Observations


@dataclass(frozen=True, slots=True)
class Coverage:
    """``transitions`` of the graph without divergence, ``seen`` of them observed.

    ``unseen`` are those never observed although a warp came to their source, ``unreached`` the
    ipoints that no warp came to; ``divergent`` and ``divergent_seen`` count the transitions that
    only diverged warps make. ``never_iterated`` are the loops that no warp went round.
    """

    transitions: int
    seen: int
    unseen: tuple[int, ...]
    unreached: tuple[int, ...]
    divergent: int
    divergent_seen: int
    never_iterated: tuple[LoopId, ...]


def measure_coverage(ipg: Ipg, observations: Observations) -> Coverage:
    """What of the graph was observed. Cost: linear."""
    seen = {row.number for row in observations.transitions}
    reached = {ipg.transitions[number].target for number in seen} | {ipg.placement.start}
    ordinary = [n for n, t in enumerate(ipg.transitions) if t.is_ordinary]
    return Coverage(
        transitions=len(ordinary),
        seen=len(seen.intersection(ordinary)),
        unseen=tuple(n for n in ordinary if n not in seen and ipg.transitions[n].source in reached),
        unreached=tuple(p for p in range(len(ipg.placement.ipoints)) if p not in reached),
        divergent=len(ipg.transitions) - len(ordinary),
        divergent_seen=len(seen.difference(ordinary)),
        never_iterated=tuple(row.loop.id for row in observations.loops if row.most_iterations == 0),
    )


@dataclass(frozen=True, slots=True)
class TimeShares:
    """How the warp-specific WCET is made up, in units of the clock.

    ``loops``: the time of transitions from ipoints in a loop, inner loops included in the outer;
    ``barriers``: the transitions that pass a barrier, by number; ``all_barriers`` is their sum.
    """

    loops: Mapping[LoopId, int]
    barriers: Mapping[int, int]
    all_barriers: int


def share_time(
    ipg: Ipg, waiting: frozenset[BlockId], worst: Mapping[int, int], counts: Mapping[int, int]
) -> TimeShares:
    """Where the time of the worst counts goes; barriers are in the blocks ``waiting``.

    Cost: transitions times loops.
    """
    time = {number: worst[number] * count for number, count in counts.items()}
    loops = {
        loop.id: sum(t for n, t in time.items() if ipg.transitions[n].source in loop.ipoints)
        for loop in ipg.loops
    }
    barriers = {
        number: cycles
        for number, cycles in time.items()
        if not waiting.isdisjoint(ipg.transitions[number].passed)
    }
    return TimeShares(loops, barriers, sum(barriers.values()))


def barrier_blocks(cfg: ControlFlowGraph) -> frozenset[BlockId]:
    """The blocks that hold a barrier."""
    return frozenset(
        block.id
        for block in cfg.blocks
        if any(block.start <= barrier < block.end for barrier in cfg.barriers)
    )
