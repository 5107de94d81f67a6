"""Extracts observations from warp traces: times and counts of transitions, iterations."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from ptxwcet.flow.graph.cfg import BlockId, ControlFlowGraph
from ptxwcet.flow.graph.loops import LoopId
from ptxwcet.methods.hybrid.ipg import Ipg, IpgLoop
from ptxwcet.methods.hybrid.slicing import WarpTraces, group_starts, stable_order
from ptxwcet.support.records import dataclass
from ptxwcet.trace.events import IntColumn


@dataclass(frozen=True, slots=True)
class TransitionTimes:
    """One observed transition: times in units of the clock.

    ``count`` is over all warps, ``most_count`` the most in one warp. ``worst_warp`` is the row of
    the warp (WarpTraces) in which ``worst`` first occurred. ``values`` and ``counts`` are its
    execution-time profile: each observed time, ascending, and its count.
    """

    number: int
    count: int
    worst: int
    best: int
    total: int
    most_count: int
    worst_warp: int
    values: IntColumn
    counts: IntColumn

    @property
    def mean(self) -> float:
        """The mean time."""
        return self.total / self.count


@dataclass(frozen=True, slots=True)
class LoopCounts:
    """A loop as observed: the most iterations after one entry, the most of both in one warp."""

    loop: IpgLoop
    most_iterations: int
    most_entries: int


@dataclass(frozen=True, slots=True)
class WarpKinds:
    """The kinds of warps, of equal counts each. A row for each transition that a kind makes.

    ``kind`` counts from 0, ``transition`` is its number, ``count`` its frequency.
    """

    kind: IntColumn
    transition: IntColumn
    count: IntColumn

    def most(self, terms: Mapping[int, int]) -> int:
        """Returns the largest sum of coefficient times count over the kinds. Linear."""
        weights = np.zeros(int(self.transition.max()) + 1, np.int64)
        for transition, coefficient in terms.items():
            if transition < len(weights):
                weights[transition] = coefficient
        starts = group_starts(self.kind)
        return int(np.add.reduceat(weights[self.transition] * self.count, starts).max())


@dataclass(frozen=True, slots=True)
class Observations:
    """The input of the calculations: one row for each observed transition, by number.

    ``longest_warp`` is the longest time from first to last event of one warp.
    """

    transitions: tuple[TransitionTimes, ...]
    loops: tuple[LoopCounts, ...]
    kinds: WarpKinds
    longest_warp: int


def observe(ipg: Ipg, traces: WarpTraces) -> Observations:
    """Extracts times, counts and iterations ([B] II-B, VI-C).

    Cost: linear in the transitions, and for each loop in its own; a sort of each transition's
    times.
    """
    order = stable_order(traces.transition)
    numbers = traces.transition[order]
    duration, warps = traces.duration[order], traces.warp_rows()[order]
    most, kinds = _per_warp(numbers, warps, traces.warps)
    transitions = []
    starts = group_starts(numbers)
    for first, last in zip(starts.tolist(), [*starts[1:].tolist(), len(numbers)], strict=True):
        times = duration[first:last]
        values, counts = np.unique(times, return_counts=True)
        worst = int(np.argmax(times))
        transitions.append(
            TransitionTimes(
                number=int(numbers[first]),
                count=last - first,
                worst=int(values[-1]),
                best=int(values[0]),
                total=int(times.sum()),
                most_count=most[int(numbers[first])],
                worst_warp=int(warps[first + worst]),
                values=values,
                counts=counts,
            )
        )
    loops = tuple(_count_loop(loop, len(ipg.transitions), traces) for loop in ipg.loops)
    return Observations(tuple(transitions), loops, kinds, int((traces.end - traces.begin).max()))


def _per_warp(
    numbers: npt.NDArray[np.int32], warps: IntColumn, warp_count: int
) -> tuple[dict[int, int], WarpKinds]:
    """Returns the most of each transition in one warp, and the kinds of warps.

    Rows are ordered by transition, then by warp. Warps are of one kind if a random 64-bit weighted
    sum of their counts is equal: different ones agree with probability 2**-64.
    """
    starts = group_starts(numbers, warps)
    lengths = np.diff(np.append(starts, len(numbers)))
    number, warp = numbers[starts], warps[starts]
    firsts = group_starts(number)
    most = np.maximum.reduceat(lengths, firsts)
    weights = np.random.default_rng(2013).integers(1, 2**63, int(number[-1]) + 1, np.uint64)
    sums = np.zeros(warp_count, np.uint64)
    np.add.at(sums, warp, weights[number] * lengths.astype(np.uint64))
    _, representative, kind = np.unique(sums, return_index=True, return_inverse=True)
    shown = np.flatnonzero(representative[kind[warp]] == warp)
    shown = shown[stable_order(kind[warp[shown]])]
    kinds = WarpKinds(kind[warp[shown]], number[shown].astype(np.int64), lengths[shown])
    return dict(zip(number[firsts].tolist(), most.tolist(), strict=True)), kinds


def _count_loop(loop: IpgLoop, transitions: int, traces: WarpTraces) -> LoopCounts:
    """Returns the most iterations after an entry; a warp's beginning counts as an entry, too."""
    enters = np.zeros(transitions, bool)
    enters[list(loop.entries)] = True
    goes_on = np.zeros(transitions, bool)
    goes_on[list(loop.iterations)] = True
    places = np.flatnonzero((enters | goes_on)[traces.transition])
    if not len(places):
        return LoopCounts(loop, 0, int(loop.begins_inside))
    numbers = traces.transition[places]
    warp = np.searchsorted(traces.first, places, side="right")
    begins = enters[numbers]
    begins[group_starts(warp)] = True
    begins = np.flatnonzero(begins)
    iterations = np.add.reduceat(goes_on[numbers].astype(np.int64), begins)
    per_warp = np.add.reduceat(enters[numbers].astype(np.int64), group_starts(warp))
    return LoopCounts(loop, int(iterations.max()), int(per_warp.max()) + int(loop.begins_inside))


@dataclass(frozen=True, slots=True)
class Coverage:
    """The coverage: ``transitions`` of the graph without divergence, ``seen`` of them observed.

    ``unseen`` are those never observed although a warp reached their source, ``unreached`` the
    ipoints that no warp reached; ``divergent`` and ``divergent_seen`` count the transitions that
    only diverged warps make. ``never_iterated`` are the loops that no warp iterated.
    """

    transitions: int
    seen: int
    unseen: tuple[int, ...]
    unreached: tuple[int, ...]
    divergent: int
    divergent_seen: int
    never_iterated: tuple[LoopId, ...]


def measure_coverage(ipg: Ipg, observations: Observations) -> Coverage:
    """Returns the observed part of the graph. Cost: linear."""
    seen = {t.number for t in observations.transitions}
    reached = {ipg.transitions[number].target for number in seen} | {ipg.placement.start}
    ordinary = [n for n, t in enumerate(ipg.transitions) if t.is_ordinary]
    return Coverage(
        transitions=len(ordinary),
        seen=len(seen.intersection(ordinary)),
        unseen=tuple(n for n in ordinary if n not in seen and ipg.transitions[n].source in reached),
        unreached=tuple(p for p in range(len(ipg.placement.ipoints)) if p not in reached),
        divergent=len(ipg.transitions) - len(ordinary),
        divergent_seen=len(seen.difference(ordinary)),
        never_iterated=tuple(c.loop.id for c in observations.loops if c.most_iterations == 0),
    )


@dataclass(frozen=True, slots=True)
class TimeShares:
    """The composition of the warp-specific WCET, in units of the clock.

    ``loops``: the time of transitions from ipoints in a loop, inner loops included in the outer;
    ``barriers``: that of all transitions that pass a barrier.
    """

    loops: Mapping[LoopId, int]
    barriers: int


def share_time(
    ipg: Ipg, waiting: frozenset[BlockId], worst: Mapping[int, int], counts: Mapping[int, int]
) -> TimeShares:
    """Returns the composition of the worst counts' time; blocks ``waiting`` have barriers.

    Cost: transitions times loops.
    """
    time = {number: worst[number] * count for number, count in counts.items()}
    loops = {
        loop.id: sum(t for n, t in time.items() if ipg.transitions[n].source in loop.ipoints)
        for loop in ipg.loops
    }
    passes = (n for n in time if not waiting.isdisjoint(ipg.transitions[n].passed))
    return TimeShares(loops, sum(time[n] for n in passes))


def barrier_blocks(cfg: ControlFlowGraph) -> frozenset[BlockId]:
    """Returns the blocks that hold a barrier."""
    return frozenset(
        block.id
        for block in cfg.blocks
        if any(block.start <= barrier < block.end for barrier in cfg.barriers)
    )
